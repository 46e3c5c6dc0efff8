# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Two "hosts" on one machine: two network namespaces joined by a slow wire, 10.77.0.1 and 10.77.0.2. To be sourced.
# `make_two_hosts` makes them, or prints why it cannot and exits with status 77; `on_host 1 COMMAND...` runs there.
# When the shell ends, all processes on them are killed, and they are removed. RATE=1gbit is the rate of the wire; DELAY=0.05: its seconds in each direction.
not_run() { echo "not run: $1"; exit 77; }

hosts=kolo$$
remove_two_hosts() {
  trap '' INT TERM HUP  # timeout sends two of them
  local host processes
  for host in 1 2; do
    processes=$(ip netns pids "$hosts.$host" 2> /dev/null || true)
    [ -z "$processes" ] || kill -KILL $processes 2> /dev/null || true
    ip netns del "$hosts.$host" 2> /dev/null || true
  done
}
on_host() { ip netns exec "$hosts.$1" "${@:2}"; }

make_slow_wire() {
  local up
  exec {up}< <(exec python3 "$(dirname "${BASH_SOURCE[0]}")/slow_wire.py" "$hosts.1" "$hosts.2" "$DELAY" "${RATE:-1gbit}" 2>&1)
  read -r why <&"$up" && [ "$why" = up ] || not_run "no slow wire is possible here: $why"
}

make_two_hosts() {
  local tool host why
  [ "$(id -u)" = 0 ] || not_run "only root may make network namespaces"
  for tool in ip tc; do
    command -v $tool > /dev/null || not_run "there is no $tool here (Debian: apt-get install iproute2)"
  done
  trap remove_two_hosts EXIT
  trap 'exit 143' INT TERM HUP
  why=$({ ip netns add "$hosts.1" && ip netns add "$hosts.2"; } 2>&1) || not_run "this system makes no network namespaces: $(head -n 1 <<< "$why")"
  if [ -n "${DELAY:-}" ]; then make_slow_wire; return; fi
  why=$({ ip link add wire netns "$hosts.1" type veth peer name wire netns "$hosts.2"; } 2>&1) ||
    not_run "this system makes no network namespaces: $(head -n 1 <<< "$why")"
  for host in 1 2; do
    ip -n "$hosts.$host" address add "10.77.0.$host/24" dev wire
    ip -n "$hosts.$host" link set lo up
    ip -n "$hosts.$host" link set wire up
    why=$(tc -n "$hosts.$host" qdisc add dev wire root tbf rate "${RATE:-1gbit}" burst 128kb latency 50ms 2>&1) ||
      not_run "this system shapes no wire: $(head -n 1 <<< "$why")"
  done
  for host in 1 2; do  # the kernel reports a little later that it is up
    for _ in $(seq 1000); do ip -n "$hosts.$host" link show wire | grep -q 'state UP' && break; sleep 0.01; done
  done
}
