// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the training layer knows of a model and of an optimizer: two concepts, and nothing else of them.
#pragma once

#include <kolo/view/view.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
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
/// | stays  | both lie where they lie for as long as a `distributed_optimizer` knows them |
template <class P>
concept Parameter = requires(P& p) {
  requires WritableViewLike<decltype((p.value))>;
  requires WritableViewLike<decltype((p.gradient))>;
  requires std::same_as<view_element_t<decltype((p.value))>, view_element_t<decltype((p.gradient))>>;
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

}  // namespace kolo::inline v0
