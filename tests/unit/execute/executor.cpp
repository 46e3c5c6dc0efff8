// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the host's executor stores past the caches is there when the number of its piece is.
#include "support/one_way.hpp"

#include <kolo/collective/allgather.hpp>

// Behind it: what the intrinsics are called.
#include "support/catch.hpp"

namespace {

constexpr auto least = kolo::detail::core::one_way_copy::least_timed;

}  // namespace

TEST_CASE("what a piece that goes one way stores past the caches is ordered when the copy returns") {
  for (const std::size_t bytes : {std::size_t{8}, least - 1, least, least + 40, 4 * least}) {
    CAPTURE(bytes);
    CHECK(leaves_in_order(bytes));
  }
#if defined(__SSE2__)
  CHECK(stores_past_cache > 0);
#endif
}

TEST_CASE("who sees the number of a piece that goes one way sees all of it") {
  for (const std::size_t bytes : {std::size_t{8}, least - 1, least, least + 40, 4 * least}) {
    CAPTURE(bytes);
    CHECK(arrives_whole(bytes, 1000));
  }
}

TEST_CASE("what is exchanged is written past the caches where they do not hold what goes and what comes") {
  constexpr auto least_streamed = std::size_t{8} << 20;
  CHECK(goes_past_caches_that_do_not_hold_it(least_streamed));
  const auto most = kolo::detail::core::largest_cache_bytes();
  if (most < std::size_t{128} << 20)
    CHECK(goes_past_caches_that_do_not_hold_it(std::max(most / 2 + 64, least_streamed)));
}

#if defined(__SSE2__)
TEST_CASE("what is gathered is as long as all its parts") {
  const auto most = kolo::detail::core::largest_cache_bytes();
  if (most > std::size_t{128} << 20) return;
  constexpr std::size_t ranks = 8;
  std::atomic<std::size_t> right{0};
  kolo::threads::run(ranks, [&](auto& host) {
    kolo::communicator<refers_to_nothing> comm{refers_to_nothing{host.transport().split(0, host.rank())}};
    const std::vector<char> part(most / ranks, static_cast<char>(comm.rank()));
    std::vector<char> all(ranks * part.size());
    stores_past_cache = 0;
    kolo::allgather(comm, part, all);
    right += stores_past_cache > 0 && all.back() == ranks - 1 ? 1u : 0u;
  });
  CHECK(right == ranks);
}
#endif
