#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs what is missing, builds and runs every test, stage by stage. Usage: tests/run.sh [--quick]
#
#   dev         g++ -O1: every test and check                     (--quick: only this stage)
#   asan-ubsan  the other compiler, with address and undefined-behaviour sanitizers: all headers, static checks, refusals, unit tests,
#               laws, and every test that runs ranks; where its sanitizers do not run, `clang`: all but the last, without them
#   tsan        thread sanitizer: every test in which threads may race
#   cuda        what needs nvcc, where there is one: headers, device code, links with NCCL
#
# The last line is "N passed, N failed"; the status is 0 when nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CXX=${CXX:-g++}
jobs=$(nproc)
rows=() failures=() total_passed=0 total_failed=0

quick=no
case "${1-}" in
  '') ;;
  --quick) quick=yes ;;
  *) sed -n '3,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

say() { printf '\n== %s\n' "$*"; }
give_up() { echo "$*" >&2; echo "0 passed, 1 failed"; exit 1; }
has_header() { echo "#include <$1>" | "$CXX" -E -isystem /usr/include/eigen3 -x c++ - > /dev/null 2>&1; }

install_missing() {
  local missing=() root=()
  command -v "$CXX" > /dev/null || missing+=(g++)
  command -v cmake > /dev/null || missing+=(cmake)
  command -v make > /dev/null || missing+=(make)
  command -v python3 > /dev/null || missing+=(python3)
  [ $quick = yes ] || command -v clang++ > /dev/null || missing+=(clang)
  has_header catch2/catch.hpp || has_header catch2/catch_all.hpp || missing+=(catch2)
  has_header Eigen/Core || missing+=(libeigen3-dev)
  has_header CLI/CLI.hpp || missing+=(libcli11-dev)
  has_header benchmark/benchmark.h || missing+=(libbenchmark-dev)
  has_header nlohmann/json.hpp || missing+=(nlohmann-json3-dev)
  command -v mpicxx.mpich > /dev/null || missing+=(mpich libmpich-dev)
  command -v mpicxx.openmpi > /dev/null || missing+=(openmpi-bin libopenmpi-dev)
  if [ ${#missing[@]} -gt 0 ]; then
    say "installing ${missing[*]}"
    command -v apt-get > /dev/null || give_up "Please install these yourself: ${missing[*]} (there is no apt-get here)."
    if [ "$(id -u)" != 0 ]; then
      command -v sudo > /dev/null || give_up "Please install these as root: apt-get install ${missing[*]}"
      root=(sudo)
    fi
    export DEBIAN_FRONTEND=noninteractive
    echo "(what apt-get says goes to build/apt.log)"
    { "${root[@]}" apt-get update -qq && "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
      > build/apt.log 2>&1 || { tail -n 5 build/apt.log; give_up "apt-get could not install ${missing[*]}."; }
  fi
  # Clang's sanitizers are a package of their own in some systems, and a part of clang in others.
  [ $quick = yes ] || sanitizer_runs clang++ address,undefined ||
    "${root[@]}" apt-get install -y -qq --no-install-recommends libclang-rt-dev >> build/apt.log 2>&1 || true
  wrapper=()
  echo 'int main() { return requires(int i) { i; } ? 0 : 1; }' | "$CXX" -std=c++20 -fsyntax-only -x c++ - 2> /dev/null ||
    give_up "$CXX does not compile C++20; g++ 12 does: CXX=g++-12 bash tests/run.sh"
  [ "$(printf '%s\n' 3.23 "$(cmake --version | sed -n 's/^cmake version //p')" | sort -V | head -n 1)" = 3.23 ] ||
    give_up "cmake is older than 3.23."
}

# One line that is overwritten on a terminal; warnings and errors stay.
progress() {
  if [ -t 1 ]; then
    awk '/^\[ *[0-9]+[%\/]/ { printf "\r\033[K%.100s", $0; fflush(); next } { printf "\r\033[K%s\n", $0 } END { printf "\r\033[K" }'
  else
    cat
  fi
}

# What CTest says without its asides: when each test started, and where it looked for a program that did not build.
results() {
  awk '/^Could not find executable/ { aside = 1 }
       !aside && !/^ +Start +[0-9]+: / && !/^$/ { print; fflush() }
       /^Unable to find executable/ { aside = 0 }'
}

# record STAGE PASSED FAILED NOT_RUN SECONDS [REMARK]
record() {
  rows+=("$(printf '%-12s %7s %7s %8s %8s  %s' "$1" "$2" "$3" "$4" "$5" "${6-}")")
  total_passed=$((total_passed + $2)) total_failed=$((total_failed + $3))
}

# run_tests STAGE PRESET STARTED REMARK BROKEN CTEST_ARGUMENT...: runs CTest and counts what it says.
run_tests() {
  local stage=$1 preset=$2 started=$3 remark=$4 broken=$5 log=build/$1.log name all passed skipped
  shift 5
  "${wrapper[@]}" ctest --preset "$preset" -j "$jobs" --no-label-summary "$@" 2>&1 | tee "$log" | results || true
  all=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#' "$log" || true)
  passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.* Passed +[0-9.]+ sec' "$log" || true)
  skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*\*\*\*Skipped' "$log" || true)
  if [ "$all" = 0 ]; then broken=1 remark="no test ran"; fi
  if grep -qF '***Not Run' "$log"; then broken=0; fi  # what did not build is counted already
  if [ "$broken" = 1 ]; then failures+=("$stage: $remark"); fi
  while read -r name; do failures+=("$stage: $name"); done < <(sed -nE \
    '/ Passed +[0-9.]+ sec|\*\*\*Skipped/!s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*\*\*\*(.*[^0-9. ]) +[0-9.]+ sec.*/\1 (\2)/p' "$log")
  record "$stage" "$passed" $((all - passed - skipped + broken)) "$skipped" $((SECONDS - started)) "$remark"
}

# stage PRESET CTEST_ARGUMENT...: configures, builds, runs. What does not build is a failure, and hides nothing else.
stage() {
  local preset=$1 started=$SECONDS broken=0 remark='' keep_going=(-k) generator=()
  shift
  if [ ! -e "build/$preset/CMakeCache.txt" ] && [ -z "${CMAKE_GENERATOR-}" ] && command -v ninja > /dev/null; then generator=(-G Ninja); fi
  say "$preset: configuring"
  if ! cmake --preset "$preset" "${generator[@]}" > "build/$preset.configure.log" 2>&1; then
    cat "build/$preset.configure.log"
    failures+=("$preset: could not be configured")
    record "$preset" 0 1 0 $((SECONDS - started)) "could not be configured"
    return
  fi
  say "$preset: building"
  if [ -e "build/$preset/build.ninja" ]; then keep_going=(-k 0); fi
  if ! cmake --build --preset "$preset" -j "$jobs" -- "${keep_going[@]}" 2>&1 | progress; then
    broken=1 remark="something did not build"
  fi
  say "$preset: testing (built in $((SECONDS - started)) s)"
  run_tests "$preset" "$preset" "$started" "$remark" "$broken" "$@"
}

# sanitizer_runs COMPILER SANITIZER: does a program with it run here? Its shadow memory may collide with address-space randomisation; then without.
sanitizer_runs() {
  local probe=build/sanitizer_probe
  echo 'int main() {}' | "$1" "-fsanitize=$2" -x c++ - -o "$probe" > "$probe.log" 2>&1 || return 1
  wrapper=()
  "$probe" >> "$probe.log" 2>&1 && return
  wrapper=(setarch "$(uname -m)" -R)
  "${wrapper[@]}" "$probe" >> "$probe.log" 2>&1
}

# sanitizer_stage PRESET COMPILER SANITIZER [PRESET]: another preset may stand in where the sanitizer does not run.
sanitizer_stage() {
  if sanitizer_runs "$2" "$3"; then
    stage "$1"
  else
    say "$1: not run, because a program with $2 -fsanitize=$3 does not run here"
    tail -n 3 build/sanitizer_probe.log
    record "$1" 0 0 - 0 "not run: $2 -fsanitize=$3 does not work here"
    wrapper=()
    if [ -n "${4-}" ]; then stage "$4"; fi
  fi
  wrapper=()
}

cuda_stage() {
  local nvcc
  say "cuda: what needs nvcc"
  nvcc=$(sed -n 's/^KOLO_NVCC:[A-Z]*=//p' build/dev/CMakeCache.txt 2> /dev/null || true)
  if [ -x "$nvcc" ]; then
    run_tests cuda dev $SECONDS "" 0 -L '^cuda$'
  else
    echo "not run: there is no nvcc here"
    record cuda 0 0 - 0 "not run: there is no nvcc here"
  fi
}

wrapper=()
mkdir -p build
install_missing
stage dev -LE '^cuda$'
if [ $quick = no ]; then
  sanitizer_stage asan-ubsan clang++ address,undefined clang
  sanitizer_stage tsan "$CXX" thread
  cuda_stage
fi

say "summary, after $SECONDS s"
printf '%-12s %7s %7s %8s %8s\n' stage passed failed 'not run' seconds
printf '%s\n' "${rows[@]}"
if [ $quick = yes ]; then echo "(--quick: the other stages were not run)"; fi
if [ ${#failures[@]} -gt 0 ]; then printf '\nfailed:\n'; printf '  %s\n' "${failures[@]}"; fi
echo
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ]
