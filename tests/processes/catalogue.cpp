// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kill -9 in each round of every algorithm of the library: five minutes or more, so it is built and run only by hand.
#include <kolo/schedule/catalogue.hpp>

#include "processes/in_each_round.hpp"

TEST_CASE("a rank is killed in each round of every algorithm") {
  kolo::for_each_family([](const char* family, const auto& algorithms) {
    kolo::for_each_schedule_of(algorithms, [&](const auto& schedule) {
      testing::in_each_round(family + std::string{' '} + kolo::name(schedule.collective), schedule);
    });
  });
}
