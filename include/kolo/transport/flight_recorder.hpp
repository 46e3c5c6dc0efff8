// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last operations of a rank, readable by other ranks even when it is stuck or dead.
#pragma once

#include <kolo/core/kind.hpp>
#include <kolo/core/less_code.hpp>
#include <kolo/core/text.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/transport.hpp>
#include <kolo/transport/who_is_late.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <time.h>

namespace kolo::inline KOLO_ABI::detail::transport {

/// A summary of an operation in one word: its kind, whether its times are recorded, rounds of its schedule, bytes of
/// its vector or of one part.
class operation_summary {
 public:
  constexpr operation_summary() = default;
  constexpr explicit operation_summary(std::uint64_t word) : word_{word} {}
  constexpr operation_summary(kind k, int rounds, std::uint64_t bytes)
      : word_{std::uint64_t(k) | (bytes >= least_timed ? timed : 0) | least(unsigned(rounds), 0x7fff) << 9 |
              least(bytes, (std::uint64_t{1} << 40) - 1) << 24} {}

  constexpr std::uint64_t word() const { return word_; }
  constexpr kind what() const { return static_cast<kind>(word_ & 0xff); }
  constexpr bool is_timed() const { return (word_ & timed) != 0; }
  constexpr int rounds() const { return int(word_ >> 9 & 0x7fff); }
  constexpr std::uint64_t bytes() const { return word_ >> 24; }

 private:
  static constexpr std::uint64_t timed = 0x100;
  static constexpr std::uint64_t least_timed = 16 * 1024;  // to read a clock takes a tenth of a small operation's time
  static constexpr std::uint64_t least(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

  std::uint64_t word_ = 0;
};

/// An operation as read from a recorder. Times are nanoseconds of CLOCK_MONOTONIC; 0: not known.
struct flight_entry {
  std::uint64_t sequence = 0;  ///< 0: there is no such entry; else of all ranks, or of a pair
  operation_summary summary{};
  bool has_ended = false;
  std::int64_t begun = 0, ended = 0;
  std::int32_t round = -1,
               peer = -1;        ///< where it last waited, and for which rank; -1: it has not, or not for long
  std::int64_t waits_since = 0;  ///< when it first read the clock
  std::int64_t failed = 0;       ///< when its communicator failed; it does not wait any more
  std::int32_t with = -1;        ///< of a point-to-point operation: the other rank
  /// Whether it waits: for a rank, or in a call of the transport's own, such as MPI's.
  bool waits() const { return peer >= 0 || waits_since > 0; }
};

/// One rank writes, any rank reads: the writer may be in the middle of a write, or write nonsense, so no value read is
/// used as an index, an address or a length. Zeroed memory is a recorder without operations.
///
/// Cost  of an operation: four plain stores to lines that no other rank holds; from 16 KiB on also two reads of the
///       coarse clock, which has a resolution of some milliseconds.
/// Excluded from the thread sanitizer, which would find nothing; and the explorer of the tests would take each store
/// for a step.
class alignas(128) flight_recorder {
 public:
  static constexpr std::size_t remembered = 32, remembered_pairs = 16;

  /// `tag`: of its messages.
  [[gnu::no_sanitize_thread]] void begin(std::uint64_t sequence, operation_summary what, std::uint64_t tag = 0) {
    auto& e = entries_[sequence % remembered];
    if (what.is_timed() || ended_.load(std::memory_order_relaxed) == sequence) [[unlikely]]
      prepare(e, sequence, what);
    e.what.store(what.word(), std::memory_order_relaxed);
    e.sequence.store(sequence, std::memory_order_release);
    tag_.store(tag, std::memory_order_relaxed);
  }
  [[gnu::no_sanitize_thread]] void end(std::uint64_t sequence, operation_summary what) {
    if (what.is_timed()) [[unlikely]]
      date(entries_[sequence % remembered].ended);
    ended_.store(sequence, std::memory_order_release);
  }
  /// The operation that has ended preceded the one of that number, which is still to come.
  [[gnu::no_sanitize_thread]] void take_back(std::uint64_t sequence) {
    entries_[sequence % remembered].sequence.store(0, std::memory_order_relaxed);
    ended_.store(sequence - 1, std::memory_order_release);
  }
  /// A point-to-point operation: several may be in flight. Pass the result to `end_pair`.
  [[gnu::no_sanitize_thread]] std::uint64_t begin_pair(std::uint64_t number, operation_summary what, int peer) {
    const auto index = latest_pair_.load(std::memory_order_relaxed) + 1;
    auto& e = pair_entries_[index % remembered_pairs];
    e.what.store(what.word(), std::memory_order_relaxed);
    e.number.store(number, std::memory_order_relaxed);
    e.peer.store(peer, std::memory_order_relaxed);
    e.has_ended.store(0, std::memory_order_relaxed);
    e.index.store(index, std::memory_order_release);
    latest_pair_.store(index, std::memory_order_release);
    return index;
  }
  [[gnu::no_sanitize_thread]] void end_pair(std::uint64_t index) {
    if (auto& e = pair_entries_[index % remembered_pairs]; e.index.load(std::memory_order_relaxed) == index)
      e.has_ended.store(1, std::memory_order_release);
  }
  /// The communicator has failed: operations that have not ended will not. Only the first call counts.
  [[gnu::cold, gnu::noinline, gnu::no_sanitize_thread]] void fail() {
    if (failed_.load(std::memory_order_relaxed) == 0) date(failed_);
  }
  [[gnu::no_sanitize_thread]] void wait(const backoff& p, const wait_context& s) {
    waits_since_.store(p.since.time_since_epoch().count(), std::memory_order_relaxed);
    round_.store(s.round, std::memory_order_relaxed);
    peer_.store(s.peer, std::memory_order_relaxed);
    waits_in_.store(s.number_for_all(), std::memory_order_release);
  }

