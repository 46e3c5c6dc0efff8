// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every schedule satisfies every law, for every number of ranks up to 65; with KOLO_PROVE_ALL up to 257, and for some up to 1,024.
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "unit/schedule/list.hpp"

#include <kolo/schedule/verify.hpp>

#include <cstdlib>
#include <vector>

namespace {

const bool all = std::getenv("KOLO_PROVE_ALL") != nullptr;
const int up_to = all ? 257 : testing::is_sanitized ? 17 : 65;
const std::vector<int> beyond = all                     ? std::vector{331, 1024}
                                : testing::is_sanitized ? std::vector{33}
                                                        : std::vector{129};

template <class S>
int prove(const char* name, const S& schedule, int size) {
  if (!kolo::supports(schedule, size)) return 0;
  if (const auto verdict = kolo::verify(schedule, size); !verdict) FAIL_CHECK(name << ": " << verdict);
  return 1;
}

}  // namespace

TEST_CASE("every schedule is proven for every small number of ranks") {
  for_each_schedule([](const char* name, const auto& schedule) {
    INFO(name);
    int proven = 0;
    for (int size = 1; size <= up_to; ++size) proven += prove(name, schedule, size);
    CHECK(proven >= (testing::is_sanitized ? 5 : 7));  // the powers of two
  });
}

TEST_CASE("every schedule is proven for some large numbers of ranks") {
  for_each_schedule([](const char* name, const auto& schedule) {
    int proven = 0;
    for (const int size : beyond) proven += prove(name, schedule, size);
    if (proven == 0) proven = prove(name, schedule, kolo::floor_power_of_two(beyond[0]));  // a power of two
    INFO(name);
    CHECK(proven > 0);
  });
}
