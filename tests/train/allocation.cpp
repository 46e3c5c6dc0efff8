// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A step of the distributed optimizer allocates nothing, on any rank, once the first one is done.
#include <kolo/collective/barrier.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/transport/threads.hpp>

#include "support/catch.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <span>
#include <vector>

namespace {
std::atomic<long> allocations = 0;
}

// Not inlined, or g++ takes them for a pair that does not match.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* p = operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return p;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

struct parameter {
  std::span<float> value, gradient;
};

struct sgd {
  void step(std::size_t, std::span<float> value, std::span<const float> gradient) {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= gradient[i];
  }
};

}  // namespace

TEST_CASE("steps after the first allocate nothing") {
  for (const int p : {1, 2, 4}) {
    std::atomic<long> before = -1, after = -2;
    kolo::threads::run(p, [&](auto& comm) {
      std::vector<float> w(50'000, 1), dw(50'000, 1), b(10), db(10);
      kolo::distributed_optimizer optimizer{comm, sgd{}, std::array{parameter{w, dw}, parameter{b, db}}};
      optimizer.step();
      kolo::barrier(comm);
      kolo::barrier(comm);
      if (comm.rank() == 0) before = allocations.load();
      for (int k = 0; k < 5; ++k) optimizer.step();
      if (comm.rank() == 0) after = allocations.load();
    });
    INFO("ranks " << p);
    CHECK(before == after);
  }
}
