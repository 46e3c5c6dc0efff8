// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that exchange real bytes in virtual time: a whole program, run on a simulated network. Opt-in.
#pragma once

#include <kolo/core/joined_threads.hpp>
#include <kolo/launch/rethrow_cause.hpp>
#include <kolo/schedule/cost_model.hpp>
#include <kolo/simulate/simulated_group.hpp>
#include <kolo/transport/forwarded.hpp>

#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <system_error>

namespace kolo::inline KOLO_ABI::virtual_time {

/// Models MessageTransport. `kolo::simulate::network` and `detail::simulate::machine` state the rules of time; a
/// collective takes the seconds that `kolo::simulate::run` gives for its schedule. Other code takes no time, unless it
/// calls `compute`.
///
/// Deadlines are in virtual time. When no rank can run, the first deadline passes at once, and its error lists which
/// rank waits for which. A rank that polls (`request.test()`) pays an overhead each time, and an eighth more than the
/// last time if it did nothing else in between.
class transport {
 public:
  using abilities =
      kolo::abilities<ability::checks, ability::tuning, ability::clock, ability::identity, ability::executor>;
  /// The options of a call: `{.timeout = 10s}`.
  struct options {
    std::chrono::nanoseconds timeout{};  ///< of this call, in virtual time; zero: the communicator's
  };
  /// One message in flight.
  struct ticket {
    int peer = 0;
    bool incoming = false;
    std::uint64_t number = 0;  ///< among the receives from its peer
  };

  transport(std::shared_ptr<detail::simulate::world> all, detail::simulate::group& ranks, int rank)
      : all_{std::move(all)},
        group_{&ranks},
        rank_{rank},
        place_{ranks.place(rank)},
        tuning_{tuning_for(all_->clock().described(), place_)},
        exceptions_{std::uncaught_exceptions()} {}
  transport(transport&&) noexcept = default;
  transport& operator=(transport&&) = delete;
  ~transport() { leave(); }

  int rank() const { return rank_; }
  bool is_checked() const { return all_->options.checked; }
  int size() const { return group_->size(); }
  placement place() const { return place_; }
  std::chrono::nanoseconds timeout() const { return all_->options.timeout; }
  /// The table of the automatic choice: the constants of the link between most of the ranks.
  const kolo::tuning* tuning() const { return &tuning_; }

  /// This rank's virtual time, in seconds.
  double now() const {
    all_->apply_pending(me().number);
    return all_->time(me().number);
  }
  /// Advances this rank's clock by the seconds of a computation, longer if it is a straggler.
  void compute(double seconds) {
    if (!(seconds >= 0 && std::isfinite(seconds)))
      throw error{errc::invalid_argument, "compute takes seconds, from 0 on"};
    all_->apply_pending(me().number);
    all_->clock().compute(me().number, seconds);
    all_->yield(me().number);
  }

  const failure* failed() const { return group_->failed ? &*group_->failed : nullptr; }
  const failure& fail(const failure& f) {
    if (group_->failed) return *group_->failed;
    group_->failed = detail::transport::with_peer_identity(*this, f);
    for (auto& m : group_->members)
      if (m.asleep) all_->wake(m.number, all_->time(me().number));
    return *group_->failed;
  }

  rank_identity who(int r) const {
    const auto number = std::uint64_t(group_->at(r).number);
    return {.among = reinterpret_cast<std::uintptr_t>(all_.get()), .number = number};
  }

  void relax(backoff& p, const wait_context& s) {
    if (p.nap.count() > 0) return check(p, s);  // a send on another communicator does not wake this rank
    throw_if_failed();
    const double since = first_poll(p), deadline = since + seconds(s.timeout);
    for (bool once = false;; once = true) {
      if (const double then = group_->comes(rank_); then <= deadline) return all_->wait_until(me().number, then);
      if (once && !me().asked) return;
      if (s.peer >= 0 && s.peer < size() && group_->at(s.peer).has_left && !group_->is_sent(rank_)) fail_peer_left(s);
      sleep(s, since, deadline);
    }
  }
  void check(backoff& p, const wait_context& s) {
    throw_if_failed();
    const double since = first_poll(p), before = now();
    pause_ = before == paused_ ? pause_ * 9 / 8 : std::max(all_->clock().described().overhead, 1e-7);
    all_->clock().wait_until(me().number, paused_ = before + pause_);
    if (paused_ > since + seconds(s.timeout)) give_up(errc::timeout, s, since, is_late(s));
    all_->yield(me().number);
    throw_if_failed();
  }

