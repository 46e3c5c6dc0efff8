// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trees, pipelines and doubling scans have right results, and a barrier of any radix waits for all ranks.
#include "collectives/movements.hpp"
#include "collectives/reductions.hpp"
#include "support/catch.hpp"

#include <kolo/schedule/circulant_pipelined.hpp>
#include <kolo/schedule/double_tree.hpp>
#include <kolo/view/bfloat16.hpp>

#include <atomic>

using namespace testing;

namespace {

#ifdef KOLO_SANITIZED
constexpr std::size_t many = 20'003;  // each access takes many times as long, and a piece is a hundred bytes
#else
constexpr std::size_t many = 100'003;
#endif

/// With the default number of segments, with one, and with an odd number.
template <class C>
void every_tree(C& comm, complaints& wrong, std::size_t n) {
  for (const int segments : {16, 1, 3}) {
    try_broadcast(comm, wrong, "double_tree broadcast", n, kolo::double_tree{segments});
    try_reduce(comm, wrong, "double_tree reduce", n, kolo::double_tree{segments});
    try_allreduce(comm, wrong, "double_tree allreduce", n, kolo::double_tree{segments});
    try_broadcast(comm, wrong, "circulant_pipelined broadcast", n, kolo::circulant_pipelined{segments});
    try_reduce(comm, wrong, "circulant_pipelined reduce", n, kolo::circulant_pipelined{segments});
    try_reduce(comm, wrong, "chain reduce", n, kolo::chain{segments});
  }
}

template <class Over, class F>
void for_every_size(std::size_t slot_bytes, F each) {
  for (const int p : rank_counts) CHECK(on_ranks<Over>(p, each, slot_bytes) == "");
}

}  // namespace

TEST_CASE("trees and pipelines: each kind of count, with each root, in rank order where the schedule keeps it") {
  for_every_size<over_slots>(usual_slot, [](auto& comm, complaints& wrong) {
    for (const auto n : counts_for(comm.size())) every_tree(comm, wrong, n);
  });
}

TEST_CASE("trees and pipelines: vectors longer than a slot are cut") {
  for_every_size<over_slots>(small_slot, [](auto& comm, complaints& wrong) { every_tree(comm, wrong, 211); });
  CHECK(on_ranks(6, [](auto& comm, complaints& wrong) { every_tree(comm, wrong, many); }) == "");
}

TEST_CASE("trees and pipelines: over messages") {
  for_every_size<over_messages>(usual_slot, [](auto& comm, complaints& wrong) { every_tree(comm, wrong, 101); });
}

TEST_CASE("double_tree: an average divides once in either tree, and all ranks have the same bits") {
  for (const int p : {2, 3, 6, 8})
    CHECK(on_ranks(p, [p](auto& comm, complaints& wrong) {
            const auto r = static_cast<std::size_t>(comm.rank()), n = std::size_t{100};
            std::vector<float> x(n, static_cast<float>(2 * comm.rank())),
                narrow = filled<float>(n, [&](std::size_t i) { return 1.0F / static_cast<float>(1 + i + n * r); });
            kolo::allreduce(comm, x, kolo::average, kolo::double_tree{.segments = 5});
            expect_same(wrong, "average", comm.rank(), x, std::vector<float>(n, static_cast<float>(p - 1)));
            kolo::allreduce(comm, narrow, kolo::wire<kolo::bfloat16>(kolo::average), kolo::double_tree{.segments = 5});
            auto of_rank_0 = narrow;
            kolo::broadcast(comm, of_rank_0, 0);
            expect_same(wrong, "average with a narrow wire", comm.rank(), narrow, of_rank_0);
          }) == "");
}

TEST_CASE("recursive_doubling: scans give each rank the combination of the ranks before it, in rank order") {
  const auto each = [](auto& comm, complaints& wrong) {
    for (const auto n : counts_for(comm.size())) try_scans(comm, wrong, "doubling scan", n, kolo::recursive_doubling{});
  };
  for_every_size<over_slots>(usual_slot, each);
  for_every_size<over_slots>(small_slot, each);
  for_every_size<over_messages>(usual_slot, each);
}

TEST_CASE("dissemination: no rank leaves a barrier of any radix before all have entered it") {
  for (const int p : rank_counts)
    for (const int radix : {2, 3, 4, 5}) {
      std::atomic<int> come[5]{};
      const auto each = [&](auto& comm, complaints& wrong) {
        for (auto& number : come) {
          ++number;
          kolo::barrier(comm, kolo::dissemination{.radix = radix});
          wrong.expect(number == p, "barrier of radix " + std::to_string(radix) + ": a rank left too early");
        }
      };
      CHECK(on_ranks<over_slots>(p, each) == "");
      for (auto& number : come) CHECK(number == p);
    }
}
