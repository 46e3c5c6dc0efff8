// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The border between typed operators and the executor, which knows bytes only: one kernel per element type and operator.
#pragma once

#include <kolo/reduce/loops.hpp>
#include <kolo/reduce/operators.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace kolo::inline v0 {

/// Elements to be combined: as they are in memory, or as they travel.
struct source {
  const std::byte* data;
  bool on_wire;
};

/// All that an executor knows of an element type and an operator. No function minds where its arguments are aligned.
struct kernel {
  std::size_t element_bytes = 1, wire_bytes = 1;  ///< per element: in memory, and on the wire
  const void* op = nullptr;                       ///< the operator, which has to outlive the kernel

  /// dst[i] = (s0[i] op s1[i]) op s2[i] ..., of n >= 1 sources in this order; then, once, `op.finish(x, finish_size)` if
  /// finish_size > 0 and there is such a thing. Partial results are not rounded. `dst` gets elements as they are in memory; it may
  /// be one of the sources that are, and must otherwise not overlap any. Null where nothing is combined.
  void (*combine)(const void* op, std::byte* dst, const source* sources, int n, std::size_t count, int finish_size) = nullptr;

  /// wire[i] = from[i] as it travels, and rounded[i] = wire[i] as it is in memory, so that this rank goes on with what the others
  /// get. `rounded` may be `from`, or null. Null where elements travel as they are: copy them.
  void (*to_wire)(std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) = nullptr;
  void (*from_wire)(std::byte* dst, const std::byte* wire, std::size_t count) = nullptr;

  bool finishes = false;  ///< whether `finish_size` means anything
};

namespace detail {

/// The bodies of a kernel. T: element in memory; W: on the wire; A: what partial results are kept in.
template <class T, class Op>
struct kernel_of {
  using W = wire_element_t<Op, T>;
  using A = accumulator_t<T, Op>;
  static constexpr std::size_t buffered = std::max<std::size_t>(4096 / sizeof(A), 1);  // elements whose partial results stay in L1

  template <class D, class X, class Y>
  static void combine_two(const Op& op, std::byte* dst, bytes_of<X> x, bytes_of<Y> y, std::size_t count, int size) {
    const Op* const f = &op;
    if constexpr (Finishes<Op, A>) {
      if (size > 0)
        return transform<D>(dst, count, [=](const X& a, const Y& b) { return to<D>(to<A>(f->finish(to<A>((*f)(to<A>(a), to<A>(b))), size))); }, x, y);
    }
    transform<D>(dst, count, [f](const X& a, const Y& b) { return to<D>(to<A>((*f)(to<A>(a), to<A>(b)))); }, x, y);
  }

  template <class D, class X>
  static void convert(const Op& op, std::byte* dst, bytes_of<X> x, std::size_t count, int size) {
    if constexpr (Finishes<Op, A>) {
      if (size > 0) return transform<D>(dst, count, [f = &op, size](const X& a) { return to<D>(to<A>(f->finish(to<A>(a), size))); }, x);
    }
    if constexpr (std::is_same_v<D, X>) std::memmove(dst, x.data, count * sizeof(D));
    else transform<D>(dst, count, [](const X& a) { return to<D>(to<A>(a)); }, x);
  }

  /// f(bytes_of<T or W>), whichever it is, from element `first` on.
  template <class F>
  static void with(const source& s, std::size_t first, F f) {
    if constexpr (std::is_same_v<T, W>) f(bytes_of<T>{s.data + first * sizeof(T)});
    else if (s.on_wire) f(bytes_of<W>{s.data + first * sizeof(W)});
    else f(bytes_of<T>{s.data + first * sizeof(T)});
  }

  static void combine(const void* untyped, std::byte* dst, const source* sources, int n, std::size_t count, int size) {
    const Op& op = *static_cast<const Op*>(untyped);
    if (count == 0) return;
    if (n == 1) return with(sources[0], 0, [&](auto x) { convert<T>(op, dst, x, count, size); });
    if (n == 2)
      return with(sources[0], 0, [&](auto x) { with(sources[1], 0, [&](auto y) { combine_two<T>(op, dst, x, y, count, size); }); });
    for (std::size_t i = 0; i < count; i += buffered) combine_many(op, dst + i * sizeof(T), sources, n, i, std::min(buffered, count - i), size);
  }

  static void combine_many(const Op& op, std::byte* dst, const source* sources, int n, std::size_t first, std::size_t count, int size) {
    alignas(A) std::byte partial[buffered * sizeof(A)];
    const bytes_of<A> so_far{partial};
    with(sources[0], first, [&](auto x) {
      with(sources[1], first, [&](auto y) { combine_two<A>(op, partial, x, y, count, 0); });
    });
    for (int k = 2; k < n - 1; ++k) with(sources[k], first, [&](auto x) { combine_two<A>(op, partial, so_far, x, count, 0); });
    with(sources[n - 1], first, [&](auto x) { combine_two<T>(op, dst, so_far, x, count, size); });
  }

  static void from_wire(std::byte* dst, const std::byte* wire, std::size_t count) {
    transform<T>(dst, count, [](const W& x) { return to<T>(x); }, bytes_of<W>{wire});
  }

  static void to_wire(std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) {
    for (std::size_t i = 0; i < count; i += buffered) {
      const std::size_t some = std::min(buffered, count - i);
      transform<W>(wire + i * sizeof(W), some, [](const T& x) { return to<W>(x); }, bytes_of<T>{from + i * sizeof(T)});
      if (rounded != nullptr) from_wire(rounded + i * sizeof(T), wire + i * sizeof(W), some);
    }
  }
};

}  // namespace detail

/// For what moves elements and combines none.
template <Element T>
kernel copy_kernel() {
  return {.element_bytes = sizeof(T), .wire_bytes = sizeof(T)};
}

/// Refers to `op`.
template <Element T, class Op>
kernel make_kernel(const Op& op) {
  operator_check<Op, T>();
  if constexpr (operator_accepts<Op, T>) {
    using body = detail::kernel_of<T, Op>;
    kernel k{.element_bytes = sizeof(T), .wire_bytes = sizeof(wire_element_t<Op, T>), .op = &op, .combine = &body::combine};
    if constexpr (!std::is_same_v<T, wire_element_t<Op, T>>) {
      k.to_wire = &body::to_wire;
      k.from_wire = &body::from_wire;
    }
    k.finishes = Finishes<Op, accumulator_t<T, Op>>;
    return k;
  }
}

}  // namespace kolo::inline v0