  /// Records that the rank still waits: called repeatedly while it does, but not when a wait has just begun.
  [[gnu::no_sanitize_thread]] void poll(const backoff& p, const wait_context& s, backoff::clock::time_point now) {
    wait(p, s);
    last_poll_.store(now.time_since_epoch().count(), std::memory_order_release);
  }
  /// The tag of the operation that began last.
  std::uint64_t tag() const { return tag_.load(std::memory_order_relaxed); }
  std::int64_t last_poll() const { return last_poll_.load(std::memory_order_acquire); }

  /// Returns the state of this rank for a rank that waits in operation `sequence`: done with it; waiting, if it has
  /// polled since `recently` (nanoseconds); else silent in an operation, or busy outside. A wait outside operations (a
  /// split) has the number 0.
  sign_of_life sign(std::uint64_t sequence, std::int64_t recently) const {
    sign_of_life s{.awaits = peer_.load(std::memory_order_relaxed), .polled = last_poll()};
    const auto begun = latest(), ended = ended_.load(std::memory_order_acquire),
               waits_in = waits_in_.load(std::memory_order_acquire);
    if (sequence != 0 && ended >= sequence) s.is = sign_of_life::done;
    else if (s.polled >= recently && (waits_in == 0 || ended < waits_in)) s.is = sign_of_life::waiting;
    else s.is = begun > ended ? sign_of_life::silent : sign_of_life::busy;
    s.needs_one = waits_in == 0 && last().with >= 0 && !last().has_ended;
    return s;
  }

  /// The operation of that number, if it is among the last.
  [[gnu::cold, gnu::noinline]] flight_entry find(std::uint64_t sequence) const {
    const auto& e = entries_[sequence % remembered];
    if (sequence == 0 || e.sequence.load(std::memory_order_acquire) != sequence) return {};
    flight_entry n{.sequence = sequence, .summary = operation_summary{e.what.load(std::memory_order_acquire)}};
    if (n.summary.is_timed())
      n.begun = e.begun.load(std::memory_order_acquire), n.ended = e.ended.load(std::memory_order_acquire);
    n.has_ended = ended_.load(std::memory_order_acquire) >= sequence;
    if (!n.has_ended) n.failed = failed_.load(std::memory_order_relaxed);
    if (!n.has_ended && waits_in_.load(std::memory_order_acquire) == sequence) {
      n.round = round_.load(std::memory_order_relaxed);
      n.peer = peer_.load(std::memory_order_relaxed);
      n.waits_since = waits_since_.load(std::memory_order_relaxed);
    }
    return e.sequence.load(std::memory_order_relaxed) == sequence ? n : flight_entry{};
  }

  /// 1-based index of the latest operation; 0: none has begun.
  std::uint64_t latest() const {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < remembered; ++i)
      if (const auto s = entries_[i].sequence.load(std::memory_order_acquire); s % remembered == i && s > last)
        last = s;
    return last;
  }
  /// The index of the latest point-to-point operation; 0: none has begun.
  std::uint64_t latest_pair() const { return latest_pair_.load(std::memory_order_acquire); }
  [[gnu::cold, gnu::noinline]] flight_entry find_pair(std::uint64_t index) const {
    const auto& e = pair_entries_[index % remembered_pairs];
    if (index == 0 || e.index.load(std::memory_order_acquire) != index) return {};
    flight_entry n{.sequence = e.number.load(std::memory_order_relaxed),
                   .summary = operation_summary{e.what.load(std::memory_order_relaxed)},
                   .has_ended = e.has_ended.load(std::memory_order_relaxed) != 0,
                   .with = e.peer.load(std::memory_order_relaxed)};
    if (!n.has_ended) n.peer = n.with, n.failed = failed_.load(std::memory_order_relaxed);
    if (!n.has_ended && waits_in_.load(std::memory_order_acquire) == 0 &&
        peer_.load(std::memory_order_relaxed) == n.with)
      n.waits_since = waits_since_.load(std::memory_order_relaxed);
    return e.index.load(std::memory_order_relaxed) == index ? n : flight_entry{};
  }

