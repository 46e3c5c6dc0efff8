// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concept of a transport: its ranks, how bytes reach another rank, and how a rank waits and fails.
#pragma once

#include <kolo/core/copy.hpp>
#include <kolo/core/error.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI {

/// The node of a rank: ranks on the same host (or in a group of ranks that acts as a host) share a node.
struct placement {
  int local_rank = 0, local_size = 1;
  int node_rank = 0, node_count = 1;
};

/// What a rank is doing while it waits: goes into the error if the wait ends badly.
struct wait_context {
  const char* operation = "";                 ///< its name
  std::uint64_t sequence = 0;                 ///< its number on the communicator
  int round = -1;                             ///< of the algorithm
  int peer = -1;                              ///< the rank waited for
  std::chrono::nanoseconds timeout{};         ///< from the first read of the clock
  origin found_in = origin::call;             ///< of its failures
  bool is_point_to_point = false;             ///< numbered per pair of ranks, not per communicator
  bool only_sends = false;                    ///< data from that peer meanwhile is for a later call
  const wait_context* deadline_of = nullptr;  ///< the later call whose shorter timeout applies

  /// Its number among the calls of all ranks; 0: it has none.
  std::uint64_t number_for_all() const { return is_point_to_point ? 0 : sequence; }
  /// The same with another awaited rank.
  wait_context with_peer(int rank) const {
    wait_context same = *this;
    same.peer = rank;
    return same;
  }
};

namespace detail::transport {
/// The call that this thread is in: for failures found where no context is passed, as in `done`.
constinit inline thread_local const wait_context* current_call = nullptr;
}  // namespace detail::transport

/// The failure that `rank` found while it waited, with the fields of the wait_context; if that names no operation,
/// those of this thread's current call. A timeout is reported for the call that has the deadline, and the text names
/// the operation that precedes it.
[[gnu::cold, gnu::noinline]] inline failure failure_from(const wait_context& found_in, errc code, int rank,
                                                         std::chrono::nanoseconds waited, std::string_view text) {
  const auto* const call = *found_in.operation == '\0' ? detail::transport::current_call : nullptr;
  const wait_context s = call ? call->with_peer(found_in.peer) : found_in;
  failure f{.code = code,
            .found_in = s.found_in,
            .rank = rank,
            .peer = s.peer,
            .round = s.round,
            .sequence = s.sequence,
            .waited_ns = waited.count(),
            .operation = s.operation,
            .text = text};
  if (code != errc::timeout || !s.deadline_of) return f;
  f.round = -1;
  f.sequence = s.deadline_of->sequence;
  f.operation = std::string_view{s.deadline_of->operation};
  f.text = detail::core::text_of({text, "; ", s.operation, " #", s.sequence, " comes before it, and has not ended"});
  return f;
}

/// The state of a wait. The waiting code sets `tests` and `nap`; the rest belongs to the transport. Each wait begins
/// with a fresh one.
struct backoff {
  using clock = std::chrono::steady_clock;

  int polls = 0;            ///< fruitless ones, since something happened
  int tests = 0;            ///< of them, in a loop of the caller
  int spins = 0;            ///< of them, before it yields
  std::uint32_t epoch = 0;  ///< of the eventcount when this rank prepared to wait
  bool suspicious = false;  ///< a peer is gone; one more poll of what it left decides
  bool excused = false;     ///< its deadline has been extended, once
  /// The longest sleep, if not 0: the thread also progresses other communicators, whose peers do not notify it here.
  std::chrono::microseconds nap{};
  clock::time_point since{};    ///< first read of the clock; epoch: none yet
  clock::time_point checked{};  ///< when peers were last checked

  /// The time since the first call of this, which is the first read of the clock.
  clock::duration waited(clock::time_point now) {
    if (since == clock::time_point{}) since = now;
    return now - since;
  }
  /// Counts a poll; after 2^30 it repeats the second half of them.
  int count_poll() { return polls = (polls < 1 << 30 ? polls : 1 << 29) + 1; }
  /// Starts afresh, except for the deadline, which is the whole operation's.
  void something_happened() {
    polls = tests = 0;
    suspicious = false;
  }
};

