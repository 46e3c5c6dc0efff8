#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles what is for CUDA, and runs it where there is a GPU. Usage: run.sh [headers | build | run] [WORK_FOLDER]
#
# Needs nvcc and its host compiler, nothing else: NVCC says which, else PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda has it.
#   headers  each CUDA header alone, without a warning
#   build    the test program, for sm_80, sm_90 and as PTX for what comes later; where NCCL is, also what starts it, which goes on without a GPU
#   run      builds, if that has not been done, and runs it; what is done without a word
# The status is 77 where there is no nvcc, or nothing to run on.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-run} work=${2:-build/cuda}
nvcc=${NVCC:-$(PATH=$PATH:${CUDA_HOME:-}/bin:${CUDA_PATH:-}/bin:/usr/local/cuda/bin command -v nvcc || true)}
[ -n "$nvcc" ] && command -v "$nvcc" > /dev/null || { echo "not run: there is no nvcc here"; exit 77; }
flags=(-std=c++20 -I include -I tests -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow)
mkdir -p "$work"

has_nccl() { echo '#include <nccl.h>' > "$work/has.cu" && "$nvcc" -E "$work/has.cu" > "$work/has.ii" 2>&1; }

headers() {
  local header status=0
  for header in include/kolo/cuda/* $(has_nccl && find include/kolo/transport/nccl* -type f); do
    case $header in */cuda/mpi*) continue ;; esac  # they need an MPI: tests/cuda/over_mpi.cpp
    echo "#include <${header#include/}>" > "$work/alone.cu"
    "$nvcc" "${flags[@]}" -arch=sm_80 -ptx "$work/alone.cu" -o "$work/alone.ptx" || { echo "not alone, or not without a warning: $header"; status=1; }
  done
  return $status
}

build() {
  "$nvcc" "${flags[@]}" -gencode arch=compute_80,code=sm_80 -gencode 'arch=compute_90,code=[sm_90,compute_90]' tests/cuda/gpu.cu -o "$work/gpu"
  if has_nccl; then
    "$nvcc" "${flags[@]}" -arch=sm_80 tests/cuda/nccl_start.cu -o "$work/nccl_start" -lnccl
    "$work/nccl_start"
  else
    echo "without NCCL: it is not here"
  fi
}

case $what in
  headers) headers ;;
  build) build ;;
  run)
    [ -e "$work/gpu" ] || build
    exec "$work/gpu"
    ;;
  *) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
