// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads that access each other's device memory, on the fake CUDA runtime.
#pragma once

#include "cuda/settled.hpp"
#include "cuda/threads_calls.hpp"
#include "fake_cuda/runtime.hpp"
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

inline void is_not_touched_after_a_failure(complaints& wrong, bool fused) {
  std::barrier both{2};
  std::string said[2];
  run_on_devices<kolo::cuda::threads_transport>(2, [&](auto& comm) {
    said[comm.rank()] = told_after_giving_up(comm, wrong, fused, both,
                                             [] { return cuda_double::the.copies + cuda_double::the.launches; });
  });
  wrong.expect(said[1] == said[0], "got \"" + said[0] + "\" and \"" + said[1] + '"');
}

}  // namespace testing
