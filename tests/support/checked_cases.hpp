// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ways in which ranks can disagree, and the error that every rank must get; for any checked communicator.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>

#include <string>
#include <vector>

namespace testing {

/// "allreduce of 10 int, sum, at checked_cases.hpp:12"
inline std::string at(const char* words, int line) {
  return std::string{words} + ", at checked_cases.hpp:" + std::to_string(line);
}

/// Runs f on all ranks except the last, g on the last one; then a barrier, so that every rank gets the error. Returns the rank's error, and that of a further
/// call if it differs.
template <class C, class F, class G>
std::string told(C& comm, F f, G g) {
  std::string first;
  try {
    kolo::barrier(comm);
    if (comm.rank() == comm.size() - 1) g(comm);
    else f(comm);
    kolo::barrier(comm);
    return "nothing";
  } catch (const kolo::error& e) {
    first = e.what();
  }
  try {
    kolo::barrier(comm);
  } catch (const kolo::error& e) {
    return first == e.what() ? first : first + ", and then " + e.what();
  }
  return first + ", and then nothing";
}

/// check(name, told(...), wanted) for each case; a case fails its communicator, so `with(f)` gives f a new one.
template <class With, class Check>
void every_disagreement(int p, With with, Check check) {
  using kolo::sum;
  const std::string last = std::to_string(p - 1);
  const auto expect = [&](const char* differs, const char* operation, const std::string& most, const std::string& one,
                          auto f, auto g) {
    const auto wanted = std::string{"kolo: "} + operation + " #2, rank 0: the " + differs + ": rank 0 calls " + most +
                        "; rank " + last + " calls " + one;
    with([&](auto& comm) { check(differs, told(comm, f, g), wanted); });
  };
  const auto ten = [](auto& c) {
    int x[10]{};
    kolo::allreduce(c, x, sum);
  };
  const auto all_ten = at("allreduce of 10 int, sum", __LINE__ - 2);
  const auto eleven = [](auto& c) {
    int x[11]{};
    kolo::allreduce(c, x, sum);
  };
  expect("count differs", "allreduce", all_ten, at("allreduce of 11 int, sum", __LINE__ - 2), ten, eleven);
  const auto type = [](auto& c) {
    unsigned x[10]{};
    kolo::allreduce(c, x, sum);
  };
  expect("type differs", "allreduce", all_ten, at("allreduce of 10 unsigned int, sum", __LINE__ - 2), ten, type);
  const auto maximum = [](auto& c) {
    int x[10]{};
    kolo::allreduce(c, x, kolo::max);
  };
  expect("operator differs", "allreduce", all_ten, at("allreduce of 10 int, max", __LINE__ - 2), ten, maximum);
  const auto gather = [](auto& c) {
    int x[10]{};
    std::vector<int> all(10 * static_cast<std::size_t>(c.size()));
    kolo::allgather(c, x, all);
  };
  expect("collective differs", "allreduce", all_ten, at("allgather of 10 int", __LINE__ - 2), ten, gather);
  const auto from_0 = [](auto& c) {
    int x[10]{};
    kolo::broadcast(c, x, 0);
  };
  const auto from_1 = [](auto& c) {
    int x[10]{};
    kolo::broadcast(c, x, 1);
  };
  expect("root differs", "broadcast", at("broadcast of 10 int, root 0", __LINE__ - 6),
         at("broadcast of 10 int, root 1", __LINE__ - 3), from_0, from_1);
  const auto ring = [](auto& c) {
    int x[10]{};
    kolo::allreduce(c, x, sum, kolo::ring{});
  };
  const auto swing = [](auto& c) {
    int x[10]{};
    kolo::allreduce(c, x, sum, kolo::swing{});
  };
  expect("algorithm differs", "allreduce", at("allreduce of 10 int, sum, by ring", __LINE__ - 6),
         at("allreduce of 10 int, sum, by swing", __LINE__ - 3), ring, swing);
  const auto in_2 = [](auto& c) {
    int x[10]{};
    kolo::broadcast(c, x, 0, kolo::chain{.segments = 2});
  };
  const auto in_4 = [](auto& c) {
    int x[10]{};
    kolo::broadcast(c, x, 0, kolo::chain{.segments = 4});
  };
  expect("algorithm's parameters differ", "broadcast", at("broadcast of 10 int, root 0, by chain", __LINE__ - 6),
         at("broadcast of 10 int, root 0, by chain", __LINE__ - 3), in_2, in_4);
  const auto order = [=](auto& c) { kolo::barrier(c), ten(c); };
  expect(
      "collective differs", "allreduce", all_ten, at("barrier", __LINE__ - 2),
      [=](auto& c) { ten(c), kolo::barrier(c); }, order);
  const auto split = [](auto& c) { c.split(0, 0); };
  expect("collective differs", "allreduce", all_ten, at("split", __LINE__ - 1), ten, split);
  const auto up = [](auto& c) {
    std::vector<int> x(c.rank() == 0 ? 1 : 2), n(static_cast<std::size_t>(c.size()), 2), all(2 * n.size() - 1);
    n[0] = 1;
    kolo::allgather(c, x, all, n);
  };
  const auto down = [](auto& c) {
    std::vector<int> x(1), n(static_cast<std::size_t>(c.size()), 2), all(2 * n.size() - 1);
    n.back() = 1;
    kolo::allgather(c, x, all, n);
  };
  const auto total = std::to_string(2 * p - 1);
  expect("counts differ", "allgather", at(("allgather of " + total + " int").c_str(), __LINE__ - 8),
         at(("allgather of " + total + " int").c_str(), __LINE__ - 4), up, down);
  const auto started = [](auto& c) {
    int x[10]{};
    kolo::start_allreduce(c, x, sum).wait();
  };
  expect("count differs", "allreduce", at("allreduce of 10 int, sum", __LINE__ - 2),
         at("allreduce of 11 int, sum", __LINE__ + 2), started, [](auto& c) {
           int x[11]{};
           kolo::plan_allreduce(c, x, sum).run();
         });
}

}  // namespace testing
