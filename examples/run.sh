#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds and runs an example; by default digits, which trains a classifier of handwritten digits on 1, 2 and 4 processes. Installs missing packages first.
#
# Usage: bash examples/run.sh [EXAMPLE] [FLAG...]
#        EXAMPLE: digits (default), scaling, synthetic, gpt, elastic, torch, gpu, draw, timeline, doctor, own_algorithm, own_transport, under_mpi,
#        under_horovod, lightgbm, ddp, synthesize.
#        FLAG...: arguments of the program. `bash examples/run.sh EXAMPLE --help` lists them; most examples are built first.
#
#        bash examples/run.sh --ranks 2 --epochs 3    digits on 2 processes, 3 epochs
#        bash examples/run.sh --algorithm ring --checkpoint /tmp/digits.state
#        bash examples/run.sh --mnist DIRECTORY       digits with the MNIST files of a directory
#        bash examples/run.sh digits --leaves 8       each batch in 8 leaves: the same parameters, bit for bit, on 1, 2 and 4 processes
#        bash examples/run.sh digits --outer 20       for slow links: local steps with an outer step every 20 steps, compared with synchronous training
#        bash examples/run.sh digits --mpi            digits with mpiexec, over every installed MPI
#        bash examples/run.sh scaling                 predicts the training of ResNet-50 on 1 to 256 GPUs; table and plot
#        bash examples/run.sh synthetic --model gpt2  gradients of GPT-2's sizes next to a computation of a chosen length: checks their means, and measures the cost
#        bash examples/run.sh synthetic --mpi         the same over every installed MPI, compared with calls of MPI_Allreduce
#        bash examples/run.sh gpt                     trains a small GPT on this repository's text, with a sharded and a replicated optimizer
#        bash examples/run.sh gpt --shard 4           parameters, gradients and optimizer state sharded over four processes (ZeRO-3), compared with one process
#        bash examples/run.sh gpt --data 2 --tensor 2 data and tensor parallelism (also --pipeline, --ring, and combinations), compared with one process
#        bash examples/run.sh elastic                 four processes train, one is killed, three continue, a new one joins: the same parameters, bit for bit
#        bash examples/run.sh torch 3 6400            trains a libtorch network (3 epochs, 6400 images) on one process, then on 1, 2 and 4 ranks; shows the changed lines
#        bash examples/run.sh torch --against-gloo    time of a libtorch step without exchange, with c10d over Gloo, with kolo; on 2 and 4 ranks, or on the given numbers
#        bash examples/run.sh ddp                     PyTorch's DistributedDataParallel over Gloo and over kolo, on 2 and 4 ranks
#        bash examples/run.sh ddp --mpi               every call of a process group over each installed MPI
#        bash examples/run.sh ddp --suite missing 2   runs PyTorch's own tests of process groups over Gloo and over kolo, on 2 ranks
#        bash examples/run.sh gpu 4                   CUDA kernels and NCCL on 4 GPUs, one process each; with fewer GPUs, tensors of the host
#        bash examples/run.sh under_mpi               runs an MPI program without kolo, and with kolo's library preloaded
#        bash examples/run.sh under_horovod           Horovod over each installed MPI, without and with kolo's library preloaded; builds Horovod first (minutes)
#        bash examples/run.sh lightgbm 500 20         LightGBM (500 features, 20 rounds) over its own sockets, and over kolo with shared memory, TCP and MPI: the same model
#        bash examples/run.sh own_transport           digits over a TCP transport of your own: on this host, and between two network namespaces
#        bash examples/run.sh own_algorithm mine.svg  an allreduce algorithm in twenty lines: proven, drawn to mine.svg, simulated, run
#        bash examples/run.sh timeline                which rank waited for which in some training steps: a trace and a picture; --simulated: in virtual time
#        bash examples/run.sh doctor                  what this machine offers, and the speed of kolo on it; --quick: shorter measurements
#        bash examples/run.sh synthesize              a schedule synthesised for given links, compared with known algorithms and the bound; --graph, --hosts
#        bash examples/run.sh draw ring allreduce 5 --out ring.svg
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/examples log=$root/build/examples.log
export CXX=${CXX:-g++}
example=digits
case "${1:-}" in
  digits | scaling | synthetic | gpt | elastic | torch | gpu | draw | timeline | doctor | own_algorithm | own_transport | under_mpi | under_horovod | lightgbm | ddp | synthesize) example=$1; shift ;;
  -h | --help) sed -n '3,$ { /^#/!q; s/^# \{0,1\}//p }' "$0"; exit 0 ;;
  [!-]*) echo "There is no example $1; bash examples/run.sh --help lists them." >&2; exit 2 ;;
