// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the elements of a tensor are: the concept of a view, what is taken for one, and how a view loses its types.
#pragma once

#include <kolo/view/element.hpp>
#include <kolo/view/memory.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace kolo::inline v0 {

namespace detail {
template <class V> struct is_span : std::false_type {};
template <class T> struct is_span<std::span<T>> : std::true_type {};
}  // namespace detail

template <class V>
concept KnowsItsElements = requires { typename V::element_type; } && Element<std::remove_const_t<typename V::element_type>>;

template <class V>
concept CountsElements = requires(const V view) { { view.size() } -> std::same_as<std::size_t>; };

template <class V>
concept EnumeratesRuns = requires(const V view, std::size_t i) {
  { view.run(i) } -> std::same_as<std::span<typename V::element_type>>;
};

/// One run: `std::span`.
template <class V>
concept ContiguousView = detail::is_span<V>::value && KnowsItsElements<V>;

/// A view says where elements are, and owns none of them: it knows its elements, counts them, and enumerates contiguous runs of
/// them. `element_type` is const if they must not be written. Models: `std::span`, `kolo::strided`, `kolo::bucket`.
///
/// | law         | says |
/// |-------------|------|
/// | in order    | for i < size(), run(i) is not empty and begins with element i |
/// | to the end  | run(i).size() <= size() - i, and element i + k of the view is run(i)[k] |
/// | cheap copy  | a copy shows the same elements; making it copies none |
/// | at rest     | as long as the elements stay where they are, so do the runs |
template <class V>
concept View = std::copyable<V> && KnowsItsElements<V> && CountsElements<V> && (ContiguousView<V> || EnumeratesRuns<V>);

namespace detail {

/// `data()` and `size()`, which promise that elements lie side by side.
template <class X>
concept HasDataAndSize = requires(X& x) {
  requires std::is_pointer_v<decltype(x.data())>;
  requires Element<std::remove_cv_t<std::remove_pointer_t<decltype(x.data())>>>;
  static_cast<std::size_t>(x.size());
};

/// ... unless there are gaps between the columns, as in a block of a matrix that is not itself a matrix.
template <class X>
concept MayHaveGaps = requires(X& x) {
  x.innerStride();
  x.outerStride();
} && !std::same_as<typename X::PlainObject, std::remove_cv_t<X>>;

}  // namespace detail

template <View V>
constexpr V as_view(const V& view) { return view; }

/// Anything contiguous: vectors, arrays, spans of a fixed length, matrices...
template <class X>
  requires(!View<std::remove_cv_t<X>> && detail::HasDataAndSize<X> && !detail::MayHaveGaps<X>)
constexpr auto as_view(X& x) {
  return std::span<std::remove_pointer_t<decltype(x.data())>>{x.data(), static_cast<std::size_t>(x.size())};
}

/// An array of any dimension.
template <class T, std::size_t N>
  requires Element<std::remove_cv_t<std::remove_all_extents_t<T>>>
constexpr auto as_view(T (&array)[N]) {
  using element = std::remove_all_extents_t<T>;
  if constexpr (std::is_array_v<T>) return std::span<element>{as_view(array[0]).data(), sizeof(array) / sizeof(element)};
  else return std::span<element>{array};
}

/// A view, or what can be seen as one. What can be called is not: operators and views never stand for each other.
template <class X>
concept ViewLike = requires(std::remove_reference_t<X>& x) { { kolo::as_view(x) } -> View; };

template <ViewLike X>
using view_of = decltype(kolo::as_view(std::declval<std::remove_reference_t<X>&>()));

template <ViewLike X>
using view_element_t = std::remove_const_t<typename view_of<X>::element_type>;

template <class X>
concept WritableViewLike = ViewLike<X> && !std::is_const_v<typename view_of<X>::element_type>;

/// Whether the elements outlive the expression: it names something, or is a view, which owns nothing.
template <class X>
concept Borrowed = std::is_lvalue_reference_v<X> || View<std::remove_cvref_t<X>>;

/// The view without its types. `view` has to outlive the result and must not move meanwhile.
template <View V>
memory erase(const V& view) {
  using T = std::remove_const_t<typename V::element_type>;
  constexpr auto bytes = [](auto* first) { return reinterpret_cast<std::byte*>(const_cast<T*>(first)); };
  memory m{.count = view.size(), .element_bytes = sizeof(T)};
  if constexpr (ContiguousView<V>) {
    m.base = bytes(view.data());
  } else {
    m.view = &view;
    m.find = [](const void* erased, std::size_t i) {
      const auto run = static_cast<const V*>(erased)->run(i);
      return piece{bytes(run.data()), run.size()};
    };
    if (m.count == 0) return m;
    if (const auto run = view.run(0); run.size() == m.count) m = {.base = bytes(run.data()), .count = m.count, .element_bytes = sizeof(T)};
  }
  return m;
}

}  // namespace kolo::inline v0
