// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A barrier of processes, beside the communicator that is tested.
#pragma once

#include "processes/what_ranks_say.hpp"

#include <atomic>
#include <thread>

namespace testing {

/// A barrier made before the processes.
class meeting_point {
 public:
  explicit meeting_point(int all) { state_->all = all; }
  void arrive_and_wait() {
    const int turn = state_->turn;
    if (++state_->here == state_->all) {
      state_->here = 0;
      ++state_->turn;
    }
    while (state_->turn == turn) std::this_thread::yield();
  }

 private:
  struct state {
    int all = 0;
    std::atomic<int> here{0}, turn{0};
  };
  common<state> state_{};
};

}  // namespace testing
