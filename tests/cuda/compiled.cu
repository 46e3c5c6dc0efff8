// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program in compiled mode: its calls and kernels are here, and the engine in another file (impl/src.cuh). Without a GPU it prints the error.
#include <kolo/cuda/shm.cuh>
#include <kolo/cuda/threads.cuh>

#include <cstdio>
#include <string_view>
#include <vector>

namespace {

/// Rank r has r + 1 in all elements: checks the sum by each way to call.
template <class C>
bool sums_up(C& comm) {
  const kolo::cuda::stream s;
  std::vector<float> x(1000, float(comm.rank() + 1));
  const auto there = kolo::cuda::allocate(x.size() * sizeof(float));
  const kolo::device_span<float> view{reinterpret_cast<float*>(there.get()), x.size()};
  const auto sum = float(comm.size() * (comm.size() + 1) / 2);
  kolo::cuda::copy(there.get(), x.data(), x.size() * sizeof(float), s);
  kolo::allreduce(comm, view, kolo::sum, {.stream = s});
  kolo::start_allreduce(comm, view, kolo::max, kolo::ring{}, {.stream = s}).wait();
  auto plan = kolo::plan_broadcast(comm, view, 0, {.stream = s});
  plan.run();
  kolo::barrier(comm);
  kolo::cuda::copy(x.data(), there.get(), x.size() * sizeof(float), s);
  kolo::cuda::wait(comm, {.stream = s});
  for (const float v : x)
    if (v != sum) return false;
  return true;
}

/// A process that shares a host with others; here it is the only one.
bool over_shared_memory() {
  auto host = kolo::shm::world();
  kolo::cuda::set_device(host.local_rank());
  kolo::cuda::shm_communicator comm{host, kolo::cuda::direct_options{.piece_bytes = 1 << 20}};
  kolo::cuda::shm_communicator another{host};
  return sums_up(comm) && sums_up(another);
}

}  // namespace

int main() {
  bool fine = true;
  try {
    kolo::cuda::run_threads(2, [&](auto& comm) {
      auto part = comm.split(0, -comm.rank());
      if (!sums_up(comm) || !sums_up(part)) fine = false;
    });
    fine = over_shared_memory() && fine;
  } catch (const kolo::error& e) {
    std::puts(e.what());
    return std::string_view{e.what()}.find("needs a GPU and its driver") == std::string_view::npos;
  }
  std::puts(fine ? "compiled mode: all sums are right" : "compiled mode: a sum is wrong");
  return fine ? 0 : 1;
}
