// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a transport is: who the ranks are, how bytes reach another rank, and what waiting and failing mean there.
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

/// Where a rank lives: ranks on the same host (or group of ranks that stands for a host) share a node.
struct placement {
  int local_rank = 0, local_size = 1;
  int node_rank = 0, node_count = 1;
};

/// What a rank is doing while it waits: it goes into the error when the wait ends badly.
struct wait_context {
  const char* operation = "";                 ///< its name
  std::uint64_t sequence = 0;                 ///< its number on the communicator
  int round = -1;                             ///< of the algorithm
  int peer = -1;                              ///< the rank waited for
  std::chrono::nanoseconds timeout{};         ///< from the first look at the clock
  origin found_in = origin::call;             ///< of what goes wrong in it
  bool is_pair = false;                       ///< its number is one of this rank and that peer alone
  bool only_sends = false;                    ///< what comes from that peer meanwhile is for a later call
  const wait_context* deadline_of = nullptr;  ///< whose timeout it is: a call that comes after this one, and has less

  /// Its number among the calls of all ranks; 0: it has none.
  std::uint64_t number_for_all() const { return is_pair ? 0 : sequence; }
  /// The same, of another awaited rank.
  wait_context with_peer(int rank) const {
    wait_context same = *this;
    same.peer = rank;
    return same;
  }
};

namespace detail::transport {
/// While it lives, what this thread's call is doing: a transport that finds something in `done`, say, is not told.
class in_call {
 public:
  explicit in_call(const wait_context& its) : before_{std::exchange(now_, &its)} {}
  in_call(const in_call&) = delete;
  in_call& operator=(const in_call&) = delete;
  ~in_call() { now_ = before_; }

  /// `s`, if it names an operation.
  static wait_context or_else(const wait_context& s) {
    return *s.operation == '\0' && now_ ? now_->with_peer(s.peer) : s;
  }

 private:
  static constinit inline thread_local const wait_context* now_ = nullptr;
  const wait_context* before_;
};
}  // namespace detail::transport

/// What `rank` found while it waited: the wait_context in the words of an error; where that names no operation, the
/// call that this thread is in. A deadline is of the call that has it, and the sentence names what comes before that
/// one.
inline failure failure_from(const wait_context& found_in, errc code, int rank, std::chrono::nanoseconds waited,
                            std::string_view text) {
  const wait_context s = detail::transport::in_call::or_else(found_in);
  failure f;
  f.code = code;
  f.found_in = s.found_in;
  f.rank = rank;
  f.peer = s.peer;
  f.round = s.round;
  f.sequence = s.sequence;
  f.waited_ns = waited.count();
  f.operation = std::string_view{s.operation};
  f.text = text;
  if (code != errc::timeout || !s.deadline_of) return f;
  f.round = -1;
  f.sequence = s.deadline_of->sequence;
  f.operation = std::string_view{s.deadline_of->operation};
  f.text = detail::core::text_of({text, "; ", s.operation, " #", s.sequence, " comes before it, and has not ended"});
  return f;
}

/// How long an operation has been waiting. `tests` and `nap` are set by whoever waits, the rest is the transport's, to
/// use as it likes; a wait begins with a fresh one.
struct backoff {
  using clock = std::chrono::steady_clock;

  int polls = 0;            ///< fruitless ones, since something happened
  int tests = 0;            ///< of them, in a loop of the caller's
  int spins = 0;            ///< of them, before it yields
  std::uint32_t epoch = 0;  ///< of the eventcount when this rank prepared to wait
  bool suspicious = false;  ///< a peer is gone; one more look at what it left decides
  bool excused = false;     ///< its deadline has been put off, once
  /// Not 0: the thread drives other communicators, too, whose peers do not notify it here; so long it may sleep.
  std::chrono::microseconds nap{};
  clock::time_point since{};    ///< first look at the clock; epoch: none yet
  clock::time_point checked{};  ///< when peers were last looked after

  /// Begins anew, but for the deadline, which is the whole operation's.
  void something_happened() {
    polls = tests = 0;
    suspicious = false;
  }
};

