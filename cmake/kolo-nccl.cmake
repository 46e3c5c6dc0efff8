# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The component nccl: the CUDA runtime, and the NCCL that FindNCCL.cmake finds; CUDAToolkit_ROOT and NCCL_ROOT select them.
find_package(CUDAToolkit QUIET)
list(INSERT CMAKE_MODULE_PATH 0 "${CMAKE_CURRENT_LIST_DIR}")
find_package(NCCL QUIET)
list(POP_FRONT CMAKE_MODULE_PATH)
kolo_provide(nccl
  "the CUDA toolkit and NCCL, but not both were found: install both, or set their paths, for example -DCUDAToolkit_ROOT=/usr/local/cuda -DNCCL_ROOT=/opt/nccl."
  CUDA::cudart NCCL::nccl)
