#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Two "hosts" on one machine: two network namespaces joined by a slow wire; runs an MPICH program on both. What it made is gone when it ends.
# A program leaves by _exit, without MPI_Finalize, which over TCP does not always end (MPICH 4.0, UCX 1.13).
# Usage: two_hosts.sh RANKS_PER_HOST PROGRAM ARGUMENT...     RATE=1gbit MPIEXEC=mpiexec.mpich; exit status 77: it cannot be run here
set -euo pipefail
not_run() { echo "not run: $1"; exit 77; }
[ "$(id -u)" = 0 ] || not_run "only root may make network namespaces"
for tool in ip tc; do command -v $tool > /dev/null || not_run "there is no $tool here (Debian: apt-get install iproute2)"; done
mpiexec=${MPIEXEC:-mpiexec.mpich}
command -v "$mpiexec" > /dev/null || not_run "there is no $mpiexec here"

ranks=$1
shift
tag=kolo$$ work=$(mktemp -d) launched=
clean_up() {
  trap '' INT TERM HUP  # timeout sends two
  if [ -n "$launched" ]; then kill -TERM -- "-$launched" 2> /dev/null || true; fi
  for host in 1 2; do
    processes=$(ip netns pids "$tag.$host" 2> /dev/null || true)
    [ -z "$processes" ] || kill -KILL $processes 2> /dev/null || true
    ip netns del "$tag.$host" 2> /dev/null || true
  done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 143' INT TERM HUP

{ ip netns add "$tag.1" && ip netns add "$tag.2" && ip link add wire netns "$tag.1" type veth peer name wire netns "$tag.2"; } 2> "$work/why" ||
  not_run "this system makes no network namespaces: $(head -n 1 "$work/why")"
for host in 1 2; do
  on() { ip -n "$tag.$host" "$@"; }
  on address add "10.77.0.$host/24" dev wire && on link set lo up && on link set wire up
  tc -n "$tag.$host" qdisc add dev wire root tbf rate "${RATE:-1gbit}" burst 128kb latency 50ms 2> "$work/why" || not_run "this system shapes no wire: $(head -n 1 "$work/why")"
done
for host in 1 2; do  # UCX takes only what is running, and the kernel says so a little later
  for _ in $(seq 1000); do ip -n "$tag.$host" link show wire | grep -q 'state UP' && break; sleep 0.01; done
done

# What hydra calls instead of ssh: options, the host, a command.
cat > "$work/launch" << WRAPPER
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec ip netns exec "$tag.\${host##*.}" sh -c "\$*"
WRAPPER
chmod +x "$work/launch"
printf '10.77.0.%s:%s\n' 1 "$ranks" 2 "$ranks" > "$work/hosts"
sent() { ip netns exec "$tag.1" cat /sys/class/net/wire/statistics/tx_bytes; }

# By anything else UCX would see through the walls: it is one machine.
export UCX_TLS=tcp,self UCX_NET_DEVICES=wire UCX_LOG_LEVEL=error
before=$(sent) status=0
setsid ip netns exec "$tag.1" "$mpiexec" -disable-auto-cleanup -iface wire -launcher ssh -launcher-exec "$work/launch" -f "$work/hosts" -n $((2 * ranks)) "$@" &
launched=$!
wait "$launched" || status=$?
launched=
echo "host 1 sent $(($(sent) - before)) bytes"
exit "$status"
