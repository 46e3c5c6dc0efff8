#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks that every header compiles as CUDA. Usage: cuda.sh NVCC INCLUDE, or cuda.sh --self-test NVCC
set -euo pipefail

# All headers in one file, one run of nvcc, except those of compiled mode's library (tests/cuda/run.sh); if that fails, each header alone, to name the culprits.
check() {
  local nvcc=$1 include=$2 work
  work=$(mktemp -d)
  (cd "$include" && find . \( -name '*.hpp' -o -name '*.cuh' \) ! -path './kolo/mpi/*' ! -path '*/transport/mpi*' ! -path '*/cuda/mpi*' ! -path '*/nccl*' ! -path '*/adapt/torch*' ! -path '*/adapt/c10d*' ! -path '*/impl/src.*' ! -path '*/cuda/impl/library.hpp' |
    sort | sed 's|^\./\(.*\)|#include <\1>|') > "$work/all.cu"
  echo "$(wc -l < "$work/all.cu") headers as CUDA"
  if ! "$nvcc" -std=c++20 -x cu -c -I "$include" "$work/all.cu" -o "$work/all.o" > "$work/log" 2>&1; then
    while read -r line; do
      echo "$line" > "$work/one.cu"
      "$nvcc" -std=c++20 -x cu -c -I "$include" "$work/one.cu" -o "$work/one.o" > "$work/log.one" 2>&1 ||
        { echo "not CUDA: $line"; cat "$work/log.one"; }
    done < "$work/all.cu"
    cat "$work/log"
    rm -rf "$work"
    return 1
  fi
  rm -rf "$work"
}

self_test() {
  local nvcc=$1 tree
  tree=$(mktemp -d)
  echo 'inline int good() { return 1; }' > "$tree/good.hpp"
  check "$nvcc" "$tree"
  echo '__global__ int bad() { return 1; }' > "$tree/bad.hpp"  # a kernel returns void
  if check "$nvcc" "$tree" > "$tree/said"; then echo "a bad header passed"; return 1; fi
  grep -q 'not CUDA: #include <bad.hpp>' "$tree/said" || { echo "the culprit is not named"; return 1; }
  if grep -q 'not CUDA: #include <good.hpp>' "$tree/said"; then echo "a good header is named"; return 1; fi
  rm -rf "$tree"
  echo "a good header passes, a bad one is named"
}

action=check
if [ "$1" = --self-test ]; then action=self_test; shift; fi
command -v "$1" > /dev/null || { echo "not run: there is no nvcc"; exit 77; }
"$action" "$@"
