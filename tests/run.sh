#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds and runs the tests. Usage: tests/run.sh [full [--begin-by MINUTES] | NAME...]
#
#   (none)     stage quick: unit tests, laws, collectives, compile errors, processes, MPI, examples, programs of the pages, ways to install
#   full       quick, and the stages
#                asan-ubsan  clang++ with address and undefined-behaviour sanitizers: the quick tests, and all tests with ranks as threads or processes
#                tsan        clang++ with thread sanitizer: all tests in which threads may race
#                mutants     deliberate mistakes, each of which a test must detect
#                cuda        tests that need nvcc, and device code on a fake CUDA and NCCL
#                rest        each header alone, soak, fuzzing, a killed rank in every algorithm, benchmarks, budgets
#              in an order that depends on the commit; each stage is built while previous ones are tested.
#              --begin-by MINUTES: a stage that has not started by then is not run, and reported as NOT RUN.
#   NAME       only the named tests: a test, a folder of tests/ or of include/kolo, a header, a file, a mutant, a word in titles of test cases (tests/README.md)
#
# Installs missing packages. The last line is "N passed, N failed"; the status is 0 if nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CXX=${CXX:-g++}
jobs=$(nproc)
rows=() failures=() total_passed=0 total_failed=0

what=quick begin_by=1000000 names=()
case "${1-}" in
  '') ;;
  full)
    what=full
    if [ "${2-}" = --begin-by ] && [[ "${3-}" =~ ^[0-9]+$ ]]; then begin_by=$3; elif [ $# != 1 ]; then what=usage; fi ;;
  -h | --help) what=help ;;
  -*) what=usage ;;
  *) what=names names=("$@") ;;
esac
if [ $what = usage ] || [ $what = help ]; then
  sed -n '3,$ { /^#/!q; s/^# \{0,1\}//p }' "$0"
  [ $what = help ] || exit 2
  exit 0
fi

say() { printf '\n== %s\n' "$*"; }
fail() { echo "$*" >&2; echo "0 passed, 1 failed"; exit 1; }
has_header() { echo "#include <$1>" | "$CXX" -E -isystem /usr/include/eigen3 -x c++ - > /dev/null 2>&1; }

