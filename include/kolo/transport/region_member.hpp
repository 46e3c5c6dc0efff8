// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's presence in a region: it comes, says the first failure and hears of it, waits, notices who is gone, and leaves.
#pragma once

#include <kolo/transport/bell.hpp>
#include <kolo/transport/flight_recorder.hpp>
#include <kolo/transport/liveness.hpp>
#include <kolo/transport/mapping.hpp>
#include <kolo/transport/region.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline v0::detail {

/// What a Transport is, but for `split`. What the ranks send each other lies in the same region, and is not known here: who publishes something says
/// `ring(peer)`, and `flush` wakes those.
class region_member {
 public:
  int rank() const { return rank_; }
  int size() const { return shape_.ranks; }
  placement place() const { return shape_.place(rank_); }
  std::chrono::nanoseconds timeout() const { return shape_.timeout; }
  bool is_checked() const { return shape_.checked; }

  /// What that rank did last; null where the memory is not for such things.
  std::shared_ptr<flight_recorder> recorder(int r) const {
    if (!is_recorded_) return nullptr;
    return {base_, &recorder_of(base_.get(), shape_, r)};
  }

  // Failure: the first one stays.

  const failure* failed() const {
    const auto by = head().failed.load(std::memory_order_acquire);
    return by == 0 ? nullptr : &failure_of(base_.get(), shape_, static_cast<int>(by) - 1);
  }

  const failure& fail(const failure& f) {
    if (const failure* first = failed()) return *first;
    failure_of(base_.get(), shape_, rank_) = f;
    std::uint32_t nobody = 0;
    if (head().failed.compare_exchange_strong(nobody, static_cast<std::uint32_t>(rank_) + 1, std::memory_order_seq_cst))
      for (int r = 0; r < size(); ++r) board(r).alarm.wake();
    return *failed();
  }

  // Waiting.

  /// Wakes whoever sleeps for what has been published since the last time.
  void flush() {
    if (to_ring_.empty()) return;
    bell::before_ringing();
    for (const int peer : to_ring_) board(peer).alarm.ring();
    to_ring_.clear();
  }

  void relax(patience& p, const situation& s) {
    flush();
    const int spins = crowded_ ? 1 : 2000, yields = crowded_ ? 8 : 16;
    const int look = p.looks++;
    if (look < spins) return KOLO_PAUSE();
    if (look < spins + yields) return void(::sched_yield());
    if (look == spins + yields) {
      p.bell = board(rank_).alarm.arm();
      return;  // to one more look
    }
    check(p, s);
    if (p.nap.count() > 0) {
      board(rank_).alarm.sleep(p.bell, p.nap);
      p.nap = std::min(p.nap + p.nap / 4, longest_nap);
    } else {
      board(rank_).alarm.sleep(p.bell, longest_sleep);
    }
    p.looks = spins + yields;
  }

  void check(patience& p, const situation& s) {
    flush();
    if (const failure* f = failed()) throw error{*f};
    const auto now = patience::clock::now();
    if (p.since == patience::clock::time_point{}) p.since = p.checked = now;
    const auto absent = look(p, s, now);
    if (now - p.since > s.timeout) end_late(p, s, now, absent);
    const auto waited = now - p.since;
    if (now - p.checked < longest_sleep / 2) return;
    p.checked = now;
    const bool sure = std::exchange(p.suspicious, false);
    for (int r = 0; r < size(); ++r) {
      if (!is_gone(r, s.peer)) continue;
      p.suspicious = true;  // it may have done its part before: look once more
      if (!sure) continue;
      const bool left = board(r).present.load(std::memory_order_acquire) == presence::left;
      give_up(left ? errc::peer_left : errc::peer_died, situation{s.operation, s.sequence, s.round, r, s.timeout}, waited,
              "rank " + std::to_string(r) + (left ? " has destroyed its communicator, and is still waited for" : " died") + last_operation(r));
    }
  }

  /// Has that rank ended; or left, if it is awaited?
  bool is_gone(int r, int awaited) const {
    if (r == rank_) return false;
    switch (board(r).present.load(std::memory_order_acquire)) {
      case presence::dead: return true;
      case presence::left: return r == awaited;
      case presence::here: return !is_alive(board(r).id);
      default: return false;
    }
  }

  // What is said of ranks before they come, and when they cannot say it themselves.

  /// A fresh region for a communicator of that shape. One rank does it; the others attach by its number.
  template <Mapping Memory>
  static std::uint64_t initialise(Memory& memory, const region_shape& shape) {
    const auto region = memory.reserve(shape.bytes());
    const auto base = memory.map(region, shape.bytes());
    construct_region(base.get(), shape);
    return region;
  }

  /// Who the ranks are, where that is known before they attach.
  template <Mapping Memory>
  static void introduce(Memory& memory, std::uint64_t region, const region_shape& shape, const std::vector<process_id>& members) {
    const auto base = memory.map(region, shape.bytes());
    for (int r = 0; r < shape.ranks; ++r) {
      board_of(base.get(), r).id = members[static_cast<std::size_t>(r)];
      board_of(base.get(), r).present.store(presence::here, std::memory_order_release);
    }
  }

  /// What a parent says to the others when it sees a rank die.
  template <Mapping Memory>
  static void announce_death(Memory& memory, std::uint64_t region, const region_shape& shape, int rank) {
    const auto base = memory.map(region, shape.bytes());
    board_of(base.get(), rank).present.store(presence::dead, std::memory_order_release);
    for (int r = 0; r < shape.ranks; ++r) board_of(base.get(), r).alarm.wake();
  }

