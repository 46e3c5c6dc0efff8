#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kolo-run: the ranks' environment, its exit status, and how it forwards signals and ends ranks. Usage: kolo_run.sh KOLO_RUN
set -euo pipefail
run=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect STATUS COMMAND...: runs it; its output is in $work/out.
expect() {
  local wanted=$1 status=0
  shift
  "$@" > "$work/out" 2>&1 || status=$?
  [ $status = "$wanted" ] || { echo "$*: status $status, not $wanted"; cat "$work/out"; exit 1; }
}
says() { grep -qxF -- "$1" "$work/out" || { echo "not printed: $1"; cat "$work/out"; exit 1; }; }

expect 0 "$run" -n 3 bash -c 'echo "$KOLO_RANK of $KOLO_SIZE, $KOLO_LOCAL_RANK of $KOLO_LOCAL_SIZE, $1"; printf end >&2' - --flag
for rank in 0 1 2; do says "[$rank] $rank of 3, $rank of 3, --flag"; says "[$rank] end"; done
expect 0 "$run" -n 2 --no-prefix bash -c 'echo "$KOLO_JOB"'
[ "$(sort -u "$work/out" | wc -l)" = 1 ] || { echo "two ranks have different job names"; exit 1; }
expect 7 "$run" -n 3 bash -c '[ $KOLO_RANK != 1 ] || exit 7'
says "kolo-run: rank 1 exited with status 7"
expect 134 "$run" -n 2 bash -c 'ulimit -c 0; [ $KOLO_RANK != 1 ] || kill -ABRT $$'
expect 127 "$run" -n 2 "$work/nothing"
expect 126 "$run" -n 2 "$work"
expect 0 timeout -s KILL 60 bash -c '"$0" -n 2 echo hello >&- 2>&-' "$run"
for again in {1..20}; do  # what a rank has printed comes before its end
  expect 3 "$run" -n 4 --kill-on-failure bash -c '[ $KOLO_RANK != 1 ] || { echo last >&2; exit 3; }; sleep 1000'
  [ "$(grep -nxF "[1] last" "$work/out" | cut -d: -f1)" -lt "$(grep -n "rank 1 exited" "$work/out" | cut -d: -f1)" ] || { echo "the end comes before the last line"; cat "$work/out"; exit 1; }
done
expect 64 "$run" -n 2
expect 64 "$run" --nonsense true
expect 64 "$run" -np 4 true
grep -q "write -n in place of -np" "$work/out" || { echo "the hint for -np is not printed"; cat "$work/out"; exit 1; }
expect 5 timeout 60 "$run" -n 3 --kill-on-failure bash -c '[ $KOLO_RANK != 1 ] || exit 5; sleep 1000'
says "kolo-run: rank 0 was killed by signal 15 (Terminated)"

# Both MPIs' lists of hosts are read.
printf 'a slots = 2 max_slots=4\nb:3 # MPICH\nc max_slots=9\nd slots=5\n' > "$work/hosts"
printf '#!/bin/sh\necho "args: $*"\n' > "$work/mpiexec"
chmod +x "$work/mpiexec"
expect 0 "$run" -n 2 --no-prefix --hosts "$work/hosts" --mpiexec "$work/mpiexec" true
says "args: -n 2 -hosts a:2,b:3,c,d:5 true"
# A rank of another job may run it: mpiexec's variables are those that count.
printf '#!/bin/sh\necho "rank ${KOLO_RANK-none}, job ${KOLO_JOB-none}"\n' > "$work/mpiexec"
expect 0 "$run" -n 1 --no-prefix "$run" --hosts "$work/hosts" --mpiexec "$work/mpiexec" true
says "rank none, job none"

