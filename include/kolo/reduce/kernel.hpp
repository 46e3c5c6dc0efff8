// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface between typed operators and the executor, which handles bytes only: one kernel per element type and
// operator.
#pragma once

#include <kolo/reduce/loops.hpp>
#include <kolo/reduce/operators.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// Elements to be combined, in memory format or in wire format.
struct source {
  const std::byte* data;
  bool on_wire;
};

/// Describes an element type and an operator to an executor. No function requires aligned arguments. Long loops use the
/// vector instructions that the processor has (`vectors` in loops.hpp); the result depends neither on that nor on
/// alignment or length.
struct kernel {
  std::size_t element_bytes = 1, wire_bytes = 1;  ///< per element: in memory, and on the wire
  const void* op = nullptr;                       ///< the operator, which must outlive the kernel

  /// Sets dst[i] = (s0[i] op s1[i]) op s2[i] ... over n >= 1 sources in this order, then applies `op.finish(x,
  /// finish_size)` once if finish_size > 0 and the operator has it. Partial results are not rounded. `dst` gets
  /// elements in memory format; it may be one of the sources in that format, and must not overlap any other. Null if
  /// nothing is combined.
  void (*combine)(const void* op, std::byte* dst, const source* sources, int n, std::size_t count,
                  int finish_size) = nullptr;

  /// Sets wire[i] = from[i] in wire format, and rounded[i] = wire[i] in memory format, so that this rank continues with
  /// the values that the other ranks receive. `rounded` may be `from`, or null. Null if the formats are equal: copy the
  /// elements.
  void (*to_wire)(std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) = nullptr;
  void (*from_wire)(std::byte* dst, const std::byte* wire, std::size_t count) = nullptr;

  bool finishes = false;        ///< whether `finish_size` has an effect
  bool finishes_alone = false;  ///< also on one rank, where nothing is combined
  bool commutes = false;        ///< `combine` may compute s1[i] op s0[i] instead of s0[i] op s1[i]

  /// The same functions for elements that the host cannot access; used by the executor that made the kernel.
  const void* device = nullptr;
};

namespace detail::reduce {

/// The functions of a kernel. T: element in memory; W: on the wire; A: the type of partial results.
template <class T, class Op>
struct kernel_of {
  using W = wire_element_t<Op, T>;
  using A = accumulator_t<T, Op>;
  static constexpr std::size_t buffered =
      std::max<std::size_t>(4096 / sizeof(A), 1);  // partial results that stay in L1

  [[gnu::always_inline]] static inline A together(const Op& op, const A& a, const A& b, const auto&... rest) {
    if constexpr (sizeof...(rest) == 0) return to<A>(op(a, b));
    else return together(op, to<A>(op(a, b)), rest...);
  }

  /// Sets dst = (x op y) op ..., finished if `size` > 0.
  template <class D, class... X>
  static void combine_some(const Op& op, std::byte* dst, std::size_t count, int size, bytes_of<X>... x) {
    if constexpr (Finishes<Op, A> && std::is_same_v<D, T>) {
      const auto last = [ f = &op, size ](const auto&... a) __attribute__((always_inline)) {
        return to<A>(f->finish(together(*f, a...), size));
      };
      if (size > 0) return transform<D, A>(dst, count, last, x...);
    }
    transform<D, A>(
        dst, count, [f = &op](const auto&... a) __attribute__((always_inline)) { return together(*f, a...); }, x...);
  }

  /// Sets dst = x, finished if `size` > 0.
  template <class X>
  static void take(const Op& op, std::byte* dst, bytes_of<X> x, std::size_t count, int size) {
    if constexpr (Finishes<Op, A>) {
      const auto last = [f = &op, size](const A& a) { return to<A>(f->finish(a, size)); };
      if (size > 0) return transform<T, A>(dst, count, last, x);
    }
    if constexpr (std::is_same_v<T, X>) std::memmove(dst, x.data, count * sizeof(T));
    else from_wire(dst, x.data, count);
  }

  /// Calls f with a bytes_of<T> or bytes_of<W>, by the format of the source, that begins at element `first`.
  static void with(const source& s, std::size_t first, auto f) {
    if constexpr (std::is_same_v<T, W>) f(bytes_of<T>{s.data + first * sizeof(T)});
    else if (s.on_wire) f(bytes_of<W>{s.data + first * sizeof(W)});
    else f(bytes_of<T>{s.data + first * sizeof(T)});
  }

