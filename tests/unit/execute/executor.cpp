// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores of the host's executor past the caches are visible when the number of their piece is.
#include "support/one_way.hpp"

#include <kolo/collective/allgather.hpp>

// After one_way.hpp, which redefines intrinsics.
#include "support/catch.hpp"

namespace {

constexpr auto least = kolo::detail::core::one_way_copy::least_timed;

}  // namespace

TEST_CASE("a one-way copy leaves no store past the caches unordered") {
  for (const std::size_t bytes : {std::size_t{8}, least - 1, least, least + 40, 4 * least}) {
    CAPTURE(bytes);
    CHECK(leaves_in_order(bytes));
  }
#if defined(__SSE2__)
  CHECK(stores_past_cache > 0);
#endif
}

TEST_CASE("replies that go past the caches are ordered; in place none do") {
  for (const std::size_t bytes : {64u << 10, 1u << 20}) CHECK(replies_leave_in_order(bytes));
}

TEST_CASE("a reader that sees the number of a one-way piece sees all of its bytes") {
  for (const std::size_t bytes : {std::size_t{8}, least - 1, least, least + 40, 4 * least}) {
    CAPTURE(bytes);
    CHECK(arrives_whole(bytes, 1000));
  }
}

TEST_CASE("an exchange bypasses the caches if they do not hold both the sent and the received data") {
  constexpr auto least_streamed = std::size_t{8} << 20;
  CHECK(goes_past_caches_that_do_not_hold_it(least_streamed));
  const auto most = kolo::detail::core::largest_cache_bytes();
  if (most < std::size_t{128} << 20)
    CHECK(goes_past_caches_that_do_not_hold_it(std::max(most / 2 + 64, least_streamed)));
}

#if defined(__SSE2__)
TEST_CASE("an allgather decides by the length of all parts whether it bypasses the caches") {
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