esac
case "$example ${1:-}" in
  torch\ --help | gpu\ --help | timeline\ --help | doctor\ --help | own_algorithm\ --help | under_mpi\ --help)
    sed -n "s/^#  *\(bash examples\/run.sh $example \)/\1/p" "$0"; exit 0 ;;
esac
over_mpi=0
case $example in under_mpi | under_horovod) over_mpi=1 ;; esac
case $example in digits | synthetic | ddp) if [ "${1:-}" = --mpi ]; then over_mpi=1; shift; fi ;; esac
target=$example
if [ $example = torch ] && [ "${1:-}" = --against-gloo ]; then target=torch_against_gloo; shift; fi
if [ $example = ddp ]; then target=kolo_c10d; fi

progress=1
[ $example != draw ] || progress=2  # draw writes the picture to standard output
say() { printf '== %s\n' "$*" >&"$progress"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
has_header() { echo "#include <$1>" | "$CXX" -E -isystem /usr/include/eigen3 -x c++ - > /dev/null 2>&1; }

# quietly WHAT COMMAND...: prints the output of the command only if it fails.
quietly() {
  local what=$1
  shift
  say "$what"
  if ! "$@" > "$log" 2>&1; then
    cat "$log" >&2
    fail "$what: failed; its output is above."
  fi
}

# The first Python with matplotlib.
with_matplotlib() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import matplotlib' 2> /dev/null; then echo "$python"; return; fi
  done
  return 1
}

# Predictions with and without overlap, and a plot.
study() {
  "$build/examples/scaling/scaling" --overlap 1 --csv "$root/build/during.csv" || return
  echo
  "$build/examples/scaling/scaling" --overlap 0 --csv "$root/build/after.csv" || return
  echo
  "$(with_matplotlib)" "$root/examples/scaling/plot.py" "$root/build/scaling.svg" \
    "exchange during the backward pass=$root/build/during.csv" "after it=$root/build/after.csv" || return
  say "plot: $root/build/scaling.svg"
}

# The suffixes of the commands of each installed MPI.
mpis() {
  local end
  for end in .mpich .openmpi; do
    if command -v mpicxx$end > /dev/null && command -v mpiexec$end > /dev/null; then echo $end; fi
  done
}

# launcher END: the mpiexec of that MPI, with the options that it needs on this machine.
launcher() {
  local words=("mpiexec$1")
  if [ "$1" = .openmpi ]; then
    words+=(--oversubscribe --mca mpi_yield_when_idle 1)  # ranks may be more than cores
    if [ "$(id -u)" = 0 ]; then words+=(--allow-run-as-root); fi
  fi
  echo "${words[*]}"
}

# on_mpi END PROGRAM [FLAG...]: runs the program on four ranks of this machine.
on_mpi() {
  local words
  read -ra words <<< "$(launcher "$1") -n 4"
  shift
  say "${words[*]} $*"
  "${words[@]}" "$@"
}

# build_by END TARGET: builds the target with that MPI, in a build directory of its own.
build_by() {
  local build=$root/build/examples$1
  quietly "configuring build/examples$1" cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DKOLO_BUILD_EXAMPLES=ON \
    -DKOLO_BUILD_TESTS=OFF -DKOLO_INSTALL=OFF -DKOLO_MPI=ON -DMPI_CXX_COMPILER="mpicxx$1"
  quietly "building $2" cmake --build "$build" --target "$2" -j "$(nproc)"
}

# Runs the example over each MPI.
try_mpis() {
  local end program target=under_mpi
  if [ $example != under_mpi ]; then target=${example}_mpi; fi
  for end in $(mpis); do
    program=$root/build/examples$end/examples/$example/$target
    build_by $end $target
    on_mpi $end "$program" "$@" || return
    if [ $example = under_mpi ]; then
      on_mpi $end env KOLO_MPI_REPORT=1 LD_PRELOAD="$root/build/examples$end/examples/under_mpi/libkolo_mpi.so" "$program" "$@" || return
    fi
  done
}

