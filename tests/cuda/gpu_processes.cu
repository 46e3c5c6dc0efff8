// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On a real GPU: processes that open each other's device memory, on one device each or on the same one. Exit status 77: no GPU.
#include <kolo/cuda/shm.cuh>

#include "cuda/on_gpu.hpp"
#include "cuda/threads_calls.hpp"

#include <cstdio>

namespace {

/// Runs each(comm, wrong, stream) in p processes. CUDA is first used in them, because it does not survive fork.
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
        judge("stream order, and a fused allreduce", p, [](auto& comm, testing::complaints& wrong, cudaStream_t s) {
          testing::keeps_the_order_of_streams(comm, wrong, s);
          testing::fused_is_two_shot<float>(comm, wrong, s, kolo::sum, "sum of float");
        });
  testing::meeting_point all{3};
  failed += judge("peers finish reads and writes before the buffers are reused", 3,
                  [&](auto& comm, testing::complaints& wrong, cudaStream_t s) {
                    for (const bool is_fused : {false, true})
                      testing::overwrites_at_once(comm, wrong, s, all, is_fused);
                  });
  return failed == 0 ? 0 : 1;
}
