// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kill -9 in a chosen round or at a chosen step of a call: the survivors name the rank, soon. (killed.cpp looks at what is left.)
#pragma once

#include <kolo/transport/faulty.hpp>
#include <kolo/transport/messages.hpp>

#include "collectives/any_call.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

namespace testing {

using over_messages = kolo::faulty<kolo::messages<kolo::shm::transport>>;  // round by round, as schedules are written
using over_slots = kolo::faulty<kolo::shm::transport>;
inline constexpr std::size_t each_part = 960;  // a multiple of all blocks, so that no message is empty

/// One call and a barrier with a rank that may die in the call; true if it did. Every survivor hears of it, or all is well.
template <class T, class S>
bool dies(const std::string& where, const S& schedule, int p, const kolo::fault_plan& plan) {
  const auto end = on_processes(p, [&](auto& whole) {
    kolo::communicator<T> comm{std::move(whole.transport())};
    kolo::misbehave(comm, plan);
    const auto start = std::chrono::steady_clock::now();
    const auto said = end_of([&] {
      any_call(comm, schedule, each_part);
      kolo::barrier(comm);
    });
    return said + (std::chrono::steady_clock::now() - start < std::chrono::seconds{5} ? ", soon" : ", late");
  });
  INFO(where << " of " << p << ", rank " << plan.rank << ", round " << plan.round << ", step " << plan.step << ": " << end.errors);
  if (end.status == 0) {
    CHECK(end.said == all_say(p, "fine, soon"));
    return false;
  }
  CHECK(end.status == 128 + SIGKILL);
  CHECK(end.said == all_but(plan.rank, p, "peer died " + std::to_string(plan.rank) + ", soon"));
  return true;
}

template <class S>
void in_each_round(const std::string& where, const S& schedule) {
  for (int p = 2; p <= 4; ++p)
    for (const int victim : std::set<int>{0, p - 1})
      for (int k = 0; kolo::supports(schedule, p) && k < schedule.rounds(p); ++k)
        CHECK(dies<over_messages>(where, schedule, p, {.what = kolo::mishap::kill, .rank = victim, .round = k}) == takes_part(schedule, victim, p, k));
}

template <class S>
void at_each_step(const std::string& where, const S& schedule) {
  for (const int p : {2, 3})
    for (const int victim : std::set<int>{0, p - 1}) {
      int step = 0;
      while (dies<over_slots>(where, schedule, p, {.what = kolo::mishap::kill, .rank = victim, .step = step})) ++step;
      CHECK(step >= p - 1);
    }
}

}  // namespace testing
