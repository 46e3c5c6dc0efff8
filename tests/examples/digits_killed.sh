#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# One of four processes is killed during a training: the others end at once, with an error that names it. Usage: $0 DIGITS
set -euo pipefail
digits=$1
work=$(mktemp -d)
parent=
trap '[ -z "$parent" ] || kill -KILL "$parent"; rm -rf "$work"' EXIT

# Long enough to be killed before its end, and short enough to end within a minute if this script is killed.
mkfifo "$work/table"
"$digits" --ranks 4 --epochs 300 --images 6000 > "$work/table" 2> "$work/messages" &
parent=$!
exec 3< "$work/table"
while read -r step _ <&3; do [ "$step" != 1 ] || break; done  # step 1 is printed: all ranks have started

read -ra ranks < "/proc/$parent/task/$parent/children" || true  # in the order in which they were started; the file has no end of line
[ ${#ranks[@]} = 4 ] || { echo "there are ${#ranks[@]} ranks instead of 4"; exit 1; }
kill -KILL "${ranks[2]}"
started=$SECONDS
while read -r _ <&3; do :; done  # until all processes that can write have ended
status=0
wait $parent || status=$?
parent=
took=$((SECONDS - started))

sed 's/^/    /' "$work/messages"
[ $status != 0 ] || { echo "the program returned 0"; exit 1; }
[ $took -le 60 ] || { echo "the others took $took seconds to end"; exit 1; }
grep -q 'rank 2' "$work/messages" || { echo "rank 2 is not named"; exit 1; }
