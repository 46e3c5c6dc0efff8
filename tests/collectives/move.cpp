// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives that move elements without combining them, by each algorithm, on 1 to 17 ranks, with each root and kind of count.
#include "collectives/every_movement.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

template <class F>
void for_every_size(F each) {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [&](auto& comm, complaints& wrong) {
            for (const auto n : counts_for(comm.size())) each(comm, wrong, n < 1000 || p < 8 ? n : 101);
          }) == "");
}
template <class F>
void in_pieces(F each) {
  for (const int p : rank_counts)
    CHECK(on_ranks(
              p, [&](auto& comm, complaints& wrong) { each(comm, wrong, 211); }, small_slot) == "");
  CHECK(on_ranks(4, [&](auto& comm, complaints& wrong) { each(comm, wrong, 40'009); }) == "");
}

}  // namespace

TEST_CASE("broadcast: each algorithm gives each rank the root's vector") {
  const auto each = [](auto& comm, complaints& wrong, std::size_t n) { every_broadcast(comm, wrong, n); };
  for_every_size(each);
  in_pieces(each);
}

TEST_CASE("allgather: each algorithm gives each rank all parts, equal or ragged") {
  const auto each = [](auto& comm, complaints& wrong, std::size_t n) { every_allgather(comm, wrong, n); };
  for_every_size(each);
  in_pieces(each);
}

TEST_CASE("gather, scatter: each algorithm's gather and scatter are inverse, with equal and ragged parts") {
  const auto each = [](auto& comm, complaints& wrong, std::size_t n) { every_gather_and_scatter(comm, wrong, n); };
  for_every_size(each);
  in_pieces(each);
}

TEST_CASE("alltoall: each rank gets the parts that the others have for it, equal or ragged") {
  const auto each = [](auto& comm, complaints& wrong, std::size_t n) {
    every_alltoall(comm, wrong, n < 1000 ? n : 997);
  };
  for_every_size(each);
  in_pieces(each);
}
