// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What touches elements: the executor itself only keeps books, so that elements may lie where the host cannot look.
#pragma once

#include <kolo/core/copy.hpp>
#include <kolo/reduce/kernel.hpp>
#include <kolo/transport/communicator.hpp>

#include <algorithm>
#include <cstring>

namespace kolo::inline v0::detail {

/// The host's hands: everything happens at once. A transport whose elements are elsewhere (on a device, behind a stream) has a
/// member `hands()` that returns a copyable value with the same members; what they do must happen in the order of the calls,
/// and in order with the transport's own sends and receives, but need not have happened when they return. `make_kernel<T>(op)` of such hands
/// makes the kernels that they are given; without it, they are the host's.
struct host_hands : host_memory {
  /// The two do not overlap.
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

  /// The same for bytes that nobody looks at soon: they displace nothing in the caches, and are not read before they are written.
  /// Ordered for other ranks by `end_past_cache`.
  static void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes) { kolo::detail::copy_past_cache(to, from, bytes); }
  static void end_past_cache() { kolo::detail::end_past_cache(); }

  static void combine(const kernel& k, std::byte* dst, const source* sources, int n, std::size_t count, int finish_size) {
    k.combine(k.op, dst, sources, n, count, finish_size);
  }
  static void to_wire(const kernel& k, std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) {
    k.to_wire(wire, from, rounded, count);
  }
  static void from_wire(const kernel& k, std::byte* dst, const std::byte* wire, std::size_t count) { k.from_wire(dst, wire, count); }

  /// To what the wire can carry, in place.
  static void round(const kernel& k, std::byte* data, std::size_t count) {
    std::byte wire[4096];
    const auto most = std::max<std::size_t>(sizeof wire / k.wire_bytes, 1);
    for (std::size_t i = 0; i < count; i += most) {
      auto* const some = data + i * k.element_bytes;
      k.to_wire(wire, some, some, std::min(most, count - i));
    }
  }
};

template <class T>
auto hands_of(const T& transport) {
  if constexpr (requires { transport.hands(); }) return transport.hands();
  else return host_hands{};
}
template <class T>
using hands_for = decltype(hands_of(std::declval<const T&>()));

/// The kernel that the hands of a transport work with. Refers to `op`.
template <class Wire, Element T, class Op>
kernel kernel_for(const Op& op) {
  if constexpr (requires { hands_for<Wire>::template make_kernel<T>(op); }) return hands_for<Wire>::template make_kernel<T>(op);
  else return kolo::make_kernel<T>(op);
}

}  // namespace kolo::inline v0::detail
