// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the elements of a tensor are: the concept of a view, what is one already, and how a view loses its types.
#pragma once

#include <kolo/view/element.hpp>
#include <kolo/view/memory.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

namespace kolo::inline v0 {

namespace detail {
template <class V> struct is_contiguous_view : std::false_type {};
template <class T> struct is_contiguous_view<std::span<T>> : std::true_type {};
}

template <class V> concept ContiguousView = detail::is_contiguous_view<V>::value;

template <class V> concept KnowsItsElement = requires { typename V::element_type; } && Element<std::remove_const_t<typename V::element_type>>;
template <class V> concept CountsElements = requires(const V v) { { v.size() } -> std::same_as<std::size_t>; };
template <class V> concept EnumeratesRuns = requires(const V v, std::size_t i) { { v.run(i) } -> std::same_as<std::span<typename V::element_type>>; };

template <class V>
concept View = std::copyable<V> && KnowsItsElement<V> && CountsElements<V> && (ContiguousView<V> || EnumeratesRuns<V>);

template <View V>
constexpr V as_view(const V& v) { return v; }

template <class X>
  requires (!View<std::remove_cvref_t<X>>) && requires(X& x) { *x.data(); static_cast<std::size_t>(x.size()); requires std::is_pointer_v<decltype(x.data())>; }
constexpr auto as_view(X&& x) {
  return std::span<std::remove_pointer_t<decltype(x.data())>>(x.data(), static_cast<std::size_t>(x.size()));
}

template <class T, std::size_t N>
constexpr auto as_view(T (&x)[N]) { return std::span<T>(x); }

template <class X> concept ViewLike = requires(X& x) { { kolo::as_view(x) } -> View; };
template <class X> using view_of = decltype(kolo::as_view(std::declval<std::remove_reference_t<X>&>()));
template <class X> using view_element_t = std::remove_const_t<typename view_of<X>::element_type>;
template <class X> concept WritableViewLike = ViewLike<X> && !std::is_const_v<typename view_of<X>::element_type>;

/// The view must outlive the memory, and stay where it is.
template <View V>
memory erase(const V& view) {
  using T = typename V::element_type;
  const auto forget = [](T* p) { return reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(p)); };
  if constexpr (ContiguousView<V>) return {.base = forget(view.data()), .count = view.size(), .element_bytes = sizeof(T)};
  else return {.count = view.size(), .element_bytes = sizeof(T), .find = [](const void* v, std::size_t i) {
    const auto run = static_cast<const V*>(v)->run(i);
    return piece{reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(run.data())), run.size()};
  }, .view = &view};
}

}  // namespace kolo::inline v0
