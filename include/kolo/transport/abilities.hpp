// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a transport may be able to do besides: a concept for each ability, and how a transport lists those that it has.
#pragma once

#include <kolo/transport/transport.hpp>

#include <concepts>
#include <string>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {
struct collective_args;
namespace detail::execute {
struct call_signature;
}

/// A transport has an ability when it has its members. A member whose name or type is not quite right is simply not
/// there, and nobody would know; so a transport lists what it means to have, and its communicator does not compile
/// where a listed ability is not met:
///
///     struct my_transport {
///       using abilities = kolo::abilities<kolo::ability::shrink, kolo::ability::pipeline>;
///
/// * `shrink` (`Shrinkable`), `shrink(timeout)`: collective over those that are left: as `split`, of them alone
/// * `flush` (`Flushable`), `flush()`: wakes whoever sleeps for what this rank has sent
/// * `checks` (`ChecksCalls`), `is_checked()`: constant, equal on all ranks: calls are compared before data moves
/// * `recorder` (`Observable`), `recorder(r)`: where rank r writes down what it does; null: this rank cannot see it
/// * `exits` (`SeesExits`), `is_gone(r, awaited)`: has r ended; or left, if it is the awaited rank?
/// * `identity` (`Identifiable`), `who(r)`: who rank r is, also on other communicators over such a transport
/// * `lending` (`LendsBuffers`), `buffers_in_use()`: after a failure: pieces of this rank's buffers that a peer may
///   still write to
/// * `tuning` (`Tuned`), `tuning()`: what a round, a message and a byte cost, the same on all ranks; null: not known
/// * `nodes` (`NodeAware`), `nodes()`: for each rank the number of its node; the same on all ranks
/// * `crowding` (`SeesCrowding`), `is_crowded()`: do ranks share cores?
/// * `clock` (`SelfClocked`), `now()`: seconds by the clock that this transport lives by, where that is not the host's
/// * `options` (`TakesOptions`), `begin(options)`: called when an operation with these options begins; here a rank that
///   never waits hears of a failure
/// * `pipeline` (`Pipelined`), `pieces_at_once()`: 1 or 2, equal on all ranks; 2, as without it: messages go on by
///   themselves while a rank combines
/// * `runs` (`TakesRuns`), `add_run(data, bytes)`, `shortest_run()`: the next message lies in several runs of memory,
///   so long on average
/// * `recording` (`Capturable`), `recording`: a type: what was put on its stream can be put there again
/// * `executor` (`HasExecutor`), `executor()`: copies and combines elements that do not lie in the host's memory
/// * `host_transport` (`HasHostTransport`), `host_transport()`: where bytes of the host travel, if its views are of a
///   device
/// * `token` (`HasToken`), `token()`: a byte in the memory of its views, for `barrier`
/// * `heap` (`HasHeap`), `heap()`: memory that peers address
/// * `refusal` (`RefusesCalls`), `refusal(args)`: what is wrong with the views of this call, in a sentence; empty:
///   nothing
/// * `search` (`FindsRanks`), `rank_of(identity)`: which rank that is here, sooner than by `who` of each; -1: none
///
/// For what the library makes of two transports:
/// * `turns` (`TakesTurns`), `acquire_turn(sequence)`: before each operation; it may change the number of the last one
/// * `common_failure` (`AdoptsFailures`), `adopt_first_failure(f)`: what was thrown here becomes the first failure of
///   both
/// * `comparison` (`ComparesCalls`), `compare(call, signature, timeout)`: in checked mode, by another communicator
template <class T>
concept Shrinkable = Transport<T> && requires(T t, std::chrono::nanoseconds timeout) {
  { t.shrink(timeout) } -> std::same_as<T>;
};
/// Ability `flush`.
template <class T>
concept Flushable = requires(T& t) {
  t.flush();
};
/// Ability `checks`.
template <class T>
concept ChecksCalls = requires(const T& t) {
  { t.is_checked() } -> std::convertible_to<bool>;
};
/// Ability `recorder`.
template <class T>
concept Observable = requires(const T& t, int r) {
  t.recorder(r);
};
/// Ability `exits`.
template <class T>
concept SeesExits = requires(const T& t, int r) {
  { t.is_gone(r, r) } -> std::convertible_to<bool>;
};
/// Ability `identity`.
template <class T>
concept Identifiable = requires(const T& t, int r) {
  { t.who(r) } -> std::same_as<rank_identity>;
};
/// Ability `lending`.
template <class T>
concept LendsBuffers = requires(T& t) {
  { t.buffers_in_use() } -> std::convertible_to<std::size_t>;
};
/// Ability `tuning`.
template <class T>
concept Tuned = requires(const T& t) {
  requires std::is_pointer_v<decltype(t.tuning())>;
};
/// Ability `nodes`.
template <class T>
concept NodeAware = requires(T& t) {
  { t.nodes() } -> std::convertible_to<std::vector<int>>;
};
/// Ability `crowding`.
template <class T>
concept SeesCrowding = requires(const T& t) {
  { t.is_crowded() } -> std::convertible_to<bool>;
};
/// Ability `clock`.
template <class T>
concept SelfClocked = requires(const T& t) {
  { t.now() } -> std::convertible_to<double>;
};
/// Ability `options`.
template <class T>
concept TakesOptions = requires(T& t, const typename T::options& o) {
  t.begin(o);
};
/// Ability `pipeline`.
template <class T>
concept Pipelined = requires(const T& t) {
  { t.pieces_at_once() } -> std::convertible_to<std::size_t>;
};
/// Ability `runs`.
template <class T>
concept TakesRuns = requires(T& t, const std::byte* data, std::size_t bytes) {
  t.add_run(data, bytes);
  { t.shortest_run() } -> std::convertible_to<std::size_t>;
};
/// Ability `recording`.
template <class T>
concept Capturable = requires {
  typename T::recording;
};
/// Ability `executor`.
template <class T>
concept HasExecutor = requires(const T& t) {
  t.executor();
};
/// Ability `host_transport`.
template <class T>
concept HasHostTransport = requires(T& t) {
  t.host_transport();
};
/// Ability `token`.
template <class T>
concept HasToken = requires(T& t) {
  { t.token() } -> std::convertible_to<std::byte*>;
};
/// Ability `heap`.
template <class T>
concept HasHeap = requires(T& t) {
  t.heap();
};
/// Ability `refusal`.
template <class T>
concept RefusesCalls = requires(T& t, collective_args& args) {
  { t.refusal(args) } -> std::same_as<std::string>;
};
/// Ability `search`.
template <class T>
concept FindsRanks = requires(const T& t, const rank_identity& who) {
  { t.rank_of(who) } -> std::same_as<int>;
};
/// Ability `turns`.
template <class T>
concept TakesTurns = requires(T& t, std::uint64_t& sequence) {
  { t.acquire_turn(sequence) } -> std::same_as<void>;
};
/// Ability `common_failure`.
template <class T>
concept AdoptsFailures = requires(const T& t, failure& f) {
  { t.adopt_first_failure(f) } -> std::same_as<void>;
};
/// Ability `comparison`.
template <class T>
concept ComparesCalls = requires(T& t, const detail::execute::call_signature& s, std::chrono::nanoseconds timeout) {
  { t.compare("", s, timeout) } -> std::same_as<void>;
};

/// What `abilities` lists: for each a name, and whether T has it.
namespace ability {
/// Of a transport that can go on without ranks that have died.
struct shrink {  // also where what it returns is a base of T, which inherits the list
  template <class T>
  static constexpr bool met = requires(T& t, std::chrono::nanoseconds timeout) {
    t.shrink(timeout);
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
struct crowding {
  template <class T>
  static constexpr bool met = SeesCrowding<T>;
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
/// Of a transport of a device whose work can be recorded.
struct recording {
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

/// The list of abilities that a transport means to have: `using abilities = kolo::abilities<kolo::ability::shrink>;`
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
                "name or type than the ability's concept in kolo/transport/abilities.hpp asks for");
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

/// Of a transport that lends memory.
template <class T>
std::size_t buffers_in_use(T& transport) {
  if constexpr (LendsBuffers<T>) return transport.buffers_in_use();
  else return 0;
}

}  // namespace detail::transport
}  // namespace kolo::inline KOLO_ABI
