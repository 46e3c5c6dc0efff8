// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An epoch: one communicator, groups that are split off, delays, and many calls, all drawn from one number.
#pragma once

#include <kolo/observe/faulty.hpp>

#include <deque>
#include <stdexcept>

#include "soak/movements.hpp"
#include "soak/outline.hpp"
#include "soak/reductions.hpp"

namespace soak {

template <class C>
void draw_call(C& comm, dice& d, task<C>& t) {
  switch (d.below(9)) {
    case 0:
    case 1: return draw_reduction<int>(comm, d, t, " int sum ", kolo::sum);
    case 2: return draw_reduction<int>(comm, d, t, " int max ", kolo::max);
    case 3: return draw_reduction<float>(comm, d, t, " float sum ", kolo::sum);
    case 4: return draw_reduction<testing::affine>(comm, d, t, " maps, in order, ", testing::then{});
    case 5: return draw_reduction<pixel>(comm, d, t, " pixels ", mix_pixels);
    default: return draw_movement(comm, d, t);
  }
}

/// The ranks of one communicator in one epoch. `history_` describes the last calls.
template <class C>
class player {
 public:
  player(C& comm, const outline& o) : comm_{comm}, outline_{o} {}

  void play() {
    for (int step = 0; step < outline_.steps; ++step) {
      const auto seed = mixed(outline_.seed, static_cast<std::uint64_t>(step) + 1);
      try {
        one_step(seed, step);
      } catch (const std::exception& e) {
        throw std::runtime_error("epoch " + std::to_string(outline_.seed) + ", step " + std::to_string(step) +
                                 ", rank " + std::to_string(comm_.rank()) + " of " + std::to_string(comm_.size()) +
                                 ", " + history_ + ": " + e.what());
      }
    }
  }

 private:
  struct group {
    C comm;
    int color;
  };

  void one_step(std::uint64_t seed, int step) {
    dice d{seed};
    if (d.one_in(20)) disturb(d, step);
    if (d.one_in(15) && groups_.size() < 3) add_group(d);
    else if (d.one_in(30) && !groups_.empty()) groups_.pop_front();
    const auto chosen = d.below(groups_.size() + 1);
    const bool whole_as_well = d.one_in(4);
    if (chosen == 0) return calls(comm_, d, 1 + d.below(3));
    group& g = groups_[chosen - 1];
    std::deque<task<C>> first;
    std::deque<kolo::request<typename C::transport_type>> begun;
    if (whole_as_well)
      draw_call(comm_, d, first.emplace_back()), begun.push_back(first.back().start());  // two communicators at once
    dice own{mixed(seed, static_cast<std::uint64_t>(g.color) + 77)};
    history_ = "group of " + std::to_string(g.comm.size()) + ": ";
    if (!begun.empty()) history_ += first.back().text, begun.front().wait(), verify(first.back());
    calls(g.comm, own, 1 + own.below(2));
  }

  /// Delays a rank that is drawn in one of the next calls; in half of the cases all ranks overlook for a while what has arrived.
  void disturb(dice& d, int) {
    if constexpr (requires { kolo::inject_fault(comm_, kolo::fault_plan{}); }) {
      kolo::fault_plan plan{.what = kolo::fault_kind::pause,
                            .rank = d.below(comm_.size()),
                            .round = -1,
                            .duration = std::chrono::milliseconds{d.below(5)},
                            .seed = d.one_in(2) ? d.draw() : 0};
      plan.operation = comm_.engine()->sequence + 1 + d.below<std::uint64_t>(4);
      kolo::inject_fault(comm_, plan);
    }
  }

  void add_group(dice& d) {
    const auto s = d.draw();
    const int groups = 1 + d.below(3), color = dice{mixed(s, static_cast<std::uint64_t>(comm_.rank()))}.below(groups);
    history_ = "split";
    groups_.push_back({comm_.split(color, dice{s + static_cast<std::uint64_t>(comm_.rank())}.below(3)), color});
  }

  /// Some calls on one communicator: one blocking, or several at once, completed in another order on each rank.
  void calls(C& comm, dice& d, int count) {
    std::deque<task<C>> all;
    for (int k = 0; k < count; ++k) draw_call(comm, d, all.emplace_back());
    history_ = "on " + std::to_string(comm.size()) + " ranks";
    for (auto& t : all) history_ += "; " + t.text;
    const bool again = d.one_in(4);
    if (count == 1) {
      all[0].run();
      if (again && all[0].repeatable) all[0].run();
    } else {
      at_once(all, dice{mixed(d.draw(), static_cast<std::uint64_t>(comm.rank()))}, again);
    }
    for (auto& t : all) verify(t);
    if (d.one_in(3)) compare_digests(comm, all);
  }

  void at_once(std::deque<task<C>>& all, dice own, bool again) {
    std::vector<kolo::request<typename C::transport_type>> begun;
    for (auto& t : all) begun.push_back(t.start());
    for (int polls = own.below(20); polls > 0; --polls) (void)begun[own.below(begun.size())].test();
    const auto first = own.below(begun.size());
    for (std::size_t k = 0; k < begun.size(); ++k) begun[(first + k) % begun.size()].wait();
    for (std::size_t k = 0; again && k < begun.size(); ++k)
      if (all[k].repeatable) begun[k].restart(), begun[k].wait();
  }

  static void verify(task<C>& t) {
    if (const std::string wrong = t.check(); !wrong.empty()) throw std::logic_error(t.text + ": " + wrong);
  }

  void compare_digests(C& comm, const std::deque<task<C>>& all) {
    std::uint64_t mine = 0;
    for (const auto& t : all) mine = mixed(mine, t.digest);
    std::vector<std::uint64_t> everyones(static_cast<std::size_t>(comm.size()));
    kolo::allgather(comm, std::span{&mine, 1}, everyones);
    for (const auto theirs : everyones)
      if (theirs != mine) throw std::logic_error("the ranks have different bits");
  }

  C& comm_;
  outline outline_;
  std::deque<group> groups_;
  std::string history_ = "nothing yet";
};

/// Collective: runs the epoch of that outline on a communicator.
template <class C>
void play(C& comm, const outline& o) {
  player<C>{comm, o}.play();
}

/// Runs `f(comm)` on processes, with the outline's options; throws if that fails.
template <class T, class F>
void on_processes(const outline& o, F f) {
  const int status = kolo::shm::launch(o.ranks,
                                       [&](auto& whole) {
                                         kolo::communicator<T> comm{std::move(whole.transport())};
                                         f(comm);
                                       },
                                       {.timeout = std::chrono::seconds{60}, .slot_bytes = o.slot_bytes});
  if (status != 0)
    throw std::runtime_error("epoch " + std::to_string(o.seed) + " ended with status " + std::to_string(status));
}

}  // namespace soak
