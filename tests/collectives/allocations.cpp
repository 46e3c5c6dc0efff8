// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which calls allocate: counted by replacing the operators new and delete of this program.
#include "support/count_allocations.hpp"

#include <kolo/point_to_point.hpp>

#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

template <class F>
long allocations_in(F f) {
  const long before = allocations;
  f();
  return allocations - before;
}

/// The second call of f allocates nothing.
template <class F>
void expect_none(complaints& wrong, const char* call, F f) {
  f();
  const long n = allocations_in(f);
  std::string sentence{call};
  sentence.append(": ").append(std::to_string(n)).append(" allocations");
  wrong.expect(n == 0, sentence);
}

}  // namespace

TEST_CASE("allocations are counted") {
  CHECK(allocations_in([] { ::operator delete(::operator new(8)); }) == 1);  // called by name: not optimised away
  CHECK(allocations_in([] { ::operator delete (::operator new (128, std::align_val_t{64}), std::align_val_t{64}); }) ==
        1);
}

TEST_CASE("a plan's second run allocates nothing on any rank") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const auto slot : {usual_slot, small_slot})
      CHECK(on_ranks(
                p,
                [](auto& comm, complaints& wrong) {
                  std::vector<int> x(5000, comm.rank()), all(5000 * static_cast<std::size_t>(comm.size()));
                  auto ring = kolo::plan_allreduce(comm, x, kolo::sum, kolo::ring{});
                  auto direct = kolo::plan_allreduce(comm, x, kolo::sum, kolo::one_shot{});
                  auto gather = kolo::plan_allgather(comm, x, all, kolo::circulant{});
                  auto chain = kolo::plan_broadcast(comm, x, 0, kolo::chain{.segments = 8});
                  auto barrier = kolo::plan_barrier(comm);
                  expect_none(wrong, "ring", [&] { ring.run(); });
                  expect_none(wrong, "one_shot", [&] { direct.run(); });
                  expect_none(wrong, "allgather", [&] { gather.run(); });
                  expect_none(wrong, "broadcast", [&] { chain.run(); });
                  expect_none(wrong, "barrier", [&] { barrier.run(); });
                },
                slot) == "");
}

TEST_CASE("a blocking call allocates nothing from the second on") {
  for (const int p : {1, 2, 3, 8})
    CHECK(on_ranks(p, [](auto& comm, complaints& wrong) {
            const auto size = static_cast<std::size_t>(comm.size());
            std::vector<int> x(3000, 1), out(3000), all(3000 * size), in(3000 * size),
                mine(kolo::block(3000, comm.size(), comm.rank()).count);
            expect_none(wrong, "allreduce", [&] { kolo::allreduce(comm, x, kolo::max); });
            expect_none(wrong, "allreduce with a lambda",
                        [&] { kolo::allreduce(comm, x, out, [](int a, int b) { return a ^ b; }); });
            expect_none(wrong, "reduce", [&] { kolo::reduce(comm, x, out, kolo::sum, 0); });
            expect_none(wrong, "reduce_scatter", [&] { kolo::reduce_scatter(comm, x, mine, kolo::sum); });
            expect_none(wrong, "allgather", [&] { kolo::allgather(comm, x, all); });
            expect_none(wrong, "gather", [&] { kolo::gather(comm, x, all, 0); });
            expect_none(wrong, "scatter", [&] { kolo::scatter(comm, all, x, 0); });
            expect_none(wrong, "broadcast", [&] { kolo::broadcast(comm, x, comm.size() - 1); });
            expect_none(wrong, "alltoall", [&] { kolo::alltoall(comm, in, all); });
            expect_none(wrong, "scan", [&] { kolo::scan(comm, x, out, kolo::sum); });
            expect_none(wrong, "exclusive_scan", [&] { kolo::exclusive_scan(comm, x, out, kolo::sum); });
            expect_none(wrong, "barrier", [&] { kolo::barrier(comm); });
          }) == "");
}

TEST_CASE("calls on one rank change nothing and allocate nothing, not even the first time") {
  CHECK(on_ranks(1, [](auto& comm, complaints& wrong) {
          auto odd = filled<std::uint32_t>(
              999, [](std::size_t i) { return 0x7f800001u + static_cast<std::uint32_t>(i); });  // NaNs
          std::vector<float> x(999);
          std::memcpy(x.data(), odd.data(), sizeof(float) * 999);
          const long n = allocations_in([&] {
            kolo::allreduce(comm, x, kolo::sum);
            kolo::allreduce(comm, x, kolo::average, kolo::ring{});
            kolo::broadcast(comm, x, 0);
            kolo::scan(comm, x, x, kolo::min);
            kolo::barrier(comm);
          });
          wrong.expect(n == 0, std::to_string(n) + " allocations");
          expect_bytes(wrong, "a call on one rank", 0, x.data(), odd.data(), 999, sizeof(float));
        }) == "");
}

TEST_CASE("the first pair operation: a failed allocation is tried again by the next call") {
  for (const long bad : {1, 2, 3}) {
    CHECK(on_ranks(1, [&](auto& comm, complaints& wrong) {
            const std::vector<float> x(9, 3);
            std::vector<float> y(9);
            bool failed = false;
            try {
              fails = allocations + bad;
              kolo::exchange(comm, x, y, 0);
            } catch (const std::bad_alloc&) {
              failed = true;
            }
            wrong.expect(failed, "the allocation was not made");
            kolo::exchange(comm, x, y, 0);
            wrong.expect(y == x, "the next call has not exchanged");
          }) == "");
  }
}
