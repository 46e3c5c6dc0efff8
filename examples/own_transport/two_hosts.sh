#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs the example as two ranks in two network namespaces, connected by a virtual wire (tests/support/two_hosts.sh).
# Usage: two_hosts.sh PROGRAM FLAG...     exit status 77: namespaces cannot be made here
set -euo pipefail
. "$(dirname "$0")/../../tests/support/two_hosts.sh"
make_two_hosts
program=$1
shift
export KOLO_TCP_ADDRESS=10.77.0.1:7701 KOLO_SIZE=2 KOLO_JOB=two_hosts.$$
sent() { on_host "$1" cat /sys/class/net/wire/statistics/tx_bytes; }
before=($(sent 1) $(sent 2)) status=0
KOLO_RANK=1 on_host 2 "$program" "$@" &  # rank 1 may start first
KOLO_RANK=0 on_host 1 "$program" "$@" || status=$?
wait $! || status=$?
echo "Bytes over the wire: $(($(sent 1) - before[0])) from rank 0, $(($(sent 2) - before[1])) from rank 1"
exit $status
