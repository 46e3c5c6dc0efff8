// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a transport lists the abilities that it intends to have, and how the compiler rejects a list that is not met.
#pragma once

#include <kolo/transport/ability_concepts.hpp>

#include <chrono>
#include <cstddef>

namespace kolo::inline KOLO_ABI {

/// The names that `abilities` lists: what a transport can do besides its concept.
enum class ability {
  shrink,            ///< can continue without ranks that have died
  grow,              ///< other ranks can join
  flush,             ///< its sends do not wake peers by themselves
  checks,            ///< can be set to compare calls
  recorder,          ///< its ranks see the last operations of others
  exits,             ///< detects when a peer ends
  identity,          ///< identifies its ranks on other communicators, too
  lending,           ///< peers write to its users' buffers
  tuning,            ///< has a table of its costs
  nodes,             ///< knows which ranks are near
  oversubscription,  ///< detects when ranks share cores
  clock,             ///< has a clock of its own
  options,           ///< has options for each call
  pipeline,          ///< specifies how many pieces are in flight at once
  runs,              ///< sends runs of memory without packing them
  capture,           ///< is of a device, and its work can be captured
  executor,          ///< its elements lie in a device's memory
  host_transport,    ///< carries the host's bytes over another one
  token,             ///< its barrier needs a byte of its memory
  heap,              ///< allocates memory that peers address
  board,             ///< has a place for each rank where all others read
  refusal,           ///< cannot take every view
  device,            ///< works on a device, which must be the thread's current one
  search,            ///< finds a rank by its identity
  turns,             ///< its operations alternate with another one's
  common_failure,    ///< fails together with another one
  comparison,        ///< has calls compared elsewhere
};

namespace detail::transport {
/// Has T this ability?
template <ability A, class T>
constexpr bool is_met() {
  // These two also where what they return is a base of T, which inherits the list.
  if constexpr (A == ability::shrink) return requires(T & t, std::chrono::nanoseconds timeout) {
      t.shrink(timeout);
    };
  if constexpr (A == ability::grow) return requires(T & t, std::string_view meeting, std::chrono::nanoseconds timeout) {
      t.grow(meeting, 1, timeout);
    };
  if constexpr (A == ability::flush) return Flushable<T>;
  if constexpr (A == ability::checks) return ChecksCalls<T>;
  if constexpr (A == ability::recorder) return Observable<T>;
  if constexpr (A == ability::exits) return SeesExits<T>;
  if constexpr (A == ability::identity) return Identifiable<T>;
  if constexpr (A == ability::lending) return LendsBuffers<T>;
  if constexpr (A == ability::tuning) return Tuned<T>;
  if constexpr (A == ability::nodes) return NodeAware<T>;
  if constexpr (A == ability::oversubscription) return SeesOversubscription<T>;
  if constexpr (A == ability::clock) return SelfClocked<T>;
  if constexpr (A == ability::options) return TakesOptions<T>;
  if constexpr (A == ability::pipeline) return Pipelined<T>;
  if constexpr (A == ability::runs) return TakesRuns<T>;
  if constexpr (A == ability::capture) return Capturable<T>;
  if constexpr (A == ability::executor) return HasExecutor<T>;
  if constexpr (A == ability::host_transport) return HasHostTransport<T>;
  if constexpr (A == ability::token) return HasToken<T>;
  if constexpr (A == ability::heap) return HasHeap<T>;
  if constexpr (A == ability::board) return HasBoard<T>;
  if constexpr (A == ability::refusal) return RefusesCalls<T>;
  if constexpr (A == ability::device) return WorksOnDevice<T>;
  if constexpr (A == ability::search) return FindsRanks<T>;
  if constexpr (A == ability::turns) return TakesTurns<T>;
  if constexpr (A == ability::common_failure) return AdoptsFailures<T>;
  if constexpr (A == ability::comparison) return ComparesCalls<T>;
}
}  // namespace detail::transport

/// A transport has an ability when it has its members. A member with a slightly wrong name or type is silently absent;
/// so a transport lists the abilities it intends to have, and its communicator does not compile if a listed one is not
/// met:
///
///     struct my_transport {
///       using abilities = kolo::abilities<kolo::ability::shrink, kolo::ability::pipeline>;
template <ability... A>
struct abilities {
  template <class T>
  static constexpr bool are_met_by = (detail::transport::is_met<A, T>() && ...);
};

namespace detail::transport {

template <class T, ability A>
struct listed {
  static_assert(is_met<A, T>(),
                "kolo: this transport lists an ability that it does not have: a member is missing, or has another name "
                "or type than the ability's concept in kolo/transport/ability_concepts.hpp requires");
  static constexpr bool is_there = true;
};
template <class T, ability... A>
constexpr bool check_abilities(abilities<A...>*) {
  return (true && ... && listed<T, A>::is_there);
}
/// True, or it does not compile.
template <class T>
constexpr bool has_what_it_lists() {
  if constexpr (requires { typename T::abilities; })
    return check_abilities<T>(static_cast<typename T::abilities*>(nullptr));
  else return true;
}

/// Seconds, by the transport's clock.
template <class T>
double seconds_now(const T& transport) {
  if constexpr (SelfClocked<T>) return transport.now();
  else return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// 0 for a transport that lends no memory.
template <class T>
std::size_t buffers_in_use(T& transport) {
  if constexpr (LendsBuffers<T>) return transport.buffers_in_use();
  else return 0;
}

/// 2 for a transport that does not specify it.
template <class T>
std::size_t pieces_at_once(const T& transport) {
  if constexpr (Pipelined<T>) return transport.pieces_at_once();
  else return 2;
}

}  // namespace detail::transport
}  // namespace kolo::inline KOLO_ABI
