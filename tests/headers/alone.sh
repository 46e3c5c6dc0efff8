#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Does a header stand alone, also when it is included twice, without a warning? Usage: alone.sh COMPILER INCLUDE HEADER
set -euo pipefail
compiler=$1 include=$2 header=$3
printf '#include <%s>\n#include <%s>\n' "$header" "$header" |
  "$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -I "$include" -x c++ -