/// A transport connects ranks 0 ... size() - 1, keeps the first failure for all of them, and implements waiting.
///
/// * `rank() size()`: constant
/// * `place()`: constant; ranks of a node are numbered in rank order
/// * `timeout()`: constant: the deadline of operations that set none
/// * `failed()`: null before the first failure; then that failure, on every rank that has learned of it in `fail`,
///   `relax`, `check`, or before. One load.
/// * `fail(f)`: makes f the failure of all ranks that can be reached, unless there is one already; wakes them; returns
///   the first
/// * `relax(p, s)`: called after a fruitless poll: spins, then yields, then sleeps until a peer does something, at most
///   for p.nap if that is not 0; throws kolo::error on failure, on a dead peer, or when s.timeout has passed since the
///   first read of the clock: always `error{fail(...)}`, so that all throw the first
/// * `check(p, s)`: the same without waiting
/// * `split(color, key)`: collective: the transport of the ranks that passed the same color, ordered by (key, rank), or
///   an argument to construct T from
///
/// `T::options` are the options of one call; they have at least a `timeout`, zero if not set.
/// Used by one thread at a time. Its destructor does not wait and throws nothing.
///
/// | what a rank finds while it waits | the failure (`failure_from(s, ...)`) |
/// |---|---|
/// | a rank, awaited or not, has ended without leaving | `errc::peer_died`, `peer` is that rank |
/// | s.peer has destroyed its transport | `errc::peer_left`; for any other rank it is no failure, its part is done |
/// | s.timeout has passed | `errc::timeout`, `peer` is s.peer, or a rank known to keep that one waiting |
/// | the received data is not what was awaited | `errc::mismatch`, `peer` is its sender |
///
/// Data that a rank has sent before it ended or left still arrives: if its data and the notification of its end travel
/// by different paths, a rank receives all data that is there before it gives up. A destructor that runs because an
/// exception is thrown (`std::uncaught_exceptions()` is more than it was in the constructor) makes `errc::peer_failed`
/// the failure, as `fail` does, without waiting. A transport that was moved from, and the copy of one in a forked
/// process, reports nothing.
///
/// If `split` or a constructor waits, it does so for at most `timeout()` in total, by `kolo::relax(*this, p, s)`
/// (progress.hpp): operations of this thread on other communicators progress meanwhile. A thread that has such
/// operations sleeps for p.nap at most, which `relax` may lengthen while nothing happens.
///
/// Without memory that all ranks see, rank 0 decides which failure is the first: a rank that fails sends its claim to
/// all ranks, rank 0 answers all with the claim that it received first, and `fail` waits for that answer, but not for
/// long: if rank 0 is silent, the claim of the lowest rank that was received counts. mpi/failure_channel.hpp works this
/// way.
///
/// Optional members are in transport/abilities.hpp.
template <class T>
concept Transport = std::move_constructible<T> &&
    requires(T t, const T c, const failure f, backoff p, const wait_context s) {
  requires std::default_initializable<typename T::options>;
  { T::options::timeout } -> std::convertible_to<std::chrono::nanoseconds>;
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  { c.place() } -> std::same_as<placement>;
  { c.timeout() } -> std::same_as<std::chrono::nanoseconds>;
  { c.failed() } -> std::same_as<const failure*>;
  { t.fail(f) } -> std::same_as<const failure&>;
  {t.relax(p, s)};
  {t.check(p, s)};
  requires std::constructible_from<T, decltype(t.split(0, 0))>;
};

namespace detail::transport {
inline constexpr const char* negative_deadline =
    "the timeout is negative; a call without .timeout has the communicator's";

/// Ten years are as good as for ever, and sums of them do not overflow.
constexpr std::chrono::nanoseconds bounded(std::chrono::nanoseconds timeout) {
  return std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours{24 * 3650});
}

