// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linked with NCCL itself: a rank for each GPU trains nothing, but calls what there is; without a GPU it says so, and goes on with the host's tensors.
#include <kolo/transport/nccl.cuh>

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
