// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training layer's two concepts, of a model's parameters and of an optimizer: all that it requires of them.
#pragma once

#include <kolo/view/view.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::train {
template <class R>
using item_of = decltype(*std::begin(std::declval<R&>()));
}  // namespace detail::train

/// A tensor of the model, `.value`, and its gradient, `.gradient`: views, or objects that convert to views, of one
/// element type.
///
/// | law    | meaning |
/// |--------|---------|
/// | paired | `.gradient` has as many elements as `.value`: each is the derivative by the value at the same index |
/// | stays  | both keep their addresses as long as an optimizer of this library uses them |
/// | once   | no two parameters share an element: a tensor that several layers use is one parameter |
/// | apart  | no value shares an element with a gradient, its own or another's |
///
/// Optional members: `.name`, text for messages; `.local`, true if each rank has its own value and gradient, which are
/// not exchanged; `.rows`, a `kolo::row_list*`, not null if most rows of the gradient are zero and only the others are
/// sent: unrounded, by the automatic algorithm, whatever wire type, error feedback and algorithm an optimizer has.
/// `.local`, and whether `.rows` is null, must not change after an optimizer is constructed.
template <class P>
concept Parameter = requires(P& p) {
  requires WritableViewLike<decltype((p.value))>;
  requires WritableViewLike<decltype((p.gradient))>;
  requires std::same_as<view_element_t<decltype((p.value))>, view_element_t<decltype((p.gradient))>>;
};

/// Lists the rows of a gradient of rows x width elements that may be nonzero. The backward pass sets it, in any order
/// and with repetitions. After an exchange: the rows of all ranks, ascending, each once.
struct row_list {
  std::size_t width = 1;
  std::vector<std::size_t> touched{};
};

/// The parameters of a model, in the same order on every rank: a vector, an array, a span of them.
template <class R>
concept Parameters = requires(R& r) {
  *std::begin(r);
  requires Parameter<std::remove_reference_t<detail::train::item_of<R>>>;
};

/// Parameters of several element types, a range for each: `kolo::mixed_parameters{floats, doubles}`. Indices run
/// through all ranges. Optimizers, `clip_by_global_norm`, `broadcast_parameters` and checkpoints take them like one
/// range. `Range` is a reference for an lvalue, which must outlive this object; an rvalue is stored.
template <Parameters... Range>
class mixed_parameters {
 public:
  explicit mixed_parameters(Range&&... ranges) : ranges_{std::forward<Range>(ranges)...} {}

  /// Calls f(range) for each range.
  void each_range(auto f) {
    std::apply([&](auto&... range) { (f(range), ...); }, ranges_);
  }

 private:
  std::tuple<Range...> ranges_;
};
template <class... Range>
mixed_parameters(Range&&...) -> mixed_parameters<Range...>;

namespace detail::train {

/// The ranges that R consists of, as std::tuple of their types.
template <class R>
struct ranges_of : std::type_identity<std::tuple<R>> {};
template <class... Range>
struct ranges_of<mixed_parameters<Range...>> : std::type_identity<std::tuple<std::remove_reference_t<Range>...>> {};

template <class R>
inline constexpr bool is_mixed = false;
template <class... Range>
inline constexpr bool is_mixed<mixed_parameters<Range...>> = true;

template <class R, class F>
void each_range(R& parameters, F f) {
  if constexpr (is_mixed<std::remove_cv_t<R>>) parameters.each_range(f);
  else f(parameters);
}
/// Calls f(index, parameter) for each parameter.
void each_parameter(auto& parameters, auto f) {
  std::size_t i = 0;
  train::each_range(parameters, [&](auto& range) {
    for (auto&& p : range) f(i++, p);
  });
}
/// Calls f(parameter) for the parameter with this index, if there is one.
void with_parameter(auto& parameters, std::size_t index, auto f) {
  train::each_range(parameters, [&](auto& range) {
    const auto n = std::size_t(std::distance(std::begin(range), std::end(range)));
    if (index < n) f(*std::next(std::begin(range), std::ptrdiff_t(index)));
    index -= n;  // wraps around after the parameter was found
  });
}

}  // namespace detail::train

/// Parameters of one element type, or of several.
template <class R>
concept AnyParameters = Parameters<R> || detail::train::is_mixed<std::remove_cvref_t<R>>;

namespace detail::train {
template <class O, class R>
concept Updates = requires(O& optimizer, std::size_t index, item_of<R> p) {
  optimizer.step(index, p.value, p.gradient);
};
template <class O, class Ranges>
inline constexpr bool updates_all = false;
template <class O, class... R>
inline constexpr bool updates_all<O, std::tuple<R...>> = (Updates<O, R> && ...);
}  // namespace detail::train

/// Updates one parameter per call: `step(index, value, gradient)`. `index` numbers the parameters from 0, so that the
/// optimizer can keep state, such as momentum, for each.
template <class O, class R>
concept OptimizerFor =
    detail::train::updates_all<O, typename detail::train::ranges_of<std::remove_reference_t<R>>::type>;

/// Returns the views of all values.
template <Parameters R>
auto values_of(R&& parameters) {
  std::vector<view_of<decltype((std::declval<detail::train::item_of<R>>().value))>> views;
  for (auto&& p : parameters) views.push_back(kolo::as_view(p.value));
  return views;
}

/// Returns the views of all gradients.
template <Parameters R>
auto gradients_of(R&& parameters) {
  std::vector<view_of<decltype((std::declval<detail::train::item_of<R>>().gradient))>> views;
  for (auto&& p : parameters) views.push_back(kolo::as_view(p.gradient));
  return views;
}

namespace detail::train {

std::string name_of(const auto& p, std::size_t index) {
  if constexpr (requires {
                  { p.name } -> std::convertible_to<std::string_view>;
                })
    return std::string{std::string_view{p.name}};
  else return "parameter " + std::to_string(index);
}
bool is_local(const auto& p) {
  if constexpr (requires {
                  { p.local } -> std::convertible_to<bool>;
                })
    return p.local;
  else return false;
}

template <class P>
concept MayBeSparse = requires(P& p) {
  { p.rows } -> std::convertible_to<row_list*>;
};
template <class P>
row_list* rows_of(P& p) {
  if constexpr (MayBeSparse<P>) return p.rows;
  else return nullptr;
}

}  // namespace detail::train
}  // namespace kolo::inline KOLO_ABI
