#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs the example as two ranks that share nothing but a wire, each on a "host" of its own (tests/support/two_hosts.sh).
# Usage: two_hosts.sh PROGRAM FLAG...     exit status 77: it cannot be run here
set -euo pipefail
. "$(dirname "$0")/../../tests/support/two_hosts.sh"
make_two_hosts
program=$1
shift
export KOLO_TCP_ADDRESS=10.77.0.1:7701 KOLO_SIZE=2 KOLO_JOB=two_hosts.$$
sent() { on_host "$1" cat /sys/class/net/wire/statistics/tx_bytes; }
before=($(sent 1) $(sent 2)) status=0
KOLO_RANK=1 on_host 2 "$program" "$@" &  # rank 1 may come first
KOLO_RANK=0 on_host 1 "$program" "$@" || status=$?
wait $! || status=$?
echo "Over the wire: $(($(sent 1) - before[0])) bytes one way, $(($(sent 2) - before[1])) the other"
exit $status
