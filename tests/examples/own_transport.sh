#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The digits over the transport of examples/own_transport give the parameters of shared memory.
# Usage: $0 DIGITS OWN_TRANSPORT [TWO_HOSTS]     TWO_HOSTS: a script that runs a program on two hosts; exit status 77: it cannot
set -uo pipefail
digits=$1 over_tcp=$2 two_hosts=${3:-}
flags=(--images 2400 --epochs 1 --algorithm ring)
if [ -n "$two_hosts" ]; then
  ranks=2
  said=$(bash "$two_hosts" "$over_tcp" "${flags[@]}")
else
  ranks=2,3
  said=$("$over_tcp" --ranks $ranks "${flags[@]}")
fi
status=$?
[ $status = 0 ] || { echo "$said"; exit $status; }
wanted=$("$digits" --ranks $ranks "${flags[@]}" | grep '^Parameters on') got=$(grep '^Parameters on' <<< "$said")
[ -n "$wanted" ] && [ "$wanted" = "$got" ] && exit
printf 'over shared memory\n%s\nand over TCP\n%s\n' "$wanted" "$got"
exit 1
