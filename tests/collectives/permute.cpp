// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shift and permute on 1 to 17 ranks, over slots and messages, in every mode; and what they refuse.
#include <kolo/point_to_point.hpp>
#include <kolo/simulate.hpp>

#include <chrono>
#include <thread>

#include "collectives/movements.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"

using namespace testing;

namespace {

constexpr auto reversed = [](int rank, int size) { return size - 1 - rank; };
constexpr auto rotated = [](int rank, int size) { return (rank + 1) % size; };
constexpr auto kept = [](int rank, int) { return rank; };
constexpr auto pairs_swapped = [](int rank, int size) { return (rank ^ 1) < size ? rank ^ 1 : rank; };

template <class C, class Map>
void try_permute(C& comm, complaints& wrong, const char* name, std::size_t n, Map map) {
  const int r = comm.rank(), p = comm.size();
  int source = 0;
  while (map(source, p) != r) ++source;
  const auto mine = part_of_rank(r, n), wanted = part_of_rank(source, n);
  std::vector<int> out(n, -1);
  kolo::permute(comm, mine, out, map);
  expect_same(wrong, say(comm, name, n), r, out, wanted);
  out.assign(n, -1);
  kolo::start_permute(comm, mine, out, map).wait();
  expect_same(wrong, say(comm, name, n) + " started", r, out, wanted);
  auto plan = kolo::plan_permute(comm, mine, out, kolo::permuted{map});
  for (int again = 0; again < 2; ++again) {
    out.assign(n, -1);
    plan.run();
    expect_same(wrong, say(comm, name, n) + " planned", r, out, wanted);
  }
}

template <class C>
void try_shift(C& comm, complaints& wrong, std::size_t n) {
  const int r = comm.rank(), p = comm.size();
  const auto mine = part_of_rank(r, n);
  for (const long long distance : {1, -1, 2, 0, -p - 3, 3 * p + 1}) {
    const auto wanted = part_of_rank(static_cast<int>(((r - distance) % p + p) % p), n);
    std::vector<int> out(n, -1);
    for (int again = 0; again < 2; ++again) {
      out.assign(n, -1);
      kolo::shift(comm, mine, out, distance);
      expect_same(wrong, say(comm, "shift", n, static_cast<int>(distance)), r, out, wanted);
    }
    out.assign(n, -1);
    auto request = kolo::start_shift(comm, mine, out, distance);
    request.wait();
    expect_same(wrong, say(comm, "start_shift", n, static_cast<int>(distance)), r, out, wanted);
    auto plan = kolo::plan_shift(comm, mine, out, distance);
    out.assign(n, -1);
    plan.run();
    expect_same(wrong, say(comm, "plan_shift", n, static_cast<int>(distance)), r, out, wanted);
  }
}

template <class C>
void try_all(C& comm, complaints& wrong, std::size_t n) {
  try_shift(comm, wrong, n);
  try_permute(comm, wrong, "reversed", n, reversed);
  try_permute(comm, wrong, "rotated", n, rotated);
  try_permute(comm, wrong, "kept", n, kept);
  try_permute(comm, wrong, "pairs swapped", n, pairs_swapped);
  for (int k = 1; k <= 2; ++k)
    try_permute(comm, wrong, "a map with state", n, [k](int rank, int size) { return (rank + k) % size; });
}

}  // namespace

TEST_CASE("shift and permute give each rank what another has") {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [&](auto& comm, complaints& wrong) {
            for (const std::size_t n : {0U, 1U, 17U, 1009U}) try_all(comm, wrong, n);
          }) == "");
}

TEST_CASE("shift and permute in pieces") {
  for (const int p : {2, 3, 5, 8})
    CHECK(on_ranks(
              p, [&](auto& comm, complaints& wrong) { try_all(comm, wrong, 211); }, small_slot) == "");
  for (const int p : {2, 3})
    CHECK(on_ranks(p, [&](auto& comm, complaints& wrong) { try_all(comm, wrong, 100'003); }) == "");
}

TEST_CASE("shift takes views that are not contiguous") {
  CHECK(on_ranks(3, [&](auto& comm, complaints& wrong) {
          std::vector<int> a{comm.rank(), 1}, b{comm.rank() + 10}, out(6, -1);
          const kolo::strided<int, 1> every_other{out.data(), {3}, {2}};
          kolo::shift(comm, kolo::bucket{a, b}, every_other, 1);
          const int from = (comm.rank() + 2) % 3;
          expect_same(wrong, "strided", comm.rank(), out, {from, -1, 1, -1, from + 10, -1});
        }) == "");
}

TEST_CASE("what is wrong with a shift or a permutation is said") {
  CHECK(on_ranks(3, [&](auto& comm, complaints& wrong) {
          std::vector<int> x(4), y(4);
          const auto end = end_of([&] { kolo::permute(comm, x, y, [](int, int) { return 0; }); });
          wrong.expect(
              end.find("invalid argument") != std::string::npos || end.find("peer failed") != std::string::npos,
              "no permutation: " + end);
        }) == "");
  CHECK(on_ranks(1, [&](auto& comm, complaints& wrong) {
          std::vector<int> x(4), y(3);
          wrong.expect(end_of([&] { kolo::shift(comm, x, y, 1); }).find("invalid") == 0, "lengths");
        }) == "");
  CHECK(on_ranks(1, [&](auto& comm, complaints& wrong) {
          std::vector<int> x(4);
          wrong.expect(
              end_of([&] { kolo::shift(comm, std::span{x}.first(3), std::span{x}.last(3), 1); }).find("invalid") == 0,
              "overlap");
        }) == "");
}

TEST_CASE("ranks that shift by different distances hear of a mismatch") {
  for (const int p : {2, 3}) {
    std::string text;
    try {
      kolo::threads::run(p, [&](kolo::threads::communicator& comm) {
        std::vector<int> x(4), y(4);
        kolo::shift(comm, x, y, comm.rank() == 0 ? 0 + p + 1 : 2 * p + 2);
        kolo::barrier(comm);
      });
    } catch (const kolo::error& e) {
      text = std::to_string(e.code() == kolo::errc::mismatch) + e.what();
    }
    CHECK(text.substr(0, 1) == "1");
  }
}

TEST_CASE("checked ranks hear before any data moves that they shift by different distances") {
  const auto words = words_of([] {
    kolo::threads::run(3,
                       [](kolo::threads::communicator& comm) {
                         std::vector<int> x(4), y(4);
                         kolo::shift(comm, x, y, 1);
                         kolo::shift(comm, x, y, comm.rank() == 1 ? 2 : 1);
                       },
                       {.checked = true});
  });
  CHECK(words.find("permutation #2") != std::string::npos);
  CHECK(words.find("parameters differ: rank 0") != std::string::npos);
}

TEST_CASE("a rank that does not come to a shift is named") {
  CHECK(end_of([] {
          kolo::threads::run(2,
                             [](kolo::threads::communicator& comm) {
                               std::vector<int> x(4), y(4);
                               if (comm.rank() == 0) kolo::shift(comm, x, y, 1);
                               else std::this_thread::sleep_for(std::chrono::milliseconds{600});
                             },
                             {.timeout = std::chrono::milliseconds{200}});
        }) == "timeout 1");
}

TEST_CASE("a permutation is simulated") {
  kolo::simulate::network slow{};
  CHECK(kolo::simulate::run(kolo::shifted<1>{}, 8, 1 << 20, slow) > 0);
}
