// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kill -9 in some rounds of every algorithm of the library; by hand in each round, at 2, 3 and 4 ranks.
#include <kolo/schedule/catalogue.hpp>

#include "processes/in_each_round.hpp"

namespace {
template <class F>
void for_each_algorithm(F f) {
  kolo::for_each_family([&](const char* family, const auto& algorithms) {
    kolo::for_each_schedule_of(algorithms, [&](const auto& schedule) {
      f(family + std::string{' '} + kolo::name(schedule.collective), schedule);
    });
  });
}
}  // namespace

TEST_CASE("a rank is killed at the beginning, in the middle and at the end of every algorithm") {
  for_each_algorithm(
      [](const std::string& where, const auto& schedule) { testing::in_some_rounds(where, schedule, 4); });
}

TEST_CASE("a rank is killed in each round of every algorithm", "[.by_hand]") {
  for_each_algorithm([](const std::string& where, const auto& schedule) { testing::in_each_round(where, schedule); });
  WARN(testing::figures.deaths << " ranks were killed; the slowest survivor knew it " << testing::figures.longest_ms
                               << " ms after the beginning of its call");
}