# A training on 1, 2 and 4 processes whose losses must agree up to rounding; then a short one whose parameters must agree bit for bit.
digits() {
  local program=$build/examples/digits/digits
  "$program" --accuracy-above 95 || return
  echo
  say "digits --leaves 8: the same parameters, bit for bit, on any number of processes"
  "$program" --leaves 8 --epochs 2
}

# horovod_for END: builds Horovod once with that MPI, for Debian's Python and torch; installs its other dependencies as wheels.
horovod=$root/build/horovod
horovod_for() {
  local home=$horovod/mpi$1 command pip=(timeout 1800 /usr/bin/python3 -m pip install --no-cache-dir)
  [ ! -e "$horovod/site$1/horovod" ] || return 0
  mkdir -p "$home/bin"
  for command in mpicc mpicxx mpiexec; do ln -sf "$(command -v $command$1)" "$home/bin/$command"; done
  [ -e "$horovod/needs" ] ||
    quietly "installing the dependencies of Horovod" "${pip[@]}" --only-binary :all: --target "$horovod/needs" packaging cffi cloudpickle psutil pyyaml
  quietly "building Horovod with mpicxx$1 (once; takes some minutes)" env PYTHONPATH="$horovod/needs" MPI_HOME="$home" PATH="$home/bin:$PATH" \
    MAKEFLAGS="-j$(nproc)" HOROVOD_WITH_MPI=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
    "${pip[@]}" --no-deps --no-build-isolation --no-binary horovod --target "$horovod/site$1" horovod==0.28.1
}
under_horovod() {
  local end
  for end in $(mpis); do
    build_by $end kolo_under_mpi
    horovod_for $end
    say "compare.py ${end#.} $*"
    PYTHONPATH=$horovod/site$end:$horovod/needs /usr/bin/python3 "$root/examples/under_horovod/compare.py" "${end#.}" "$(launcher $end)" \
      "$root/build/examples$end/examples/under_mpi/libkolo_mpi.so" "$@" || return
  done
}

ddp_over_mpi() {
  local end words
  for end in $(mpis); do
    build_by $end kolo_c10d_over_mpi
    read -ra words <<< "$(launcher $end) -n 3"
    say "${words[*]} ddp.py"
    "${words[@]}" timeout 300 /usr/bin/python3 -W ignore "$root/tests/examples/ddp.py" "$root/build/examples$end/examples/ddp/over_mpi" || return
  done
}

# Writes the trace of a run and draws it. Usage: timeline [--simulated]
timeline() {
  "$build/examples/timeline/timeline" "$@" "$root/build/timeline.json" || return
  python3 "$root/examples/timeline/timeline.py" "$root/build/timeline.json" "$root/build/timeline.svg" || return
  say "trace, for ui.perfetto.dev: $root/build/timeline.json; picture: $root/build/timeline.svg"
}

# Trains on one process, then on 1, 2 and 4 ranks that divide each batch of 64: all losses must agree.
torch() {
  local at=$build/examples/torch one=$root/build/torch.1 many=$root/build/torch.many ranks
  say "single.cpp: one process, batches of 64"
  "$at/torch_single" 64 "$@" | tee "$one"
  for ranks in 1 2 4; do
    say "parallel.cpp: ranks: $ranks, batches of $((64 / ranks)) on each"
    torch_ranks $ranks "$@" | tee "$many" || return
    paste <(sed -n 's/.*loss \([0-9.]*\),.*/\1/p' "$one") <(sed -n 's/.*loss \([0-9.]*\),.*/\1/p' "$many") |
      awk '{ d = ($2 - $1) / $1; if (d < 0) d = -d; if (d > worst) worst = d; if (NF != 2) worst = 1 }
           END { printf "losses differ by at most %.1e (relative) from those of one process\n", worst; exit NR == 0 || worst > 1e-4 }' || return
  done
  say "difference of the two programs:"
  { diff "$root/examples/torch/single.cpp" "$root/examples/torch/parallel.cpp" || true; } | sed -n '/^[<>]/p'
}
torch_ranks() {
  local rank status=0 processes=() ranks=$1
  shift
  for ((rank = 0; rank < ranks; ++rank)); do
    KOLO_JOB=torch.$$ KOLO_RANK=$rank KOLO_SIZE=$ranks "$build/examples/torch/torch_parallel" $((64 / ranks)) "$@" & processes+=($!)
  done
  for rank in "${processes[@]}"; do wait "$rank" || status=$?; done
  return $status
}

