#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Judges one case of wrong use. Usage: check.sh COMPILER INCLUDE CASE [PRECOMPILED], or check.sh --self-test COMPILER
#
# PRECOMPILED: a folder that has kolo/kolo.hpp.gch, which g++ takes in place of the header, or kolo.pch, which clang++ is told to take
# for a case that includes the header.
# A case is a file that compiles as it stands (the positive twin) and must not compile with KOLO_WRONG defined. Each of its
# lines `// expect: REGEX` (extended, as grep -E has it) must match a line of what the compiler then says.
set -euo pipefail

check() {
  local compiler=$1 include=$2 case=$3 said messages expected
  local compile=("$compiler" -std=c++20 -fsyntax-only -fdiagnostics-color=never ${4:+-I "$4"} -I "$include" "$case")
  if [[ $compiler == *clang* ]]; then compile+=(-ferror-limit=0); fi
  if [ -e "${4-}/kolo.pch" ] && grep -q '^#include <kolo/kolo.hpp>' "$case"; then compile+=(-include-pch "$4/kolo.pch"); fi
  grep -q '^// expect: ' "$case" || { echo "$case has no line '// expect: REGEX'"; return 1; }
  said=$("${compile[@]}" 2>&1) || { echo "the positive twin does not compile:"; echo "$said"; return 1; }
  if said=$("${compile[@]}" -DKOLO_WRONG 2>&1); then echo "the wrong use compiles"; return 1; fi
  # Without the lines of source that compilers show: a sentence must be said, not be quoted from the case.
  messages=$(grep -E '^[^ ]+\.[a-z]+(:[0-9]+)*: ' <<< "$said") || messages=
  while read -r expected; do
    grep -qE -- "$expected" <<< "$messages" || { echo "refused, but nobody said: $expected"; echo "$said"; return 1; }
    echo "refused with: $expected"
  done < <(sed -n 's|^// expect: ||p' "$case")
}

# expect pass|fail WHAT CASE_TEXT
expect() {
  local verdict=pass
  printf '%s\n' "$3" > "$work/case.cpp"
  check "$compiler" "$work" "$work/case.cpp" > "$work/log" 2>&1 || verdict=fail
  if [ "$verdict" != "$1" ]; then echo "$2: expected $1, got $verdict"; cat "$work/log"; exit 1; fi
  echo "$2: $verdict, as it should"
}

self_test() {
  compiler=$1
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  local wrong='#ifdef KOLO_WRONG
static_assert(sizeof(int) == 1, "an int is larger");
#endif'
  expect pass "a good case" "// expect: an int is larger
$wrong"
  expect fail "another sentence" "// expect: an int is smaller
$wrong"
  expect fail "one of two sentences" "// expect: an int is larger
// expect: an int is smaller
$wrong"
  expect fail "no sentence" "$wrong"
  expect fail "a wrong use that compiles" "// expect: an int is larger"
  expect fail "a twin that does not compile" "// expect: an int is larger
static_assert(false);
$wrong"
  expect fail "a sentence that is only quoted" "// expect: an int is larger
#ifdef KOLO_WRONG
int i = \"an int is larger\";
#endif"
}

if [ "$1" = --self-test ]; then self_test "$2"; else check "$@"; fi
