#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs an MPICH program on two "hosts" of one machine (tests/support/two_hosts.sh). What it made is gone when it ends.
# A program leaves by _exit, without MPI_Finalize, which over TCP does not always end (MPICH 4.0, UCX 1.13).
# Usage: two_hosts.sh RANKS_PER_HOST PROGRAM ARGUMENT...     RATE=1gbit MPIEXEC=mpiexec.mpich; exit status 77: it cannot be run here
set -euo pipefail
. "$(dirname "$0")/../support/two_hosts.sh"
mpiexec=${MPIEXEC:-mpiexec.mpich}
command -v "$mpiexec" > /dev/null || not_run "there is no $mpiexec here"
make_two_hosts

ranks=$1
shift
work=$(mktemp -d) launched=
clean_up() {
  trap '' INT TERM HUP  # timeout sends two
  if [ -n "$launched" ]; then kill -TERM -- "-$launched" 2> /dev/null || true; fi
  remove_two_hosts
  rm -rf "$work"
}
trap clean_up EXIT

# What hydra calls instead of ssh: options, the host, a command.
cat > "$work/launch" << WRAPPER
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec ip netns exec "$hosts.\${host##*.}" sh -c "\$*"
WRAPPER
chmod +x "$work/launch"
printf '10.77.0.%s:%s\n' 1 "$ranks" 2 "$ranks" > "$work/hosts"
sent() { on_host 1 cat /sys/class/net/wire/statistics/tx_bytes; }

# By anything else UCX would see through the walls: it is one machine.
export UCX_TLS=tcp,self UCX_NET_DEVICES=wire UCX_LOG_LEVEL=error
before=$(sent)
for again in 1 2 3; do
  status=0
  setsid ip netns exec "$hosts.1" "$mpiexec" -disable-auto-cleanup -iface wire -launcher ssh -launcher-exec "$work/launch" -f "$work/hosts" -n $((2 * ranks)) "$@" &
  launched=$!
  wait "$launched" || status=$?
  launched=
  [ $status = 141 ] || break  # mpiexec itself has ended by SIGPIPE, and says nothing of the ranks: it tells one host of the end of the other's, which has ended too
done
echo "host 1 sent $(($(sent) - before)) bytes"
exit "$status"
