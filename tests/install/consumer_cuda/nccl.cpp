// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest program with NCCL: it shows that the target has the runtime and the library, with and without a GPU.
#include <cuda_runtime.h>
#include <nccl.h>
#include <kolo/version.hpp>

#include <cstdio>

int main() {
  int version = 0, devices = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return 1;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
  std::printf("NCCL %d, %d devices\n", version, devices);
  return version == NCCL_VERSION_CODE ? 0 : 1;
}
