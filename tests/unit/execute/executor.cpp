// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the host's executor stores past the caches is there when the number of its piece is.
#include "support/catch.hpp"
#include "support/one_way.hpp"

TEST_CASE("who sees the number of a piece that goes one way sees all of it") {
  constexpr auto least = kolo::detail::host_executor::short_piece;
  for (const std::size_t bytes : {std::size_t{8}, least - 1, least, least + 40, 4 * least}) {
    CAPTURE(bytes);
    CHECK(arrives_whole(bytes, 1000));
  }
}
