#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Trains a classifier of handwritten digits on 1, 2 and 4 processes, or runs another example. Installs what is missing, builds, runs.
#
# Usage: bash examples/run.sh [EXAMPLE] [FLAG...]     EXAMPLE: digits (this, unless another one is said), scaling, draw, own_algorithm.
#        What follows is handed to the program; --help lists what there is:
#        bash examples/run.sh --ranks 2 --epochs 3
#        bash examples/run.sh --algorithm ring --checkpoint /tmp/digits.state
#        bash examples/run.sh --mnist DIRECTORY
#        bash examples/run.sh scaling                 ResNet-50 on 1 to 256 GPUs, and a plot of it
#        bash examples/run.sh draw ring allreduce 5 --out ring.svg
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/examples log=$root/build/examples.log
export CXX=${CXX:-g++}
example=digits
case "${1:-}" in digits | scaling | draw | own_algorithm) example=$1; shift ;; esac

progress=1
[ $example != draw ] || progress=2  # what it draws goes to standard output
say() { printf '== %s\n' "$*" >&"$progress"; }
give_up() { printf '%s\n' "$*" >&2; exit 1; }
has_header() { echo "#include <$1>" | "$CXX" -E -isystem /usr/include/eigen3 -x c++ - > /dev/null 2>&1; }

# quietly WHAT COMMAND...: shows what the command has written only if it fails.
quietly() {
  local what=$1
  shift
  say "$what"
  if ! "$@" > "$log" 2>&1; then
    cat "$log" >&2
    give_up "$what: failed; what it wrote stands above."
  fi
}

# The first Python that can draw.
with_matplotlib() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import matplotlib' 2> /dev/null; then echo "$python"; return; fi
  done
  return 1
}

# Both ways of exchanging, and a plot.
study() {
  "$build/examples/scaling/scaling" --overlap 1 --csv "$root/build/during.csv"
  echo
  "$build/examples/scaling/scaling" --overlap 0 --csv "$root/build/after.csv"
  echo
  "$(with_matplotlib)" "$root/examples/scaling/plot.py" "$root/build/scaling.svg" \
    "exchange during the backward pass=$root/build/during.csv" "after it=$root/build/after.csv"
  say "the plot: $root/build/scaling.svg"
}

install_missing() {
  local missing=() become=()
  command -v "$CXX" > /dev/null || missing+=(g++)
  command -v cmake > /dev/null || missing+=(cmake)
  command -v make > /dev/null || command -v ninja > /dev/null || missing+=(make)
  has_header Eigen/Core || missing+=(libeigen3-dev)
  has_header CLI/CLI.hpp || missing+=(libcli11-dev)
  has_header nlohmann/json.hpp || missing+=(nlohmann-json3-dev)
  if [ $example = scaling ] && ! with_matplotlib > /dev/null; then missing+=(python3-matplotlib); fi
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get > /dev/null || give_up "Please install these: ${missing[*]} (there is no apt-get here)."
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || give_up "Please install these as root: apt-get install ${missing[*]}"
    become=(sudo)
  fi
  export DEBIAN_FRONTEND=noninteractive
  quietly "fetching the list of packages" "${become[@]}" apt-get update
  quietly "installing ${missing[*]}" "${become[@]}" apt-get install -y --no-install-recommends "${missing[@]}"
}

check_versions() {
  echo 'int main() { return requires(int i) { i; } ? 0 : 1; }' | "$CXX" -std=c++20 -fsyntax-only -x c++ - 2> /dev/null ||
    give_up "$CXX does not compile C++20; g++ 12 does: CXX=g++-12 bash examples/run.sh"
  local version
  version=$(cmake --version | sed -n 's/^cmake version //p')
  [ "$(printf '%s\n' 3.23 "$version" | sort -V | head -n 1)" = 3.23 ] || give_up "cmake is $version; 3.23 is needed."
}

mkdir -p "$root/build"
install_missing
check_versions
quietly "configuring build/examples" cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
  -DKOLO_BUILD_EXAMPLES=ON -DKOLO_BUILD_TESTS=OFF -DKOLO_INSTALL=OFF
quietly "building the example" cmake --build "$build" --target $example -j "$(nproc)"
if [ $# = 0 ] && [ $example = digits ]; then set -- --accuracy-above 95; fi
if [ $# = 0 ] && [ $example = own_algorithm ]; then set -- "$root/build/both_ways.svg"; fi
say "$example $*"
if [ $# = 0 ] && [ $example = scaling ]; then
  study && status=0 || status=$?
else
  "$build/examples/$example/$example" "$@" && status=0 || status=$?
fi
echo >&"$progress"
if [ "$status" = 0 ]; then say "done: all is well, after $SECONDS s"; else say "NOT well: the program returned $status"; fi
exit "$status"