install_missing() {
  local missing=() root=()
  command -v "$CXX" > /dev/null || missing+=(g++)
  command -v cmake > /dev/null || missing+=(cmake)
  command -v make > /dev/null || missing+=(make)
  command -v python3 > /dev/null || missing+=(python3)
  [ $what != full ] || command -v clang++ > /dev/null || missing+=(clang)
  has_header catch2/catch.hpp || has_header catch2/catch_all.hpp || missing+=(catch2)
  has_header Eigen/Core || missing+=(libeigen3-dev)
  has_header CLI/CLI.hpp || missing+=(libcli11-dev)
  has_header benchmark/benchmark.h || missing+=(libbenchmark-dev)
  has_header nlohmann/json.hpp || missing+=(nlohmann-json3-dev)
  command -v doxygen > /dev/null || missing+=(doxygen)
  has_header dlpack/dlpack.h || missing+=(libdlpack-dev)
  command -v mpicxx.mpich > /dev/null || missing+=(mpich libmpich-dev)
  command -v mpicxx.openmpi > /dev/null || missing+=(openmpi-bin libopenmpi-dev)
  if [ ${#missing[@]} -gt 0 ]; then
    say "installing ${missing[*]}"
    command -v apt-get > /dev/null || fail "Please install ${missing[*]}: they are missing, and there is no apt-get here."
    if [ "$(id -u)" != 0 ]; then
      command -v sudo > /dev/null || fail "Please run this as root: apt-get install ${missing[*]}"
      root=(sudo)
    fi
    export DEBIAN_FRONTEND=noninteractive
    echo "(output of apt-get: build/apt.log)"
    { "${root[@]}" apt-get update -qq && "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
      > build/apt.log 2>&1 || { tail -n 5 build/apt.log; fail "apt-get could not install ${missing[*]}."; }
  fi
  # On some systems clang's sanitizers are a separate package.
  [ $what != full ] || sanitizer_runs clang++ address,undefined ||
    "${root[@]}" apt-get install -y -qq --no-install-recommends libclang-rt-dev >> build/apt.log 2>&1 || true
  wrapper=()
  echo 'int main() { return requires(int i) { i; } ? 0 : 1; }' | "$CXX" -std=c++20 -fsyntax-only -x c++ - 2> /dev/null ||
    fail "$CXX does not compile C++20; g++ 12 does: CXX=g++-12 bash tests/run.sh"
  [ "$(printf '%s\n' 3.22 "$(cmake --version | sed -n 's/^cmake version //p')" | sort -V | head -n 1)" = 3.22 ] ||
    fail "cmake is too old; 3.22 or later is needed."
}

# Filters the output of make, ninja and CTest: on a terminal progress overwrites one line, elsewhere every twentieth line is printed; failures are kept.
progress() {
  local width=0 interactive=()
  if [ -t 1 ]; then width=$(tput cols 2> /dev/null || echo 100); fi
  if [[ $(awk -W version 2>&1 < /dev/null) == mawk* ]]; then interactive=(-W interactive); fi  # otherwise it reads 4 KiB at a time
  awk "${interactive[@]}" -v width="$width" '
    function over(line) { if (width > 0) { printf "\r\033[K%s", substr(line, 1, width - 1); fflush() } else if (++said % 20 == 1) { print line; fflush() } }
    function keep(line) { printf "%s%s\n", (width > 0 ? "\r\033[K" : ""), line; fflush() }
    /^\[ *[0-9]+[%\/]/ { over($0); next }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*(Passed|\*\*\*Skipped) +[0-9]/ { over($0); next }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / { keep($0); name = $0; sub(/^.*#[0-9]+: /, "", name); sub(/ .*/, "", name); keep("        to run only this one: bash tests/run.sh " name); next }
    /^ +Start +[0-9]+: / || /^$/ { next }
    /^Could not find executable/ { aside = 1 }
    !aside { keep($0) }
    /^Unable to find executable/ { aside = 0 }
    END { if (width > 0) printf "\r\033[K" }'
}

# record STAGE PASSED FAILED NOT_RUN SECONDS [REMARK]
record() {
  rows+=("$(printf '%-12s %7s %7s %8s %8s  %s' "$1" "$2" "$3" "$4" "$5" "${6-}")")
  total_passed=$((total_passed + $2)) total_failed=$((total_failed + $3))
}

# run_tests STAGE PRESET STARTED REMARK BROKEN CTEST_ARGUMENT...: runs CTest and counts its results.
run_tests() {
  local stage=$1 preset=$2 started=$3 remark=$4 broken=$5 log=build/$1.log name all passed skipped
  shift 5
  "${wrapper[@]}" ctest --preset "$preset" -j "$jobs" --no-label-summary "$@" 2>&1 | tee "$log" | progress || true
  all=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#' "$log" || true)
  passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.* Passed +[0-9.]+ sec' "$log" || true)
  skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*\*\*\*Skipped' "$log" || true)
  if [ "$all" = 0 ]; then broken=1 remark="no test ran"; fi
  if grep -qF '***Not Run' "$log"; then broken=0; fi  # tests that did not build are counted already
  if [ "$all" != 0 ] && ! grep -qE " failed out of $all\$" "$log"; then broken=1 remark="CTest did not finish"; fi
  if [ "$broken" = 1 ]; then failures+=("$stage: $remark"); fi
  while read -r name; do failures+=("$stage: $name"); done < <(sed -nE \
    '/ Passed +[0-9.]+ sec|\*\*\*Skipped/!s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*\*\*\*(.*[^0-9. ]) +[0-9.]+ sec.*/\1 (\2)/p' "$log")
  record "$stage" "$passed" $((all - passed - skipped + broken)) "$skipped" $((SECONDS - started)) "$remark"
}

# configure PRESET
configure() {
  local generator=()
  if [ ! -e "build/$1/CMakeCache.txt" ] && [ -z "${CMAKE_GENERATOR-}" ] && command -v ninja > /dev/null; then generator=(-G Ninja); fi
  cmake --preset "$1" "${generator[@]}" > "build/$1.configure.log" 2>&1 && return
  cat "build/$1.configure.log"
  return 1
}

# build PRESET TARGET...: continues with other targets after an error.
build() {
  local preset=$1 keep_going=(-k)
  shift
  if [ -e "build/$preset/build.ninja" ]; then keep_going=(-k 0); fi
  cmake --build --preset "$preset" -j "$jobs" --target "$@" -- "${keep_going[@]}" 2>&1 | progress
}

# describe STAGE: sets its preset, its target, and the arguments of CTest.
describe() {
  preset=dev target=kolo_$1 arguments=(-L "^$1\$")
  case $1 in
    quick) target=all arguments=(-LE '^(later|cuda|mutants|named)$' -j $((2 * jobs))) ;;  # many tests wait for processes that they have started
    asan-ubsan | tsan | clang) preset=$1 target=all arguments=(-j $((jobs + 1))) ;;  # many ranks wait for others
    mutants) arguments+=(-j $((3 * jobs))) ;;  # many mutants wait for a message that does not come
    rest) target=kolo_later arguments=(-L '^later$' -j $((jobs + 1))) ;;  # the soak has lower priority
  esac
}

# build_stage STAGE: returns 0: built; 1: some targets did not build; 2: could not be configured.
build_stage() {
  describe "$1"
  if [ "$1" = quick ] || [ "$preset" != dev ]; then configure "$preset" || return 2; fi  # build/dev is not configured again while CTest reads it
  build "$preset" "$target" || return 1
}

# test_stage STAGE STARTED BUILT: BUILT is the result of build_stage. A target that does not build is a failure.
test_stage() {
  local name=$1 started=$2 remark=''
  if [ "$3" != 0 ] && [ -e "build/$name.build.log" ]; then cat "build/$name.build.log"; fi
  if [ "$3" = 2 ]; then
    failures+=("$name: could not be configured")
    record "$name" 0 1 0 $((SECONDS - started)) "could not be configured"
    return
  fi
  if [ "$3" != 0 ]; then remark="some targets did not build"; fi
  describe "$name"
  read -r -a wrapper <<< "${wrapper_of[$name]-}"
  say "$name: testing (after $SECONDS s)"
  run_tests "$name" "$preset" "$started" "$remark" $(($3 != 0)) "${arguments[@]}"
  wrapper=()
}

# sanitizer_runs COMPILER SANITIZER: whether a program with it runs here. Sets wrapper to disable address-space randomisation if that collides with its
# shadow memory.
sanitizer_runs() {
  local probe=build/sanitizer_probe
  echo 'int main() {}' | "$1" "-fsanitize=$2" -x c++ - -o "$probe" > "$probe.log" 2>&1 || return 1
  wrapper=()
  "$probe" >> "$probe.log" 2>&1 && return
  wrapper=(setarch "$(uname -m)" -R)
  "${wrapper[@]}" "$probe" >> "$probe.log" 2>&1
}

# Orders the later stages by a hash of the commit: on a machine that is too slow for all, each stage runs for some commits. If its sanitizers do not run
# here, asan-ubsan is replaced by clang, the same compiler without them.
declare -A wrapper_of=()
plan_later_stages() {
  local commit stage
  commit=$(git rev-parse HEAD 2> /dev/null || echo none)
  for stage in $(for stage in asan-ubsan tsan mutants cuda rest; do
    printf '%s %s\n' "$(printf '%s %s' "$commit" "$stage" | cksum)" "$stage"
  done | sort -n | sed 's/.* //'); do
    case $stage in
      asan-ubsan) plan_sanitizer $stage clang++ address,undefined clang ;;
      tsan) plan_sanitizer $stage clang++ thread ;;
      *) later+=("$stage") ;;
    esac
  done
}
plan_sanitizer() {
  if sanitizer_runs "$2" "$3"; then
    later+=("$1") wrapper_of[$1]="${wrapper[*]}"
  else
    say "$1: not run, because a program with $2 -fsanitize=$3 does not run here"
    tail -n 3 build/sanitizer_probe.log
    record "$1" 0 0 - 0 "not run: $2 -fsanitize=$3 does not work here"
    if [ -n "${4-}" ]; then later+=("$4"); fi
  fi
  wrapper=()
}

