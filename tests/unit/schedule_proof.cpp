// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every schedule obeys every law, for every number of ranks up to 257 and for some up to 1,024.
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "unit/schedule_list.hpp"

#include <kolo/schedule/verify.hpp>

#include <initializer_list>

namespace {

// The sizes are proven once; under a sanitizer, and with the other compiler, a part of them will do.
#if defined(KOLO_SANITIZED) || defined(__clang__)
constexpr int up_to = 65;
constexpr int beyond[] = {129};
#else
constexpr int up_to = 257;
constexpr int beyond[] = {331, 1024};
#endif

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
    CHECK(proven >= 7);  // the powers of two
  });
}

TEST_CASE("every schedule is proven for some large numbers of ranks") {
  for_each_schedule([](const char* name, const auto& schedule) {
    int proven = 0;
    for (const int size : beyond) proven += prove(name, schedule, size);
    INFO(name);
    CHECK((proven > 0 || !kolo::supports(schedule, beyond[0])));
  });
}