 protected:
  /// `base`: the region as it is mapped here.
  region_member(std::shared_ptr<std::byte> base, const region_shape& shape, int rank, bool is_recorded)
      : shape_{shape}, rank_{rank}, base_{std::move(base)}, crowded_{usable_cores() < shape.ranks}, is_recorded_{is_recorded} {
    to_ring_.reserve(2 * static_cast<std::size_t>(shape.ranks));
    board(rank_).id = this_process();
    board(rank_).present.store(presence::here, std::memory_order_release);
  }
  region_member(region_member&&) noexcept = default;
  ~region_member() = default;

  /// Once, at the end; true for the last rank to leave: nobody uses the region any more.
  bool leave() noexcept {
    if (!base_) return false;                              // moved from
    if (board(rank_).id.pid != ::getpid()) return false;  // a process that the rank forked is not the rank
    if (std::uncaught_exceptions() > exceptions_ && !failed())
      fail(failure_in({.peer = rank_}, errc::peer_failed, rank_, {}, "an exception destroyed its communicator"));
    board(rank_).present.store(presence::left, std::memory_order_seq_cst);
    bell::before_ringing();
    for (int r = 0; r < size(); ++r) board(r).alarm.ring();
    return head().left.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(size());
  }

  rank_board& board(int r) const { return board_of(base_.get(), r); }

  void ring(int peer) {
    if (!to_ring_.empty() && to_ring_.back() == peer) return;
    if (to_ring_.size() == to_ring_.capacity()) flush();  // allocates nothing
    to_ring_.push_back(peer);
  }

  region_shape shape_;
  int rank_;
  std::shared_ptr<std::byte> base_;

 private:
  static constexpr std::chrono::milliseconds longest_sleep{50};
  static constexpr std::chrono::microseconds longest_nap{2000};

  region_head& head() const { return head_of(base_.get()); }

  std::string last_operation(int r) const {
    const auto its = r >= 0 && r < size() ? recorder(r) : nullptr;
    return its ? detail::last_operation(*its) : std::string{};
  }

  /// Said where the others see it. How long this rank has not looked in this wait.
  std::chrono::nanoseconds look(const patience& p, const situation& s, patience::clock::time_point now) {
    if (!is_recorded_) return {};
    auto& mine = recorder_of(base_.get(), shape_, rank_);
    const patience::clock::time_point before{std::chrono::nanoseconds{mine.looked()}};
    mine.look(p, s, now);
    return before < p.since ? std::chrono::nanoseconds{} : now - before;
  }

  /// The deadline has passed. Once it is put off: by the time in which this rank itself did not run, as it were not the others who are late then; and for a
  /// moment where nobody is to be seen who does not wait, since whoever was late may just have come.
  void end_late(patience& p, const situation& s, patience::clock::time_point now, std::chrono::nanoseconds absent) {
    constexpr std::chrono::nanoseconds moment = 2 * longest_sleep;
    const auto silence = std::clamp<std::chrono::nanoseconds>(s.timeout / 4, moment, std::chrono::seconds{1});
    const auto [late, stands_still] = is_recorded_ ? who_is_late(s, now - silence) : std::pair{s.peer, false};
    const auto put_off = absent > silence ? absent : late == not_known ? moment : std::chrono::nanoseconds{};
    if (put_off > put_off.zero() && !std::exchange(p.excused, true)) return void(p.since += put_off);
    const auto nothing_came = "nothing came from rank " + std::to_string(s.peer) + " within " + seconds(s.timeout);
    std::string text = "rank " + std::to_string(late) + " is late: ";
    if (late == not_known) text = nothing_came + ", and it waits itself, as all do: who is late is not known";
    else if (late == s.peer) text += "nothing came from it within " + seconds(s.timeout);
    else text += nothing_came + ", which waits for it as well";
    if (stands_still) text += "; its process is stopped";
    give_up(errc::timeout, {s.operation, s.sequence, s.round, late, s.timeout}, now - p.since, text + last_operation(late));
  }

  /// And is its process stopped?
  std::pair<int, bool> who_is_late(const situation& s, patience::clock::time_point recently) const {
    std::vector<sign_of_life> all;
    for (int r = 0; r < size(); ++r) {
      auto& sign = all.emplace_back(recorder_of(base_.get(), shape_, r).sign(s.sequence, recently.time_since_epoch().count()));
      if (r == rank_) sign = {sign_of_life::waiting, s.peer};
      else if (sign.is != sign_of_life::done && is_stopped(r)) sign.is = sign_of_life::stopped;
      else if (sign.is == sign_of_life::waiting && sign.awaits == r) sign.is = sign_of_life::silent;  // for nobody else
    }
    const int late = detail::who_is_late(all, s.peer);
    return {late, late != not_known && all[static_cast<std::size_t>(late)].is == sign_of_life::stopped};
  }

  /// Another process that has come, and is held.
  bool is_stopped(int r) const {
    return board(r).present.load(std::memory_order_acquire) == presence::here && board(r).id != board(rank_).id && kolo::is_stopped(board(r).id);
  }

  [[noreturn]] void give_up(errc code, const situation& s, std::chrono::nanoseconds waited, const std::string& text) {
    throw error{fail(failure_in(s, code, rank_, waited, text))};
  }

  static std::string seconds(std::chrono::nanoseconds t) {
    auto s = std::to_string(std::chrono::duration<double>(t).count());
    return s.substr(0, s.find('.') + 4) + " s";
  }

  std::vector<int> to_ring_;
  bool crowded_, is_recorded_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace kolo::inline v0::detail
