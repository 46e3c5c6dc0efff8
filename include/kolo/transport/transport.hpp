// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a transport is: who the ranks are, how bytes reach another rank, and what waiting and failing mean there.
#pragma once

#include <kolo/core/error.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kolo::inline v0 {

/// Where a rank lives: ranks on the same host (or group of ranks that stands for a host) share a node.
struct placement {
  int local_rank = 0, local_size = 1;
  int node_rank = 0, node_count = 1;
};

/// What a rank is doing while it waits: it goes into the error when the wait ends badly.
struct situation {
  const char* operation = "";
  std::uint64_t sequence = 0;
  int round = -1;
  int peer = -1;                          ///< the rank waited for
  std::chrono::nanoseconds timeout{};     ///< from the first look at the clock
};

/// What `rank` found while it waited: the situation in the words of an error.
inline failure failure_in(const situation& s, errc code, int rank, std::chrono::nanoseconds waited, std::string_view text) {
  failure f;
  f.code = code;
  f.rank = rank;
  f.peer = s.peer;
  f.round = s.round;
  f.sequence = s.sequence;
  f.waited_ns = waited.count();
  f.operation = std::string_view{s.operation};
  f.text = text;
  return f;
}

/// How long an operation has been waiting.
struct patience {
  using clock = std::chrono::steady_clock;

  int looks = 0;                ///< fruitless ones, since something happened
  std::uint32_t bell = 0;       ///< what the bell said when it was armed
  bool suspicious = false;      ///< a peer is gone; one more look at what it left decides
  clock::time_point since{};    ///< first look at the clock; epoch: none yet
  clock::time_point checked{};  ///< when peers were last looked after

  void something_happened() {
    looks = 0;
    suspicious = false;
  }
};

/// A transport connects ranks 0 ... size() - 1, keeps the first failure for all of them, and knows how to wait.
///
/// | call                | law |
/// |---------------------|-----|
/// | `rank() size()`     | constant |
/// | `place()`           | constant; ranks of a node are numbered in rank order |
/// | `timeout()`         | constant: the deadline of operations that name none |
/// | `failed()`          | null while all is well; from the first failure on, that failure, on every rank that has heard of it. One load. |
/// | `fail(f)`           | makes f the failure of all ranks that can be reached, unless there is one already; wakes them; returns the first |
/// | `relax(p, s)`       | called after a fruitless look: spins, then yields, then sleeps until a peer does something; throws kolo::error on failure, on a dead peer, or when s.timeout has passed since the first look at the clock |
/// | `check(p, s)`       | the same without waiting |
/// | `split(color, key)` | collective: the transport of the ranks that said the same color, ordered by (key, rank) |
///
/// `T::options` is what may be said with one call; it has at least a `timeout`, zero where nothing is said.
/// Used by one thread at a time. Its destructor waits for nobody and throws nothing.
///
/// Where no memory is seen by all, the first failure is the one that rank 0 says it is: who fails claims it to everybody, rank 0 answers
/// everybody with the claim that it heard first, and `fail` waits for that answer, though not for long: where rank 0 is silent, the claim
/// of the lowest rank that was heard holds. transport/mpi/news.hpp is written so.
///
/// | what it may have besides | law |
/// |--------------------------|-----|
/// | `shrink(timeout)`        | collective over those that are left: as `split`, of them alone |
/// | `tuning()`               | what a round, a message and a byte cost here, the same on all ranks (see transport/tuning.hpp); null: not known |
/// | `is_checked()`           | constant: calls are compared before data moves; equal on all ranks |
/// | `refusal(job)`           | what is wrong with the views of this call, in a sentence; empty: nothing |
/// | `recorder(r)`            | where rank r writes down what it does, if this rank can see it |
/// | `is_gone(rank, peer)`    | has the peer ended? |
/// | `now()`                  | seconds by the clock that it lives by, where that is not the host's |
/// | `token()`                | a byte in the memory of its views, for `barrier` |
/// | `host_wire()`            | where bytes of the host travel, if its views are of a device |
template <class T>
concept Transport = std::move_constructible<T> && requires(T t, const T c, const failure f, patience p, const situation s) {
  requires std::default_initializable<typename T::options>;
  { T::options::timeout } -> std::convertible_to<std::chrono::nanoseconds>;
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  { c.place() } -> std::same_as<placement>;
  { c.timeout() } -> std::same_as<std::chrono::nanoseconds>;
  { c.failed() } -> std::same_as<const failure*>;
  { t.fail(f) } -> std::same_as<const failure&>;
  { t.relax(p, s) };
  { t.check(p, s) };
  { t.split(0, 0) } -> std::same_as<T>;
};

