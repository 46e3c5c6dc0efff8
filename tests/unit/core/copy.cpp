// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// copy_past_cache: every alignment, all lengths around a cache line, no write outside; the size of the largest cache.
#include <kolo/core/copy.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

TEST_CASE("copy_past_cache copies the same bytes as memcpy") {
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
        INFO("begin " << begin << ", source " << source << ", bytes " << bytes);
        CHECK(to == expected);
      }
}

TEST_CASE("cache_bytes_in reads a cache's size, with its unit, from a file") {
  for (const auto& [text, bytes] :
       {std::pair{"32768K\n", 32768u << 10}, {"48M\n", 48u << 20}, {"512\n", 512u}, {"", 0u}, {"none\n", 0u}}) {
    char path[] = "/tmp/kolo-cache-XXXXXX";
    const int fd = ::mkstemp(path);
    const std::string all = text;
    REQUIRE(::write(fd, all.data(), all.size()) == static_cast<ssize_t>(all.size()));
    CHECK(kolo::detail::core::cache_bytes_in(path) == bytes);
    ::close(fd);
    ::unlink(path);
    CHECK(kolo::detail::core::cache_bytes_in(path) == 0);
  }
  std::size_t most = 0;
  for (const char level : {'0', '1', '2', '3', '4', '5'})
    most = std::max(most, kolo::detail::core::cache_bytes_in(
                              (std::string{"/sys/devices/system/cpu/cpu0/cache/index"} + level + "/size").c_str()));
  CHECK(kolo::detail::core::largest_cache_bytes() == (most > 0 ? most : std::size_t{32} << 20));
}

namespace {

/// The number of `copies` that bypass the caches, if one takes `through` through them and `past` past them.
int past_caches(kolo::detail::core::one_way_copy& way, int copies, float through, float past) {
  int n = 0;
  for (int i = 0; i < copies; ++i) {
    const bool past_cache = way.next();
    n += past_cache ? 1 : 0;
    way.took(past_cache, past_cache ? past : through);
  }
  return n;
}

}  // namespace

TEST_CASE("one_way_copy takes the cheaper way, and notices when it changes") {
  kolo::detail::core::one_way_copy way;
  CHECK(past_caches(way, 64, 1, 3) == 2);  // the second one, and the 33rd
  CHECK(past_caches(way, 64, 8, 3) > 48);
  CHECK(past_caches(way, 64, 8, 3) == 62);
  CHECK(past_caches(way, 64, 1, 3) < 40);
  CHECK(past_caches(way, 64, 1, 3) == 2);
}

TEST_CASE("short copies go through the caches; long ones first try each way once") {
  kolo::detail::core::one_way_copy way;
  constexpr auto least = kolo::detail::core::one_way_copy::least_timed;
  std::vector<bool> past;
  const auto note = [&](bool past_cache) { past.push_back(past_cache); };
  for (const std::size_t bytes : {std::size_t{0}, least - 1, least, least}) way(bytes, note);
#if defined(__SSE2__)
  CHECK(past == std::vector<bool>{false, false, false, true});
#else
  CHECK(past == std::vector<bool>(4, false));
#endif
}
