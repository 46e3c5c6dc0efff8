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

/// The elements of a tensor lie side by side, and can be written.
template <class V>
concept DenseTensor = WritableViewLike<V> && ContiguousView<view_of<V>>;

/// A tensor of the model and its gradient, `.value` and `.gradient`: of one element type, dense both.
///
/// | law    | says |
/// |--------|------|
/// | paired | as many elements in `.gradient` as in `.value`: each is the derivative by the value in its place |
/// | stays  | both lie where they lie for as long as a `distributed_optimizer` knows them |
template <class P>
concept Parameter = requires(P& p) {
  requires DenseTensor<decltype((p.value))>;
  requires std::same_as<view_of<decltype((p.value))>, view_of<decltype((p.gradient))>>;
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

/// A `std::span` of the elements of each tensor.
template <Parameters R>
using tensor_views = std::vector<view_of<decltype((std::declval<detail::item_of<R>>().value))>>;

template <Parameters R>
tensor_views<R> values_of(R&& parameters) {
  tensor_views<R> views;
  for (auto&& p : parameters) views.push_back(kolo::as_view(p.value));
  return views;
}

template <Parameters R>
tensor_views<R> gradients_of(R&& parameters) {
  tensor_views<R> views;
  for (auto&& p : parameters) views.push_back(kolo::as_view(p.gradient));
  return views;
}

}  // namespace kolo::inline v0
