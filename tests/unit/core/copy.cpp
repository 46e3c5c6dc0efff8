// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies past the cache: every alignment, every length around a line, and nothing beside it.
#include <kolo/core/copy.hpp>

#include <vector>

#include "support/catch.hpp"

TEST_CASE("copy_past_cache copies what memcpy copies") {
  std::vector<std::byte> from(1024), to(1024);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  using sizes = std::initializer_list<std::size_t>;
  for (const std::size_t begin : sizes{0, 1, 16, 63, 64})
    for (const std::size_t source : sizes{0, 3, 32})
      for (std::size_t bytes = 0; bytes <= 400; ++bytes) {
        auto expected = std::vector<std::byte>(1024, std::byte{0xee});
        to = expected;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(begin));
        kolo::detail::core::copy_past_cache(to.data() + begin, from.data() + source, bytes);
        kolo::detail::core::end_past_cache();
        if (to != expected) FAIL("begin " << begin << ", source " << source << ", bytes " << bytes);
      }
  SUCCEED();
}
