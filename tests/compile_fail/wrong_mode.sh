#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# As C++17, or without exceptions, the first error names what kolo needs. Usage: wrong_mode.sh COMPILER INCLUDE
set -euo pipefail
compiler=$1 include=$2
hears() {  # SENTENCE OPTION...
  local sentence=$1 said
  said=$(echo '#include <kolo/kolo.hpp>' | "$compiler" "${@:2}" -Wfatal-errors -fsyntax-only -I "$include" -x c++ - 2>&1) && { echo "it compiles with ${*:2}"; exit 1; }
  grep -m 1 error <<< "$said" | grep "$sentence" || { head -n 12 <<< "$said"; exit 1; }
}
hears 'kolo needs C++20' -std=c++17
hears 'kolo reports failures by exceptions' -std=c++20 -fno-exceptions
