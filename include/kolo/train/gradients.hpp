// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of an optimizer on whole gradients between a backward pass and an update: scale, round, clip, find zeros.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/reduce/arithmetic.hpp>
#include <kolo/reduce/operators.hpp>
#include <kolo/reduce/traits.hpp>
#include <kolo/train/parameter.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI {
namespace detail::train {

/// Sets x *= factor, in float for 16-bit elements.
template <View V>
void scale(const V& view, double factor) {
  using T = typename V::element_type;
  using N = typename reduce::divisor<T>::type;
  view::for_runs(view, [&](std::span<T> run) {
    for (T& x : run) x = static_cast<T>(x * static_cast<N>(factor));
  });
}

template <View V>
bool is_all_zero(const V& view) {
  for (std::size_t i = 0; i < view.size();) {
    const auto run = view::run_of(view, i);
    for (const auto& x : run)
      if (!(x == typename V::element_type{})) return false;
    i += run.size();
  }
  return true;
}

/// Adds the residual to every element, rounds to the wire type, and keeps the new residual. A residual that is not
/// finite is dropped, since it would never vanish.
template <class Wire, View V, class T>
void round_with_feedback(const V& view, std::vector<T>& residuals) {
  residuals.resize(view.size());
  T* rest = residuals.data();
  view::for_runs(view, [&](std::span<T> run) {
    for (T& x : run) {
      const T wanted = static_cast<T>(x + *rest), sent = static_cast<T>(static_cast<Wire>(wanted));
      const T left = static_cast<T>(wanted - sent);
      *rest++ = std::isfinite(double(left)) ? left : T{};
      x = sent;
    }
  });
}

/// The largest magnitude, as an integer in the order of the magnitudes; a NaN is larger than every number.
std::uint64_t largest_magnitude(const View auto& view) {
  std::uint64_t largest = 0;
  view::for_runs(view, [&](auto run) {
    for (const auto& x : run) largest = std::max(largest, std::bit_cast<std::uint64_t>(std::abs(double(x))));
  });
  return largest;
}

/// The root of a sum of squares, in integers, so that its bits depend neither on the order of summation nor on the
/// ranks that add. For up to 2^32 numbers; a square that is less than 2^-96 of the largest counts as 0.
class norm_of {
 public:
  static constexpr std::size_t words = 3;

  /// `largest_magnitude` is the scale of all numbers.
  explicit norm_of(std::uint64_t largest_magnitude) : largest_{std::bit_cast<double>(largest_magnitude)} {
    if (std::isfinite(largest_)) std::frexp(largest_, &exponent_);
    exponent_ = std::max(exponent_, -1000);
  }

  void add(const View auto& view) {
    const double scale = std::ldexp(1.0, -exponent_);
    std::array<std::uint64_t, words> sum{};
    if (std::isfinite(largest_))
      view::for_runs(view, [&](auto run) {
        for (const auto& x : run) {
          const double y = double(x) * scale;
          double rest = y * y;
          for (std::uint64_t& word : sum) {
            rest *= 0x1p32;
            const auto whole = std::int64_t(rest);
            word += std::uint64_t(whole);
            rest -= double(whole);
          }
        }
      });
    for (std::size_t i = 0; i < words; ++i) sum_[i] += sum[i];
    carry();
  }

  /// To be summed over the ranks.
  std::span<std::uint64_t, words> sum() { return sum_; }

  double root() {
    carry();
    double squares = 0;
    for (std::size_t i = words; i-- > 0;) squares = (squares + double(sum_[i])) * 0x1p-32;
    return std::isfinite(largest_) ? std::ldexp(std::sqrt(squares), exponent_) : largest_;
  }

 private:
  void carry() {
    for (std::size_t i = words; --i > 0;) sum_[i - 1] += sum_[i] >> 32, sum_[i] &= 0xffff'ffffu;
  }

  double largest_;
  int exponent_ = 0;
  std::array<std::uint64_t, words> sum_{};
};

/// The body of clip_by_global_norm: each(f) calls f(gradient) for all gradients of this rank, and over_ranks(numbers,
/// op) combines numbers over the ranks that have other gradients.
double clip(auto each, double limit, auto over_ranks) {
  if (!(limit > 0))
    throw error{errc::invalid_argument,
                "clip_by_global_norm takes a limit greater than 0, not " + std::to_string(limit)};
  std::uint64_t largest = 0;
  each([&](const auto& g) { largest = std::max(largest, train::largest_magnitude(g)); });
  over_ranks(std::span{&largest, 1}, max);
  norm_of all{largest};
  each([&](const auto& g) { all.add(g); });
  over_ranks(all.sum(), sum);
  const double norm = all.root(), factor = norm > limit ? limit / norm : 1;  // of a NaN 1, so it stays visible
  if (factor != 1) each([&](const auto& g) { train::scale(g, factor); });
  return norm;
}

}  // namespace detail::train

/// Scales all gradients so that the root of the sum of all their squares is at most `limit`. Returns that root before
/// scaling, with the same bits as a sharded optimizer, on any number of ranks. Between `synchronize` and `step` every
/// rank has the same gradients, and so computes the same norm; a rank of a sharded optimizer has only its own slices,
/// and calls that optimizer's member of this name. Local parameters, which may differ, neither count nor change.
/// Errors: `invalid_argument`, before any gradient changes, for a limit that is not greater than 0, which would zero
/// all gradients.
double clip_by_global_norm(AnyParameters auto&& parameters, double limit) {
  const auto each = [&](auto f) {
    detail::train::each_parameter(parameters, [&](std::size_t, auto& p) {
      if (!detail::train::is_local(p)) f(kolo::as_view(p.gradient));
    });
  };
  return detail::train::clip(each, limit, [](auto, auto) {});
}

}  // namespace kolo::inline KOLO_ABI