# Trains on two ranks on this host, then in two network namespaces; flags are those of digits. Both must give the same parameters.
own_transport() {
  local program=$build/examples/own_transport/own_transport here=$root/build/own_transport.here there=$root/build/own_transport.there status=0
  say "two ranks over TCP on this host (loopback)"
  "$program" --ranks 2 "$@" | tee "$here" || return
  grep -q '^Parameters on' "$here" || return 0  # --help
  echo
  say "two ranks over TCP in two network namespaces, connected by a virtual link of ${RATE:-1gbit}"
  bash "$root/examples/own_transport/two_hosts.sh" "$program" "$@" | tee "$there" || status=$?
  echo
  if [ $status = 77 ]; then
    say "The training over TCP succeeded on this host. The one in two network namespaces was not run: $(sed -n 's/^not run: //p' "$there")."
    return 0
  fi
  [ $status = 0 ] || return $status
  if [ "$(grep '^Parameters on' "$here")" != "$(grep '^Parameters on' "$there")" ]; then
    say "The two trainings ended with DIFFERENT parameters."
    return 1
  fi
  say "Both trainings over TCP, on this host and between two network namespaces, ended with the same parameters, bit for bit."
}

# Runs the scripts with Debian's Python, for whose torch the module is built.
ddp() {
  local script=train.py
  if [ "${1:-}" = --suite ]; then script=suite.py; shift; fi
  PYTHONPATH=$build/examples/ddp /usr/bin/python3 "$root/examples/ddp/$script" "$@"
}

# Downloads and keeps LightGBM's wheel, and builds a program for each installed MPI, with launcher options that keep ranks running when one dies.
wheel=$root/build/lightgbm
get_lightgbm() {
  [ ! -e "$wheel/lightgbm/lib/lib_lightgbm.so" ] || return 0
  quietly "downloading LightGBM's wheel" python3 -m pip download --no-deps --only-binary :all: --dest "$wheel" lightgbm
  python3 -m zipfile -e "$wheel"/lightgbm-*.whl "$wheel"
}
lightgbm() {
  local end words=()
  for end in $(mpis); do
    build_by $end lightgbm_mpi
    case $end in
      .mpich) words+=(--mpi MPICH "$(launcher $end) -disable-auto-cleanup") ;;
      .openmpi) words+=(--mpi "Open MPI" "$(launcher $end) --enable-recovery") ;;
    esac
    words+=("$root/build/examples$end/examples/lightgbm/lightgbm_mpi")
  done
  "$build/examples/lightgbm/lightgbm" "$@" "${words[@]}" | sed '/^\[LightGBM\]/d'  # its listening thread ignores the log callback
}

install_missing() {
  local missing=() become=()
  command -v "$CXX" > /dev/null || missing+=(g++)
  command -v cmake > /dev/null || missing+=(cmake)
  command -v make > /dev/null || command -v ninja > /dev/null || missing+=(make)
  has_header Eigen/Core || missing+=(libeigen3-dev)
  has_header CLI/CLI.hpp || missing+=(libcli11-dev)
  has_header nlohmann/json.hpp || missing+=(nlohmann-json3-dev)
  if [ $example = timeline ] && ! command -v python3 > /dev/null; then missing+=(python3); fi
  if [ $example = lightgbm ] && ! python3 -m pip --version > /dev/null 2>&1; then missing+=(python3-pip); fi
  if [ $example = ddp ]; then
    has_header torch/csrc/Export.h || missing+=(libtorch-dev)
    [ -e /usr/include/pybind11/pybind11.h ] || missing+=(pybind11-dev)
    ls /usr/include/python3*/Python.h > /dev/null 2>&1 || missing+=(python3-dev)
    /usr/bin/python3 -c 'import torch' 2> /dev/null || missing+=(python3-torch)
  fi
  if [ $example = torch ] && ! has_header torch/csrc/Export.h; then missing+=(libtorch-dev); fi
  if [ $target = torch_against_gloo ] && ! has_header gloo/rendezvous/store.h; then missing+=(libgloo-dev); fi
  if [ $example = scaling ] && ! with_matplotlib > /dev/null; then missing+=(python3-matplotlib); fi
  if [ $example = under_horovod ]; then
    has_header torch/csrc/Export.h || missing+=(libtorch-dev)
    [ -e /usr/include/pybind11/pybind11.h ] || missing+=(pybind11-dev)
    ls /usr/include/python3*/Python.h > /dev/null 2>&1 || missing+=(python3-dev)
    /usr/bin/python3 -c 'import torch' 2> /dev/null || missing+=(python3-torch)
    /usr/bin/python3 -c 'import setuptools, pip' 2> /dev/null || missing+=(python3-pip python3-setuptools)
  fi
  if [ $over_mpi = 1 ] && [ -z "$(mpis)" ]; then missing+=(mpich libmpich-dev); fi
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get > /dev/null || fail "Please install ${missing[*]}: they are missing, and there is no apt-get here."
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || fail "Please run this as root: apt-get install ${missing[*]}"
    become=(sudo)
  fi
  export DEBIAN_FRONTEND=noninteractive
  quietly "updating the package lists" "${become[@]}" apt-get update
  quietly "installing ${missing[*]}" "${become[@]}" apt-get install -y --no-install-recommends "${missing[@]}"
}

