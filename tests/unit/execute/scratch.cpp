// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory between operations: how it grows, when it is freed, and what is left if there is no more.
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <kolo/execute/scratch.hpp>

#include <cstdlib>

using namespace kolo::detail::execute;

namespace {

/// A device's memory of 1000 bytes.
struct counted_memory {
  static inline std::size_t taken = 0, freed = 0;
  struct release {
    void operator()(std::byte* p) const { ++freed, std::free(p); }
  };
  using allocation = std::unique_ptr<std::byte, release>;
  static allocation allocate(std::size_t bytes) {
    if (taken + bytes > 1000) throw std::bad_alloc{};
    taken += bytes;
    return allocation{static_cast<std::byte*>(std::malloc(bytes))};
  }
};

}  // namespace

TEST_CASE("pool: a device's old buffers are freed at the end, and together are shorter than the current one") {
  {
    growing_buffer<counted_memory> p;
    for (const std::size_t bytes : {100u, 101u, 150u, 201u}) CHECK(p.at_least(bytes) != nullptr);
    CHECK(counted_memory::freed == 0);
    CHECK(counted_memory::taken == 100 + 200 + 400);
    const auto* const before = p.at_least(400);
    CHECK_THROWS(p.at_least(401));
    CHECK(p.at_least(400) == before);
  }
  CHECK(counted_memory::freed == 3);
}
TEST_CASE("pool: without memory for twice the size, the requested size is allocated") {
  counted_memory::taken = counted_memory::freed = 0;
  growing_buffer<counted_memory> p;
  CHECK(p.at_least(400) != nullptr);
  CHECK(p.at_least(500) != nullptr);
  CHECK(counted_memory::taken == 400 + 500);
}
TEST_CASE("pool: abandoned memory is not freed") {
  counted_memory::taken = counted_memory::freed = 0;
  std::byte* all[2];
  {
    scratch<counted_memory> of_one;
    all[0] = of_one.blocks.at_least(10);
    all[1] = of_one.staging[1].at_least(20);
    of_one.abandon();
  }
  CHECK(counted_memory::freed == 0);
  for (auto* const p : all) std::free(p);
}
TEST_CASE("pool: after an allocation on the host has failed, the pool can be used again") {
  if (testing::is_sanitized) return;  // a sanitizer ends the program
  growing_buffer<> p;
  CHECK(p.at_least(100) != nullptr);
  CHECK_THROWS_AS(p.at_least(static_cast<std::size_t>(-1) / 2), std::bad_alloc);
  CHECK(p.at_least(100) != nullptr);
}
