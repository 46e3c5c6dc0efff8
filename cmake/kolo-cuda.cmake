# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The component cuda: the CUDA runtime that FindCUDAToolkit finds; CUDAToolkit_ROOT selects it.
find_package(CUDAToolkit QUIET)
kolo_provide(cuda "the CUDA toolkit, which was not found: install it, or set its path, for example -DCUDAToolkit_ROOT=/usr/local/cuda." CUDA::cudart)
