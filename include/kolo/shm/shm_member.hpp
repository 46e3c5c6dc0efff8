// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's membership of a region: it comes, reports the first failure or learns of it, waits, detects ranks that are
// gone, and leaves.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/own_process.hpp>
#include <kolo/core/text.hpp>
#include <kolo/os/cores.hpp>
#include <kolo/os/eventcount.hpp>
#include <kolo/os/process.hpp>
#include <kolo/os/spin_budget.hpp>
#include <kolo/shm/mapping.hpp>
#include <kolo/shm/new_region.hpp>
#include <kolo/shm/region.hpp>
#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/forwarded.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::shm {

/// All of Transport except `split`. The messages of the ranks lie in the same region, but their layout is not known
/// here: a rank that publishes something calls `notify(peer)`, and `flush` wakes those peers.
class shm_member {
 public:
  int rank() const { return rank_; }
  int size() const { return shape_.ranks; }
  placement place() const { return shape_.place(rank_); }
  std::chrono::nanoseconds timeout() const { return shape_.timeout; }
  bool is_checked() const { return shape_.checked; }

  /// The last operations of that rank; null if the memory is not recorded.
  std::shared_ptr<transport::flight_recorder> recorder(int r) const {
    if (!is_recorded_) return nullptr;
    return {base_, &recorder_of(base_.get(), shape_, r)};
  }

  // Failure: the first one is kept.

  const failure* failed() const {
    const auto by = head().failed.load(std::memory_order_acquire);
    return by == 0 ? nullptr : &failure_of(base_.get(), shape_, int(by) - 1);
  }

  [[gnu::cold, gnu::noinline]] const failure& fail(const failure& f) {
    if (const failure* first = failed()) return *first;
    failure_of(base_.get(), shape_, rank_) = transport::with_peer_identity(*this, f);
    std::uint32_t nobody = 0;
    if (head().failed.compare_exchange_strong(nobody, std::uint32_t(rank_) + 1, std::memory_order_seq_cst))
      wake_all(base_.get(), size());
    return *failed();
  }

  /// The thread that is that rank, if it has come.
  rank_identity who(int r) const {
    const auto& its = state_of_rank(r);
    const auto thread = its.thread.load(std::memory_order_acquire);
    if (thread == 0) return transport::unknown_rank;
    return {.among = std::uint64_t(its.id.pid), .number = its.id.start_time, .part = thread};
  }

  // Waiting.

  /// Wakes the ranks that sleep waiting for something published since the last flush.
  void flush() {
    if (to_notify_ == 0 && !has_read_board_) return;
    os::eventcount::fence_before_notify(waiters_fence_);
    if (std::exchange(has_read_board_, false) && head().awaited_readers.load(std::memory_order_relaxed) != 0)
      notify_others();
    for (auto rest = std::exchange(to_notify_, std::uint64_t{0}); rest != 0; rest &= rest - 1)
      for (int r = std::countr_zero(rest); r < size(); r += 64)
        if (r != rank_) state_of_rank(r).event.notify();
  }

  /// About a microsecond; none if the awaited rank may need this core.
  int first_polls() const { return oversubscribed_ ? 0 : 32; }
  bool leaves_fence_to_waiters() const { return waiters_fence_; }
  void relax(backoff& p, const wait_context& s) {
    flush();
    if (p.spins == 0) p.polls = 0;  // polls before the first call here do not count
    const int poll = p.polls++;
    if (poll == 0 && !knows_cores_) learn_cores();
    if (poll == 0) p.spins = oversubscribed_ ? 1 : spins_.begin();
    spins_.polled(poll);
    if (poll < p.spins) return KOLO_PAUSE();
    const int before_sleep = p.spins + (p.spins == 1 ? 8 : os::spin_budget::yields);
    if (poll < before_sleep) return void(::sched_yield());
    if (poll == before_sleep) {
      p.epoch = state_of_rank(rank_).event.prepare_wait(head().waiters_fence);
      return;  // to one more look
    }
    check(p, s);
    if (p.nap.count() > 0) {
      state_of_rank(rank_).event.wait(p.epoch, p.nap);
      p.nap = std::min(p.nap + p.nap / 4, longest_nap);
    } else {
      state_of_rank(rank_).event.wait(p.epoch, longest_sleep);
    }
    p.polls = before_sleep;
  }

