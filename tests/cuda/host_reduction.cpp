// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device vectors reduced on the host, on the fake CUDA runtime: sums, stream order, and a stream that is stuck.
#include "cuda/on_double.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

#include <kolo/cuda/host_reduction.hpp>

#include <optional>

using namespace testing;

namespace {

/// Runs f(comm, by_host, stream), with pieces of 1024 floats.
template <class F>
void on_devices(int p, F f) {
  cuda_double::the.takes_all_memory = false;
  kolo::threads::run(
      p,
      [&](auto& comm) {
        kolo::cuda::host_reduction by_host{comm, 4096};
        const kolo::cuda::stream s;
        f(comm, by_host, s);
      },
      impatient(usual_slot));
}

float larger(float a, float b) { return a < b ? b : a; }

}  // namespace

TEST_CASE("host_reduction: allreduce gives the sum of any length, in stream order") {
  for (const int p : {1, 2, 3, 8}) {
    complaints wrong;
    on_devices(p, [&](auto& comm, auto& by_host, cudaStream_t s) {
      const int r = comm.rank();
      for (const std::size_t n : std::initializer_list<std::size_t>{0, 1, 1000, 1024, 1025, 5000}) {
        tensor<float> x{std::vector<float>(n), s};
        const auto mine = of_rank(r, n);
        kolo::cuda::copy(x.data(), mine.data(), n * sizeof(float), s);  // still pending
        by_host.allreduce(x.view(), kolo::sum, {.stream = s});
        expect_same(wrong, "a sum of " + std::to_string(n), r, x.values(), summed(p, n));
      }
    });
    CHECK(wrong.text() == "");
  }
}

TEST_CASE("host_reduction: two reductions in sequence on two streams") {
  complaints wrong;
  on_devices(2, [&](auto& comm, auto& by_host, cudaStream_t s) {
    const kolo::cuda::stream other;
    const int r = comm.rank();
    tensor<float> x{of_rank(r, 3000), s}, y{of_rank(r, 3000), other};
    by_host.allreduce(x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    by_host.allreduce(y.view(), kolo::max,
                      {.stream = other});  // may not reuse the memory that the sum's last copy still reads
    expect_same(wrong, "the second reduction", r, y.values(), of_rank(1, 3000));
    expect_same(wrong, "the first reduction", r, x.values(), summed(2, 3000));
  });
  CHECK(wrong.text() == "");
}

TEST_CASE("host_reduction: an operator that only the host can call") {
  complaints wrong;
  on_devices(3, [&](auto& comm, auto& by_host, cudaStream_t s) {
    tensor<float> x{of_rank(comm.rank(), 2000), s};
    by_host.allreduce(x.view(), larger, {.stream = s});
    expect_same(wrong, "the largest", comm.rank(), x.values(), of_rank(2, 2000));
  });
  CHECK(wrong.text() == "");
}

TEST_CASE("host_reduction: the call uses the current device") {
  cuda_double::the.takes_all_memory = false;
  cuda_double::the.devices = 2;
  complaints wrong;
  kolo::threads::run(
      2,
      [&](auto& comm) {
        kolo::cuda::host_reduction by_host{comm};
        kolo::cuda::set_device(comm.rank());
        const kolo::cuda::stream s;
        tensor<float> x{of_rank(comm.rank(), 100), s};
        wrong.expect(words_of([&] { by_host.allreduce(x.view(), kolo::sum, {.stream = s}); }).empty(), "refused");
        expect_same(wrong, "sum", comm.rank(), x.values(), summed(2, 100));
      },
      impatient(usual_slot));
  cuda_double::the.devices = 1;
  CHECK(wrong.text() == "");
}

TEST_CASE("host_reduction: two calls on streams of two devices") {
  cuda_double::the.devices = 2;
  complaints wrong;
  on_devices(2, [&](auto& comm, auto& by_host, cudaStream_t s) {
    const int r = comm.rank();
    tensor<float> x{of_rank(r, 3000), s};
    wrong.expect(words_of([&] { by_host.allreduce(x.view(), kolo::sum, {.stream = s}); }).empty(), "the first");
    kolo::cuda::set_device(1);
    const kolo::cuda::stream other;
    tensor<float> y{of_rank(r, 3000), other};
    const auto said = words_of([&] { by_host.allreduce(y.view(), kolo::max, {.stream = other}); });
    wrong.expect(said.empty(), "the second: " + said);
    expect_same(wrong, "the second", r, y.values(), of_rank(1, 3000));
    expect_same(wrong, "the first", r, x.values(), summed(2, 3000));
  });
  cuda_double::the.devices = 1;
  CHECK(wrong.text() == "");
}

TEST_CASE("host_reduction: a failed CUDA call on one rank is an error on all ranks") {
  for (const char* const call : {"cudaHostAlloc", "cudaEventCreateWithFlags", "cudaMemcpyAsync", "cudaEventRecord"})
    refuse_each(call, [](auto ends) {
      on_devices(2, [&](auto& comm, auto& by_host, cudaStream_t s) {
        tensor<float> x{of_rank(comm.rank(), 3000), s};
        ends(comm.rank(), [&] { by_host.allreduce(x.view(), kolo::sum, {.stream = s}); });
      });
    });
}

TEST_CASE("host_reduction: a stuck stream on one rank is a timeout on all ranks") {
  std::vector<std::string> said(3);
  on_devices(3, [&](auto& comm, auto& by_host, cudaStream_t s) {
    tensor<float> x{of_rank(comm.rank(), 10), s};
    if (comm.rank() == 1) {
      const cuda_double::guard held{cuda_double::the.lock};
      cuda_double::the.streams.at(s)->is_stuck = true;
    }
    said[static_cast<std::size_t>(comm.rank())] = words_of([&] {
      by_host.allreduce(x.view(), kolo::sum,
                        {.timeout = std::chrono::milliseconds{comm.rank() == 1 ? 50 : 50'000}, .stream = s});
    });
  });
  INFO(said[0]);
  CHECK(said[0].find("its own stream has not come to the operation within 0.05") != std::string::npos);
  CHECK(said == all_say(3, said[0]));
}

TEST_CASE("host_reduction: after a failure nothing is freed that a stream may still access") {
  cuda_double::the.takes_all_memory = false;
  kolo::threads::run(1, [](auto& comm) {
    std::optional by_host{kolo::cuda::host_reduction{comm, 4096}};
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(0, 10), s};
    cuda_double::the.streams.at(s)->is_stuck = true;
    const auto said = words_of(
        [&] { by_host->allreduce(x.view(), kolo::sum, {.timeout = std::chrono::milliseconds{1}, .stream = s}); });
    CHECK(said.find("its own stream has not come to the operation") != std::string::npos);
    const auto frees = cuda_double::the.frees;
    by_host.reset();
    CHECK(cuda_double::the.frees == frees);
  });
}
