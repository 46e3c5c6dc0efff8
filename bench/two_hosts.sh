#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Times on two "hosts" on this machine (tests/mpi/two_hosts.sh): allreduce, flat over MPI and by two levels; or training steps with and without overlap.
# Usage: two_hosts.sh [RANKS_PER_HOST] | two_hosts.sh training [RANKS_PER_HOST] [FLAG...]     flags of examples/synthetic/mpi.cpp; RATE=1gbit
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
command -v mpicxx.mpich > /dev/null || { echo "not run: there is no mpicxx.mpich"; exit 77; }
what=allreduce
if [ "${1:-}" = training ]; then what=training; shift; fi
ranks=${1:-2}
[ $# = 0 ] || shift
program=$(mktemp)
trap 'rm -f "$program"' EXIT
built_of() { mpicxx.mpich -std=c++20 -O2 -DMPICH_SKIP_MPICXX -I "$here/../include" "$@" -o "$program" -pthread; }
if [ $what = training ]; then
  built_of "$here"/../examples/synthetic/{mpi,settings,report,comparison}.cpp
  # As much computation as the exchange takes: there overlap saves most, a third of a step with the usual share of the backward pass.
  set -- --compute-exchanges 1 --when after,during,helper --steps 7 --no-hand "$@" --no-finalize
else
  built_of "$here/two_hosts/main.cpp"
fi
bash "$here/../tests/mpi/two_hosts.sh" "$ranks" "$program" "$@"
