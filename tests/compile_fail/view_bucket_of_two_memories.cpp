// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bucket is in one kind of memory.
// expect: kolo::bucket: all tensors must be in host memory, or all in device memory
#include <kolo/view/bucket.hpp>
#include <kolo/view/device.hpp>

#include <vector>

int main() {
  std::vector<float> host(10);
  kolo::device_span<float> device{nullptr, 0};
#ifdef KOLO_WRONG
  kolo::bucket both{device, host};
#else
  kolo::bucket both{device, device};
#endif
  return static_cast<int>(both.size());
}