  transport split(int color, int key) {
    throw_if_failed();
    auto& m = me();
    m.color = color, m.key = key, m.splits = true, m.asked = nullptr;
    now();
    wait_context s{.operation = "split", .timeout = timeout(), .found_in = origin::setup};
    const auto splits = [](const detail::simulate::group::member& other) { return other.splits; };
    if (std::all_of(group_->members.begin(), group_->members.end(), splits)) group_->divide();
    for (const double since = now(); m.splits;) {
      for (int r = size() - 1; r >= 0; --r)
        if (!group_->at(r).splits) s.peer = r;
      if (group_->at(s.peer).has_left) fail_peer_left(s);
      sleep(s, since, since + seconds(s.timeout));
    }
    return transport{all_, *m.child.first, m.child.second};
  }

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    auto& m = me();
    auto& other = group_->at(peer);
    all_->apply_pending(m.number);
    if (all_->clock().has_cards() && !std::exchange(m.posting, true)) all_->yield(m.number);
    auto& sent = other.from[rank_].came.emplace_back();
    sent.data.assign(data, data + bytes);
    sent.tag = tag;
    sent.of = group_;
    sent.to = peer;
    sent.what = {bytes, all_->clock().send(m.number, other.number, bytes), m.number};
    sent.is_here = !all_->clock().is_shared(m.number, other.number);
    if (sent.is_here) group_->wake(peer);
    else all_->send_to_card(other.number, sent.what.at, sent);
    return {peer, false, 0};
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    all_->apply_pending(me().number);
    auto& l = me().from[peer];
    l.waiting.push_back({data, bytes, tag});
    return {peer, true, l.finished + l.waiting.size() - 1};
  }
  void submit() { me().posting = false; }
  bool done(const ticket& t) {
    if (!t.incoming) return true;  // a send has copied its data
    auto& l = me().from[t.peer];
    while (!l.came.empty() && !l.waiting.empty() && is_in(l.came.front())) take_front(l, t.peer);
    const bool is_done = t.number < l.finished;
    me().asked = is_done ? nullptr : &l;
    me().asked_number = t.number;
    return is_done;
  }
  std::size_t piece_bytes() const { return all_->options.piece_bytes; }

  detail::simulate::executor executor() const {
    detail::simulate::executor h;
    h.all = all_.get();
    h.number = me().number;
    return h;
  }

 private:
  detail::simulate::group::member& me() const { return group_->at(rank_); }
  static double seconds(std::chrono::nanoseconds t) { return double(t.count()) * 1e-9; }

  /// When the operation began to wait; `since` holds virtual nanoseconds here, where other transports have real ones.
  double first_poll(backoff& p) {
    const std::chrono::nanoseconds one{1};
    if (p.since == backoff::clock::time_point{})
      p.since = backoff::clock::time_point{one + std::chrono::nanoseconds{std::llround(all_->time(me().number) * 1e9)}};
    return seconds(p.since.time_since_epoch() - one);
  }

  bool is_in(const detail::simulate::message& m) const {
    return m.is_here && all_->clock().earliest(me().number, m.what) <= all_->time(me().number);
  }
  void take_front(detail::simulate::message_queue& l, int peer) {
    const auto& m = l.came.front();
    const auto& wanted = l.waiting.front();
    if (m.tag != wanted.tag || m.data.size() != wanted.bytes) detail::transport::report_mismatch(*this, peer);
    if (wanted.bytes > 0) std::memcpy(wanted.data, m.data.data(), wanted.bytes);
    all_->received(me().number, m.what);
    l.came.pop_front();
    l.waiting.pop_front();
    ++l.finished;
  }
  void sleep(const wait_context& s, double since, double deadline) {
    me().asleep = s;
    const auto why = all_->sleep(me().number, deadline);
    me().asleep.reset();
    throw_if_failed();
    if (why == detail::simulate::lockstep_scheduler::woken::too_late) give_up(errc::timeout, s, since, is_late(s));
    if (why == detail::simulate::lockstep_scheduler::woken::by_nobody)
      give_up(errc::timeout, s, since, "no rank can go on: " + who_waits(s));
  }

  void throw_if_failed() const {
    if (group_->failed) throw error{*group_->failed};
  }
  static std::string is_late(const wait_context& s) {
    return "rank " + std::to_string(s.peer) + " is late: it has not done its part within " +
           std::to_string(s.timeout.count() / 1'000'000) + " virtual ms";
  }
  std::string who_waits(const wait_context& mine) const {
    std::string text;
    for (int r = 0; r < size(); ++r) {
      const auto& s = r == rank_ ? mine : group_->at(r).asleep.value_or(wait_context{});
      if (s.peer < 0) continue;
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(r) + " waits for rank " + std::to_string(s.peer);
      if (std::string_view{s.operation} != mine.operation) text += std::string{" in "} + s.operation;
    }
    return text;
  }
  [[noreturn]] void fail_peer_left(const wait_context& s) {
    give_up(errc::peer_left, s, now(), detail::transport::is_gone_sentence(s.peer, false));
  }
  [[noreturn]] void give_up(errc code, const wait_context& s, double since, const std::string& text) {
    const std::chrono::nanoseconds waited{std::llround((all_->time(me().number) - since) * 1e9)};
    throw error{fail(failure_from(s, code, rank_, waited, text))};
  }