/// A transport connects ranks 0 ... size() - 1, keeps the first failure for all of them, and knows how to wait.
///
/// * `rank() size()`: constant
/// * `place()`: constant; ranks of a node are numbered in rank order
/// * `timeout()`: constant: the deadline of operations that name none
/// * `failed()`: null while all is well; from the first failure on, that failure, on every rank that has heard of it:
///   in `fail`, `relax`, `check`, or before. One load.
/// * `fail(f)`: makes f the failure of all ranks that can be reached, unless there is one already; wakes them; returns
///   the first
/// * `relax(p, s)`: called after a fruitless look: spins, then yields, then sleeps until a peer does something, and not
///   longer than p.nap where that is not 0; throws kolo::error on failure, on a dead peer, or when s.timeout has passed
///   since the first look at the clock: always `error{fail(...)}`, so that all throw the first
/// * `check(p, s)`: the same without waiting
/// * `split(color, key)`: collective: the transport of the ranks that said the same color, ordered by (key, rank), or
///   what T is made of
///
/// `T::options` is what may be said with one call; it has at least a `timeout`, zero where nothing is said.
/// Used by one thread at a time. Its destructor waits for nobody and throws nothing.
///
/// | what a rank finds out while it waits | what it fails with (`failure_from(s, ...)`) |
/// |---|---|
/// | a rank has ended without a word, waited for or not | `errc::peer_died`, `peer` is that rank |
/// | s.peer has destroyed its transport | `errc::peer_left`; of any other rank it is no failure, its part is done |
/// | s.timeout has passed | `errc::timeout`, `peer` is s.peer, or who is known to keep that one waiting |
/// | what has come is not what was awaited | `errc::mismatch`, `peer` is its sender |
///
/// What a rank has sent before it ended or left still arrives: where that and the news of its end travel by different
/// ways, a rank takes all that is there before it gives up. A destructor that runs because an exception is thrown
/// (`std::uncaught_exceptions()` is more than it was in the constructor) makes `errc::peer_failed` the failure, as
/// `fail` does, without waiting. A transport that was moved from, and the copy of one in a forked process, say nothing.
///
/// Where `split` or a constructor waits, it does so under `timeout()`, in all, and by `kolo::relax(*this, p, s)`
/// (under_way.hpp): what this thread has started on other communicators goes on then. A thread that has such work
/// sleeps for p.nap at most, which `relax` may lengthen while nothing happens.
///
/// Where no memory is seen by all, the first failure is the one that rank 0 says it is: who fails claims it to
/// everybody, rank 0 answers everybody with the claim that it heard first, and `fail` waits for that answer, though not
/// for long: where rank 0 is silent, the claim of the lowest rank that was heard holds. mpi/failure_channel.hpp is
/// written so.
///
/// What it may have besides stands in transport/abilities.hpp.
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
    "the deadline is negative; a call that names none has the communicator's";

/// Ten years are as good as for ever, and sums of them can be told.
constexpr std::chrono::nanoseconds bounded(std::chrono::nanoseconds timeout) {
  return std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours{24 * 3650});
}

/// What is said when a communicator is made: every one has a deadline.
constexpr std::chrono::nanoseconds checked_deadline(std::chrono::nanoseconds timeout) {
  if (timeout.count() <= 0)
    throw error{errc::invalid_argument, "the deadline of a communicator must be longer than nothing"};
  return bounded(timeout);
}

inline constexpr std::uint64_t split_tag =
    ~std::uint64_t{0};  ///< what `split` says to itself, which no collective says
}  // namespace detail::transport
using detail::transport::split_tag, detail::transport::checked_deadline;

/// Bytes in memory that several ranks address, as one says them to another. `length`: of the region that they lie in;
/// 0: no such bytes. What was asked for with more bytes holds for each part of them, at an `offset` that is as much
/// larger.
struct remote_ref {
  std::uint64_t region = 0, length = 0, offset = 0;
};