  [[gnu::cold, gnu::noinline]] void check(backoff& p, const wait_context& s) {
    flush();
    if (const failure* f = failed()) throw error{*f};
    const auto now = backoff::clock::now();
    if (p.since == backoff::clock::time_point{}) p.since = p.checked = now;
    const auto absent = poll(p, s, now);
    if (now - p.since > s.timeout) end_late(p, s, now, absent);
    const auto waited = now - p.since;
    if (now - p.checked < longest_sleep / 2) return;
    p.checked = now;
    const bool sure = std::exchange(p.suspicious, false);
    // Of the awaited rank, and of a few others by turns: that reads a file of /proc, and all waiting ranks do so.
    constexpr int few = 16;
    const auto asks_system = [&](int r) { return r == s.peer || (r - next_polled_ + size()) % size() < few; };
    for (int r = 0; r < size(); ++r) {
      if (!is_gone(r, s.peer, asks_system(r))) continue;
      p.suspicious = true;  // it may have done its part before: poll once more
      if (!sure) continue;
      const bool left = state_of_rank(r).present.load(std::memory_order_acquire) == presence::left;
      give_up(left ? errc::peer_left : errc::peer_died, s.with_peer(r), waited,
              core::text_of({transport::is_gone_sentence(r, !left), last_operation(r)}));
    }
    if (!p.suspicious) next_polled_ = (next_polled_ + few) % size();
  }

  /// Whether that rank has ended; or left, if it is the awaited one. A death that nobody has announced only the system
  /// knows of.
  bool is_gone(int r, int awaited, bool asks_system = true) const {
    if (r == rank_) return false;
    switch (state_of_rank(r).present.load(std::memory_order_acquire)) {
      case presence::dead: return true;
      case presence::left: return r == awaited;
      case presence::here: return asks_system && state_of_rank(r).has_ended(state_of_rank(rank_).id);
      default: return false;
    }
  }

  // Set on behalf of ranks, before they come or when they cannot do it themselves.

  /// A fresh region for a communicator of that shape. One rank makes it; the others attach by its number.
  [[gnu::cold, gnu::noinline]] static std::uint64_t initialise(Mapping auto& memory, const region_shape& shape) {
    const new_region made{memory, shape.bytes()};
    construct_region(made.base.get(), shape);
    return made.number;
  }

  /// Enters the processes of the ranks, if they are known before the ranks attach.
  static void introduce(Mapping auto& memory, std::uint64_t region, const region_shape& shape,
                        const std::vector<os::process_id>& members) {
    const auto base = memory.map(region, shape.bytes());
    for (int r = 0; r < shape.ranks; ++r) {
      state_of(base.get(), r).id = members[std::size_t(r)];
      state_of(base.get(), r).present.store(presence::here, std::memory_order_release);
    }
  }

  /// Called by a parent that sees a rank die, and by a rank that does not come. A rank that has left before has done
  /// its part.
  [[gnu::cold, gnu::noinline]] static void announce_death(Mapping auto& memory, std::uint64_t region,
                                                          const region_shape& shape, int rank) {
    const auto base = memory.map(region, region_layout{shape}.failures_at);  // there may be no memory for all of it
    auto& present = state_of(base.get(), rank).present;
    if (present.load(std::memory_order_acquire) == presence::left) return;
    present.store(presence::dead, std::memory_order_release);
    wake_all(base.get(), shape.ranks);
  }

  // Growing.

  /// How the `grow` in progress has ended; empty: it has not.
  std::optional<growth_end> growth() const {
    const auto word = head().growth.load(std::memory_order_acquire);
    if (word >> 32 != grows_) return std::nullopt;
    return growth_end::of_word(word);
  }
  /// Ends it this way, unless a rank has ended it before.
  void end_growth(const growth_end& end) {
    auto before = head().growth.load(std::memory_order_acquire);
    while (before >> 32 != grows_)
      if (head().growth.compare_exchange_weak(before, end.as_word(grows_), std::memory_order_acq_rel))
        return wake_all(base_.get(), size());
  }
  /// Called by the members of the group that this one has grown out of: all have come, and the group is valid.
  void confirm() {
    head().is_whole.store(1, std::memory_order_release);
    wake_all(base_.get(), size());
  }

