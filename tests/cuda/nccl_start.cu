// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linked with NCCL itself: a rank for each GPU calls what there is, and times NCCL's own; without a GPU it says so, and goes on with the host's tensors.
#include <kolo/cuda/nccl/nccl.cuh>

#include <chrono>
#include <cstdio>

namespace {

template <class C>
void on_devices(C& comm, std::vector<float>& host) {
  const kolo::cuda::stream s;
  const auto memory = kolo::cuda::allocate(host.size() * sizeof(float));
  const kolo::device_span<float> x{reinterpret_cast<float*>(memory.get()), host.size()};
  kolo::cuda::copy(x.data(), host.data(), host.size() * sizeof(float), s);
  kolo::allreduce(comm, x, kolo::sum, kolo::ring{}, {.stream = s});
  kolo::allreduce(comm, x, kolo::average, kolo::native{}, {.stream = s});
  kolo::broadcast(comm, x, 0, {.stream = s});
  auto plan = kolo::plan_allreduce(comm, x, kolo::average, {.stream = s});
  for (int k = 0; k < 4; ++k) plan.run();
  kolo::barrier(comm, {.stream = s});
  kolo::cuda::copy(host.data(), x.data(), host.size() * sizeof(float), s);
  comm.transport().wait({.stream = s});
}

/// Of a call behind another, when NCCL has been asked for it.
template <class F>
double seconds_of(const kolo::cuda::stream& s, F call) {
  constexpr int times = 500;
  call();
  s.wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < times; ++k) call();
  s.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}
/// NCCL's allreduce as it is, called and as a CUDA graph: what others' latencies stand beside.
template <class C>
void latency(C& comm) {
  const kolo::cuda::stream s;
  const auto memory = kolo::cuda::allocate(65536);
  for (const std::size_t bytes : {512, 4096, 65536}) {
    const auto call = [&] {
      const ncclComm_t c = comm.transport().native_handle();
      ncclResult_t r = ncclAllReduce(memory.get(), memory.get(), bytes / sizeof(float), ncclFloat, ncclSum, c, s);
      while (r == ncclInProgress) static_cast<void>(ncclCommGetAsyncError(c, &r));
      if (r != ncclSuccess) throw kolo::error{kolo::errc::system, ncclGetErrorString(r)};
    };
    const double called = seconds_of(s, call);
    kolo::cuda::capture noted{s};
    call();
    const auto graph = noted.end();
    const double launched = seconds_of(s, [&] { graph.launch(s); });
    if (comm.rank() == 0)
      std::printf("NCCL, %d ranks, %zu bytes: %.1f us; as a CUDA graph %.1f us\n", comm.size(), bytes, 1e6 * called,
                  1e6 * launched);
  }
}

}  // namespace

int main() {
  const int ranks = kolo::cuda::devices() > 0 ? kolo::cuda::devices() : 2;
  bool is_right = true;
  kolo::threads::run(ranks, [&](auto& host) {
    std::vector<float> x(1000, 1.0f);
    try {
      if (kolo::cuda::devices() > 0) kolo::cuda::set_device(host.rank());
      kolo::nccl::communicator comm{host};
      on_devices(comm, x);
      latency(comm);
    } catch (const kolo::error& e) {
      if (kolo::cuda::devices() > 0) throw;
      if (host.rank() == 0) std::printf("%s\n", e.what());
      kolo::allreduce(host, x, kolo::sum);
    }
    if (x[0] != static_cast<float>(ranks) || x[999] != x[0]) is_right = false;
  });
  std::printf("%d ranks: %s\n", ranks, is_right ? "the sum is right" : "the sum is wrong");
  return is_right ? 0 : 1;
}
