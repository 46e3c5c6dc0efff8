// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a transport lists the abilities that it means to have, and hears from the compiler where it does not.
#pragma once

#include <kolo/transport/ability_concepts.hpp>

#include <chrono>
#include <cstddef>

namespace kolo::inline KOLO_ABI {

/// What `abilities` lists: for each a name, and whether T has it.
namespace ability {
/// Of a transport that can go on without ranks that have died.
struct shrink {  // also where what it returns is a base of T, which inherits the list
  template <class T>
  static constexpr bool met = requires(T& t, std::chrono::nanoseconds timeout) {
    t.shrink(timeout);
  };
};
/// Of a transport that other ranks can join.
struct grow {  // as shrink
  template <class T>
  static constexpr bool met = requires(T& t, std::string_view meeting, std::chrono::nanoseconds timeout) {
    t.grow(meeting, 1, timeout);
  };
};
/// Of a transport whose sends wake nobody by themselves.
struct flush {
  template <class T>
  static constexpr bool met = Flushable<T>;
};
/// Of a transport that can be told to compare calls.
struct checks {
  template <class T>
  static constexpr bool met = ChecksCalls<T>;
};
/// Of a transport whose ranks see what others did last.
struct recorder {
  template <class T>
  static constexpr bool met = Observable<T>;
};
/// Of a transport that sees when a peer ends.
struct exits {
  template <class T>
  static constexpr bool met = SeesExits<T>;
};
/// Of a transport that knows its ranks on other communicators, too.
struct identity {
  template <class T>
  static constexpr bool met = Identifiable<T>;
};
/// Of a transport to whose users' buffers peers write.
struct lending {
  template <class T>
  static constexpr bool met = LendsBuffers<T>;
};
/// Of a transport that comes with a table of its costs.
struct tuning {
  template <class T>
  static constexpr bool met = Tuned<T>;
};
/// Of a transport that knows which ranks are near.
struct nodes {
  template <class T>
  static constexpr bool met = NodeAware<T>;
};
/// Of a transport that sees when ranks share cores.
struct oversubscription {
  template <class T>
  static constexpr bool met = SeesOversubscription<T>;
};
/// Of a transport with a clock of its own.
struct clock {
  template <class T>
  static constexpr bool met = SelfClocked<T>;
};
/// Of a transport with options for each call.
struct options {
  template <class T>
  static constexpr bool met = TakesOptions<T>;
};
/// Of a transport that says how many pieces are under way at once.
struct pipeline {
  template <class T>
  static constexpr bool met = Pipelined<T>;
};
/// Of a transport that sends runs of memory without packing them.
struct runs {
  template <class T>
  static constexpr bool met = TakesRuns<T>;
};
/// Of a transport of a device whose work can be captured.
struct capture {
  template <class T>
  static constexpr bool met = Capturable<T>;
};
/// Of a transport whose elements lie in a device's memory.
struct executor {
  template <class T>
  static constexpr bool met = HasExecutor<T>;
};
/// Of a transport that carries the host's bytes over another one.
struct host_transport {
  template <class T>
  static constexpr bool met = HasHostTransport<T>;
};
/// Of a transport whose barrier needs a byte of its memory.
struct token {
  template <class T>
  static constexpr bool met = HasToken<T>;
};
/// Of a transport that hands out memory which peers address.
struct heap {
  template <class T>
  static constexpr bool met = HasHeap<T>;
};
/// Of a transport with a place for each rank where all others read.
struct board {
  template <class T>
  static constexpr bool met = HasBoard<T>;
};
/// Of a transport that cannot take every view.
struct refusal {
  template <class T>
  static constexpr bool met = RefusesCalls<T>;
};
/// Of a transport that finds a rank by its identity.
struct search {
  template <class T>
  static constexpr bool met = FindsRanks<T>;
};
/// Of a transport whose operations alternate with another one's.
struct turns {
  template <class T>
  static constexpr bool met = TakesTurns<T>;
};
/// Of a transport that fails together with another one.
struct common_failure {
  template <class T>
  static constexpr bool met = AdoptsFailures<T>;
};
/// Of a transport that has calls compared elsewhere.
struct comparison {
  template <class T>
  static constexpr bool met = ComparesCalls<T>;
};
}  // namespace ability

/// A transport has an ability when it has its members. A member whose name or type is not quite right is simply not
/// there, and nobody would know; so a transport lists what it means to have, and its communicator does not compile
/// where a listed ability is not met:
///
///     struct my_transport {
///       using abilities = kolo::abilities<kolo::ability::shrink, kolo::ability::pipeline>;
template <class... A>
struct abilities {
  template <class T>
  static constexpr bool are_met_by = (A::template met<T> && ...);
};

namespace detail::transport {

template <class T, class A>
struct listed {
  static_assert(A::template met<T>,
                "kolo: this transport lists an ability that it does not have: a member is missing, or has another "
                "name or type than the ability's concept in kolo/transport/ability_concepts.hpp asks for");
  static constexpr bool is_there = true;
};
template <class T, class... A>
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

/// Seconds, by the clock that the transport lives by.
template <class T>
double seconds_now(const T& transport) {
  if constexpr (SelfClocked<T>) return transport.now();
  else return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Of a transport that lends memory.
template <class T>
std::size_t buffers_in_use(T& transport) {
  if constexpr (LendsBuffers<T>) return transport.buffers_in_use();
  else return 0;
}

}  // namespace detail::transport
}  // namespace kolo::inline KOLO_ABI
