// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps after the first allocate nothing on any rank.
#include <kolo/collective/barrier.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/scaled.hpp>
#include <kolo/train/adasum.hpp>
#include <kolo/train/metrics.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/sharded.hpp>
#include <kolo/train/update.hpp>
#include <kolo/view/bfloat16.hpp>

#include "support/catch.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace {
std::atomic<long> allocations = 0;
}

// Not inlined: g++ would warn that new and delete do not match.
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

/// The allocations of all ranks in five steps after the first. make(comm, parameters) returns a function that makes a step.
template <class Make>
long allocated(int p, Make make) {
  std::atomic<long> before = -1, after = -2;
  kolo::threads::run(p, [&](auto& comm) {
    std::vector<float> w(50'000, 1), dw(50'000, 1), b(10), db(10);
    std::array parameters{parameter{w, dw}, parameter{b, db}};
    auto step = make(comm, parameters);
    step();
    kolo::barrier(comm);
    kolo::barrier(comm);
    if (comm.rank() == 0) before = allocations.load();
    kolo::barrier(comm);
    for (int k = 0; k < 5; ++k) step();
    kolo::barrier(comm);
    if (comm.rank() == 0) after = allocations.load();
    kolo::barrier(comm);
  });
  return after - before;
}

/// A function that makes a step of an optimizer; the optimizer itself cannot be moved.
template <class Optimizer>
struct stepping {
  std::unique_ptr<Optimizer> optimizer;
  void operator()() { optimizer->step(); }
};

}  // namespace

TEST_CASE("steps after the first allocate nothing") {
  for (const int p : {1, 2, 3, 4}) {
    INFO("ranks " << p);
    CHECK(allocated(p, [](auto& comm, auto& all) {
            using optimizer = decltype(kolo::distributed_optimizer{comm, sgd{}, all});
            return stepping<optimizer>{std::make_unique<optimizer>(comm, sgd{}, all)};
          }) == 0);
    CHECK(allocated(p, [](auto& comm, auto& all) {
            using optimizer = decltype(kolo::sharded_optimizer{comm, kolo::update::adamw{}, all});
            return stepping<optimizer>{std::make_unique<optimizer>(comm, kolo::update::adamw{}, all)};
          }) == 0);
    CHECK(allocated(p, [](auto& comm, auto& all) {
            return [&all, combine = kolo::adasum{comm}]() mutable { combine(all); };
          }) == 0);
    CHECK(allocated(p, [](auto& comm, auto&) {
            return [&comm] {
              double metrics[] = {1, 2};
              kolo::average_metrics(comm, metrics);
            };
          }) == 0);
  }
}

TEST_CASE("steps after the first allocate nothing with error feedback, of elements or of groups") {
  const auto with_feedback = [](auto op) {
    return allocated(3, [&](auto& comm, auto& all) {
      using optimizer = decltype(kolo::distributed_optimizer{comm, sgd{}, all, op});
      return stepping<optimizer>{
          std::make_unique<optimizer>(comm, sgd{}, all, op, kolo::optimizer_options{.error_feedback = true})};
    });
  };
  CHECK(with_feedback(kolo::wire<kolo::bfloat16>(kolo::average)) == 0);
  CHECK(with_feedback(kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::average)) == 0);
}

TEST_CASE("the check for shared elements of gradients with gaps allocates the same for any length") {
  struct column {
    kolo::strided<float, 1> value, gradient;
  };
  const auto asked = [](std::size_t n) {
    std::vector<float> w(4 * n), dw(4 * n);
    std::vector<column> both;
    for (const std::size_t at : {std::size_t{0}, 2 * n}) both.push_back({{&w[at], {n}, {2}}, {&dw[at], {n}, {2}}});
    namespace train = kolo::detail::train;
    const train::local_gradients all{
        train::tensors_of<kolo::average_t>(both), train::traits_of_operator(kolo::average), 1, 1, false, false};
    const long before = allocations.load();
    all.refuse_shared_gradients();
    return allocations.load() - before;
  };
  CHECK(asked(10'000) == asked(10));
}
