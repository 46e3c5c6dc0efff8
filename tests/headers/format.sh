#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks that all C++ has the layout of .clang-format, and no line of code has more than 120 characters. Usage: format.sh REPOSITORY. Status 77: no clang-format
# 14.
set -euo pipefail
cd "$1"
files=()
while IFS= read -r file; do files+=("$file"); done < <(find include tests bench examples -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' -o -name '*.c' \) ! -path 'examples/front_door/*' ! -path '*/default_tuning.hpp' ! -path '*/one_host_tuning.hpp' | sort)
status=0
awk 'length > 120 && $0 !~ /^ *\/\// { print FILENAME ":" FNR ": a line of code of " length " characters; 120 are enough"; wrong = 1 } END { exit wrong }' \
  "${files[@]}" || status=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for format in clang-format-14 clang-format; do
  case $("$format" --version 2> /dev/null) in *" 14."*) ;; *) continue ;; esac
  cp --parents .clang-format "${files[@]}" "$work"  # one process for many files takes a tenth of the time
  (cd "$work" && printf '%s\0' "${files[@]}" | xargs -0 -n 100 -P "$(nproc)" "$format" -i)
  for file in "${files[@]}"; do
    if ! cmp -s "$file" "$work/$file"; then
      echo "$file: not as clang-format -i leaves it"
      status=1
    fi
  done
  echo "${#files[@]} files"
  exit $status
done
echo "not run: there is no clang-format 14; only the lengths of lines were checked"
exit $((status == 0 ? 77 : 1))
