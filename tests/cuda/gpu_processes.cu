// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On a real GPU: processes that open each other's memory on devices, one device each or all the same. Status 77 where there is none.
#include <kolo/cuda/shm.cuh>

#include "cuda/on_gpu.hpp"
#include "cuda/threads_calls.hpp"

#include <cstdio>

namespace {

/// each(comm, wrong, stream) in p processes; CUDA is not touched before they are made, since it does not survive a fork.
template <class F>
int judge(const std::string& name, int p, F each) {
  const int status = kolo::shm::launch(p,
                                       [&](auto& host) {
                                         testing::complaints wrong;
                                         kolo::cuda::set_device(host.local_rank() % kolo::cuda::devices());
                                         kolo::cuda::shm_communicator comm{host};
                                         const kolo::cuda::stream s;
                                         each(comm, wrong, s);
                                         comm.transport().wait({.stream = s});
                                         std::fputs(wrong.text().c_str(), stdout);
                                         return wrong.text().empty() ? 0 : 1;
                                       },
                                       {.timeout = std::chrono::seconds{60}});
  return testing::verdict(name + (", " + std::to_string(p)) + " processes", status == 0 ? "" : "see above\n");
}

}  // namespace

int main() {
  if (testing::devices_here() == 0) return testing::no_gpu();
  int failed = 0;
  for (const int p : {1, 2, 4})
    failed +=
        judge("streams in order, and a fused allreduce", p, [](auto& comm, testing::complaints& wrong, cudaStream_t s) {
          testing::keeps_the_order_of_streams(comm, wrong, s);
          testing::fused_is_two_shot<float>(comm, wrong, s, kolo::sum, "sum of float");
        });
  testing::meeting_point all{3};
  failed += judge("what peers read and write stays", 3, [&](auto& comm, testing::complaints& wrong, cudaStream_t s) {
    for (const bool is_fused : {false, true}) testing::overwrites_at_once(comm, wrong, s, all, is_fused);
  });
  return failed == 0 ? 0 : 1;
}
