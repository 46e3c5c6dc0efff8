#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Does a header stand alone, in both modes and also when it is included twice, without a warning? Usage: alone.sh COMPILER INCLUDE HEADER
set -euo pipefail
compiler=$1 include=$2 header=$3
for mode in -UKOLO_COMPILED -DKOLO_COMPILED; do
  if [ "$header$mode" = kolo/impl/src.hpp-UKOLO_COMPILED ]; then continue; fi  # what makes the library is for compiled mode
  printf '#include <%s>\n#include <%s>\n' "$header" "$header" |
    "$compiler" "$mode" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -I "$include" -x c++ -
done
