#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compares kolo's algorithms with one another and with MPICH, Open MPI and Gloo. Installs missing packages, builds, measures, reports.
#
# Usage: bash bench/run.sh [quick|full|oversubscribed|mpi|tune|tune-mpi|trace|smoke] [FLAG...]
#   quick                  about two minutes (the default); full: about a quarter of an hour of measuring
#   oversubscribed         kolo, MPICH and Open MPI on 4, 8, 16 and 32 ranks, with a time limit for each row; about five minutes on two cores
#   smoke                  a few seconds; only tests the harness
#   tune                   every algorithm of kolo, no peers: the table of the automatic choice, and its accuracy
#   mpi, tune-mpi          kolo over MPI and MPI's own collectives, in the same processes, less than three minutes; and the table of the automatic choice there
#   trace                  the cost of a trace while it is on, and of the flight recorder, which is always on: calls with and without, alternating; half a minute
#   --record               with tune, tune-mpi: write the library's tables anew (select/default_tuning.hpp, mpi/one_host_tuning.hpp)
#   --plan FILE            measure the plan FILE, like those in bench/plans
#   --peers LIST           some of mpich,openmpi,gloo; or none (then no peer is installed)
#   --format FORMAT        nccl-tests or osu: print only the columns of that program on standard output, of kolo's automatic choice; all else goes to standard error
#   --only FIELD=VALUE     with --format: only rows with this collective, ranks, mode, place, implementation, ...; may be repeated
#   --compare OLD.json     compare with an older run: slower rows are red
#   --fail-on-regression   with --compare: exit with 1 if a row became slower
#   --out DIR              the folder of run.json, report.html and report.txt; by default build/bench/results/DATE
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench log=$root/build/bench.log
export CXX=${CXX:-g++}
plan=$root/bench/plans/quick.json peers=mpich,openmpi,gloo groups=kolo,kolo_threads,floor over_mpi='' trace='' format='' only=() record='' out='' report_flags=() left_out=()

say() { printf '== %s\n' "$*"; }
give_up() { printf '%s\n' "$*" >&2; exit 2; }
usage() { sed -n '3,$ { /^#/!q; s/^# \{0,1\}//p }' "$0"; }
has_header() { echo "#include <$1>" | "$CXX" -E -x c++ - > /dev/null 2>&1; }
wants() { case ",$peers," in *",$1,"*) return 0 ;; *) return 1 ;; esac; }

