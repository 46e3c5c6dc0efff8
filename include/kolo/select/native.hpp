// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport's own collective instead of a schedule, such as MPI's over MPI.
#pragma once

#include <kolo/execute/collective_args.hpp>
#include <kolo/reduce/operators.hpp>
#include <kolo/reduce/traits.hpp>
#include <kolo/schedule/automatic.hpp>

#include <climits>

namespace kolo::inline KOLO_ABI {

/// The collective of the communication library under the communicator, as an algorithm: `kolo::allreduce(comm, x,
/// kolo::sum, kolo::native{})`; blocking, started or planned. Over NCCL: see cuda/nccl/nccl.hpp. Over MPI
/// (mpi/mpi.hpp): every collective of at most 2^31 - 1 bytes; reductions of the integers and floating-point numbers of
/// the language, with `sum product min max average bit_and bit_or bit_xor`. Other element types and operators do not
/// compile.
///
/// `automatic` selects it as well, if it is predicted to be faster and can neither change promised bits nor lose a NaN,
/// which `min` and `max` of kolo propagate. Order and bits are that library's. Calls are compared between ranks only if
/// these are `checked`. It cannot be cancelled: after a failure it may still access the buffers.
struct native {};

/// Specialised for transports with collectives of their own:
///
/// * `has<K, T, Op>()`: whether it supports K of elements T with Op (an operator, or `none`)
/// * `start<K, T, Op>()`: returns the function that starts it and writes its ticket
/// * `refusal(args, rank, size)`: optional: returns why it cannot take these views; null: it can
/// * `finishes`: optional: true if it applies the operator's `finish`, such as the division of a mean
/// * `keeps_order`: optional: true if its reductions combine in the order of the ranks, and round as kolo does
/// * `comes_first`: optional: true if `automatic` selects it wherever possible, without known times and whatever its
///   order of combination; see `automatic`
/// * `is_to_be_had(transport)`: optional: false if this transport, on all its ranks, cannot use any of them
/// * `most_bytes`: optional: the longest vector; 2^31 - 1 by default
template <class Transport>
struct native_of {};

namespace detail::select {

template <class A>
concept Native = std::same_as<std::remove_cv_t<A>, native>;

template <class Transport>
concept HasNative = requires {
  { native_of<Transport>::template has<kind::barrier, char, char>() } -> std::same_as<bool>;
};

template <class Transport>
concept KeepsOrder = bool{native_of<Transport>::keeps_order};
template <class Transport>
concept NativeFinishes = bool{native_of<Transport>::finishes};
template <class Transport>
concept ComesFirst = bool{native_of<Transport>::comes_first};
template <class Transport>
bool is_native_available([[maybe_unused]] const Transport& transport) {
  if constexpr (requires { native_of<Transport>::is_to_be_had(transport); })
    return native_of<Transport>::is_to_be_had(transport);
  else return HasNative<Transport>;
}
template <class Transport>
inline constexpr std::size_t most_native_bytes = INT_MAX;
template <class Transport>
  requires requires { native_of<Transport>::most_bytes; }
inline constexpr std::size_t most_native_bytes<Transport> = native_of<Transport>::most_bytes;

/// Whether MPI and NCCL may lose a NaN that kolo propagates.
template <class Op, class T>
inline constexpr bool may_lose_nan = !std::integral<T> && (std::same_as<Op, min_t> || std::same_as<Op, max_t>);

/// Whether `automatic` may select it for these elements and this operator.
template <kind K, class T, class Op, order::value Allowed, class TransportType, bool Strict = false>
constexpr bool may_be_native() {
  if constexpr (!HasNative<TransportType>) return false;
  else
    return native_of<TransportType>::template has<K, T, Op>() &&
           (!schedule::reduces(K) ||
            (KeepsOrder<TransportType> && (Allowed == order::any || Allowed == order::fixed_for_size)) ||
            (!may_lose_nan<Op, T> &&
             (Allowed == order::any || (ComesFirst<TransportType> && !Strict && Allowed == order::fixed_for_size))) ||
            (std::integral<T> && is_exact<Op, T>));
}

}  // namespace detail::select

/// A decorator names the transport that it decorates: `using decorated = TransportType`.
template <class Decorator>
  requires detail::select::HasNative<typename Decorator::decorated>
struct native_of<Decorator> : native_of<typename Decorator::decorated> {
  using TransportType = typename Decorator::decorated;
  template <kind K, class T, class Op>
  static constexpr auto start() {
    return [](void* transport, const collective_args& args, void* ticket) {
      native_of<TransportType>::template start<K, T, Op>()(
          static_cast<TransportType*>(static_cast<Decorator*>(transport)), args, ticket);
    };
  }
};

namespace detail::select {

template <class Transport, kind K, class T, class Op>
constexpr auto native_start() {
  constexpr bool has_any = requires { native_of<Transport>::template start<K, T, Op>(); };
  static_assert(has_any,
                "kolo: kolo::native selects the transport's own collectives, and this transport has none: name an "
                "algorithm, or use kolo::mpi::communicator");
  if constexpr (has_any) {
    constexpr bool has_this = native_of<Transport>::template has<K, T, Op>();
    static_assert(has_this,
                  "kolo: the transport has no collective of its own for this element type and operator: name an "
                  "algorithm of kolo, which takes any");
    if constexpr (has_this) return native_of<Transport>::template start<K, T, Op>();
    else return nullptr;
  } else {
    return nullptr;
  }
}

}  // namespace detail::select
}  // namespace kolo::inline KOLO_ABI
