// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checked mode between processes: the descriptions and locations of the calls are exchanged.
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/checked_cases.hpp"

using namespace testing;

TEST_CASE("each process gets the error of each disagreement") {
  for (const int p : {2, 3}) {
    std::vector<std::string> wanted(static_cast<std::size_t>(p));
    const auto result = on_processes(p,
                                     [&](auto& whole) {
                                       std::string wrong;
                                       int cases = 0;
                                       every_disagreement(
                                           p,
                                           [&](auto f) {
                                             auto comm = whole.split(0, whole.rank());
                                             f(comm);
                                           },
                                           [&](const char*, const std::string& got, const std::string& expected) {
                                             ++cases;
                                             if (got != expected && wrong.empty())
                                               wrong = got + " INSTEAD OF " + expected;
                                           });
                                       return wrong.empty() ? std::to_string(cases) : wrong;
                                     },
                                     {.timeout = std::chrono::seconds{60}, .checked = true});
    CHECK(result.said == all_say(p, "11"));
    CHECK(result.clean);
  }
}

TEST_CASE("KOLO_CHECKED=1 turns checked mode on for all communicators") {
  ::setenv("KOLO_CHECKED", "1", 1);
  const auto result = on_processes(2, [&](auto& comm) {
    std::vector<int> x(comm.rank() == 0 ? 4 : 5);
    return words_of([&] { kolo::allreduce(comm, x, kolo::sum); });
  });
  ::setenv("KOLO_CHECKED", "0", 1);
  CHECK(result.said[0].starts_with(
      "kolo: allreduce #1, rank 0: the count differs: rank 0 calls allreduce of 4 int, sum, at checked.cpp:"));
  CHECK(result.said == all_say(2, result.said[0]));
  const auto unchecked =
      on_processes(2, [&](auto& comm) { return comm.engine()->is_checked ? "checked" : "not checked"; });
  CHECK(unchecked.said == all_say(2, "not checked"));
}
