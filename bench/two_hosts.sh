#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Times allreduce between two "hosts" on this machine (tests/mpi/two_hosts.sh): flat over MPI against two levels. Usage: two_hosts.sh [RANKS_PER_HOST]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
command -v mpicxx.mpich > /dev/null || { echo "not run: there is no mpicxx.mpich here"; exit 77; }
program=$(mktemp)
trap 'rm -f "$program"' EXIT
mpicxx.mpich -std=c++20 -O2 -DMPICH_SKIP_MPICXX -I "$here/../include" "$here/two_hosts/main.cpp" -o "$program"
bash "$here/../tests/mpi/two_hosts.sh" "${1:-2}" "$program"
