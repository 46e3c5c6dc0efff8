// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kill -9 in a given round or at a given step of a call: the survivors name the rank soon. (killed.cpp checks what is left.)
#pragma once

#include <kolo/compose/messages.hpp>
#include <kolo/observe/faulty.hpp>

#include <algorithm>
#include <atomic>

#include "collectives/any_call.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

namespace testing {

using dying_messages = kolo::faulty<kolo::messages<kolo::shm::transport>>;  // runs by rounds, as the schedule has them
using dying_slots = kolo::faulty<kolo::shm::transport>;
inline constexpr std::size_t each_part = 960;  // a multiple of all numbers of blocks, so that no message is empty

/// All deaths of this program so far. The time is that of the slowest survivor from the start of its call, so a little longer than from the death.
struct death_figures {
  int deaths = 0;
  long longest_ms = 0;
};
inline death_figures figures;

/// One call and a barrier; a rank may be killed in the call. Returns how the ranks end, and whether within a second.
template <class T, class S>
launch_result one_death(const S& schedule, int p, const kolo::fault_plan& plan) {
  const common<std::atomic<long>> longest;
  auto end = on_processes(p, [&](auto& whole) {
    kolo::communicator<T> comm{std::move(whole.transport())};
    kolo::inject_fault(comm, plan);
    const auto start = std::chrono::steady_clock::now();
    const auto said = end_of([&] {
      any_call(comm, schedule, each_part);
      kolo::barrier(comm);
    });
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
    for (long so_far = *longest; so_far < took && !longest->compare_exchange_weak(so_far, took);) {
    }
    return said + (took < 1000 ? ", soon" : ", late");
  });
  if (end.status != 0) ++figures.deaths, figures.longest_ms = std::max(figures.longest_ms, longest->load());
  return end;
}

/// Whether the rank was killed. Checks that each survivor names it, or that all is well, and that no process is left. Repeats late runs: the machine may be
/// busy for a second once, but not three times.
template <class T, class S>
bool dies(const std::string& where, const S& schedule, int p, const kolo::fault_plan& plan) {
  auto end = one_death<T>(schedule, p, plan);
  for (int again = 0; again < 2 && any_is_late(end); ++again) end = one_death<T>(schedule, p, plan);
  INFO(where << " of " << p << ", rank " << plan.rank << ", round " << plan.round << ", step " << plan.step << ": "
             << end.errors);
  if (end.status == 0) {
    CHECK(end.said == all_say(p, "fine, soon"));
    CHECK(end.no_process_left);
    return false;
  }
  CHECK(end.status == 128 + SIGKILL);
  CHECK(end.said == all_but(plan.rank, p, "peer died " + std::to_string(plan.rank) + ", soon"));
  CHECK(end.no_process_left);
  return true;
}

template <class S>
void in_each_round(const std::string& where, const S& schedule) {
  for (int p = 2; p <= 4; ++p)
    for (const int victim : std::set<int>{0, p - 1})
      for (int k = 0; kolo::supports(schedule, p) && k < schedule.rounds(p); ++k)
        CHECK(dies<dying_messages>(where, schedule, p, {.what = kolo::fault_kind::kill, .rank = victim, .round = k}) ==
              takes_part(schedule, victim, p, k));
}

/// Kills a different rank in the first, the middle and the last round, if it takes part in the round.
template <class S>
void in_some_rounds(const std::string& where, const S& schedule, int p) {
  if (!kolo::supports(schedule, p)) return;
  const int rounds = schedule.rounds(p);
  for (const int k : std::set<int>{0, rounds / 2, rounds - 1})
    if (takes_part(schedule, k % p, p, k))
      CHECK(dies<dying_messages>(where, schedule, p, {.what = kolo::fault_kind::kill, .rank = k % p, .round = k}));
}

template <class S>
void at_each_step(const std::string& where, const S& schedule, const std::set<int>& ranks = {2, 3},
                  int least_steps = 0) {
  for (const int p : ranks)
    for (const int victim : std::set<int>{0, p - 1}) {
      int step = 0;
      while (dies<dying_slots>(where, schedule, p, {.what = kolo::fault_kind::kill, .rank = victim, .step = step}))
        ++step;
      CHECK(step >= (least_steps > 0 ? least_steps : p - 1));
    }
}

}  // namespace testing
