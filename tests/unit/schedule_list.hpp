// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every schedule of the library, and some that are made of them.
#pragma once

#include <kolo/schedule/catalogue.hpp>

#include <string>

/// Calls f(name, schedule) for each; `name` lives until f returns.
template <class F>
void for_each_schedule(F f) {
  using namespace kolo;
  for_each_family([&](const char* family, const auto& algorithm) {
    for_each_schedule_of(algorithm, [&](const auto& schedule) {
      f((std::string{family} + "::" + name(schedule.collective)).c_str(), schedule);
    });
  });

  f("chain of 1 segment, broadcast", chain::broadcast{{.segments = 1}});
  f("chain of 3 segments, scan", chain::scan{{.segments = 3}});
  f("chain of 3 segments, exclusive_scan", chain::exclusive_scan{{.segments = 3}});
  f("fold of ring::allreduce", fold<ring::allreduce>{});
  f("fold of fold", fold<recursive_doubling::allreduce>{});
  f("forwarded to 1: binomial::reduce", forwarded<binomial::reduce>{1});
  f("forwarded to 3: two_shot::reduce", forwarded<two_shot::reduce>{3});
}