/// Where the bytes of a piece are and where its reply goes, when not in its slot.
struct indirect {
  remote_ref from{}, back{};
  bool is_spare = false;  ///< they are in the sender's spare buffer
};

/// A piece that has arrived and still lies in the transport's own memory.
struct received_slot {
  const std::byte* data = nullptr;  ///< null: nothing there yet
  std::size_t bytes = 0;
  std::uint64_t tag = 0;
  std::byte* back = nullptr;  ///< where its sender looks for a reply of as many bytes, if it expects one; may be `data`
};

/// The transport is made of slots, and hands out the slots themselves: the sender packs straight into one, the receiver
/// reduces straight out of one. `peer` is another rank: there is no transport to oneself.
///
/// * `slot_bytes()`: the largest piece; equal on all ranks
/// * `reserve(peer)`: where the next piece to `peer` may be written, or null: no slot is free yet. Does not wait.
///   Asking again without `commit` gives the same place. Aligned for any element
/// * `commit(peer, bytes, tag)`: sends what was written there; the peer sees it, but where it sleeps only `flush` or
///   `relax` wakes it
/// * `peek(peer)`: the oldest piece from `peer` that was not released: what was committed, in order, unchanged by
///   anybody until it is released
/// * `release(peer)`: gives that piece's slot back; the same of its peer, who may be waiting for that
/// * `flush()`: wakes whoever sleeps for what was committed or released; so do `relax` and `check`
template <class T>
concept SlotTransport = Transport<T> && requires(T t, const T c, int peer, std::size_t bytes, std::uint64_t tag) {
  { c.slot_bytes() } -> std::same_as<std::size_t>;
  { t.reserve(peer) } -> std::same_as<std::byte*>;
  {t.commit(peer, bytes, tag)};
  { t.peek(peer) } -> std::same_as<received_slot>;
  {t.release(peer)};
  {t.flush()};
};

/// Slots that do more than carry a piece from one rank to another.
///
/// * `slots()`: pieces of any length that may be under way from one rank to another
/// * `reserve(peer)`: for a piece that `returned` is asked for; it may lie where one lay that was asked for before
/// * `reserve(peer, bytes)`: as `reserve(peer)`, for a piece of at most `bytes` bytes; more than slots() short pieces
///   may be under way. A piece that refers to other memory needs `reserve(peer)`. `commit` sends what was reserved last
/// * `returned(peer, number)`: once the peer has released the piece whose `commit` returned that number: its slot, with
///   what the peer wrote to its `back`; null before. Until this is asked for, the slot stays as it is, for slots() - 1
///   commits that follow that piece's own; what is returned is valid until the next `reserve(peer)`
/// * `make_remote_ref(data, bytes)`: how a peer can address those bytes, if it can
/// * `commit(peer, bytes, tag, {from, back})`: the piece is what lies at `from`, and its reply goes to `back`, where
///   those have a length. Both belong to the peer until it has released the piece
/// * `spare_buffer(peer)`: of the buffers of this pair that this rank owns, the one that it has read last; null: it
///   owns none. It is `slot_bytes()` long
/// * `commit(peer, bytes, tag, {{}, {}, true})`: the piece is what lies there; that buffer is the peer's from now on,
///   and its spare one when it has released the piece
/// * `claim(peer)`: the piece that `peek` sees, which may lie elsewhere: this rank reads it from now on. Null when its
///   sender has cancelled it
/// * `unclaim(peer)`: it does not after all: the sender may cancel it again
/// * `still_claims(peer)`: of a piece that was taken, and read or replied to: was it this rank's all the time?
///   If not, its sender has failed
/// * `cancel(peer)`: after a failure: no piece that the peer has not taken is taken any more; true when none is being
///   read
/// * `revoke(peer)`: after that, of a peer that has stopped in the middle of a piece: it will not count it. False where
///   a peer cannot stop there, so that it is waited for
/// * `buffers_in_use()`: pieces of this rank's memory that a peer may still write to when it goes on, though they were
///   revoked
/// * `begin_lending()` `end_lending()`: around what refers to this rank's memory
/// * `first_looks()`: fruitless looks for a piece, with a pause after each, before it is worth to ask `relax`
/// * `one_way(peer)`: how this rank copies into slots that the peer has read since
/// * `round_trip_bytes()`: the largest piece that a reply comes back for: `slot_bytes()`, or less, but not less than 32
///   KiB, so that a small call is one piece; equal on all ranks
/// * `round_trip_slots()`: how many of those may be under way to a peer when they lie in slots: `slots()`, or fewer
/// * `exchange_bytes()`: the largest piece that can be exchanged so; equal on all ranks
/// * `exchange_slot(peer)` `post_exchange(peer, bytes, tag)` `peek_exchange(peer)` `end_exchange(peer)`: as reserve,
///   commit, peek and release; but both ranks of a pair send the other one piece, and neither begins the next exchange
///   before it has ended this one. There always is a place, and nothing is acknowledged: a rank writes what it read
///   last
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
  { c.first_looks() } -> std::same_as<int>;
  { t.one_way(peer) } -> std::same_as<detail::core::one_way_copy&>;
  { c.round_trip_bytes() } -> std::same_as<std::size_t>;
  { c.round_trip_slots() } -> std::convertible_to<std::size_t>;
  { c.exchange_bytes() } -> std::same_as<std::size_t>;
  { t.exchange_slot(peer) } -> std::same_as<std::byte*>;
  {t.post_exchange(peer, bytes, tag)};
  { t.peek_exchange(peer) } -> std::same_as<received_slot>;
  {t.end_exchange(peer)};
};

