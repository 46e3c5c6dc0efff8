#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The recipe for Conan, run by PyPI's Conan, with and without the library. Usage: conan.sh SOURCE. Exit status 77: Conan cannot be installed.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{ python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q 'conan>=2'; } > "$work/log" 2>&1 || { echo "not run: Conan could not be installed"; tail -n 3 "$work/log"; exit 77; }
export CONAN_HOME=$work/home
conan=$work/venv/bin/conan
if command -v clang++ > /dev/null; then export CC=clang CXX=clang++; fi  # takes half the time
"$conan" profile detect > "$work/log" 2>&1
mkdir "$work/source"  # Conan builds its test beside the recipe
cp -r "$source"/{CMakeLists.txt,LICENSE,include,cmake} "$work/source"
for compiled in False True; do
  "$conan" create "$work/source/cmake/packaging/conan" -s compiler.cppstd=20 -s build_type=Debug -o "kolo/*:compiled=$compiled" --build=missing --no-remote > "$work/log" 2>&1 ||
    { tail -n 40 "$work/log"; exit 1; }
  echo "conan create, compiled=$compiled: made, and the program of its test ran"
done
