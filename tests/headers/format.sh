#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Is all C++ laid out as .clang-format says, and no line of code longer than 120? Usage: format.sh REPOSITORY. Status 77: no clang-format 14 here.
set -euo pipefail
cd "$1"
files=()
while IFS= read -r file; do files+=("$file"); done < <(find include tests bench examples -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' -o -name '*.c' \) ! -path 'examples/front_door/*' ! -path '*/recorded*.hpp' | sort)
status=0
awk 'length > 120 && $0 !~ /^ *\/\// { print FILENAME ":" FNR ": a line of code of " length " characters; 120 are enough"; wrong = 1 } END { exit wrong }' \
  "${files[@]}" || status=1
for format in clang-format-14 clang-format; do
  case $("$format" --version 2> /dev/null) in *" 14."*) ;; *) continue ;; esac
  wrong=$(printf '%s\0' "${files[@]}" | xargs -0 -n 50 -P "$(nproc)" sh -c \
    'format=$0; for file; do "$format" "$file" | cmp -s - "$file" || echo "$file: not as clang-format -i leaves it"; done' "$format")
  if [ -n "$wrong" ]; then
    echo "$wrong"
    status=1
  fi
  echo "${#files[@]} files"
  exit $status
done
echo "not run: there is no clang-format 14 here; the lengths of lines were looked at"
exit $((status == 0 ? 77 : 1))
