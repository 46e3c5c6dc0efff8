# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The component cuda: kolo::cuda is kolo::kolo and the CUDA runtime that FindCUDAToolkit finds; CUDAToolkit_ROOT says which.
find_package(CUDAToolkit QUIET)
if(NOT TARGET CUDA::cudart)
  set(kolo_cuda_FOUND FALSE)
  if(kolo_FIND_REQUIRED_cuda)
    set(kolo_FOUND FALSE)
    set(kolo_NOT_FOUND_MESSAGE
      "kolo's component cuda needs the CUDA toolkit, and none was found: install it, or say where it is, as in -DCUDAToolkit_ROOT=/usr/local/cuda.")
  endif()
elseif(NOT TARGET kolo::cuda)
  add_library(kolo::cuda INTERFACE IMPORTED)
  target_link_libraries(kolo::cuda INTERFACE kolo::kolo CUDA::cudart)
endif()