 protected:
  /// `base`: the region as it is mapped in this process.
  [[gnu::cold, gnu::noinline]] shm_member(std::shared_ptr<std::byte> base, const region_shape& shape, int rank,
                                          bool is_recorded)
      : shape_{shape},
        rank_{rank},
        base_{std::move(base)},
        oversubscribed_{os::usable_cores() < shape.ranks},
        is_recorded_{is_recorded} {}
  /// Called once, when it is complete: the others see that it has come.
  void come() {
    state_of_rank(rank_).id = os::this_process();
    state_of_rank(rank_).takes_remote_fences = os::eventcount::take_remote_fences();
    state_of_rank(rank_).thread.store(number_of_this_thread(), std::memory_order_release);
    has_been_counted_ =
        state_of_rank(rank_).present.exchange(presence::here, std::memory_order_acq_rel) == presence::dead;
  }
  /// This group is a subset of `all`, whose ranks have come: it has no more cores than they leave it.
  void share_cores_of(shm_member& all) {
    if (!all.knows_cores_) all.learn_cores();
    if (all.oversubscribed_) oversubscribed_ = knows_cores_ = true;
  }
  shm_member(shm_member&&) noexcept = default;
  ~shm_member() = default;

  /// Called once, at the end; true for the last rank to leave: no rank uses the region any more.
  [[gnu::cold, gnu::noinline]] bool leave() noexcept {
    if (!base_) return false;               // moved from
    if (!process_.is_this()) return false;  // a process that the rank forked is not the rank
    if (std::uncaught_exceptions() > exceptions_ && !failed())
      fail(transport::failure_while_unwinding(*this, transport::destroyed_by_an_exception));
    state_of_rank(rank_).present.store(presence::left, std::memory_order_seq_cst);
    os::eventcount::fence_before_notify();
    for (int r = 0; r < size(); ++r) state_of_rank(r).event.notify();
    const auto ranks = std::uint32_t(head().shape.ranks);  // 0: it was discarded before this rank came
    const std::uint32_t one = has_been_counted_ ? 0 : 1;
    return head().left.fetch_add(one, std::memory_order_acq_rel) + one >= ranks;
  }

  rank_state& state_of_rank(int r) const { return state_of(base_.get(), r); }

  void notify(int peer) { to_notify_ |= std::uint64_t{1} << unsigned(peer) % 64; }
  void notify_others() { to_notify_ = ~std::uint64_t{0} >> (64 - std::min(size(), 64)); }
  /// Wakes all ranks that wait until their board is read.
  void notify_of_read_board() { has_read_board_ = true; }
  /// Called before the last poll ahead of a sleep, and again when all have read.
  void awaits_readers(bool now) { now ? ++head().awaited_readers : --head().awaited_readers; }

  region_layout shape_;
  int rank_;
  std::shared_ptr<std::byte> base_;
  std::uint32_t grows_ = 0;  ///< how often `grow` was called here

 private:
  static constexpr std::chrono::milliseconds longest_sleep{50};
  static constexpr std::chrono::microseconds longest_nap{2000};
  static constexpr int most_fenced = 16;  ///< ranks: those that go to sleep together queue for membarrier

  region_header& head() const { return head_of(base_.get()); }

  static std::uint64_t number_of_this_thread() {
    static std::atomic<std::uint64_t> last{0};
    thread_local const std::uint64_t mine = ++last;
    return mine;
  }

  [[gnu::cold, gnu::noinline]] std::string last_operation(int r) const {
    const auto its = r >= 0 && r < size() ? recorder(r) : nullptr;
    return its ? transport::last_operation(*its) : std::string{};
  }

  /// Records the poll where other ranks see it. Returns how long this rank had not polled during this wait.
  std::chrono::nanoseconds poll(const backoff& p, const wait_context& s, backoff::clock::time_point now) {
    if (!is_recorded_) return {};
    auto& mine = recorder_of(base_.get(), shape_, rank_);
    const backoff::clock::time_point before{std::chrono::nanoseconds{mine.last_poll()}};
    mine.poll(p, s, now);
    return before < p.since ? std::chrono::nanoseconds{} : now - before;
  }

