# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The component nccl: kolo::nccl is kolo::kolo, the CUDA runtime and the NCCL that FindNCCL.cmake finds; CUDAToolkit_ROOT and NCCL_ROOT say which.
find_package(CUDAToolkit QUIET)
list(INSERT CMAKE_MODULE_PATH 0 "${CMAKE_CURRENT_LIST_DIR}")
find_package(NCCL QUIET)
list(POP_FRONT CMAKE_MODULE_PATH)
if(NOT TARGET CUDA::cudart OR NOT TARGET NCCL::nccl)
  set(kolo_nccl_FOUND FALSE)
  if(kolo_FIND_REQUIRED_nccl)
    set(kolo_FOUND FALSE)
    set(kolo_NOT_FOUND_MESSAGE
      "kolo's component nccl needs the CUDA toolkit and NCCL, and not both were found: install them, or say where they are, as in -DCUDAToolkit_ROOT=/usr/local/cuda -DNCCL_ROOT=/opt/nccl.")
  endif()
elseif(NOT TARGET kolo::nccl)
  add_library(kolo::nccl INTERFACE IMPORTED)
  target_link_libraries(kolo::nccl INTERFACE kolo::kolo CUDA::cudart NCCL::nccl)
endif()
