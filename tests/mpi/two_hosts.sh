#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs an MPICH program on two "hosts" of one machine (tests/support/two_hosts.sh), and removes them. Programs end by _exit, because MPI_Finalize over TCP may
# hang (MPICH 4.0, UCX 1.13). So mpiexec's exit status is not used: it may miss the end of the other host's ranks. Each rank's own status counts.
# Usage: two_hosts.sh RANKS_PER_HOST PROGRAM ARGUMENT...     RATE=1gbit MPIEXEC=mpiexec.mpich; exit status 77: this machine cannot run it
set -euo pipefail
. "$(dirname "$0")/../support/two_hosts.sh"
mpiexec=${MPIEXEC:-mpiexec.mpich}
command -v "$mpiexec" > /dev/null || not_run "there is no $mpiexec"
make_two_hosts

ranks=$1
shift
work=$(mktemp -d) launched=
clean_up() {
  trap '' INT TERM HUP  # timeout sends two signals
  if [ -n "$launched" ]; then kill -TERM -- "-$launched" 2> /dev/null || true; fi
  remove_two_hosts
  rm -rf "$work"
}
trap clean_up EXIT

# Hydra calls this instead of ssh: options, the host, a command.
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

# mpiexec starts this instead of the program: it records the rank's exit status, and waits until each rank has recorded its own.
cat > "$work/rank" << WRAPPER
#!/bin/sh
trap '' USR1  # hydra's signal that another process has ended
status=0
"\$@" || status=\$?
echo \$status > "$work/unsaid.\$PMI_RANK"
mv "$work/unsaid.\$PMI_RANK" "$work/ended.\$PMI_RANK"
while [ -d "$work" ] && [ \$(ls "$work" | grep -c '^ended') -lt $((2 * ranks)) ]; do sleep 0.01; done
WRAPPER
chmod +x "$work/rank"

# UCX's other transports would see one machine.
export UCX_TLS=tcp,self UCX_NET_DEVICES=wire UCX_LOG_LEVEL=error
before=$(sent)
setsid ip netns exec "$hosts.1" "$mpiexec" -disable-auto-cleanup -iface wire -launcher ssh -launcher-exec "$work/launch" -f "$work/hosts" -n $((2 * ranks)) "$work/rank" "$@" &
launched=$!
said=0
wait "$launched" || said=$?
launched=
echo "host 1 sent $(($(sent) - before)) bytes"
for ((rank = 0; rank < 2 * ranks; ++rank)); do
  status=$(cat "$work/ended.$rank" 2> /dev/null || echo "nothing said, mpiexec $said")
  [ "$status" = 0 ] || { echo "rank $rank ended with: $status"; exit 1; }
done
