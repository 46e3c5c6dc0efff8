// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// copy_past_cache and copy_from_ring: every alignment, all lengths around a cache line, no write outside; the size of the largest cache.
#include <kolo/core/copy.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

TEST_CASE("copy_past_cache and copy_from_ring copy the same bytes as memcpy") {
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
        to.assign(1024, std::byte{0xee});
        kolo::detail::core::copy_from_ring(to.data() + begin, from.data() + source, bytes);
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

using kolo::detail::core::one_way_copy;
using kolo::detail::core::stored_by;

struct times {
  float slot, ring, past_cache;
  float of(stored_by way) const { return way == stored_by::slot ? slot : way == stored_by::ring ? ring : past_cache; }
};

/// How many of `copies` went each way, if writer and reader take these times per byte. A reader that takes 0 reports nothing.
std::map<stored_by, int> ways(one_way_copy& way, int copies, times writer, times reader = {}, bool has_ring = false) {
  std::map<stored_by, int> n;
  for (int i = 0; i < copies; ++i) {
    const auto chosen = way.choose(one_way_copy::least_timed, has_ring);
    ++n[chosen];
    way.took(chosen, writer.of(chosen));
    if (reader.of(chosen) > 0) way.reader_takes(chosen, reader.of(chosen));
  }
  return n;
}

}  // namespace

#if defined(__SSE2__)
TEST_CASE(
    "one_way_copy takes the way with which writer and reader together take least, and notices when that changes") {
  one_way_copy way;
  CHECK(ways(way, 64, {2, 0, 3})[stored_by::past_cache] == 2);  // the second one, and the 33rd
  CHECK(ways(way, 128, {16, 0, 3})[stored_by::past_cache] > 100);
  CHECK(ways(way, 512, {16, 0, 3})[stored_by::slot] <= 12);  // tried less often, as it takes more than twice as long
  CHECK(ways(way, 512, {2, 0, 3})[stored_by::past_cache] < 256);
  CHECK(ways(way, 512, {2, 0, 3}, {1, 0, 20})[stored_by::past_cache] <= 8);
}

TEST_CASE(
    "one_way_copy: a reader that reports nothing takes as long again from memory; what it reports counts instead") {
  one_way_copy silent, reports;
  CHECK(ways(silent, 64, {5, 0, 3})[stored_by::past_cache] == 2);
  CHECK(ways(reports, 64, {5, 0, 3}, {1, 0, 2})[stored_by::past_cache] == 62);
}

TEST_CASE("one_way_copy tries all three ways where there is a ring, and the others in turn") {
  one_way_copy way;
  auto n = ways(way, 640, {8, 2, 3}, {1, 1, 8}, true);
  CHECK(n[stored_by::ring] > 600);
  CHECK(n[stored_by::slot] >= 2);
  CHECK(n[stored_by::past_cache] >= 2);
  CHECK(ways(way, 640, {1, 3, 3}, {1, 3, 8}, true)[stored_by::slot] > 300);  // both cores share their caches now
  one_way_copy without;
  CHECK(ways(without, 640, {8, 2, 3}, {1, 1, 8})[stored_by::ring] == 0);
}
#endif

TEST_CASE("short copies go through the caches and are not timed; long ones first try each way once") {
  one_way_copy way;
  constexpr auto least = one_way_copy::least_timed;
  std::vector<bool> past;
  std::vector<stored_by> timed;
  for (const std::size_t bytes : {std::size_t{0}, least - 1, least, least}) {
    way.choose(bytes);
    timed.push_back(way(bytes, [&](bool past_cache) { past.push_back(past_cache); }));
  }
  timed.push_back(way(least - 1, [](bool) {}));  // as chosen for a long one
#if defined(__SSE2__)
  CHECK(past == std::vector<bool>{false, false, false, true});
  CHECK(timed == std::vector{stored_by::untimed, stored_by::untimed, stored_by::slot, stored_by::past_cache,
                             stored_by::untimed});
#else
  CHECK(past == std::vector<bool>(4, false));
  CHECK(timed == std::vector(5, stored_by::untimed));
#endif
}