namespace detail {
inline constexpr std::uint64_t split_tag = ~std::uint64_t{0};  ///< what `split` says to itself, which no collective says

/// Those of its ranks that are left can agree on another one, or it says why not; see communicator::shrink.
template <class T>
concept Shrinking = Transport<T> && requires(T t, std::chrono::nanoseconds timeout) {
  { t.shrink(timeout) } -> std::same_as<T>;
};
}

/// Bytes in memory that several ranks address, as one says them to another. `length`: of the region that they lie in; 0: no such bytes.
struct reference {
  std::uint64_t region = 0, length = 0, offset = 0;
};

/// Where the bytes of a piece are and where its answer goes, when not in its slot.
struct elsewhere {
  reference from{}, back{};
};

/// A piece that has arrived and still lies in the wire's own memory.
struct arrived {
  const std::byte* data = nullptr;  ///< null: nothing there yet
  std::size_t bytes = 0;
  std::uint64_t tag = 0;
  std::byte* back = nullptr;  ///< where its sender looks for an answer of as many bytes, if it expects one; may be `data`
};

/// The wire is made of slots, and hands out the slots themselves: the sender packs straight into one, the receiver reduces
/// straight out of one. `peer` is another rank: there is no wire to oneself.
///
/// | call                         | law |
/// |------------------------------|-----|
/// | `slot_bytes()`               | the largest piece; equal on all ranks |
/// | `reserve(peer)`              | where the next piece to `peer` may be written, or null: no slot is free yet. Does not wait. Asking again without `commit` gives the same place. Aligned for any element |
/// | `commit(peer, bytes, tag)`   | sends what was written there; the peer sees it, but where it sleeps only `flush` or `relax` wakes it |
/// | `peek(peer)`                 | the oldest piece from `peer` that was not released: what was committed, in order, unchanged by anybody until it is released |
/// | `release(peer)`              | gives that piece's slot back; the same of its peer, who may be waiting for that |
/// | `flush()`                    | wakes whoever sleeps for what was committed or released; so do `relax` and `check` |
template <class T>
concept Slotted = Transport<T> && requires(T t, const T c, int peer, std::size_t bytes, std::uint64_t tag) {
  { c.slot_bytes() } -> std::same_as<std::size_t>;
  { t.reserve(peer) } -> std::same_as<std::byte*>;
  { t.commit(peer, bytes, tag) };
  { t.peek(peer) } -> std::same_as<arrived>;
  { t.release(peer) };
  { t.flush() };
};

