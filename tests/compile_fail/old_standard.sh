#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# As C++17 a program hears first what is needed. Usage: old_standard.sh COMPILER INCLUDE
set -euo pipefail
said=$(echo '#include <kolo/kolo.hpp>' | "$1" -std=c++17 -fsyntax-only -I "$2" -x c++ - 2>&1) && { echo "it compiles as C++17"; exit 1; }
grep -m 1 error <<< "$said" | grep 'kolo needs C++20' || { head -n 12 <<< "$said"; exit 1; }
