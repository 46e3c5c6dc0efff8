// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The optional members of a transport: a concept for each ability, of which abilities.hpp makes a list.
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

/// Ability `shrink`, `shrink(timeout)`: collective over the surviving ranks: as `split`, of them alone
template <class T>
concept Shrinkable = Transport<T> && requires(T t, std::chrono::nanoseconds timeout) {
  requires std::constructible_from<T, decltype(t.shrink(timeout))>;
};
/// Ability `grow`, `grow(meeting, newcomers, timeout)`: collective: as `split`, of all ranks and of this many newcomers
/// that come to the meeting of that name, numbered after the members
template <class T>
concept Growable = requires(T& t, std::string_view meeting, int newcomers, std::chrono::nanoseconds timeout) {
  requires std::constructible_from<T, decltype(t.grow(meeting, newcomers, timeout))>;
};
/// Ability `flush`, `flush()`: wakes the peers that sleep waiting for data that this rank has sent
template <class T>
concept Flushable = requires(T& t) {
  t.flush();
};
/// Ability `checks`, `is_checked()`: constant, equal on all ranks: calls are compared before data moves
template <class T>
concept ChecksCalls = requires(const T& t) {
  { t.is_checked() } -> std::convertible_to<bool>;
};
/// Ability `recorder`, `recorder(r)`: the flight recorder of rank r; null: this rank cannot see it
template <class T>
concept Observable = requires(const T& t, int r) {
  t.recorder(r);
};
/// Ability `exits`, `is_gone(r, awaited)`: whether r has ended; or left, if it is the awaited rank
template <class T>
concept SeesExits = requires(const T& t, int r) {
  { t.is_gone(r, r) } -> std::convertible_to<bool>;
};
/// Ability `identity`, `who(r)`: the identity of rank r, the same on other communicators over such a transport
template <class T>
concept Identifiable = requires(const T& t, int r) {
  { t.who(r) } -> std::same_as<rank_identity>;
};
/// Ability `lending`, `buffers_in_use()`: after a failure: pieces of this rank's buffers that a peer may still use
template <class T>
concept LendsBuffers = requires(T& t) {
  { t.buffers_in_use() } -> std::convertible_to<std::size_t>;
};
/// Ability `tuning`, `tuning()`: the cost of a round, a message and a byte, the same on all ranks; null: not known
template <class T>
concept Tuned = requires(const T& t) {
  requires std::is_pointer_v<decltype(t.tuning())>;
};
/// Ability `nodes`, `nodes()`: for each rank the number of its node; the same on all ranks
template <class T>
concept NodeAware = requires(T& t) {
  { t.nodes() } -> std::convertible_to<std::vector<int>>;
};
/// Ability `oversubscription`, `is_oversubscribed()`: whether ranks share cores
template <class T>
concept SeesOversubscription = requires(const T& t) {
  { t.is_oversubscribed() } -> std::convertible_to<bool>;
};
/// Ability `clock`, `now()`: seconds by the transport's own clock, if that is not the host's
template <class T>
concept SelfClocked = requires(const T& t) {
  { t.now() } -> std::convertible_to<double>;
};
/// Ability `options`, `begin(options)`: called when an operation with these options begins; throws a failure to a rank
/// that never waits
template <class T>
concept TakesOptions = requires(T& t, const typename T::options& o) {
  t.begin(o);
};
/// Ability `pipeline`, `pieces_at_once()`: 1 or 2, equal on all ranks; 2, also without the ability: messages progress
/// by themselves while a rank combines
template <class T>
concept Pipelined = requires(const T& t) {
  { t.pieces_at_once() } -> std::convertible_to<std::size_t>;
};
/// Ability `runs`, `add_run(data, bytes)`, `shortest_run()`: the next message consists of several runs of memory, at
/// least this long on average
template <class T>
concept TakesRuns = requires(T& t, const std::byte* data, std::size_t bytes) {
  t.add_run(data, bytes);
  { t.shortest_run() } -> std::convertible_to<std::size_t>;
};
/// Ability `capture`, `captured_messages`: a type: work put on its stream can be captured in it and replayed
template <class T>
concept Capturable = requires {
  typename T::captured_messages;
};
/// Ability `executor`, `executor()`: copies and combines elements that do not lie in the host's memory
template <class T>
concept HasExecutor = requires(const T& t) {
  t.executor();
};
/// Ability `host_transport`, `host_transport()`: the transport for bytes of the host, if its views are of a device
template <class T>
concept HasHostTransport = requires(T& t) {
  t.host_transport();
};
/// Ability `token`, `token()`: a byte in the memory of its views, for `barrier`
template <class T>
concept HasToken = requires(T& t) {
  { t.token() } -> std::convertible_to<std::byte*>;
};
/// Ability `heap`, `heap()`: memory that peers address
template <class T>
concept HasHeap = requires(T& t) {
  t.heap();
};
/// Ability `board`, of a SharedMemoryTransport: pieces that all others read, at most `board_bytes()` long, which is
/// constant and equal on all ranks. In each call on boards either all ranks post one, or one rank does:
/// `reserve_board(bytes, behind)` returns its place, null as long as rank `behind` has not read the piece that lies
/// there, `post_on_board(bytes, tag)` posts it, also with 0 bytes, `peek_board(peer)` returns a peer's, and
/// `end_board(all_posted)` follows when it is read, or posted by this rank alone
template <class T>
concept HasBoard = SharedMemoryTransport<T> && requires(T& t, const T& c, int peer, std::size_t n, std::uint64_t tag) {
  { c.board_bytes() } -> std::same_as<std::size_t>;
  { t.reserve_board(n, peer) } -> std::same_as<std::byte*>;
  t.post_on_board(n, tag);
  { t.peek_board(peer) } -> std::same_as<received_slot>;
  t.end_board(true);
};
/// Ability `refusal`, `refusal(args)`: a sentence on why it cannot take the views of this call; empty: it can
template <class T>
concept RefusesCalls = requires(T& t, collective_args& args) {
  { t.refusal(args) } -> std::same_as<std::string>;
};
/// Ability `device`, `make_current()`: while what it returns lives, the calling thread's current device is the one that
/// the transport works on
template <class T>
concept WorksOnDevice = requires(const T& t) {
  t.make_current();
};
/// Ability `search`, `rank_of(identity)`: the rank with that identity, faster than by `who` of each; -1: none
template <class T>
concept FindsRanks = requires(const T& t, const rank_identity& who) {
  { t.rank_of(who) } -> std::same_as<int>;
};

// For transports that the library composes of two.

/// Ability `turns`, `acquire_turn(sequence)`: called before each operation; it may change the number of the last one
template <class T>
concept TakesTurns = requires(T& t, std::uint64_t& sequence) {
  { t.acquire_turn(sequence) } -> std::same_as<void>;
};
/// Ability `common_failure`, `adopt_first_failure(f)`: the failure thrown here becomes the first failure of both
template <class T>
concept AdoptsFailures = requires(const T& t, failure& f) {
  { t.adopt_first_failure(f) } -> std::same_as<void>;
};
/// Ability `comparison`, `compare(call, signature, timeout)`: in checked mode, another communicator compares the call
template <class T>
concept ComparesCalls = requires(T& t, const detail::execute::call_signature& s, std::chrono::nanoseconds timeout) {
  { t.compare("", s, timeout) } -> std::same_as<void>;
};

}  // namespace kolo::inline KOLO_ABI
