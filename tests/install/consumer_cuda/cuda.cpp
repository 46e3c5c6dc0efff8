// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest program with the CUDA runtime and no kernel: it shows that the target has all that it needs, with and without a GPU.
#include <kolo/cuda/runtime.hpp>

#include <cstdio>

int main() {
  const int count = kolo::cuda::devices();
  std::printf("%d devices\n", count);
  try {
    kolo::cuda::set_device(count);  // one more than exist
  } catch (const kolo::error& e) {
    return e.code() == kolo::errc::invalid_argument ? 0 : 1;
  }
  return 1;
}