# Inherited state: an ignored SIGCHLD, node variables, a nonblocking standard output.
expect 0 timeout 60 python3 -c 'import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])' "$run" -n 2 true
expect 0 env KOLO_NODE_RANK=1 KOLO_NODE_COUNT=2 "$run" -n 1 bash -c 'echo "node ${KOLO_NODE_RANK-none} of ${KOLO_NODE_COUNT-none}"'
says "[0] node none of none"
python3 - "$run" << 'END'
import os, subprocess, sys
here, there = os.pipe()
os.set_blocking(there, False)
job = subprocess.Popen([sys.argv[1], "-n", "1", "seq", "100000"], stdout=there)
os.close(there)
lines = sum(1 for _ in os.fdopen(here))
if (lines, job.wait()) != (100000, 0):
    sys.exit(f"{lines} of 100000 lines were printed")
END
# A long line is not buffered without limit.
expect 0 "$run" -n 1 head -c 5000000 /dev/zero
[ "$(wc -l < "$work/out")" -ge 4 ] || { echo "5 MB without an end of line were buffered until the end"; exit 1; }

# A signal reaches all ranks, after all have set their traps. One that arrives just before a shell's `read` takes effect at its end.
mkfifo "$work/ready" "$work/never"
exec 5<> "$work/ready"
"$run" -n 2 bash -c "trap 'echo forwarded; exit 3' USR1; exec 3<> '$work/never'; echo > '$work/ready'; until read -t 1 -u 3; do :; done" > "$work/out" 2>&1 & launcher=$!
read -r -u 5 && read -r -u 5
exec 5>&-
kill -USR1 $launcher
status=0
wait $launcher || status=$?
[ $status = 3 ] && says "[0] forwarded" && says "[1] forwarded"

# A failed rank ends the others also while nobody reads the launcher's output: the fifo is full from the start.
mkfifo "$work/full" "$work/held.by.0" "$work/holds"
exec 4<> "$work/full"
dd if=/dev/zero of="$work/full" oflag=nonblock bs=4096 count=4096 2> /dev/null && { echo "a pipe takes 16 MiB"; exit 1; }
"$run" -n 2 --kill-on-failure bash -c "[ \$KOLO_RANK = 0 ] || { read < '$work/holds'; echo; exit 3; }; exec 6> '$work/held.by.0'; echo > '$work/holds'; exec sleep 1000" > "$work/full" 2>&1 & launcher=$!
timeout 60 cat "$work/held.by.0" || { echo "the launcher waits for its reader"; kill -KILL $launcher; exit 1; }
cat "$work/full" > /dev/null 4>&- & reader=$!
exec 4>&-
status=0
wait $launcher || status=$?
[ $status = 3 ] || { echo "status $status, not 3"; exit 1; }
wait $reader

# Processes that ranks leave behind end with the job, and ranks end with a killed launcher. A process that holds a pipe keeps it open: its end is the proof. A
# rank opens the pipe before it starts the process, which might be ended before it had opened it.
mkfifo "$work/held" "$work/held.0" "$work/held.1"
"$run" -n 2 bash -c "exec 6> '$work/held.'\$KOLO_RANK; sleep 1000 >&6 2>&1 &" & launcher=$!
timeout 60 cat "$work/held.0" & reader=$!
timeout 60 cat "$work/held.1"
wait $reader
wait $launcher
"$run" -n 2 --no-prefix sleep 1000 > "$work/held" & launcher=$!
exec 4< "$work/held"
kill -KILL $launcher
timeout 60 cat <&4
wait $launcher 2> /dev/null || true

# Process 1 of a container reaps the processes that ranks have left, and forwards signals.
if [ -e "/proc/$$/task/$$/children" ] && unshare --pid --fork --kill-child --mount-proc true 2> /dev/null; then
  expect 0 timeout 60 unshare --pid --fork --kill-child --mount-proc "$run" -n 2 bash -c 'left=$( (bash -c "echo \$BASHPID" &) ); while [ -e "/proc/$left" ]; do :; done'
  expect 3 timeout 60 unshare --pid --fork --kill-child --mount-proc "$run" -n 1 bash -c "trap 'exit 3' TERM; kill 1; while :; do :; done"
fi
echo "kolo-run: passed"
