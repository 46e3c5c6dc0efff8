// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads that reach each other's memory on devices, which the double of the CUDA runtime stands for.
#pragma once

#include "cuda/double/runtime.hpp"
#include "cuda/settled.hpp"
#include "cuda/threads_calls.hpp"
#include "processes/what_ranks_say.hpp"

namespace testing {

using settled_threads = settled<kolo::cuda::threads_transport>;

struct over_devices {
  using communicator = kolo::communicator<settled_threads>;
  template <class F>
  static void run(int p, F f, std::size_t piece_bytes) {
    cuda_double::the.takes_all_memory = true;
    run_on_devices<settled_threads>(p, f, piece_bytes);
  }
};

/// Rank 1 has begun when rank 0 gives up; it is told, and touches nothing of rank 0's.
inline void is_not_touched_after_a_failure(complaints& wrong, bool fused) {
  std::barrier both{2};
  std::string said[2];
  run_on_devices<kolo::cuda::threads_transport>(2, [&](auto& comm) {
    using namespace std::chrono_literals;
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 100), s};
    const std::chrono::nanoseconds timeout = comm.rank() == 0 ? 50ms : 60'000ms;
    auto request = fused ? kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::native{}, {.timeout = timeout, .stream = s})
                         : kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::recursive_doubling{}, {.timeout = timeout, .stream = s});
    both.arrive_and_wait();
    if (comm.rank() == 0) said[0] = words_of([&] { request.wait(); });
    both.arrive_and_wait();
    const auto before = cuda_double::the.copies + cuda_double::the.launches;
    if (comm.rank() == 1) said[1] = words_of([&] { request.test(); });
    wrong.expect(comm.rank() == 0 || before == cuda_double::the.copies + cuda_double::the.launches, "touched after the failure");
    both.arrive_and_wait();
  });
  wrong.expect(said[0].find("rank 1 is late") != std::string::npos && said[1] == said[0], "told \"" + said[0] + "\" and \"" + said[1] + "\"");
}

}  // namespace testing