  /// dst = x op ... op s[0] op ... op s[N - 1]
  template <class D, int N, class... X>
  static void pass(const Op& op, std::byte* dst, const source* s, std::size_t first, std::size_t count, int size,
                   bytes_of<X>... x) {
    if constexpr (N == 0) combine_some<D>(op, dst, count, size, x...);
    else with(s[0], first, [&](auto y) { pass<D, N - 1>(op, dst, s + 1, first, count, size, x..., y); });
  }

  /// The same for 1 <= n <= N sources.
  template <class D, int N, class... X>
  static void last_pass(const Op& op, std::byte* dst, const source* s, int n, std::size_t first, std::size_t count,
                        int size, bytes_of<X>... x) {
    if constexpr (N + sizeof...(X) > 2)
      if (n < N) return last_pass<D, N - 1>(op, dst, s, n, first, count, size, x...);
    pass<D, N>(op, dst, s, first, count, size, x...);
  }

  /// The number of sources in one pass: with more of them, partial results are stored and loaded less often. (Two if
  /// sources may be in either format: three would instantiate too many cases.)
  static constexpr int at_once = std::is_same_v<T, W> ? 3 : 2;

  /// Combines in one pass over memory: partial results of `count` elements stay in L1 until all sources are combined.
  static void combine_many(const Op& op, std::byte* dst, const source* s, int n, std::size_t first, std::size_t count,
                           int size) {
    using P = partial_result<T, A>;
    static_assert(!std::is_same_v<P, unzipped> || buffered % (2 * unzipped::pairs) == 0);
    alignas(A) std::byte partial[buffered * sizeof(A)];
    const bytes_of<P> so_far{partial};
    pass<P, at_once>(op, partial, s, first, count, 0);
    int k = at_once;
    for (; n - k >= at_once; k += at_once - 1) pass<P, at_once - 1>(op, partial, s + k, first, count, 0, so_far);
    last_pass<T, at_once - 1>(op, dst + first * sizeof(T), s + k, n - k, first, count, size, so_far);
  }

  static void combine(const void* untyped, std::byte* dst, const source* sources, int n, std::size_t count, int size) {
    const Op& op = *static_cast<const Op*>(untyped);
    if (count == 0) return;
    if (n == 1) return with(sources[0], 0, [&](auto x) { take(op, dst, x, count, size); });
    if (n <= at_once) return last_pass<T, at_once>(op, dst, sources, n, 0, count, size);
    for (std::size_t i = 0; i < count; i += buffered)
      combine_many(op, dst, sources, n, i, std::min(buffered, count - i), size);
  }

  static void from_wire(std::byte* dst, const std::byte* wire, std::size_t count) {
    transform<T, T>(
        dst, count, [](const T& x) { return x; }, bytes_of<W>{wire});
  }

  static void to_wire(std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) {
    for (std::size_t i = 0; i < count; i += buffered) {
      const std::size_t some = std::min(buffered, count - i);
      transform<W, T>(
          wire + i * sizeof(W), some, [](const T& x) { return x; }, bytes_of<T>{from + i * sizeof(T)});
      if (rounded != nullptr) from_wire(rounded + i * sizeof(T), wire + i * sizeof(W), some);
    }
  }
};

/// The kernel of a call that moves elements and combines none.
template <Element T>
kernel copy_kernel() {
  return {.element_bytes = sizeof(T), .wire_bytes = sizeof(T)};
}
/// The size in bytes of the buffer in which an executor rounds elements to the wire type.
inline constexpr std::size_t most_wire_bytes = 4096;

}  // namespace detail::reduce

/// Makes a kernel that refers to `op`.
template <Element T, class Op>
kernel make_kernel(const Op& op) {
  operator_check<Op, T>();
  if constexpr (operator_accepts<Op, T>) {
    using body = detail::reduce::kernel_of<T, Op>;
    kernel k{.element_bytes = sizeof(T),
             .wire_bytes = sizeof(detail::reduce::wire_element_t<Op, T>),
             .op = &op,
             .combine = &body::combine};
    if constexpr (!std::is_same_v<T, detail::reduce::wire_element_t<Op, T>>) {
      static_assert(sizeof(detail::reduce::wire_element_t<Op, T>) <= detail::reduce::most_wire_bytes,
                    "kolo: an element of a wire type may have at most 4096 bytes");
      k.to_wire = &body::to_wire;
      k.from_wire = &body::from_wire;
    }
    k.finishes = Finishes<Op, detail::reduce::accumulator_t<T, Op>>;
    k.finishes_alone = k.finishes && detail::reduce::finishes_alone<Op>;
    return k;
  }
}

}  // namespace kolo::inline KOLO_ABI
