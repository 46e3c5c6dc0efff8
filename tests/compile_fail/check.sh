#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks cases of wrong use. Usage: check.sh wrong|twins COMPILER INCLUDE PRECOMPILED CASE..., or check.sh --self-test COMPILER
#
# PRECOMPILED: '', or a folder with kolo/kolo.hpp.gch, which g++ uses in place of the header, or with kolo.pch, which clang++ uses for a case that includes the
# header. A case is a file that compiles as written (the positive twin) and must not compile with KOLO_WRONG defined. Each of its lines `// expect: REGEX`
# (extended, as in grep -E) must match a line of the compiler's output. The twins that include the same headers of kolo are compiled as one file, each in a
# namespace of its own.
set -euo pipefail

# compile COMPILER INCLUDE PRECOMPILED FILE OPTION...: prints the compiler's output.
compile() {
  local words=("$1" -std=c++20 -fsyntax-only -fdiagnostics-color=never ${3:+-I "$3"} -I "$2" "${@:4}")
  if [[ $1 == *clang* ]]; then words+=(-ferror-limit=0); fi
  if [ -e "$3/kolo.pch" ] && grep -q '^#include <kolo/kolo.hpp>' "$4"; then words+=(-include-pch "$3/kolo.pch"); fi
  "${words[@]}" 2>&1
}

wrong() {
  local case=$4 said messages expected
  grep -q '^// expect: ' "$case" || { echo "$case has no line '// expect: REGEX'"; return 1; }
  if said=$(compile "$@" -DKOLO_WRONG); then echo "the wrong use compiles"; return 1; fi
  # Without the source lines that compilers print: the sentence must be a message, not a quotation of the case.
  messages=$(grep -E '^[^ ]+\.[a-z]+(:[0-9]+)*: ' <<< "$said") || messages=
  while read -r expected; do
    grep -qE -- "$expected" <<< "$messages" || { echo "refused, but without: $expected"; echo "$said"; return 1; }
    echo "refused with: $expected"
  done < <(sed -n 's|^// expect: ||p' "$case")
}

twins() {
  local case headers said cases=() status=0
  local -A of=()
  for case in "${@:4}"; do of[" $(grep '^#include <kolo/' "$case")"]+="$case"$'\n'; done
  for headers in "${!of[@]}"; do
    mapfile -t cases <<< "${of[$headers]%$'\n'}"
    {
      grep -h '^#include' "${cases[@]}" || true
      for case in "${cases[@]}"; do printf 'namespace in_%s {\n#include "%s"\n}\n' "$(basename "$case" .cpp)" "$case"; done
    } > "$work/twins.cpp"
    said=$(compile "${@:1:3}" "$work/twins.cpp" -Wno-return-type) || { echo "the positive twin of one of these does not compile: ${cases[*]##*/}"; echo "$said"; status=1; }
  done
  [ $status != 0 ] || echo "the positive twins of $(($# - 3)) cases compile"
  return $status
}

# expect pass|fail WHAT CASE_TEXT...
expect() {
  local verdict=pass text cases=() case
  for text in "${@:3}"; do
    cases+=("$work/case${#cases[@]}.cpp")
    printf '%s\n' "$text" > "${cases[-1]}"
  done
  for case in "${cases[@]}"; do wrong "$compiler" "$work" '' "$case" > "$work/log" 2>&1 || verdict=fail; done
  twins "$compiler" "$work" '' "${cases[@]}" > "$work/log.twins" 2>&1 || verdict=fail
  if [ "$verdict" != "$1" ]; then echo "$2: expected $1, got $verdict"; cat "$work/log" "$work/log.twins"; exit 1; fi
  echo "$2: $verdict, as expected"
}

self_test() {
  compiler=$1
  mkdir "$work/kolo"
  echo 'using number = int;' > "$work/kolo/number.hpp"
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
  expect pass "two cases with the same names" "// expect: an int is larger
#include <kolo/number.hpp>
number f() { return 1; }
$wrong" "// expect: an int is larger
#include <kolo/number.hpp>
number f() { return 2; }
$wrong"
  expect fail "a twin that lacks what another includes" "// expect: an int is larger
#include <kolo/number.hpp>
$wrong" "// expect: an int is larger
number f() { return 2; }
$wrong"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $1 in
  wrong | twins) "$@" ;;
  --self-test) self_test "$2" ;;
esac