  /// Called when the deadline has passed. The deadline is extended once: by the time this rank itself was not running
  /// (others were not late then), and a little if every rank seems to be waiting, since the late one may just have
  /// arrived.
  [[gnu::cold, gnu::noinline]] void end_late(backoff& p, const wait_context& s, backoff::clock::time_point now,
                                             std::chrono::nanoseconds absent) {
    constexpr std::chrono::nanoseconds moment = 2 * longest_sleep;
    const auto silence = std::clamp<std::chrono::nanoseconds>(s.timeout / 4, moment, std::chrono::seconds{1});
    const auto signs = is_recorded_ ? signs_of_all(s, now - silence) : core::dynarray<transport::sign_of_life>{};
    const int late = is_recorded_ ? transport::who_is_late({signs.begin(), signs.size()}, s.peer) : s.peer;
    const auto put_off = absent > silence ? absent : late == transport::not_known ? moment : std::chrono::nanoseconds{};
    if (put_off > put_off.zero() && !std::exchange(p.excused, true)) return void(p.since += put_off);
    const auto last = last_operation(late == transport::not_known ? s.peer : late);
    give_up(errc::timeout, s.with_peer(late), now - p.since,
            transport::sentence_about_late({signs.begin(), signs.size()}, late, s.peer, s.timeout, last));
  }

  core::dynarray<transport::sign_of_life> signs_of_all(const wait_context& s,
                                                       backoff::clock::time_point recently) const {
    core::dynarray<transport::sign_of_life> all{std::size_t(size())};
    for (int r = 0; r < size(); ++r) {
      auto& sign = all[std::size_t(r)];
      sign = recorder_of(base_.get(), shape_, r).sign(s.number_for_all(), recently.time_since_epoch().count());
      if (r == rank_) sign = {transport::sign_of_life::waiting, s.peer, 0, s.is_point_to_point};
      else if (sign.is != transport::sign_of_life::done && is_stopped(r)) sign.is = transport::sign_of_life::stopped;
      else if (sign.is == transport::sign_of_life::waiting && sign.awaits == r)
        sign.is = transport::sign_of_life::silent;  // it names itself, so it waits for no other rank
    }
    return all;
  }

  /// Once all have come: whether they have a core each. Before, a rank bound to two of eight cores took those two for
  /// all there are, and ranks bound to one core each, as in containers, did not know that each has its own. For threads
  /// that estimate stays. If they have, a rank that sleeps has waited long, and can spare the time to fence the others.
  [[gnu::cold, gnu::noinline]] void learn_cores() {
    os::core_set all;
    bool is_told = all.add(0), can_be_fenced = true;
    for (int r = 0; r < size() && (is_told || !oversubscribed_); ++r) {
      const auto& its = state_of_rank(r);
      const bool has_attached = its.thread.load(std::memory_order_acquire) != 0;  // not only been introduced
      if (!has_attached && its.present.load(std::memory_order_acquire) != presence::dead) return;
      can_be_fenced = can_be_fenced && has_attached && its.takes_remote_fences;
      is_told = is_told && (r == rank_ || (its.id.pid != ::getpid() && all.add(its.id.pid)));
    }
    knows_cores_ = true;
    if (is_told) oversubscribed_ = all.count() < size();
    if (oversubscribed_ || !can_be_fenced || size() > most_fenced) return;
    os::eventcount::leave_fence_to_waiters(head().waiters_fence);
    waiters_fence_ = true;
  }

  /// Another process that has come and is stopped.
  bool is_stopped(int r) const {
    return state_of_rank(r).present.load(std::memory_order_acquire) == presence::here &&
           state_of_rank(r).id != state_of_rank(rank_).id && kolo::detail::os::is_stopped(state_of_rank(r).id);
  }

  [[noreturn, gnu::cold, gnu::noinline]] void give_up(errc code, const wait_context& s, std::chrono::nanoseconds waited,
                                                      const std::string& text) {
    throw error{fail(failure_from(s, code, rank_, waited, text))};
  }

  int next_polled_ = 0;          ///< rank
  std::uint64_t to_notify_ = 0;  ///< bit i: ranks i, i + 64, ...
  os::spin_budget spins_{};
  bool oversubscribed_, is_recorded_, has_read_board_ = false, knows_cores_ = false, waiters_fence_ = false;
  bool has_been_counted_ = false;  ///< as one that does not come, before it came
  int exceptions_ = std::uncaught_exceptions();
  core::own_process process_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::shm
