// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a transport may be able to do besides: a concept for each ability.
#pragma once

#include <kolo/transport/transport.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {
struct collective_args;
namespace detail::execute {
struct call_signature;
}

/// How a transport lists those that it has: abilities.hpp.
///
/// * `shrink` (`Shrinkable`), `shrink(timeout)`: collective over those that are left: as `split`, of them alone
/// * `grow` (`Growable`), `grow(meeting, newcomers, timeout)`: collective: as `split`, of all ranks and of so many that
///   come to the meeting of that name, behind them
/// * `flush` (`Flushable`), `flush()`: wakes whoever sleeps for what this rank has sent
/// * `checks` (`ChecksCalls`), `is_checked()`: constant, equal on all ranks: calls are compared before data moves
/// * `recorder` (`Observable`), `recorder(r)`: where rank r writes down what it does; null: this rank cannot see it
/// * `exits` (`SeesExits`), `is_gone(r, awaited)`: has r ended; or left, if it is the awaited rank?
/// * `identity` (`Identifiable`), `who(r)`: who rank r is, also on other communicators over such a transport
/// * `lending` (`LendsBuffers`), `buffers_in_use()`: after a failure: pieces of this rank's buffers that a peer may
///   still write to
/// * `tuning` (`Tuned`), `tuning()`: what a round, a message and a byte cost, the same on all ranks; null: not known
/// * `nodes` (`NodeAware`), `nodes()`: for each rank the number of its node; the same on all ranks
/// * `oversubscription` (`SeesOversubscription`), `is_oversubscribed()`: do ranks share cores?
/// * `clock` (`SelfClocked`), `now()`: seconds by the clock that this transport lives by, where that is not the host's
/// * `options` (`TakesOptions`), `begin(options)`: called when an operation with these options begins; here a rank that
///   never waits hears of a failure
/// * `pipeline` (`Pipelined`), `pieces_at_once()`: 1 or 2, equal on all ranks; 2, as without it: messages go on by
///   themselves while a rank combines
/// * `runs` (`TakesRuns`), `add_run(data, bytes)`, `shortest_run()`: the next message lies in several runs of memory,
///   so long on average
/// * `capture` (`Capturable`), `captured_messages`: a type: what was put on its stream can be put there again
/// * `executor` (`HasExecutor`), `executor()`: copies and combines elements that do not lie in the host's memory
/// * `host_transport` (`HasHostTransport`), `host_transport()`: where bytes of the host travel, if its views are of a
///   device
/// * `token` (`HasToken`), `token()`: a byte in the memory of its views, for `barrier`
/// * `heap` (`HasHeap`), `heap()`: memory that peers address
/// * `board` (`HasBoard`), of a SharedMemoryTransport: pieces that all others read, as long as `board_bytes()` at most,
///   constant and equal on all ranks. By turns all ranks post one, or one rank does: `reserve_board(bytes, behind)`
///   where it goes, null as long as rank `behind` has not read what lies there, `post_on_board(bytes, tag)`, of 0
///   bytes, too, `peek_board(peer)`, and, when it is read, or posted by this rank alone, `end_board(all_posted)`
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
  requires std::constructible_from<T, decltype(t.shrink(timeout))>;
};
/// Ability `grow`.
template <class T>
concept Growable = requires(T& t, std::string_view meeting, int newcomers, std::chrono::nanoseconds timeout) {
  requires std::constructible_from<T, decltype(t.grow(meeting, newcomers, timeout))>;
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
/// Ability `oversubscription`.
template <class T>
concept SeesOversubscription = requires(const T& t) {
  { t.is_oversubscribed() } -> std::convertible_to<bool>;
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
/// Ability `capture`.
template <class T>
concept Capturable = requires {
  typename T::captured_messages;
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
/// Ability `board`.
template <class T>
concept HasBoard = SharedMemoryTransport<T> && requires(T& t, const T& c, int peer, std::size_t n, std::uint64_t tag) {
  { c.board_bytes() } -> std::same_as<std::size_t>;
  { t.reserve_board(n, peer) } -> std::same_as<std::byte*>;
  t.post_on_board(n, tag);
  { t.peek_board(peer) } -> std::same_as<received_slot>;
  t.end_board(true);
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

}  // namespace kolo::inline KOLO_ABI
