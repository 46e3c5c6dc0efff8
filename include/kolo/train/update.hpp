// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Update rules (SGD, momentum, AdamW): update parameters and state element by element, in one pass over memory.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/core/rank.hpp>
#include <kolo/reduce/loops.hpp>
#include <kolo/train/parameter.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kolo::inline KOLO_ABI {

/// A rule keeps `states` numbers for each element, zero before the first step, and updates any range of elements
/// independently of the others:
///
///     rule(value, gradient, state, step)      // (n), (n), states x (n); step numbers the
///                                             // updates of these elements, from 1
///
/// So a rank can update a slice alone, and p ranks get the same bits as one. A user's rule is a class with these two
/// members.
template <class U, class T>
concept UpdateRule = requires(const U& rule, std::span<T> value, std::span<const T> gradient,
                              const std::array<std::span<T>, U::states>& state, long step) {
  rule(value, gradient, state, step);
};

namespace detail::train {

/// A type whose products and sums are of the same type.
template <class T>
concept Computes = requires(T x) {
  x = x * x + x;
};

inline constexpr std::size_t roots_at_once = 256;

/// Sets to[i] = sqrt(from[i]). Compilers do not vectorise a root that may set errno; without vectors it takes two
/// thirds of the time of AdamW.
template <class T>
void roots(T* to, const T* from, std::size_t n) {
  std::size_t i = 0;
#if defined(__SSE2__)
  if constexpr (std::is_same_v<T, float>)
    for (; n - i >= 4; i += 4) _mm_storeu_ps(to + i, _mm_sqrt_ps(_mm_loadu_ps(from + i)));
  else if constexpr (std::is_same_v<T, double>)
    for (; n - i >= 2; i += 2) _mm_storeu_pd(to + i, _mm_sqrt_pd(_mm_loadu_pd(from + i)));
#endif
  for (; i < n; ++i) to[i] = std::sqrt(from[i]);
}

}  // namespace detail::train

namespace update {

/// Calls f(i) for all i < n, which must be independent, in a form that compilers vectorise at -O2.
void each(std::size_t n, const auto f) {
  detail::reduce::for_each_index<16>(
      n, [f](std::size_t first, std::size_t j) __attribute__((always_inline)) { f(first + j); });
}

/// value -= rate * (gradient + weight_decay * value)
struct sgd {
  double rate = 0.01, weight_decay = 0;
  static constexpr std::size_t states = 0;

  template <detail::train::Computes T>
  void operator()(std::span<T> value, std::span<const T> gradient, const std::array<std::span<T>, 0>&, long) const {
    const T r = static_cast<T>(rate), w = static_cast<T>(weight_decay);
    each(value.size(), [r, w, x = value.data(), g = gradient.data()](std::size_t i) { x[i] -= r * (g[i] + w * x[i]); });
  }
};

/// velocity = factor * velocity + gradient + weight_decay * value; value -= rate * velocity
struct momentum {
  double rate = 0.01, factor = 0.9, weight_decay = 0;
  static constexpr std::size_t states = 1;

  template <detail::train::Computes T>
  void operator()(std::span<T> value, std::span<const T> gradient, const std::array<std::span<T>, 1>& state,
                  long) const {
    const T r = static_cast<T>(rate), f = static_cast<T>(factor), w = static_cast<T>(weight_decay);
    each(value.size(), [r, f, w, x = value.data(), g = gradient.data(), velocity = state[0].data()](std::size_t i) {
      velocity[i] = f * velocity[i] + (g[i] + w * x[i]);
      x[i] -= r * velocity[i];
    });
  }
};

/// velocity = momentum * velocity + g, where g is gradient + weight_decay * value; value -= rate * (g + momentum *
/// velocity). Nesterov's momentum as in PyTorch, after Sutskever, Martens, Dahl, Hinton, "On the importance of
/// initialization and momentum in deep learning", ICML 2013; the defaults are those of an outer optimizer.
struct nesterov {
  double rate = 0.7, momentum = 0.9, weight_decay = 0;
  static constexpr std::size_t states = 1;

  template <detail::train::Computes T>
  void operator()(std::span<T> value, std::span<const T> gradient, const std::array<std::span<T>, 1>& state,
                  long) const {
    const T r = static_cast<T>(rate), f = static_cast<T>(momentum), w = static_cast<T>(weight_decay);
    each(value.size(), [r, f, w, x = value.data(), g = gradient.data(), velocity = state[0].data()](std::size_t i) {
      const T all = g[i] + w * x[i];
      velocity[i] = f * velocity[i] + all;
      x[i] -= r * (all + f * velocity[i]);
    });
  }
};

/// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.
struct adamw {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  static constexpr std::size_t states = 2;  ///< the means of the gradient and of its square

