// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checked mode: every mismatch is an error on every rank, with both ranks and both source locations; nothing else changes.
#include <kolo/observe/checked.hpp>
#include <kolo/point_to_point.hpp>
#include <kolo/simulate/simulated.hpp>

#include <array>
#include <latch>
#include <mutex>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/checked_cases.hpp"
#include "support/message_threads.hpp"
#include "support/routed_threads.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

const kolo::threads::options checked{.timeout = 60s, .checked = true};

/// run(p, f): f(comm) on p ranks. Runs the cases in turn and compares the ranks' errors in this thread, as Catch2 requires.
template <class Run>
void check_all_mismatches(int p, Run run) {
  std::mutex one_at_a_time;
  std::vector<std::array<std::string, 3>> said;
  const auto with = [&](auto f) { run(p, f); };
  const auto begin = std::chrono::steady_clock::now();
  every_disagreement(p, with, [&](const char* name, const std::string& got, const std::string& wanted) {
    const std::lock_guard lock{one_at_a_time};
    said.push_back({name, got, wanted});
  });
  CHECK(std::chrono::steady_clock::now() - begin < 55s);
  CHECK(said.size() == 11 * static_cast<std::size_t>(p));
  for (const auto& [name, got, wanted] : said) CHECK(got == wanted);
}

template <class C>
std::string sum_of_ranks(C& comm) {
  int x = comm.rank();
  kolo::allreduce(comm, std::span{&x, 1}, kolo::sum);
  return std::to_string(x);
}

}  // namespace

TEST_CASE("checked: mismatches over slots") {
  for (const int p : {2, 3, 5}) check_all_mismatches(p, [](int n, auto f) { kolo::threads::run(n, f, checked); });
}
TEST_CASE("checked: mismatches over slots that are shorter than a record") {
  check_all_mismatches(
      3, [](int n, auto f) { kolo::threads::run(n, f, {.timeout = 60s, .slot_bytes = 64, .checked = true}); });
}
TEST_CASE("checked: mismatches over messages") {
  for (const int p : {2, 3}) check_all_mismatches(p, [](int n, auto f) { run_message_threads(n, f, checked); });
}
TEST_CASE("checked: mismatches over a routed transport") {
  check_all_mismatches(4, [](int n, auto f) {
    run_routed_threads(by_turns(n),
                       [&](auto& whole) {
                         kolo::communicator<kolo::checked<routed_transport>> comm{std::move(whole.transport())};
                         f(comm);
                       },
                       {.timeout = 60s});
  });
}
TEST_CASE("checked: mismatches in virtual time") {
  check_all_mismatches(3, [](int n, auto f) { kolo::virtual_time::run(n, {}, f, {.checked = true}); });
}
TEST_CASE("checked: mismatches in the decorator") {
  check_all_mismatches(3, [](int n, auto f) {
    kolo::threads::run(n, [&](auto& whole) {
      kolo::communicator<kolo::checked<kolo::threads::transport>> comm{std::move(whole.transport())};
      f(comm);
    });
  });
}

TEST_CASE("checked: differences that are allowed pass, and the results are the same") {
  for (const int p : {1, 2, 3, 5}) {
    const auto said = on_threads(
        p,
        [&](auto& comm) {
          const auto n = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
          std::vector<int> to(n), from(n, comm.rank());
          for (std::size_t r = 0; r < n; ++r) to[r] = static_cast<int>(r);
          std::vector<int> in(n * (n - 1) / 2, comm.rank()), out(n * me, -1), all(comm.rank() == 0 ? n : 0), none;
          kolo::alltoall(comm, in, out, to, from);
          const std::vector<int> one{comm.rank()};
          kolo::gather(comm, one, all, 0);
          int x = comm.rank(), y = 0;
          if (comm.rank() == 0) kolo::reduce(comm, std::span{&x, 1}, std::span{&y, 1}, kolo::sum, 0);
          else kolo::reduce(comm, std::span{&x, 1}, none, kolo::sum, 0);
          auto request = kolo::start_broadcast(comm, std::span{&y, 1}, 0);
          auto plan = kolo::plan_allreduce(comm, std::span{&x, 1}, kolo::max);
          plan.run(), plan.run();
          request.wait();
          auto part = comm.split(comm.rank() % 2, -comm.rank());
          return std::to_string(y) + ' ' + std::to_string(x) + ' ' + std::to_string(part.size()) +
                 (out.empty() || out.back() == comm.size() - 1 ? "" : " wrong");
        },
        checked);
    for (int r = 0; r < p; ++r)
      CHECK(said[static_cast<std::size_t>(r)] ==
            std::to_string(p * (p - 1) / 2) + ' ' + std::to_string(p - 1) + ' ' + std::to_string((p + 1 - r % 2) / 2));
  }
}

