#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Kills the last rank and checks that each other one prints that it died. Usage: killed.sh PROGRAM NAME RANKS MPIEXEC ARGUMENT...
set -uo pipefail
program=$1 name=$2 ranks=$3
shift 3
status=0
# The shell around each rank hides its death from the launcher, which would otherwise end the others, whatever its options.
for length in short long; do
  for moment in between within; do
    said=$("$@" -n "$ranks" sh -c 'trap "" USR1; "$0" "$@" || true' "$program" "$name" $length $moment 2> /dev/null)
    if [ "$(grep -o 'peer died, as it should be' <<< "$said" | wc -l)" != $((ranks - 1)) ]; then  # launchers drop line ends
      echo "$ranks ranks, a $length call, killed $moment: the $((ranks - 1)) others said \"$said\""
      status=1
    fi
  done
done
exit $status
