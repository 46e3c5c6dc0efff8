#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Shows that alone.py and linked_twice.sh can fail. Usage: self_test.sh COMPILER
set -euo pipefail
compiler=$1
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

alone() {
  python3 "$here/alone.py" "$compiler" "$tree" h.hpp
}
all_alone() {
  python3 "$here/alone.py" "$compiler" "$tree" --mode header_only && python3 "$here/alone.py" "$compiler" "$tree" --mode compiled
}
linked_twice() {
  bash "$here/linked_twice.sh" "$compiler" "$tree"
}

# expect pass|fail WHAT FUNCTION HEADER_TEXT
expect() {
  local verdict=pass
  printf '%s\n' "$4" > "$tree/h.hpp"
  "$3" > "$tree/log" 2>&1 || verdict=fail
  if [ "$verdict" != "$1" ]; then echo "$2: expected $1, got $verdict"; cat "$tree/log"; exit 1; fi
  echo "$2: $verdict, as expected"
}

once='#pragma once'
expect pass "a good header alone" alone "$once
inline int f() { return 1; }"
expect fail "a missing include" alone "$once
inline std::size_t f() { return 1; }"
expect fail "no include guard" alone "struct s {};"
expect fail "a warning" alone "$once
inline int f(long x) { return x; }"
expect fail "a missing include in compiled mode" alone "$once
#ifndef KOLO_COMPILED
#include <cstddef>
#endif
inline std::size_t f() { return 1; }"

# With other headers, so that it is in a chain, precompiled, or in an include cycle.
printf '#pragma once\n#include <h.hpp>\n#include <cstddef>\ninline std::size_t g() { return 1; }\n' > "$tree/above.hpp"
printf '#pragma once\n#include <cstddef>\ninline std::size_t below() { return 1; }\n' > "$tree/below.hpp"
for i in 1 2 3 4 5 6; do printf '#pragma once\n#include <below.hpp>\ninline std::size_t over_%s() { return below(); }\n' $i > "$tree/over_$i.hpp"; done
expect pass "a good header in a chain" all_alone "$once
#include <below.hpp>
inline std::size_t f() { return below(); }"
expect fail "a missing include below one that has it" all_alone "$once
inline std::size_t f() { return 1; }"
expect fail "a missing include beside one that has it" all_alone "$once
inline std::size_t f() { return below(); }"
expect fail "a missing include in compiled mode, in a chain" all_alone "$once
#ifndef KOLO_COMPILED
#include <below.hpp>
#endif
inline std::size_t f() { return below(); }"
expect fail "no include guard, in a chain" all_alone "#include <below.hpp>
struct s {};"
expect fail "a warning, in a chain" all_alone "$once
inline int below_all(long x) { return x; }"
expect fail "an include cycle with one good header" all_alone "$once
#include <above.hpp>
inline std::size_t f() { return g(); }"
grep -q 'above.hpp does not stand alone' "$tree/log" || { echo "the culprit is not named"; cat "$tree/log"; exit 1; }
if grep -q 'over_1.hpp does not stand' "$tree/log"; then echo "a good header is named"; cat "$tree/log"; exit 1; fi
printf '#pragma once\n#include <h.hpp>\n#include <below.hpp>\ninline std::size_t g() { return below(); }\n' > "$tree/above.hpp"
expect fail "a missing include that the other header of a cycle has" all_alone "$once
#include <above.hpp>
inline std::size_t f() { return 1; }"
grep -q 'above.hpp does not stand alone' "$tree/log" || { echo "the culprit is not named"; cat "$tree/log"; exit 1; }
rm "$tree/above.hpp"
expect fail "an include after the code that needs it" all_alone "$once
inline std::size_t f() { return 1; }
#include <below.hpp>"
rm "$tree"/below.hpp "$tree"/over_*.hpp

expect pass "a good header twice" linked_twice "$once
inline int f() { return 1; }"
expect fail "a warning, in all headers together" linked_twice "$once
inline int f(long x) { return x; }"
expect fail "a conversion of a sign, in all headers together" linked_twice "$once
inline unsigned f(int x) { return x; }"
expect fail "a function that is not inline" linked_twice "$once
int f() { return 1; }"
expect fail "a variable that is not inline" linked_twice "$once
int v = 1;"