  /// The current operation, or the last one: the oldest pair operation that has not ended comes before any collective.
  [[gnu::cold, gnu::noinline]] flight_entry last() const {
    const auto latest = latest_pair();
    for (std::uint64_t age = std::min<std::uint64_t>(latest, remembered_pairs); age-- > 0;)
      if (const flight_entry n = find_pair(latest - age); n.sequence > 0 && !n.has_ended) return n;
    return find(this->latest());
  }

 private:
  struct pair_entry {
    std::atomic<std::uint64_t> index{0}, what{0}, number{0};
    std::atomic<std::int32_t> peer{-1}, has_ended{0};
  };
  struct entry {
    std::atomic<std::uint64_t> sequence{0}, what{0};
    std::atomic<std::int64_t> begun{0}, ended{0};
  };

  static std::int64_t now() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }

  [[gnu::cold, gnu::noinline, gnu::no_sanitize_thread]] static void date(std::atomic<std::int64_t>& moment) {
    moment.store(now(), std::memory_order_relaxed);
  }

  [[gnu::cold, gnu::noinline, gnu::no_sanitize_thread]] void prepare(entry& e, std::uint64_t sequence,
                                                                     operation_summary what) {
    if (what.is_timed()) {
      date(e.begun);
      e.ended.store(0, std::memory_order_relaxed);
    }
    if (ended_.load(std::memory_order_relaxed) == sequence)
      ended_.store(sequence - 1, std::memory_order_relaxed);  // what preceded it under its number
  }

  std::atomic<std::uint64_t> ended_{0}, tag_{0}, waits_in_{0};
  std::atomic<std::int64_t> waits_since_{0}, last_poll_{0}, failed_{0};
  std::atomic<std::int32_t> round_{-1}, peer_{-1};
  std::atomic<std::uint64_t> latest_pair_{0};
  alignas(128) entry entries_[remembered]{};
  pair_entry pair_entries_[remembered_pairs]{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// "; its last operation: allreduce #17, round 3, waiting for rank 1", to be appended to a sentence about that rank.
[[gnu::cold, gnu::noinline]] inline std::string last_operation(const flight_recorder& of) {
  const flight_entry n = of.last();
  if (n.sequence == 0) return "; it has begun no operation";
  std::string text = core::text_of({"; its last operation: ", name(n.summary.what()), " #", n.sequence});
  if (n.has_ended) core::append_words(text, {", which has ended there"});
  else if (n.with >= 0) core::append_words(text, {" with rank ", n.with});
  else if (n.peer >= 0) core::append_words(text, {", round ", n.round, ", waiting for rank ", n.peer});
  return text;
}

class flight_log;
/// In this order, or clang 14 checks whether a log is a transport.
template <class T>
concept MayHaveARecorder = !std::same_as<T, flight_log> && Transport<T>;

/// The flight recorder of a communicator's rank: in the transport, if others can read it there, or in memory of its
/// own.
class flight_log {
 public:
  template <class T>
    requires MayHaveARecorder<T>
  explicit flight_log(const T& transport) {
    if constexpr (Observable<T>) at_ = transport.recorder(transport.rank());
    if (!at_) at_ = core::shared<flight_recorder>();
  }

  flight_recorder* operator->() const { return at_.get(); }
  /// Called before each poll but the first few, which end most waits.
  void wait(const backoff& p, const wait_context& s) {
    if (p.polls >= 8) at_->wait(p, s);
  }
  const std::shared_ptr<flight_recorder>& own() const { return at_; }

 private:
  std::shared_ptr<flight_recorder> at_;
};

/// The recorders of all ranks; null for one that this rank cannot see. They may be read after the communicator is gone,
/// but those in shared memory are empty then.
template <Transport T>
std::vector<std::shared_ptr<const flight_recorder>> recorders_of(const T& transport, const flight_log& log) {
  std::vector<std::shared_ptr<const flight_recorder>> all(std::size_t(transport.size()));
  for (int r = 0; r < transport.size(); ++r)
    if constexpr (Observable<T>) all[std::size_t(r)] = transport.recorder(r);
  all[std::size_t(transport.rank())] = log.own();
  return all;
}

}  // namespace kolo::inline KOLO_ABI::detail::transport
