#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks what examples/synthesize reads and writes. Usage: synthesize.sh PROGRAM COMPILER INCLUDE
set -euo pipefail
program=$1 compiler=$2 include=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wants() { grep -q -- "$1" said || { echo "\"$1\" is not in:"; cat said; exit 1; }; }

cat > square.json <<'END'
{"ranks": 4, "links": [{"between": [0, 1], "latency": 1e-6, "seconds_per_byte": 1e-10}, {"between": [1, 2], "latency": 1e-6, "seconds_per_byte": 1e-9},
                       {"between": [2, 3], "latency": 1e-6, "seconds_per_byte": 1e-10}, {"between": [3, 0], "latency": 1e-6, "seconds_per_byte": 1e-10}]}
END
"$program" --graph square.json --kib 64 --save mine.json --save-graph again.json --source mine.hpp --mscclpp plan.json --chakra trace --picture mine.svg > said
wants "square.json, 4 ranks, allreduce of 0.1 MiB"
wants "lower bound by flows"
wants "best known: "
for file in mine.json again.json mine.hpp plan.json trace.0.et trace.3.et mine.svg; do [ -s $file ] || { echo "no $file"; exit 1; }; done
synthesised() { grep "synthesised, proven" said; }
first=$(synthesised)
"$program" --graph again.json --kib 64 --read mine.json > said
[ "$first" = "$(synthesised)" ] || { echo "the schedule that was read differs:"; cat said; exit 1; }
"$program" --graph square.json --kib 64 --collective broadcast --root 2 --source from_two.hpp > said
sed -i 's/synthesized_schedule/from_two/' from_two.hpp

cat > proof.cpp <<'END'
#include "mine.hpp"
#include "from_two.hpp"
#include <kolo/schedule/verify.hpp>
static_assert(kolo::is_allreduce<synthesized_schedule, 4, 4>);
static_assert(kolo::verify(from_two{}, 4));
static_assert(!kolo::verify(synthesized_schedule{}, 5));
END
"$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$include" proof.cpp

printf 'a slots=2\nb slots=2\n' > hosts
"$program" --hosts hosts --kib 64 --ranks-per-node 2 --collective allgather > said
wants "hosts, 4 ranks, allgather"
wants "two_level"
printf '\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n' > topo
"$program" --nvidia-smi topo --kib 64 > said
wants "topo, 2 ranks"
if "$program" --graph nowhere.json > said 2>&1; then echo "a missing file was read"; exit 1; fi
wants "synthesize: kolo: nowhere.json cannot be read"
sed 's/"replace"//; s/\[0,/[7,/' mine.json > wrong.json
if "$program" --graph square.json --read wrong.json > said 2>&1; then echo "a wrong schedule was accepted"; exit 1; fi
wants "wrong.json"
echo "graphs are read, schedules are written, read, compiled and proven"