check_versions() {
  echo 'int main() { return requires(int i) { i; } ? 0 : 1; }' | "$CXX" -std=c++20 -fsyntax-only -x c++ - 2> /dev/null ||
    fail "$CXX does not compile C++20; g++ 12 does: CXX=g++-12 bash examples/run.sh"
  local version
  version=$(cmake --version | sed -n 's/^cmake version //p')
  [ "$(printf '%s\n' 3.22 "$version" | sort -V | head -n 1)" = 3.22 ] || fail "cmake $version is too old; 3.22 or later is needed."
}

# Needs nvcc, which this script cannot install.
gpu() {
  local nvcc
  nvcc=${NVCC:-$(PATH=$PATH:${CUDA_HOME:-}/bin:${CUDA_PATH:-}/bin:/usr/local/cuda/bin command -v nvcc || true)}
  [ -n "$nvcc" ] || fail "The example gpu needs NCCL and nvcc of the CUDA toolkit. There is no nvcc in PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda; set NVCC to its path."
  quietly "building the example" "$nvcc" -std=c++20 -O2 -I "$root/include" "$root/examples/gpu/main.cu" -o "$build.gpu" -lnccl
  say "gpu $*"
  "$build.gpu" "$@"
}

mkdir -p "$root/build"
if [ $example = gpu ]; then gpu "$@"; exit; fi
install_missing
check_versions
if [ $over_mpi = 1 ]; then
  by=try_mpis
  case $example in
    under_horovod) by=under_horovod ;;
    ddp) by=ddp_over_mpi ;;
  esac
  $by "$@" && status=0 || status=$?
  echo
  if [ $status = 0 ]; then say "succeeded after $SECONDS s"; else say "FAILED with status $status after $SECONDS s"; fi
  exit $status
fi
if [ $example = lightgbm ]; then get_lightgbm; set -- "$wheel/lightgbm/lib/lib_lightgbm.so" "$@"; fi
quietly "configuring build/examples" cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
  -DKOLO_BUILD_EXAMPLES=ON -DKOLO_BUILD_TESTS=OFF -DKOLO_INSTALL=OFF
quietly "building the example" cmake --build "$build" --target $target -j "$(nproc)"
if [ $# = 0 ] && [ $example = own_transport ]; then set -- --images 20000 --epochs 5 --algorithm ring --accuracy-above 95; fi
if [ $# = 0 ] && [ $example = own_algorithm ]; then set -- "$root/build/both_ways.svg"; fi
say "$target $*"
if [ $# = 0 ] && [ $example = scaling ]; then
  study && status=0 || status=$?
elif [ $# = 0 ] && [ $example = digits ]; then
  digits && status=0 || status=$?
elif [ $target = torch_against_gloo ]; then
  "$build/examples/torch/$target" "$@" && status=0 || status=$?
elif [ $example = lightgbm ] || [ $example = timeline ] || [ $example = torch ] || [ $example = ddp ] || [ $example = own_transport ]; then
  $example "$@" && status=0 || status=$?
else
  "$build/examples/$example/$example" "$@" && status=0 || status=$?
fi
echo >&"$progress"
if [ "$status" = 0 ]; then say "succeeded after $SECONDS s"; else say "FAILED with status $status after $SECONDS s"; fi
exit "$status"
