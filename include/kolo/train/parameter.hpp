// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the training layer knows of a model and of an optimizer: two concepts, and nothing else of them.
#pragma once

#include <kolo/view/view.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline v0 {

namespace detail {
template <class R>
using item_of = decltype(*std::begin(std::declval<R&>()));
}

/// A tensor of the model and its gradient, `.value` and `.gradient`: views of one element type, or what is one already.
///
/// | law    | says |
/// |--------|------|
/// | paired | as many elements in `.gradient` as in `.value`: each is the derivative by the value in its place |
/// | stays  | both lie where they lie for as long as an optimizer of this library knows them |
///
/// It may say more: `.name`, text for messages; `.local`, true where each rank keeps a gradient and a value of its own, so that nothing
/// is exchanged; `.rows`, a `kolo::row_list*`, not null where most rows of the gradient are zero and only the others need to travel.
template <class P>
concept Parameter = requires(P& p) {
  requires WritableViewLike<decltype((p.value))>;
  requires WritableViewLike<decltype((p.gradient))>;
  requires std::same_as<view_element_t<decltype((p.value))>, view_element_t<decltype((p.gradient))>>;
};

/// Which rows of a gradient of rows x width elements may be other than zero: set by the backward pass, in any order, also more than
/// once. After an exchange: those of all ranks, ascending, each once.
struct row_list {
  std::size_t width = 1;
  std::vector<std::size_t> touched{};
};

/// The parameters of a model, in the same order on every rank: a vector, an array, a span of them.
template <class R>
concept Parameters = requires(R& r) {
  *std::begin(r);
  requires Parameter<std::remove_reference_t<detail::item_of<R>>>;
};

/// Updates one parameter at a time: `step(index, value, gradient)`. The index numbers the parameters from 0, so that momentum
/// and the like can be kept for each.
template <class O, class R>
concept OptimizerFor = requires(O& optimizer, std::size_t index, detail::item_of<R> p) {
  optimizer.step(index, p.value, p.gradient);
};

/// The views of all values.
template <Parameters R>
auto values_of(R&& parameters) {
  std::vector<view_of<decltype((std::declval<detail::item_of<R>>().value))>> views;
  for (auto&& p : parameters) views.push_back(kolo::as_view(p.value));
  return views;
}

/// The views of all gradients.
template <Parameters R>
auto gradients_of(R&& parameters) {
  std::vector<view_of<decltype((std::declval<detail::item_of<R>>().gradient))>> views;
  for (auto&& p : parameters) views.push_back(kolo::as_view(p.gradient));
  return views;
}

namespace detail {

template <class P>
std::string name_of(const P& p, std::size_t index) {
  if constexpr (requires { { p.name } -> std::convertible_to<std::string_view>; }) return std::string{std::string_view{p.name}};
  else return "parameter " + std::to_string(index);
}
template <class P>
bool is_local(const P& p) {
  if constexpr (requires { { p.local } -> std::convertible_to<bool>; }) return p.local;
  else return false;
}

template <class P>
concept MayBeSparse = requires(P& p) { { p.rows } -> std::convertible_to<row_list*>; };
template <class P>
row_list* rows_of(P& p) {
  if constexpr (MayBeSparse<P>) return p.rows;
  else return nullptr;
}

/// Calls f(run) for each contiguous run of a view.
template <View V, class F>
void for_runs(const V& view, F f) {
  if constexpr (ContiguousView<V>) {
    if (!view.empty()) f(view);
  } else {
    for (std::size_t i = 0; i < view.size();) {
      const auto run = view.run(i);
      f(run);
      i += run.size();
    }
  }
}

}  // namespace detail
}  // namespace kolo::inline v0
