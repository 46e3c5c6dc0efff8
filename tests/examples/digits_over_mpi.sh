#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The digits example over MPI gives the parameters that it gives over shared memory, bit for bit. Usage: $0 DIGITS DIGITS_OVER_MPI MPIEXEC
set -uo pipefail
digits=$1 over_mpi=$2 mpiexec=$3
flags=(--images 2400 --epochs 1)
failed=0
for way in "--algorithm ring" "--algorithm recursive_doubling" "--leaves 8"; do
  wanted=$("$digits" --ranks 2,3 "${flags[@]}" $way | grep '^Parameters on')
  got=$(for ranks in 2 3; do "$mpiexec" -n $ranks "$over_mpi" "${flags[@]}" $way | grep '^Parameters on'; done)
  if [ "$(wc -l <<< "$wanted")" != 2 ] || [ "$wanted" != "$got" ]; then
    printf '%s: over shared memory\n%s\nand over MPI\n%s\n' "$way" "$wanted" "$got"
    failed=1
  fi
done
exit $failed
