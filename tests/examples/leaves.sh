#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# With --leaves, digits and the small GPT learn the same parameters, bit for bit, on any number of processes; digits also on simulated ranks.
# Usage: $0 DIGITS GPT
set -uo pipefail
digits=$1 gpt=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# one_hash WHAT COUNT: standard input has COUNT lines with a hash of the parameters, all the same.
one_hash() {
  sed -n 's/^Parameters.*: //p' | tee "$work/hashes" | sort -u > "$work/different"
  if [ "$(wc -l < "$work/hashes")" != "$2" ] || [ "$(wc -l < "$work/different")" != 1 ]; then
    echo "$1: these should be $2 equal hashes"
    cat "$work/hashes"
    return 1
  fi
}

echo '{"latency": 1e-5}' > "$work/network"
flags=(--images 2400 --epochs 1 --leaves 8 --ranks 1,2,3,4,8)
{
  "$digits" "${flags[@]}"
  if [ -e /usr/include/nlohmann/json.hpp ]; then "$digits" "${flags[@]}" --simulate "$work/network"; else "$digits" "${flags[@]}"; fi
} | one_hash digits 10 || failed=1
for ranks in 1 2 3 4 8; do "$gpt" --ranks $ranks --steps 10 --batch 8 --layers 1 --width 16 --sample 0; done | one_hash gpt 5 || failed=1
exit $failed