/// The deadline of a new communicator: each must have one.
constexpr std::chrono::nanoseconds checked_deadline(std::chrono::nanoseconds timeout) {
  if (timeout.count() <= 0)
    throw error{errc::invalid_argument, "the deadline of a communicator must be greater than 0"};
  return bounded(timeout);
}

inline constexpr std::uint64_t split_tag =
    ~std::uint64_t{0};  ///< tag of `split`'s own messages, which no collective uses
}  // namespace detail::transport
using detail::transport::split_tag, detail::transport::checked_deadline;

/// A reference to bytes in memory that several ranks address, as one rank sends it to another. `length`: of the region
/// that they lie in; 0: none. A reference that was made for more bytes holds for each part of them, with `offset`
/// increased accordingly.
struct remote_ref {
  std::uint64_t region = 0, length = 0, offset = 0;
};

/// The places of a piece's bytes and of its reply, if not in its slot.
struct indirect {
  remote_ref from{}, back{};
  bool is_spare = false;             ///< they are in the sender's spare buffer
  detail::core::stored_by stored{};  ///< as `one_way` returned
};

/// A piece that has arrived and still lies in the transport's own memory.
struct received_slot {
  const std::byte* data = nullptr;  ///< null: nothing there yet
  std::size_t bytes = 0;
  std::uint64_t tag = 0;
  std::byte* back = nullptr;  ///< where the reply goes, as long as the piece, if the sender expects one; may be `data`
  bool in_ring = false;       ///< in memory so large that the sender's next pieces lie elsewhere (core/copy.hpp)
};

/// The transport consists of slots, and exposes them: the sender packs straight into one, the receiver reduces straight
/// out of one. `peer` is another rank: there is no transport to oneself.
///
/// * `slot_bytes()`: the largest piece; equal on all ranks
/// * `reserve(peer)`: where the next piece to `peer` may be written, or null: no slot is free yet. Does not wait.
///   Calling it again without `commit` returns the same place. Aligned for any element
/// * `commit(peer, bytes, tag)`: sends the piece written there; a polling peer sees it, a sleeping one is woken only by
///   `flush` or `relax`
/// * `peek(peer)`: the oldest piece from `peer` that was not released: committed pieces, in order, unchanged until they
///   are released
/// * `release(peer)`: frees that piece's slot; a polling peer sees it, a sleeping one is woken as after `commit`
/// * `flush()`: wakes the peers that sleep waiting for a commit or a release; so do `relax` and `check`
template <class T>
concept SlotTransport = Transport<T> && requires(T t, const T c, int peer, std::size_t bytes, std::uint64_t tag) {
  { c.slot_bytes() } -> std::same_as<std::size_t>;
  { t.reserve(peer) } -> std::same_as<std::byte*>;
  {t.commit(peer, bytes, tag)};
  { t.peek(peer) } -> std::same_as<received_slot>;
  {t.release(peer)};
  {t.flush()};
};

namespace detail::transport {
/// The longest piece that lies in the line of its slot, without a buffer.
inline constexpr std::size_t short_piece = 96;
}  // namespace detail::transport