arguments() {
  while [ $# -gt 0 ]; do
    case "$1" in
      quick | full | smoke) plan=$root/bench/plans/$1.json ;;
      oversubscribed | crowded) plan=$root/bench/plans/oversubscribed.json peers=mpich,openmpi groups=kolo ;;
      tune) plan=$root/bench/plans/tune.json peers='' ;;
      mpi | tune-mpi) plan=$root/bench/plans/$1.json peers=mpich,openmpi groups=kolo_mpich,kolo_openmpi over_mpi=1 ;;
      trace) trace=1 ;;
      --record) record=1 ;;
      --plan | --peers | --compare | --out | --format | --only)
        [ $# -ge 2 ] || give_up "$1 needs a value"
        case "$1" in
          --plan) plan=$2 ;;
          --peers)
            peers=${2/#none/}
            [[ -z $peers || ,$peers, =~ ^(,(mpich|openmpi|gloo))+,$ ]] || give_up "unknown peers $2; choose from mpich, openmpi and gloo" ;;
          --compare)  # a copy: --out may name its folder
            older=$(mktemp) && trap 'rm -f "$older"' EXIT
            cp -- "$2" "$older" || give_up "there is no run to compare with"
            report_flags+=(--compare "$older") ;;
          --out) out=$2 ;;
          --format)
            case $2 in nccl-tests | osu) format=$2 ;; *) give_up "unknown format $2; choose nccl-tests or osu" ;; esac ;;
          --only)
            [[ $2 =~ ^(collective|ranks|element|place|mode|distance|implementation|algorithm|buffers)= ]] || give_up "--only $2: not a field of a row"
            only+=(--only "$2") ;;
        esac
        shift ;;
      --fail-on-regression) report_flags+=(--fail-on-regression) ;;
      -h | --help) usage; exit 0 ;;
      *) usage >&2; give_up "unknown argument $1" ;;
    esac
    shift
  done
  [ -n "$format" ] || [ ${#only[@]} = 0 ] || give_up "--only needs --format"
  [ -r "$plan" ] || give_up "there is no plan $plan"
}

# quietly WHAT COMMAND...: prints the command's output only if it fails; returns its status.
quietly() {
  local what=$1
  shift
  say "$what"
  "$@" > "$log" 2>&1 && return
  tail -n 20 "$log" >&2
  return 1
}

# install PACKAGE...: returns 1 if that fails.
install() {
  local become=()
  if ! command -v apt-get > /dev/null; then
    echo "There is no apt-get; please install $* yourself." >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || { echo "Please install these as root: apt-get install $*" >&2; return 1; }
    become=(sudo)
  fi
  export DEBIAN_FRONTEND=noninteractive
  if [ ! -e "$root/build/.packages_listed" ]; then
    quietly "fetching the list of packages" "${become[@]}" apt-get update || return 1
    touch "$root/build/.packages_listed"
  fi
  quietly "installing $*" "${become[@]}" apt-get install -y --no-install-recommends "$@"
}

install_tools() {
  local missing=()
  command -v "$CXX" > /dev/null || missing+=(g++)
  command -v cmake > /dev/null || missing+=(cmake)
  command -v make > /dev/null || command -v ninja > /dev/null || missing+=(make)
  command -v python3 > /dev/null || missing+=(python3)
  has_header benchmark/benchmark.h || missing+=(libbenchmark-dev)
  has_header nlohmann/json.hpp || missing+=(nlohmann-json3-dev)
  has_header CLI/CLI.hpp || missing+=(libcli11-dev)
  [ ${#missing[@]} = 0 ] || install "${missing[@]}" || give_up "The benchmark needs these: ${missing[*]}"
  if ! with_matplotlib > /dev/null; then install python3-matplotlib || left_out+=("plots: python3-matplotlib could not be installed"); fi
}

# Prints the first Python with matplotlib.
with_matplotlib() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import matplotlib' 2> /dev/null; then echo "$python"; return; fi
  done
  return 1
}

# A peer that cannot be installed is left out, with a message.
install_peers() {
  if wants mpich && ! { command -v mpicxx.mpich && command -v mpiexec.mpich; } > /dev/null; then
    install mpich libmpich-dev || left_out+=("MPICH: it could not be installed")
  fi
  if wants openmpi && ! { command -v mpicxx.openmpi && command -v mpiexec.openmpi; } > /dev/null; then
    install openmpi-bin libopenmpi-dev || left_out+=("Open MPI: it could not be installed")
  fi
  if wants gloo && ! has_header gloo/allreduce.h; then
    install libgloo-dev || left_out+=("Gloo: it could not be installed")
  fi
}

# build_peer NAME TARGET
build_peer() {
  wants "$1" || return 0
  quietly "building the ranks of $1" cmake --build "$build" --target "$2" || left_out+=("$1: its ranks could not be built")
}

build_peers() {
  local name
  for name in mpich openmpi; do
    if [ -n "$over_mpi" ]; then build_peer $name kolo_bench_kolo_${name}_program; else build_peer $name kolo_bench_${name}_program; fi
  done
  build_peer gloo kolo_bench_gloo
}

configure() {
  local version
  version=$(cmake --version | sed -n 's/^cmake version //p')
  [ "$(printf '%s\n' 3.22 "$version" | sort -V | head -n 1)" = 3.22 ] || give_up "cmake is $version; 3.22 is needed."
  quietly "configuring build/bench" cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" \
    -DKOLO_BUILD_BENCH=ON -DKOLO_BUILD_TESTS=OFF -DKOLO_BUILD_EXAMPLES=OFF -DKOLO_INSTALL=OFF || give_up "cmake failed; see above."
}

build_all() {
  configure
  quietly "building the driver and kolo's ranks (-O2)" cmake --build "$build" -j "$(nproc)" || give_up "the build failed; see above."
  build_peers
}

# Compares predictions and choices with the measurements, and writes tables.
judge() {
  local worth=("$build/bench/kolo_bench_tune" "$out/run.json" --rows "$out/choices.txt") tables=$out/default_tuning.hpp
  case "$(basename "$plan" .json)" in
    tune)
      [ -z "$record" ] || tables=$root/include/kolo/select/default_tuning.hpp
      worth+=(--header "$tables" --json "$out/tuning.json") ;;
    tune-mpi)
      [ -z "$record" ] || tables=$root/include/kolo/mpi/one_host_tuning.hpp
      worth+=(--mpi-header "$tables") ;;
  esac
  "${worth[@]}" | tee -a "$out/report.txt"
}

# The cost of recording while calls run.
cost_of_traces() {
  quietly "building the library with and without recording (-O2)" cmake --build "$build" --target kolo_bench_recording || give_up "the build failed; see above."
  say "measuring; nothing else should run on this host"
  "$build/bench/kolo_bench_recording"
}

arguments "$@"
exec 3>&1
[ -z "$format" ] || exec 1>&2
mkdir -p "$root/build"
install_tools
if [ -n "$trace" ]; then
  configure
  cost_of_traces
  exit
fi
install_peers
build_all
python=$(with_matplotlib || echo python3)
out=${out:-$build/results/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$out"

[ -n "$over_mpi" ] || groups=$groups${peers:+,$peers}
rm -f "$out/run.json"
say "measuring ($(basename "$plan" .json)); nothing else should run on this host"
status=0
"$build/bench/kolo_bench" "$plan" --out "$out/run.json" --implementations "$groups" 2> "$out/run.log" || status=$?
[ -s "$out/run.json" ] || { cat "$out/run.log" >&2; give_up "the driver wrote nothing; its status was $status"; }

say "report"
"$python" "$root/bench/report/report.py" "$out/run.json" --html "$out/report.html" "${report_flags[@]}" | tee "$out/report.txt" ||
  status=${PIPESTATUS[0]}

if [ -n "$format" ]; then
  "$python" "$root/bench/report/report.py" "$out/run.json" --format "$format" "${only[@]}" | tee "$out/$format.txt" >&3
  exit "$status"
fi

if [ "$(basename "$plan" .json)" != mpi ]; then
  say "predictions and choices"
  judge
fi

if [ -z "$over_mpi" ]; then
  say "simulation"
  "$build/bench/kolo_bench_simulate" --benchmark_min_time=0.2 --benchmark_color=false 2> "$out/simulate.log" | tee -a "$out/report.txt"
fi
for sentence in "${left_out[@]}"; do echo "Left out: $sentence"; done
echo
say "done after $SECONDS s: $out/report.html, report.txt, run.json"
[ $status = 0 ] || say "FAILED: kolo or the floor failed, or a row became slower; see above and $out/run.log"
exit "$status"
