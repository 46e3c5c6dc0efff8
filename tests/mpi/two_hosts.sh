#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs an MPICH program on two "hosts" of one machine (tests/support/two_hosts.sh). What it made is gone when it ends.
# A program leaves by _exit, without MPI_Finalize, which over TCP does not always end (MPICH 4.0, UCX 1.13). So mpiexec's own end tells nothing:
# it may fail to tell one host of the end of the other's, which has ended too. What counts is what each rank ended with.
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

# What mpiexec starts in place of the program: it says what the rank ended with, and stays until each rank has said so.
cat > "$work/rank" << WRAPPER
#!/bin/sh
trap '' USR1  # hydra tells the others so that one has ended
status=0
"\$@" || status=\$?
echo \$status > "$work/unsaid.\$PMI_RANK"
mv "$work/unsaid.\$PMI_RANK" "$work/ended.\$PMI_RANK"
while [ -d "$work" ] && [ \$(ls "$work" | grep -c '^ended') -lt $((2 * ranks)) ]; do sleep 0.01; done
WRAPPER
chmod +x "$work/rank"

# By anything else UCX would see through the walls: it is one machine.
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