# Builds the later stages one after another, at low priority, while previous ones are tested. build/STAGE.built: the result of build_stage.
build_ahead() {
  local name
  renice -n 10 "$BASHPID" > /dev/null 2>&1 || true
  for name in "${later[@]}"; do
    if [ $SECONDS -ge $((begin_by * 60)) ]; then return; fi
    local built=0
    build_stage "$name" > "build/$name.build.log" 2>&1 || built=$?
    echo "$built" > "build/$name.built.new"
    mv "build/$name.built.new" "build/$name.built"
  done
}
builder=
start_building_ahead() {
  for name in "${later[@]}"; do rm -f "build/$name.built" "build/$name.build.log"; done
  set -m  # a process group of its own, for stop_building
  build_ahead < /dev/null &
  builder=$!
  set +m
}
stop_building() {
  if [ -n "$builder" ] && kill -0 "$builder" 2> /dev/null; then kill -- "-$builder" 2> /dev/null || true; fi
}
trap stop_building EXIT

# Waits until the stage is built; on a terminal, shows the last line of its build log.
wait_until_built() {
  say "$1: building (after $SECONDS s)"
  until [ -e "build/$1.built" ] || ! kill -0 "$builder" 2> /dev/null; do
    sleep 1
    if [ -t 1 ]; then printf '\r\033[K%s' "$(tail -n 1 "build/$1.build.log" 2> /dev/null | cut -c 1-80)"; fi
  done
  if [ -t 1 ]; then printf '\r\033[K'; fi
}

