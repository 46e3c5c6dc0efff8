#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles the CUDA code, and runs it if there is a GPU. Usage: run.sh [headers | build | compiled | example | run | sanitize] [WORK_FOLDER [LIBRARY]]
#
# Needs nvcc (from NVCC, PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda) and its host compiler; all but `compiled` and `example` also need Python. NCCL may come
# from the toolkit, from NCCL_ROOT or NCCL_HOME, or from the wheel nvidia-nccl.
#   headers  compiles each CUDA header alone, without warnings
#   build    builds the test programs and the benchmark, for this machine's GPU, else for sm_80 and as PTX; runs the benchmark, which without enough GPUs prints
#            that it needs one, and with NCCL also nccl_start, which needs no GPU
#   compiled builds and runs a program in compiled mode; without a GPU it prints the error. LIBRARY: the compiled library for the host, which is else built
#   example  builds and runs the example; without enough GPUs it trains on the host
#   run      builds if needed, and runs the checks and the speed tests into results.txt. With
#            NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30) also several ranks over NCCL on one GPU
#   sanitize runs the checks under compute-sanitizer: memory, uninitialised memory, barriers, races
# Exit status 77: there is no nvcc, or nothing to run on.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-run} work=${2:-build/cuda}
nvcc=${NVCC:-$(PATH=$PATH:${CUDA_HOME:-}/bin:${CUDA_PATH:-}/bin:/usr/local/cuda/bin command -v nvcc || true)}
[ -n "$nvcc" ] && command -v "$nvcc" > /dev/null || { echo "not run: there is no nvcc"; exit 77; }
flags=(-std=c++20 -I include -I tests -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow)
everywhere=(-gencode 'arch=compute_80,code=[sm_80,compute_80]')
optimised=()
[ ! -e /dev/nvidia0 ] || everywhere=(-arch=native) optimised=(-O2)  # the programs measure times
mkdir -p "$work"

# Finds NCCL where nvcc does not look: NCCL_ROOT or NCCL_HOME, or the wheel nvidia-nccl of a Python, which has no libnccl.so.
find_nccl() {
  local place
  for place in "${NCCL_ROOT:-}" "${NCCL_HOME:-}" {"${VIRTUAL_ENV:-/usr/local}",/usr/local,/usr}/lib/python3*/*-packages/nvidia/nccl; do
    if [ -e "$place/include/nccl.h" ]; then
      flags+=(-I "$place/include")
      nccl=(-L "$place/lib" -Xlinker -rpath="$place/lib")
      break
    fi
  done
  if [ -e "${place:-}/lib/libnccl.so.2" ]; then nccl+=(-l:libnccl.so.2); else nccl+=(-lnccl); fi
}
has_nccl() { echo '#include <nccl.h>' > "$work/has.cu" && "$nvcc" "${flags[@]}" -E "$work/has.cu" > "$work/has.ii" 2>&1; }

# Compiles the headers in chains, one nvcc run each: every header includes the one before it, so that one cannot hide a missing include
# (tests/headers/alone.py).
headers() {
  local header status=0 mpi names=() chain chains
  mpi=$("${MPICXX:-mpicxx}" -show 2> "$work/mpi.txt" | tr ' ' '\n' | sed -n 's/^-I/-isystem=/p') || mpi=
  for header in include/kolo/cuda/*.[hc]* include/kolo/cuda/impl/direct.hpp $(has_nccl && find include/kolo/cuda/nccl -name "*.[hc]*"); do
    case $mpi$header in include/*/cuda/mpi*) echo "skipped, there is no MPI: $header"; continue ;; esac
    names+=("${header#include/}")
  done
  chains=$(PYTHONPATH=tests/headers python3 -Bc "
import alone, sys
for chain in alone.chains(alone.Headers('include', None), sys.argv[1:]): print(*chain)" "${names[@]}")
  while read -r chain; do
    printf '#include <%s>\n' $chain > "$work/alone.cu"
    "$nvcc" "${flags[@]}" $mpi -DMPICH_SKIP_MPICXX -DOMPI_SKIP_MPICXX -arch=sm_80 -ptx "$work/alone.cu" -o "$work/alone.ptx" || { echo "does not compile alone, or not without warnings: $chain"; status=1; }
  done <<< "$chains"
  return $status
}

