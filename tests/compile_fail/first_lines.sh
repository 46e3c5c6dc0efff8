#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Each mistake of mistakes.cpp alone: its sentence must be among the first ten lines. Usage: first_lines.sh COMPILER INCLUDE CASE [NUMBER...]. Their common
# headers are precompiled.
set -euo pipefail
compiler=$1 include=$2 case=$3
shift 3
command -v "$compiler" > /dev/null || { echo "not run: there is no $compiler"; exit 77; }
mapfile -t sentences < <(sed -nE 's,^// (expect|alone): (kolo),\2,p' "$case")
[ $# -gt 0 ] || mapfile -t numbers < <(seq ${#sentences[@]})
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile=("$compiler" -std=c++20 -fdiagnostics-color=never -I "$include")
grep '^#include <kolo/' "$case" > "$work/all.hpp"
"${compile[@]}" -x c++-header "$work/all.hpp" -o "$work/all.hpp.gch"
status=0
for number in "${@:-${numbers[@]}}"; do
  said=$("${compile[@]}" -include "$work/all.hpp" -fsyntax-only -DKOLO_WRONG=1 -DKOLO_MISTAKE="$number" "$case" 2>&1) || true
  line=$(grep -nE -m 1 -- "${sentences[number - 1]}" <<< "$said" | cut -d : -f 1) || true
  echo "$number: line ${line:-none}: ${sentences[number - 1]}"
  [ "${line:-99}" -le 10 ] || { status=1; head -n 12 <<< "$said"; }
done
exit $status