/// Slots that do more than carry a piece from one rank to another.
///
/// * `slots()`: pieces of any length that may be in flight from one rank to another
/// * `reserve(peer)`: for a piece that `returned` is asked for; it may reuse the place of one that was asked for before
/// * `reserve(peer, bytes)`: as `reserve(peer)`, for a piece of at most `bytes` bytes; more than slots() short pieces
///   may be in flight. A piece that refers to other memory needs `reserve(peer)`. Called again, it may return another
///   place; `commit` sends the piece reserved last
/// * `returned(peer, number)`: after the peer has released the piece whose `commit` returned that number: its slot,
///   with what the peer wrote to its `back`; null before. Until this is asked for, the slot stays as it is, for
///   slots() - 1 commits after that piece's own; the result is valid until the next `reserve(peer)`
/// * `make_remote_ref(data, bytes)`: how a peer can address those bytes, if it can
/// * `commit(peer, bytes, tag, {from, back})`: the bytes of the piece lie at `from`, and its reply goes to `back`, if
///   those have a length. Both belong to the peer until it has released the piece
/// * `spare_buffer(peer)`: of this pair's buffers that this rank owns, the one that it has read last; null: it owns
///   none. It is `slot_bytes()` long
/// * `commit(peer, bytes, tag, {{}, {}, true})`: the piece lies in that buffer, which belongs to the peer from now on,
///   and is its spare one after it has released the piece
/// * `claim(peer)`: the piece that `peek` sees, which may lie elsewhere: this rank reads it from now on. Null if its
///   sender has cancelled it
/// * `unclaim(peer)`: it does not read it after all: the sender may cancel it again
/// * `still_claims(peer)`: for a claimed piece that was read or replied to: whether the claim held all the time. If
///   not, its sender has failed
/// * `cancel(peer)`: after a failure: pieces that the peer has not claimed cannot be claimed any more; true if none is
///   being read
/// * `revoke(peer)`: after that, for a peer that has stopped in the middle of a piece: it will not count it. False if a
///   peer cannot stop there, so that it must be waited for
/// * `buffers_in_use()`: pieces of this rank's memory that a peer may still write to when it resumes, though they were
///   revoked
/// * `begin_lending()` `end_lending()`: enclose the time in which pieces refer to this rank's memory
/// * `first_polls()`: fruitless polls for a piece, with a pause after each, before the first call of `relax`
/// * `one_way(peer)`: how this rank copies into the place that `reserve(peer, bytes)` has returned last, which the peer
///   has read since it was written last
/// * `one_way_reply(peer)`: the same for a reply that goes elsewhere than to where this rank has read the piece
/// * `round_trip_bytes()`: the largest piece that gets a reply: `slot_bytes()`, or less, but not less than 32 KiB, so
///   that a small call is one piece; equal on all ranks
/// * `round_trip_slots()`: how many of those may be in flight to a peer if they lie in slots: `slots()`, or fewer
/// * `exchange_bytes()`: the largest piece of an exchange; equal on all ranks
/// * `exchange_slot(peer)` `post_exchange(peer, bytes, tag)` `peek_exchange(peer)` `end_exchange(peer)`: as reserve,
///   commit, peek and release; but both ranks of a pair send the other one piece, and neither begins the next exchange
///   before it has ended this one. There always is a free place, and nothing is acknowledged: a rank writes to the
///   place that it read last
template <class T>
concept SharedMemoryTransport = SlotTransport<T> &&
    requires(T t, const T c, int peer, std::size_t bytes, std::uint64_t tag, const std::byte* data) {
  { c.slots() } -> std::convertible_to<std::size_t>;
  { t.reserve(peer, bytes) } -> std::same_as<std::byte*>;
  { t.returned(peer, tag) } -> std::same_as<const std::byte*>;
  { t.make_remote_ref(data, bytes) } -> std::same_as<remote_ref>;
  { t.commit(peer, bytes, tag, indirect{}) } -> std::same_as<std::uint64_t>;
  { t.spare_buffer(peer) } -> std::same_as<std::byte*>;
  { t.claim(peer) } -> std::same_as<received_slot>;
  {t.unclaim(peer)};
  { t.still_claims(peer) } -> std::same_as<bool>;
  { t.cancel(peer) } -> std::same_as<bool>;
  { t.revoke(peer) } -> std::same_as<bool>;
  { t.buffers_in_use() } -> std::same_as<std::size_t>;
  t.begin_lending(), t.end_lending();
  { c.first_polls() } -> std::same_as<int>;
  { t.one_way(peer) } -> std::same_as<detail::core::one_way_copy&>;
  { t.one_way_reply(peer) } -> std::same_as<detail::core::one_way_copy&>;
  { c.round_trip_bytes() } -> std::same_as<std::size_t>;
  { c.round_trip_slots() } -> std::convertible_to<std::size_t>;
  { c.exchange_bytes() } -> std::same_as<std::size_t>;
  { t.exchange_slot(peer) } -> std::same_as<std::byte*>;
  {t.post_exchange(peer, bytes, tag)};
  { t.peek_exchange(peer) } -> std::same_as<received_slot>;
  {t.end_exchange(peer)};
};

