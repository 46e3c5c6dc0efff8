// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concept of a view of a tensor's elements, the types that convert to one, and its type erasure.
#pragma once

#include <kolo/view/element.hpp>
#include <kolo/view/memory.hpp>
#include <kolo/view/strided.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI {

namespace detail::view {

template <class V>
struct is_span : std::false_type {};
template <class T>
struct is_span<std::span<T>> : std::true_type {};

/// Some views are trivially copyable, but their pointers mean nothing to another rank.
template <class T>
concept RefersElsewhere = std::ranges::enable_borrowed_range<T> || requires(const T x) {
  requires is_span<decltype(x.run(std::size_t{}))>::value;
};

template <class T>
concept ElementOfView = Element<std::remove_const_t<T>> && !RefersElsewhere<std::remove_const_t<T>>;

template <class V>
concept KnowsItsElements = ElementOfView<typename V::element_type>;

template <class V>
concept CountsElements = requires(const V view) {
  { view.size() } -> std::same_as<std::size_t>;
};

template <class V>
concept EnumeratesRuns = requires(const V view, std::size_t i) {
  { view.run(i) } -> std::same_as<std::span<typename V::element_type>>;
};

}  // namespace detail::view

/// One run: `std::span`.
template <class V>
concept ContiguousView = detail::view::is_span<V>::value && detail::view::KnowsItsElements<V>;

/// One run of elements whose size is known at run time only: `kolo::elements`.
template <class V>
concept UntypedView = requires(const V view) {
  { view.erased() } -> std::same_as<memory>;
};

/// A view refers to elements, and owns none of them: it has an element type, counts its elements, and enumerates
/// contiguous runs of them. `element_type` is const if they must not be written. Models: `std::span`, `kolo::strided`,
/// `kolo::bucket`.
///
/// | law         | meaning |
/// |-------------|---------|
/// | in order    | for i < size(), run(i) is not empty and begins with element i |
/// | to the end  | run(i).size() <= size() - i, and element i + k of the view is run(i)[k] |
/// | cheap copy  | a copy refers to the same elements; making it copies none |
/// | at rest     | as long as the elements stay where they are, so do the runs |
template <class V>
concept View = std::copyable<V> && detail::view::KnowsItsElements<V> && detail::view::CountsElements<V> &&
    (ContiguousView<V> || detail::view::EnumeratesRuns<V> || UntypedView<V>);

namespace detail::view {

/// `data()` and `size()`, which imply contiguous elements.
template <class X>
concept HasDataAndSize = requires(X& x) {
  requires std::is_pointer_v<decltype(x.data())>;
  requires ElementOfView<std::remove_pointer_t<decltype(x.data())>>;
  static_cast<std::size_t>(x.size());
};

/// ... but in a part of a matrix, such as Eigen's, there may be gaps between columns, or between elements.
template <class X>
concept MayHaveGaps = requires(X& x) {
  x.outerSize(), x.innerSize(), x.outerStride(), x.innerStride();
  requires !std::same_as<typename X::PlainObject, std::remove_const_t<X>>;
  requires !(X::IsVectorAtCompileTime && X::InnerStrideAtCompileTime == 1);
};

/// Any mdspan (the standard library's, its reference implementation's, CCCL's) whose elements lie at constant distances
/// from a pointer, unmodified: its accessor computes none.
template <class X>
concept LikeMdspan = requires(const X& x) {
  requires X::is_always_strided() && X::rank()
  >= 1;
  requires std::is_pointer_v<std::remove_cvref_t<decltype(x.data_handle())>>;
  x.mapping(), x.extent(X::rank() - 1), x.stride(X::rank() - 1);
  { x.accessor().access(x.data_handle(), 0) } -> std::same_as<typename X::element_type&>;
};

template <class T>
std::byte* bytes_at(T* first) {
  return reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(first));
}

}  // namespace detail::view

template <View V>
constexpr V as_view(const V& view) {
  return view;
}

/// Anything contiguous: vectors, arrays, spans of a fixed length, matrices...
template <class X>
  requires(!View<std::remove_cv_t<X>> && detail::view::HasDataAndSize<X> && !detail::view::MayHaveGaps<X>)