  static kolo::tuning tuning_for(const simulate::network& n, const placement& p) {
    const simulate::link l = n.ranks_per_node > 0 && p.node_count == 1 ? n.inside : n.outside();
    const auto everywhere = [](double constant) {
      kolo::tuning::per_size all;
      all.fill(constant);
      return all;
    };
    kolo::tuning t{.copied = everywhere(l.seconds_per_byte), .noticed = l.latency + 2 * l.overhead};
    t.rows[0] = {.ranks = 2,
                 .runs_as = pattern::rounds,
                 .hop = l.latency,
                 .message = 2 * l.overhead + l.gap,
                 .bytes = everywhere(l.seconds_per_byte),
                 .combined = everywhere(n.seconds_per_byte_reduced)};
    return t;
  }

  void leave() noexcept {
    if (!all_) return;
    if (std::uncaught_exceptions() > exceptions_ && !failed())
      fail(detail::transport::failure_while_unwinding(*this, detail::transport::destroyed_by_an_exception));
    me().has_left = true;
    for (int r = 0; r < size(); ++r)
      if (const auto& m = group_->at(r); m.asleep && m.asleep->peer == rank_ && !group_->is_sent(r))
        all_->wake(m.number, all_->time(me().number));
  }

  std::shared_ptr<detail::simulate::world> all_;  // null after a move
  detail::simulate::group* group_;
  int rank_;
  placement place_;
  kolo::tuning tuning_;
  int exceptions_;
  double paused_ = -1, pause_ = 0;  // end and length of the last pause between two polls
};

/// The communicator of a rank in virtual time; `kolo::virtual_time::run` passes one to each rank.
using communicator = kolo::communicator<transport>;

/// Virtual seconds since the start of all ranks.
struct times {
  double seconds = 0;             ///< until the last rank is done
  std::vector<double> of_rank{};  ///< until each is done
};

/// Runs f(comm) on `ranks` ranks of a simulated network, and returns the virtual seconds that it took. Every rank is a
/// thread with its own clock, but only one runs at a time, the one whose clock is earliest: the same program takes the
/// same course and the same time in every run. Ranks must wait for each other through `comm` only.
///
/// comm.transport().now() is a rank's clock; comm.transport().compute(seconds) advances it, for work that is not
/// executed. Throws what a rank threw (the cause, if one failure led to others); invalid_argument for less than one
/// rank; out_of_resources if the threads cannot be started; std::invalid_argument for an invalid network.
template <class F>
times run(int ranks, const simulate::network& network, F f, const options& o = {}) {
  if (ranks < 1)
    throw error{errc::invalid_argument, "virtual_time::run needs at least one rank, not " + std::to_string(ranks)};
  kolo::checked_deadline(o.timeout);
  const auto all = std::make_shared<detail::simulate::world>(ranks, network, o);
  auto& everybody = all->groups.emplace_back(detail::simulate::group{*all});
  for (int r = 0; r < ranks; ++r) everybody.members.push_back({r});
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  const auto live = [&](int r) {
    if (!all->begin(r)) return;
    try {
      communicator comm{all, everybody, r};
      const auto unreported = comm.engine()->unreported;
      f(comm);
      unreported->throw_if_any();
    } catch (...) {
      thrown[std::size_t(r)] = std::current_exception();
    }
    all->end(r);
  };
  {
    detail::core::joined_threads threads;
    try {
      for (int r = 0; r < ranks; ++r) threads.start(live, r);
    } catch (const std::system_error& e) {
      all->call_off();
      throw error{errc::out_of_resources, "virtual_time::run could start only " + std::to_string(threads.size()) +
                                              " of " + std::to_string(ranks) + " threads: " + e.what()};
    }
    all->start();
  }
  detail::launch::rethrow_cause(thrown);
  times result;
  for (int r = 0; r < ranks; ++r) result.of_rank.push_back(all->time(r));
  result.seconds = *std::max_element(result.of_rank.begin(), result.of_rank.end());
  return result;
}

}  // namespace kolo::inline KOLO_ABI::virtual_time

namespace kolo::inline KOLO_ABI {
namespace [[deprecated("kolo: write virtual_time")]] simulated {
using virtual_time::communicator, virtual_time::options, virtual_time::run, virtual_time::times,
    virtual_time::transport;
}
}  // namespace kolo::inline KOLO_ABI