# Builds the targets, and runs the programs and tests, that tests/support/choose.py selects.
run_names() {
  local chosen targets=() tests=() programs=() line started=$SECONDS name status=0
  say "configuring"
  configure dev || fail "build/dev could not be configured."
  chosen=$(python3 tests/support/choose.py . build/dev "${names[@]}") || exit 2
  while read -r -a line; do
    case ${line[0]} in
      target) targets+=("${line[1]}") ;;
      test) tests+=("${line[1]}") ;;
      program) programs+=("${line[*]:1}") ;;
    esac
  done <<< "$chosen"
  say "building ${#targets[@]} targets"
  if [ ${#targets[@]} -gt 0 ] && ! build dev "${targets[@]}"; then fail "Some targets did not build."; fi
  say "running (built in $((SECONDS - started)) s)"
  for line in "${programs[@]}"; do
    name=${line%% *} status=0
    local filter=() started_one=$SECONDS
    if [ "$line" != "$name" ]; then filter=("${line#* }"); fi
    "$(find build/dev/tests -name "$name" -type f)" "${filter[@]}" > build/one.log 2>&1 || status=$?
    if [ $status != 0 ]; then cat build/one.log; failures+=("${name#one.}"); fi
    record "${name#one.}" $((status == 0)) $((status != 0)) 0 $((SECONDS - started_one)) "$(tail -n 2 build/one.log | head -n 1)"
  done
  if [ ${#tests[@]} -gt 0 ]; then
    local pattern
    pattern=$(printf '%s\n' "${tests[@]}" | sed 's/[.+]/\\&/g' | paste -sd '|')
    run_tests tests dev $SECONDS "" 0 -R "^($pattern)\$"
  fi
}

wrapper=() later=()
mkdir -p build
install_missing
if [ $what = names ]; then
  run_names
else
  if [ $what = full ]; then plan_later_stages; fi
  say "quick: building (after $SECONDS s)"
  started=$SECONDS built=0
  build_stage quick || built=$?
  if [ ${#later[@]} -gt 0 ]; then start_building_ahead; fi
  test_stage quick "$started" "$built"
fi
for name in "${later[@]}"; do
  started=$SECONDS
  if [ $started -ge $((begin_by * 60)) ]; then
    say "$name: NOT RUN, because $begin_by minutes have passed"
    record "$name" 0 0 - 0 "NOT RUN: it would have started after $started s"
    continue
  fi
  [ -e "build/$name.built" ] || wait_until_built "$name"
  if [ -e "build/$name.built" ]; then test_stage "$name" "$started" "$(cat "build/$name.built")"
  else test_stage "$name" "$started" 1; fi
done

say "summary, after $SECONDS s"
printf '%-12s %7s %7s %8s %8s\n' stage passed failed 'not run' seconds
printf '%s\n' "${rows[@]}"
if [ $what = quick ]; then echo "(for sanitizers, clang++, mutants, CUDA and the soak: bash tests/run.sh full)"; fi
if [ ${#failures[@]} -gt 0 ]; then printf '\nfailed:\n'; printf '  %s\n' "${failures[@]}"; fi
echo
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ] && [ ${#failures[@]} = 0 ]