constexpr auto as_view(X& x) {
  return std::span<std::remove_pointer_t<decltype(x.data())>>{x.data(), std::size_t(x.size())};
}

/// A part of a matrix, in the order in which the matrix is stored.
template <class X>
  requires(detail::view::HasDataAndSize<X>&& detail::view::MayHaveGaps<X>)
constexpr auto as_view(X& x) {
  using element = std::remove_pointer_t<decltype(x.data())>;
  return strided<element, 2>{x.data(), {x.outerSize(), x.innerSize()}, {x.outerStride(), x.innerStride()}};
}

/// An mdspan in the order of its indices, the last of which runs fastest, whatever its layout.
template <class X>
  requires detail::view::LikeMdspan<X>
constexpr auto as_view(const X& x) {
  constexpr int rank = int(X::rank());
  std::array<std::ptrdiff_t, X::rank()> extents{}, strides{};
  for (std::size_t d = 0; d < X::rank(); ++d) {
    extents[d] = std::ptrdiff_t(x.extent(d));
    strides[d] = std::ptrdiff_t(x.stride(d));
  }
  return strided<typename X::element_type, rank>{x.data_handle(), extents, strides};
}

/// An array of any dimension.
template <class T, std::size_t N>
  requires Element<std::remove_cv_t<std::remove_all_extents_t<T>>>
constexpr auto as_view(T (&array)[N]) {
  using element = std::remove_all_extents_t<T>;
  if constexpr (std::is_array_v<T>)
    return std::span<element>{as_view(array[0]).data(), sizeof(array) / sizeof(element)};
  else return std::span<element>{array};
}

/// A view, or a type that `as_view` converts. It is never an operator, even if it can be called, as matrices can.
template <class X>
concept ViewLike = requires(std::remove_reference_t<X>& x) {
  { kolo::as_view(x) } -> View;
};

/// The view that `as_view` makes of an X.
template <ViewLike X>
using view_of = decltype(kolo::as_view(std::declval<std::remove_reference_t<X>&>()));

namespace detail::view {
/// The contiguous elements of a view from element i on.
template <class V>
auto run_of(const V& view, std::size_t i) {
  if constexpr (ContiguousView<V>) return view.subspan(i);
  else return view.run(i);
}
/// Calls f(run) for each contiguous run of a view.
void for_runs(const View auto& all, auto f) {
  for (std::size_t i = 0; i < all.size();) {
    const auto run = view::run_of(all, i);
    f(run);
    i += run.size();
  }
}
}  // namespace detail::view

/// The type of the elements of X, without const.
template <ViewLike X>
using view_element_t = std::remove_const_t<typename view_of<X>::element_type>;

/// A view, or a type that `as_view` converts, whose elements may be written.
template <class X>
concept WritableViewLike = ViewLike<X> && !std::is_const_v<typename view_of<X>::element_type>;

/// Whether the elements outlive the expression: it is an lvalue, or a view, which owns nothing.
template <class X>
concept Borrowed = ViewLike<X> &&
    (std::is_lvalue_reference_v<X> || View<std::remove_cvref_t<X>> || detail::view::MayHaveGaps<X> ||
     detail::view::LikeMdspan<std::remove_cvref_t<X>> || std::ranges::enable_borrowed_range<std::remove_cvref_t<X>>);

/// Type-erases a view. `view` must outlive the result and must not move meanwhile.
template <View V>
memory erase(const V& view) {
  memory m{.count = view.size(), .element_bytes = sizeof(typename V::element_type)};
  if constexpr (UntypedView<V>) {
    m = view.erased();
  } else if constexpr (ContiguousView<V>) {
    m.base = detail::view::bytes_at(view.data());
  } else if (m.count != 0 && view.run(0).size() == m.count) {
    m.base = detail::view::bytes_at(view.run(0).data());
  } else if (m.count != 0) {
    m.view = &view;
    m.find = [](const void* erased, std::size_t i) {
      const auto run = static_cast<const V*>(erased)->run(i);
      return contiguous_run{detail::view::bytes_at(run.data()), run.size()};
    };
  }
  return m;
}

}  // namespace kolo::inline KOLO_ABI
