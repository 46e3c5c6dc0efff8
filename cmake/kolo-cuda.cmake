# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The component cuda: the CUDA runtime that FindCUDAToolkit finds; CUDAToolkit_ROOT says which.
find_package(CUDAToolkit QUIET)
kolo_provide(cuda "the CUDA toolkit, and none was found: install it, or say where it is, as in -DCUDAToolkit_ROOT=/usr/local/cuda." CUDA::cudart)
