// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kill -9 in some rounds of each algorithm; by hand in each round, on 2, 3 and 4 ranks.
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

TEST_CASE("each algorithm: a rank is killed in the first, the middle and the last round") {
  for_each_algorithm(
      [](const std::string& where, const auto& schedule) { testing::in_some_rounds(where, schedule, 4); });
}

TEST_CASE("each algorithm: a rank is killed in each round", "[.by_hand]") {
  for_each_algorithm([](const std::string& where, const auto& schedule) { testing::in_each_round(where, schedule); });
  WARN(testing::figures.deaths << " ranks were killed; the slowest survivor had its error "
                               << testing::figures.longest_ms << " ms after the start of its call");
}