  template <detail::train::Computes T>
  void operator()(std::span<T> value, std::span<const T> gradient, const std::array<std::span<T>, 2>& state,
                  long step) const {
    const T b1 = static_cast<T>(beta1), b2 = static_cast<T>(beta2), rest1 = static_cast<T>(1 - beta1),
            rest2 = static_cast<T>(1 - beta2);
    const T r = static_cast<T>(rate / (1 - std::pow(beta1, step))),
            spread = static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, step)));
    const T e = static_cast<T>(epsilon), decay = static_cast<T>(rate * weight_decay);
    T *const x = value.data(), *const mean = state[0].data(), *const square = state[1].data();
    for (std::size_t i = 0; i < value.size(); i += detail::train::roots_at_once) {
      const std::size_t n = std::min(value.size() - i, detail::train::roots_at_once);
      T root[detail::train::roots_at_once];
      each(n, [=, g = gradient.data() + i, m = mean + i, s = square + i](std::size_t j) {
        m[j] = b1 * m[j] + rest1 * g[j];
        s[j] = b2 * s[j] + rest2 * (g[j] * g[j]);
      });
      detail::train::roots(root, square + i, n);
      each(n, [=, of = &root[0], m = mean + i, w = x + i](std::size_t j) {
        w[j] -= r * m[j] / (of[j] * spread + e) + decay * w[j];
      });
    }
  }
};

}  // namespace update

namespace detail::train {

/// Applies a rule to a part of views of n elements. State k of element i is states[k * n + i].
template <class Rule, View Value, View Gradient>
void apply(const Rule& rule, const Value& value, const Gradient& gradient,
           std::vector<typename Value::element_type>& states, long step, const extent& part) {
  using T = typename Value::element_type;
  static_assert(UpdateRule<Rule, T>,
                "kolo: an update rule must have states and rule(value, gradient, state, step); those of kolo::update "
                "take float and double");
  const std::size_t n = value.size(), end = part.first + part.count;
  states.resize(Rule::states * n);
  for (std::size_t i = part.first; i < end;) {
    const std::span<T> v = view::run_of(value, i);
    const std::span<const T> g = view::run_of(gradient, i);
    const std::size_t count = std::min({v.size(), g.size(), end - i});
    std::array<std::span<T>, Rule::states> s;
    for (std::size_t k = 0; k < Rule::states; ++k) s[k] = std::span{states}.subspan(k * n + i, count);
    rule(v.first(count), g.first(count), s, step);
    i += count;
  }
}

}  // namespace detail::train

/// An optimizer that applies a rule and keeps all of its state: for `distributed_optimizer`, where every rank updates
/// all parameters.
///
///     kolo::distributed_optimizer optimizer{comm, kolo::replicated<kolo::update::adamw>{{.rate = 1e-3}},
///                                           model.parameters()};
template <class Rule, class T = float>
class replicated {
 public:
  explicit replicated(Rule r) : rule{std::move(r)} {}

  void step(std::size_t index, auto&& value, auto&& gradient) {
    if (states_.size() <= index) states_.resize(index + 1), steps_.resize(index + 1);
    const auto view = kolo::as_view(value);
    static_assert(std::same_as<typename decltype(view)::element_type, T>,
                  "kolo: kolo::replicated keeps the state of floats; for doubles write kolo::replicated<Rule, double>");
    if (const std::size_t n = Rule::states * view.size(); steps_[index] > 0 && states_[index].size() != n)
      throw error{errc::mismatch, "the state of parameter " + std::to_string(index) + " is of " +
                                      std::to_string(states_[index].size() / std::max<std::size_t>(Rule::states, 1)) +
                                      " elements, and not of " + std::to_string(view.size()) +
                                      ": it was loaded from one of another model"};
    detail::train::apply(rule, view, kolo::as_view(gradient), states_[index], ++steps_[index], {0, view.size()});
  }

  /// See `broadcast_object`. Errors: `mismatch` for a state with another number of states or another element type.
  void serialise(auto& archive) {
    constexpr std::uint64_t own = std::uint64_t{Rule::states} << 32 | sizeof(T);
    std::uint64_t given = own;
    archive(given);
    if (given != own) throw error{errc::mismatch, "the state of another update rule, or of another element type"};
    archive(states_, steps_);
    if (states_.size() != steps_.size())
      throw error{errc::mismatch, "the state of something else than kolo::replicated"};
  }

  Rule rule;  ///< for example to set its learning rate

 private:
  std::vector<std::vector<T>> states_;  ///< of each parameter
  std::vector<long> steps_;
};

}  // namespace kolo::inline KOLO_ABI
