// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs threads one at a time, the earliest first: each is a rank with its own clock.
#pragma once

#include <kolo/simulate/event_queue.hpp>
#include <kolo/simulate/machine.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::simulate {

/// A message on its way to a card.
struct queued_message {
  virtual void reach_card() = 0;

 protected:
  ~queued_message() = default;
};

/// Only the thread that holds the token runs, and it owns all members until it passes the token on. So there is nothing
/// to lock, and the same program runs in the same order every time.
class lockstep_scheduler {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();
  enum class woken { by_somebody, too_late, by_nobody };  ///< by_nobody: too late, and no rank could have run before

  lockstep_scheduler(int ranks, const kolo::simulate::network& n) : clock_{ranks, n} {
    for (int r = 0; r < ranks; ++r) {
      ranks_.push_back(std::make_unique<rank>());
      events_.add_rank(r, 0);
    }
  }

  /// The clocks of all ranks, without the messages pending in `received`.
  machine& clock() { return clock_; }
  /// Records a message that the rank has waited for; the next `apply_pending` charges its time.
  void received(int r, const incoming& what) { of(r).received.push_back(what); }
  void apply_pending(int r) {
    auto& me = of(r);
    if (!me.received.empty()) clock_.take(r, me.received);
    me.received.clear();
    clock_.wait_until(r, me.waited);
  }
  /// The rank's time: that of its clock, or until which it has waited, if that is later.
  double time(int r) { return std::max(clock_.now(r), of(r).waited); }
  void wait_until(int r, double at) { of(r).waited = std::max(of(r).waited, at); }

  void send_to_card(int to, double at, queued_message& p) { events_.add_message(to, at, &p); }

  /// Runs other ranks until none is earlier than this one.
  void yield(int r) {
    if (events_.empty() && next_deadline_ >= time(r)) return;
    events_.add_rank(r, time(r));
    hand_on(r);
  }
  /// Sleeps until another rank wakes this one, or until the deadline.
  woken sleep(int r, double deadline) {
    auto& me = of(r);
    me.sleeps = true;
    me.why = woken::by_somebody;
    me.deadline = deadline;
    next_deadline_ = std::min(next_deadline_, deadline);
    hand_on(r);
    return me.why;
  }
  /// Wakes rank r at `at`, or at its own time if that is later. Does nothing if `at` is after the rank's deadline.
  void wake(int r, double at) {
    if (!of(r).sleeps || at > of(r).deadline) return;
    of(r).sleeps = false;
    wait_until(r, at);
    events_.add_rank(r, time(r));
  }

  // Called by the ranks' threads, and by the thread that started them.

  /// Waits until rank r runs for the first time; false: the run was called off.
  bool begin(int r) {
    std::unique_lock lock{mutex_};
    of(r).may_run.wait(lock, [&] { return running_ == r || is_off_; });
    return !is_off_;
  }
  void end(int r) {
    apply_pending(r);
    give_token(next());
  }
  void start() { give_token(next()); }
  void call_off() {
    const std::lock_guard lock{mutex_};
    is_off_ = true;
    for (auto& r : ranks_) r->may_run.notify_one();
  }

 private:
  static constexpr int nobody = -1;
  struct rank {
    double waited = 0, deadline = never;
    bool sleeps = false;
    woken why{};
    std::vector<incoming> received{};
    std::condition_variable may_run{};
  };
  rank& of(int r) { return *ranks_[std::size_t(r)]; }

  /// Processes all events before the next rank that can run, and returns that rank; nobody: all have ended.
  int next() {
    for (;;) {
      const double at = events_.empty() ? never : events_.next().at;
      if (at > next_deadline_ || (events_.empty() && next_deadline_ < never))
        if (const int r = too_late(at); r != nobody) return r;
      if (events_.empty()) return nobody;
      const auto e = events_.pop();
      if (!e.is_message) return e.rank;
      static_cast<queued_message*>(e.message)->reach_card();
    }
  }

  /// Wakes and returns the sleeping rank with the earliest deadline if that is before `at`; else nobody.
  int too_late(double at) {
    int first = nobody;
    next_deadline_ = never;
    for (int r = 0; r < int(ranks_.size()); ++r)
      if (of(r).sleeps && of(r).deadline < next_deadline_) next_deadline_ = of(first = r).deadline;
    if (first == nobody || next_deadline_ >= at) return nobody;
    of(first).sleeps = false;
    of(first).why = events_.empty() ? woken::by_nobody : woken::too_late;
    wait_until(first, next_deadline_);
    return first;
  }

  void give_token(int r) {
    const std::lock_guard lock{mutex_};
    running_ = r;
    if (r != nobody) of(r).may_run.notify_one();
  }
  void hand_on(int me) {
    const int r = next();
    if (r == me) return;
    std::unique_lock lock{mutex_};
    running_ = r;
    of(r).may_run.notify_one();
    of(me).may_run.wait(lock, [&] { return running_ == me; });
  }

  machine clock_;
  event_queue events_{};
  std::vector<std::unique_ptr<rank>> ranks_{};
  double next_deadline_ = never;  // that of the sleeping ranks, or earlier
  std::mutex mutex_{};            // guards the members below
  int running_ = nobody;
  bool is_off_ = false;
};

}  // namespace kolo::inline KOLO_ABI::detail::simulate
