#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks that two files of one program may include everything, without a warning. Usage: linked_twice.sh COMPILER INCLUDE
set -euo pipefail
compiler=$1 include=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wsign-conversion -Wnon-virtual-dtor)
case $("$compiler" --version) in
  *clang*) ;;
  *) warnings+=(-Wlogical-op -Wuseless-cast) ;;
esac

(cd "$include" && find . -name '*.hpp' ! -path './kolo/mpi/*' ! -path '*/transport/mpi*' ! -path '*/transport/nccl*' ! -path '*/cuda/*' ! -path '*/adapt/torch*' ! -path '*/adapt/c10d*' ! -path './kolo/impl/src.hpp' | sort | sed 's|^\./\(.*\)|#include <\1>|') > "$work/all.hpp"
test -s "$work/all.hpp" || { echo "no headers under $include"; exit 1; }
{ cat "$work/all.hpp"; echo 'extern "C" int one();'; echo 'int one() { return 0; }'; } > "$work/one.cpp"
echo 'extern "C" int one(), two(); int main() { return one() + two(); }' > "$work/main.cpp"
"$compiler" -std=c++20 -O0 "${warnings[@]}" -Werror -I "$include" -c "$work/one.cpp" -o "$work/one.o"
objcopy --redefine-sym one=two "$work/one.o" "$work/two.o"  # as the object of a second file
"$compiler" "$work/main.cpp" "$work/one.o" "$work/two.o" -pthread -o "$work/both"
"$work/both"
echo "$(wc -l < "$work/all.hpp") headers, linked twice"