/// The transport carries messages: the least that any transport can do, and enough for every schedule. `peer` is
/// another rank.
///
/// * `send(peer, data, bytes, tag)`: posts a message; `data` stays untouched until the ticket is done. Does not wait
/// * `receive(peer, data, bytes, tag)`: posts the receipt of a message of exactly so many bytes and with that tag,
///   anything else is `errc::mismatch`; messages of a pair arrive in the order in which they were sent
/// * `submit()`: what was posted since the last `submit` takes effect, together, at the latest now
/// * `done(ticket)`: has it ended? It stays so. Makes progress on everything that was submitted. On a stream: true,
///   since what follows is enqueued behind it
/// * `piece_bytes()`: how much of a block is sent in one round; equal on all ranks. Every round's latency is paid once
///   per piece
///
/// What the executor promises: a round is posted with one `submit`; at most one message goes from one rank to another
/// in a round; no message is empty, and one may hold many blocks, so it may be longer than a piece. No tag is ~0: a
/// transport may use it for messages of its own, in `split`. After a failure nobody asks for tickets any more, and the
/// communicator keeps its staging until the transport is gone.
///
/// What the transport must bear: a message may come before its receipt is posted, also by a whole operation, and is
/// held back or kept until then; news of a failure must not wait behind it. Both lanes of the executor may have a
/// message under way to one rank. Once `fail` has returned, or `relax` has thrown, nothing is written to memory that
/// was posted; where that cannot be had, `buffers_in_use()` counts the pieces of which it may. Nor is it read from:
/// what was sent may have lain in the caller's own memory, which may be gone.
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
/// Do slots reach every rank? A transport that offers slots and messages (`routed`) knows it when it has been made; its
/// slots are for that case only.
template <Transport T>
constexpr bool has_slots(const T& transport) {
  if constexpr (SlotTransport<T> && MessageTransport<T>) return transport.has_slots();
  else return SlotTransport<T>;
}
template <Transport T>
constexpr bool has_streams(const T& transport) {
  return SharedMemoryTransport<T> && has_slots(transport);
}

/// Where the next piece to `peer` may be written, of so many bytes at most, which refers to nothing; null: not yet.
template <SlotTransport T>
std::byte* reserve(T& transport, int peer, std::size_t bytes) {
  if constexpr (SharedMemoryTransport<T>) return transport.reserve(peer, bytes);
  else return transport.reserve(peer);
}
}  // namespace detail::transport

}  // namespace kolo::inline KOLO_ABI