TEST_CASE("checked: a split communicator is checked, numbers its own ranks and calls, and fails alone") {
  const auto said = on_threads(
      3,
      [](auto& comm) -> std::string {
        auto part = comm.split(comm.rank() == 1 ? 1 : 0, 0);
        std::vector<int> x(comm.rank() == 2 ? 7 : 8);
        return words_of([&] { kolo::allreduce(part, x, kolo::sum); }) + sum_of_ranks(comm);
      },
      checked);
  CHECK(said[1] == "3");
  CHECK(said[0] == said[2]);
  CHECK(said[0].starts_with(
      "kolo: allreduce #1, rank 0: the count differs: rank 0 calls allreduce of 8 int, sum, at checked.cpp:"));
  CHECK(said[0].find("; rank 1 calls allreduce of 7 int, sum, at checked.cpp:") != std::string::npos);
}

TEST_CASE("checked: the error's fields") {
  const auto said = on_threads(
      3,
      [](auto& comm) -> std::string {
        int x[3]{};
        try {
          kolo::barrier(comm), kolo::barrier(comm);
          kolo::broadcast(comm, x, comm.rank() == 2 ? 1 : 0);
        } catch (const kolo::error& e) {
          return std::string{kolo::name(e.code())} + ' ' + std::to_string(e.rank()) + std::to_string(e.peer()) +
                 std::to_string(e.sequence()) + ' ' + std::string{e.operation()};
        }
        return "fine";
      },
      checked);
  CHECK(said == all_say(3, "mismatch 023 broadcast"));
}

TEST_CASE(
    "checked: a rank that sends or receives while the other calls a collective is told apart from one that is not "
    "checked") {
  for (const int odd : {0, 1})
    for (const bool sends : {true, false}) {
      const auto said = on_threads(
          2,
          [&](auto& comm) {
            return words_of([&] {
              int x = 0;
              if (comm.rank() == odd)
                sends ? kolo::send(comm, std::span{&x, 1}, 1 - odd) : kolo::receive(comm, std::span{&x, 1}, 1 - odd);
              kolo::barrier(comm);
            });
          },
          checked);
      const auto by = [](const char* call, int rank) {
        const std::string the_rank = "rank " + std::to_string(rank);
        return "kolo: " + (call + (", " + the_rank)) + ": " + the_rank + " calls ";
      };
      const auto wanted = sends ? by("barrier #1", 1 - odd) + "barrier, rank " + std::to_string(odd) + " calls send"
                                : by("receive #1, round 0", odd) + "receive, rank " + std::to_string(1 - odd) +
                                      (odd == 1 ? " calls barrier" : " calls a collective");
      CHECK(said == all_say(2, wanted));
    }
}

TEST_CASE("checked: an extra call names a rank that has left or is late") {
  CHECK(on_threads(
            2, [](auto& comm) { return comm.rank() == 0 ? "" : end_of([&] { kolo::barrier(comm); }); }, checked)[1] ==
        "peer left 0");
  std::latch given_up{2};
  const auto said = on_threads(
      3,
      [&](auto& comm) {
        if (comm.rank() == 2) given_up.wait();
        const auto end = end_of([&] { kolo::barrier(comm, {.timeout = comm.rank() == 0 ? 2s : 60s}); });
        if (comm.rank() != 2) given_up.count_down();
        return end;
      },
      checked);
  CHECK(said == all_say(3, "timeout 2"));
}

TEST_CASE("checked: a rank that is late after a split is named") {
  std::latch have_part{3}, given_up{2};
  const auto said = on_threads(
      3,
      [&](auto& comm) {
        const auto part = comm.split(0, 0);
        have_part.arrive_and_wait();
        if (comm.rank() == 0) given_up.wait();
        const auto words = words_of([&] { kolo::barrier(comm, {.timeout = 200ms}); });
        if (comm.rank() != 0) given_up.count_down();
        return words;
      },
      checked);
  for (const auto& words : said)
    CHECK(words.ends_with("rank 0 is late: it has not done its part within 0.250 s; it has begun no operation"));
}

TEST_CASE("checked: ranks that wait for rank 0 report the late rank that rank 0 names") {
  std::vector<std::string> said(3);
  kolo::virtual_time::run(3, {},
                          [&](auto& comm) {
                            if (comm.rank() == 2) comm.transport().compute(100);
                            said[static_cast<std::size_t>(comm.rank())] = end_of([&] { kolo::barrier(comm); });
                          },
                          {.timeout = 2s, .checked = true});
  CHECK(said == all_say(3, "timeout 2"));
}

TEST_CASE("checked: either all ranks are checked or none") {
  for (const int one : {0, 1, 2}) {
    const auto said = on_threads(3, [&](auto& comm) {
      comm.engine()->is_checked = comm.rank() == one;
      return words_of([&] { kolo::barrier(comm), kolo::barrier(comm); });
    });
    for (const auto& words : said) CHECK(words.find("all ranks are checked, or none") != std::string::npos);
  }
}