/// The transport carries messages: the minimum for any transport, and enough for every schedule. `peer` is another
/// rank.
///
/// * `send(peer, data, bytes, tag)`: posts a message; `data` stays untouched until the ticket is done. Does not wait
/// * `receive(peer, data, bytes, tag)`: posts the receipt of a message of exactly this many bytes and with that tag,
///   anything else is `errc::mismatch`; messages of a pair arrive in the order in which they were sent
/// * `submit()`: everything posted since the last `submit` takes effect, together, at the latest now
/// * `done(ticket)`: whether it has ended; it stays true. Makes progress on everything that was submitted. On a stream:
///   true, since later work is enqueued after it
/// * `piece_bytes()`: how much of a block is sent in one round; equal on all ranks. Every round's latency is paid once
///   per piece
///
/// The executor guarantees: a round is posted with one `submit`; at most one message goes from one rank to another in a
/// round; no message is empty, and one may hold many blocks, so it may be longer than a piece. No tag is ~0: a
/// transport may use it for messages of its own, in `split`. The communicator keeps its staging until the transport is
/// gone, and for ever where `buffers_in_use()` counts any then.
///
/// The transport must handle: after a failure, operations that were under way go on until one of their calls throws: so
/// `done` throws it of a request that was cancelled, as do `send` and `receive` from then on. A message may come before
/// its receipt is posted, also by a whole operation, and is held back or kept until then; a failure notification must
/// not queue after it. Both pieces that the executor has in flight may have a message to the same rank. Once `fail` has
/// returned, or `relax` has thrown, nothing is written to posted memory; if that cannot be guaranteed,
/// `buffers_in_use()` counts the pieces that may still be written. Nor is it read, or the count says so: sent data may
/// have lain in the caller's own memory, which may be gone.
///
/// Optional are the abilities `options`, `pipeline`, `runs` and `executor` (transport/abilities.hpp).
template <class T>
concept MessageTransport = Transport<T> && requires(T t, const T c, int peer, const std::byte* from, std::byte* to,
                                                    std::size_t bytes, std::uint64_t tag, typename T::ticket& ticket) {
  requires std::semiregular<typename T::ticket> && std::is_trivially_destructible_v<typename T::ticket>;
  { t.send(peer, from, bytes, tag) } -> std::same_as<typename T::ticket>;
  { t.receive(peer, to, bytes, tag) } -> std::same_as<typename T::ticket>;
  {t.submit()};
  { t.done(ticket) } -> std::same_as<bool>;
  { c.piece_bytes() } -> std::same_as<std::size_t>;
};

namespace detail::transport {
/// Whether slots reach every rank. A transport that offers slots and messages (`routed`) knows it once it is
/// constructed; its slots are for that case only.
template <Transport T>
constexpr bool has_slots(const T& transport) {
  if constexpr (SlotTransport<T> && MessageTransport<T>) return transport.has_slots();
  else return SlotTransport<T>;
}
template <Transport T>
constexpr bool has_streams(const T& transport) {
  return SharedMemoryTransport<T> && has_slots(transport);
}

/// Where the next piece to `peer` may be written, of at most this many bytes and without references; null: no slot is
/// free yet.
template <SlotTransport T>
std::byte* reserve(T& transport, int peer, std::size_t bytes) {
  if constexpr (SharedMemoryTransport<T>) return transport.reserve(peer, bytes);
  else return transport.reserve(peer);
}
}  // namespace detail::transport

}  // namespace kolo::inline KOLO_ABI
