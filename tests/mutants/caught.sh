#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks that a catcher notices the mutant that KOLO_MUTANT names. Usage: caught.sh run|hang SECONDS PROGRAM [ARGUMENT]
# run: it must end with a status other than 0. hang: it may also not end within SECONDS, or be ended by its own alarm.
[ -x "$3" ] || { echo "there is no $3"; exit 1; }
work=$(mktemp -d)  # a killed program leaves its files there
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
set -m  # a process group of its own: all processes that it has started end with it
timeout -s KILL "${@:2}" &
wait $!
status=$?
kill -KILL -- -$! 2> /dev/null
if [ $status = 0 ]; then echo "the mutant lives: exit status 0"; exit 1; fi
if [[ $status =~ ^(137|142)$ && $1 = run ]]; then echo "no end within $2 s or its own alarm's, which does not say that it was caught (caught = hang)"; exit 1; fi
echo "caught: exit status $status"
