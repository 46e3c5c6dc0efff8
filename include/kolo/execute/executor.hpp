// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The executor: the only code that touches elements, so that they may lie in memory that the host cannot access.
#pragma once

#include <kolo/core/copy.hpp>
#include <kolo/execute/scratch.hpp>
#include <kolo/reduce/kernel.hpp>
#include <kolo/transport/abilities.hpp>

#include <algorithm>
#include <concepts>
#include <cstring>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Touches elements in place: the host, or a stream of a device. The operations happen in the order of the calls, and
/// in order with the transport's own sends and receives, but need not be complete when the calls return.
///
/// * `allocate(bytes)`: memory for elements; `allocation` owns it, and `get()` is its address
/// * `copy(to, from, bytes)`: copies; the two do not overlap
/// * `combine(kernel, dst, sources, n, count, finish_size)`: `dst` = the n sources combined in their order, `count`
///   elements; then the operator's finish
/// * `to_wire(kernel, wire, from, rounded, count)`: converts `count` elements for the wire; `rounded` (may be null):
///   receives their values as rounded by the wire type
/// * `from_wire(kernel, dst, wire, count)`: converts them back
/// * `round(kernel, data, count)`: rounds elements to the wire type
/// * `make_kernel<T>(op)`: optional: the kernel that the others are given; without it, the host's
///
/// Models: `host_executor`, `cuda::stream_executor`, `detail::cuda::capturing_executor`.
template <class X>
concept Executor = std::copyable<X> && requires(const X& x, std::byte* to, const std::byte* from, const kernel& k,
                                                const source* sources, int n, std::size_t count) {
  typename X::allocation;
  { x.allocate(count) } -> std::same_as<typename X::allocation>;
  { x.allocate(count).get() } -> std::convertible_to<std::byte*>;
  x.copy(to, from, count);
  x.combine(k, to, sources, n, count, n);
  x.to_wire(k, to, from, to, count);
  x.from_wire(k, to, from, count);
  x.round(k, to, count);
};

/// Everything is complete when the calls return.
struct host_executor : host_memory {
  /// The two do not overlap.
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

  /// Copies into a slot without a reply (see one_way_copy). Complete on return, and ordered before later stores.
  static void copy_one_way(std::byte* slot, const std::byte* from, std::size_t bytes, bool past_cache) {
    if (!past_cache) return copy(slot, from, bytes);
    core::copy_past_cache(slot, from, bytes);
    core::end_past_cache();
  }

  static void combine(const kernel& k, std::byte* dst, const source* sources, int n, std::size_t count,
                      int finish_size) {
    k.combine(k.op, dst, sources, n, count, finish_size);
  }
  static void to_wire(const kernel& k, std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) {
    k.to_wire(wire, from, rounded, count);
  }
  static void from_wire(const kernel& k, std::byte* dst, const std::byte* wire, std::size_t count) {
    k.from_wire(dst, wire, count);
  }

  /// Rounds to the wire type, in place.
  static void round(const kernel& k, std::byte* data, std::size_t count) {
    std::byte wire[reduce::most_wire_bytes];
    const auto most = sizeof wire / k.wire_bytes;
    for (std::size_t i = 0; i < count; i += most) {
      auto* const some = data + i * k.element_bytes;
      k.to_wire(wire, some, some, std::min(most, count - i));
    }
  }
};

static_assert(Executor<host_executor>);

/// The transport's `executor()` if its elements do not lie in the host's memory, else the host's.
template <class T>
auto executor_of(const T& transport) {
  if constexpr (HasExecutor<T>) {
    static_assert(
        Executor<decltype(transport.executor())>,
        "kolo: executor() of this transport does not return an executor: see the table in execute/executor.hpp");
    return transport.executor();
  } else {
    return host_executor{};
  }
}
template <class T>
using executor_for = decltype(executor_of(std::declval<const T&>()));

}  // namespace kolo::inline KOLO_ABI::detail::execute
