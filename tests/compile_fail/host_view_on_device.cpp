// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device communicator refuses host views.
// expect: kolo: this view is of host memory, and the communicator takes device memory: kolo::device_span
#include <kolo/kolo.hpp>

#include <vector>

struct far_away : kolo::self::transport {
  static constexpr auto space = kolo::memory_space::device;
  far_away split(int, int) { return {}; }
};

void calls(kolo::communicator<far_away>& comm, std::vector<float>& x) {
#ifdef KOLO_WRONG
  kolo::broadcast(comm, x, 0);
#else
  kolo::broadcast(comm, kolo::device_span<float>{x.data(), x.size()}, 0);
#endif
}

int main() {}
