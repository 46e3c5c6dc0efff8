#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Shows that alone.sh and linked_twice.sh can fail. Usage: self_test.sh COMPILER
set -euo pipefail
compiler=$1
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# expect pass|fail WHAT SCRIPT HEADER_TEXT
expect() {
  local verdict=pass
  printf '%s\n' "$4" > "$tree/h.hpp"
  bash "$here/$3" "$compiler" "$tree" h.hpp > "$tree/log" 2>&1 || verdict=fail
  if [ "$verdict" != "$1" ]; then echo "$2: expected $1, got $verdict"; cat "$tree/log"; exit 1; fi
  echo "$2: $verdict, as it should"
}

once='#pragma once'
expect pass "a good header alone" alone.sh "$once
inline int f() { return 1; }"
expect fail "a missing include" alone.sh "$once
inline std::size_t f() { return 1; }"
expect fail "no include guard" alone.sh "struct s {};"
expect fail "a warning" alone.sh "$once
inline int f(long x) { return x; }"
expect fail "a missing include in compiled mode" alone.sh "$once
#ifndef KOLO_COMPILED
#include <cstddef>
#endif
inline std::size_t f() { return 1; }"
expect pass "a good header twice" linked_twice.sh "$once
inline int f() { return 1; }"
expect fail "a warning, in all headers together" linked_twice.sh "$once
inline int f(long x) { return x; }"
expect fail "a conversion of a sign, in all headers together" linked_twice.sh "$once
inline unsigned f(int x) { return x; }"
expect fail "a function that is not inline" linked_twice.sh "$once
int f() { return 1; }"
expect fail "a variable that is not inline" linked_twice.sh "$once
int v = 1;"