# A program in compiled mode: its file, and the library for devices and for the host.
compiled() {
  local for_the_host=$1
  if [ -z "$for_the_host" ]; then
    for_the_host=$work/for_the_host.cpp
    echo '#include <kolo/impl/src.hpp>' > "$for_the_host"
  fi
  echo '#include <kolo/cuda/impl/src.cuh>' > "$work/for_devices.cu"
  echo '#include <kolo/cuda/impl/src.cuh>' > "$work/wrong.cu"
  if "$nvcc" "${flags[@]}" -E "$work/wrong.cu" > "$work/wrong.ii" 2>&1; then echo "src.cuh compiles without KOLO_COMPILED"; return 1; fi
  grep -q 'define KOLO_COMPILED for all files' "$work/wrong.ii"
  "$nvcc" "${flags[@]}" -DKOLO_COMPILED -arch=sm_80 tests/cuda/compiled.cu "$work/for_devices.cu" "$for_the_host" -o "$work/compiled"
  "$work/compiled"
}

build() {
  local status=0 programs=(tests/cuda/gpu.cu tests/cuda/gpu_processes.cu bench/host_staging.cu)
  if has_nccl; then
    programs+=(tests/cuda/nccl_start.cu)
  else
    echo "skipped, there is no NCCL"
    nccl=()
  fi
  # As one program, whose first argument names the one to run: this takes less than half the time.
  python3 tests/support/combine.py --main "$work/together.cu" "${programs[@]}"
  "$nvcc" "${flags[@]}" "${everywhere[@]}" "${optimised[@]}" "$work/together.cu" -o "$work/together" "${nccl[@]}"
  # Alone, since it replaces operator new.
  "$nvcc" "${flags[@]}" "${everywhere[@]}" --expt-relaxed-constexpr tests/cuda/gpu_collectives.cu -o "$work/gpu_collectives" "${nccl[@]}"
  [ ${#nccl[@]} = 0 ] || "$work/together" nccl_start
  "$work/together" host_staging || status=$?
  [ $status = 0 ] || [ $status = 77 ]
}

example() {
  has_nccl || { echo "skipped, there is no NCCL"; return; }
  "$nvcc" "${flags[@]}" "${everywhere[@]}" examples/gpu/main.cu -o "$work/gpu_training" "${nccl[@]}"
  "$work/gpu_training"
}

nccl=()
find_nccl
case $what in
  headers) headers ;;
  build) build ;;
  compiled) compiled "${3:-}" ;;
  example) example ;;
  run)
    [ -e "$work/together" ] && [ -e "$work/gpu_collectives" ] || build
    "$work/together" gpu | tee "$work/results.txt"
    "$work/together" gpu_processes | tee -a "$work/results.txt"
    "$work/gpu_collectives" | tee -a "$work/results.txt"
    if grep -q nccl_start "$work/together.cu"; then
      "$work/together" nccl_start | tee -a "$work/results.txt"
      if [ "${NCCL_MULTI_RANK_GPU_ENABLE:-0}" = 1 ]; then
        for ranks in 2 4; do "$work/together" nccl_start $ranks | tee -a "$work/results.txt"; done
        "$work/together" nccl_start 2 times | tee -a "$work/results.txt"
        "$work/gpu_collectives" nccl | tee -a "$work/results.txt"
      fi
    fi
    ;;
  sanitize)
    [ -e "$work/together" ] || build
    for tool in memcheck initcheck synccheck racecheck; do "$(dirname "$(command -v "$nvcc")")/compute-sanitizer" --error-exitcode 1 --tool $tool "$work/together" gpu checks; done
    ;;
  *) sed -n '3,16s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