/// Slots that do more than carry a piece from one rank to another.
///
/// | call                                | law |
/// |-------------------------------------|-----|
/// | `slots()`                           | pieces that may be under way from one rank to another |
/// | `returned(peer, number)`            | the slot of the piece whose `commit` returned that number, with what the peer wrote to its `back`; null until the peer has released it. It stays until the next `commit` but slots() - 1 |
/// | `refer(data, bytes)`                | how a peer can address those bytes, if it can |
/// | `commit(peer, bytes, tag, {from, back})` | the piece is what lies at `from`, and its answer goes to `back`, where those have a length. Both belong to the peer until it has released the piece |
/// | `take(peer)`                        | the piece that `peek` sees, which may lie elsewhere: this rank reads it from now on. Null when its sender has withdrawn it |
/// | `let_go(peer)`                      | it does not after all: the sender may withdraw it again |
/// | `withdraw(peer)`                    | after a failure: no piece that the peer has not taken is taken any more; true when none is being read |
/// | `swap_bytes()`                      | the largest piece that can be swapped; equal on all ranks |
/// | `swap_place(peer)` `swap(peer, bytes, tag)` `swapped(peer)` `end_swap(peer)` | as reserve, commit, peek and release; but both ranks of a pair send the other one piece, and neither begins the next exchange before it has ended this one. There always is a place, and nothing is acknowledged: a rank writes what it read last |
template <class T>
concept Pairing = Slotted<T> && requires(T t, const T c, int peer, std::size_t bytes, std::uint64_t tag, const std::byte* data) {
  { c.slots() } -> std::convertible_to<std::size_t>;
  { t.returned(peer, tag) } -> std::same_as<const std::byte*>;
  { t.refer(data, bytes) } -> std::same_as<reference>;
  { t.commit(peer, bytes, tag, elsewhere{}) } -> std::same_as<std::uint64_t>;
  { t.take(peer) } -> std::same_as<arrived>;
  { t.let_go(peer) };
  { t.withdraw(peer) } -> std::same_as<bool>;
  { c.swap_bytes() } -> std::same_as<std::size_t>;
  { t.swap_place(peer) } -> std::same_as<std::byte*>;
  { t.swap(peer, bytes, tag) };
  { t.swapped(peer) } -> std::same_as<arrived>;
  { t.end_swap(peer) };
};

/// The wire carries messages: the least that any wire can do, and enough for every schedule. `peer` is another rank.
///
/// | call                          | law |
/// |-------------------------------|-----|
/// | `send(peer, data, bytes, tag)`    | posts a message; `data` stays untouched until the ticket is done. Does not wait |
/// | `receive(peer, data, bytes, tag)` | posts the receipt of a message of exactly so many bytes and with that tag, anything else is `errc::mismatch`; messages of a pair arrive in the order in which they were sent |
/// | `submit()`                        | what was posted since the last `submit` takes effect, together, at the latest now |
/// | `done(ticket)`                    | has it ended? Makes progress on everything that was submitted. On a stream: true, since what follows is enqueued behind it |
/// | `piece_bytes()`                   | how much of a block is sent in one round; equal on all ranks. Every round's latency is paid once per piece |
///
/// What the executor promises: a round is posted with one `submit`; at most one message goes from one rank to another in a round; no
/// message is empty, and one may hold many blocks, so it may be longer than a piece. After a failure nobody asks for tickets any
/// more, and the communicator keeps its staging until the transport is gone.
///
/// Optional: `begin(options)`, called when an operation with these options begins to run; `pieces_at_once()`, 1 or 2, equal on all ranks: 2,
/// which is what is taken without it, where messages go on by themselves while a rank combines; `hands()`, for elements that do not lie in
/// the host's memory (execute/hands.hpp); `add_run(data, bytes)`, said for each run of memory of the message that is posted next, where there are several,
/// and `shortest_run()`, the bytes that they must have on average. A rank decides that alone: a message may lie otherwise at its other end.
template <class T>
concept Messaging = Transport<T> && requires(T t, const T c, int peer, const std::byte* from, std::byte* to, std::size_t bytes,
                                             std::uint64_t tag, typename T::ticket& ticket) {
  requires std::semiregular<typename T::ticket> && std::is_trivially_destructible_v<typename T::ticket>;
  { t.send(peer, from, bytes, tag) } -> std::same_as<typename T::ticket>;
  { t.receive(peer, to, bytes, tag) } -> std::same_as<typename T::ticket>;
  { t.submit() };
  { t.done(ticket) } -> std::same_as<bool>;
  { c.piece_bytes() } -> std::same_as<std::size_t>;
};

namespace detail {
/// Do slots reach every rank? A wire that offers slots and messages (`routed`) knows it when it has been made; its slots are for that case only.
template <Transport T>
constexpr bool has_slots(const T& wire) {
  if constexpr (Slotted<T> && Messaging<T>) return wire.has_slots();
  else return Slotted<T>;
}
template <Transport T>
constexpr bool has_streams(const T& wire) {
  return Pairing<T> && has_slots(wire);
}
}  // namespace detail

}  // namespace kolo::inline v0
