#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Trains a classifier of handwritten digits on 1, 2 and 4 processes, or runs another example. Installs what is missing, builds, runs.
#
# Usage: bash examples/run.sh [EXAMPLE] [FLAG...]     EXAMPLE: digits (this, unless another one is said), scaling, synthetic, gpt,
#        elastic, torch, gpu, draw, timeline, doctor, own_algorithm, own_transport, under_mpi,
#        under_horovod, lightgbm, ddp, synthesize.
#        What follows is handed to the program, whose own --help lists what it takes: bash examples/run.sh digits --help builds it first.
#        bash examples/run.sh --ranks 2 --epochs 3
#        bash examples/run.sh --algorithm ring --checkpoint /tmp/digits.state
#        bash examples/run.sh --mnist DIRECTORY
#        bash examples/run.sh scaling                 ResNet-50 on 1 to 256 GPUs, and a plot of it
#        bash examples/run.sh synthetic --model gpt2  the gradients of GPT-2 beside an imagined computation: do ranks talk, at what cost?
#        bash examples/run.sh gpt                     a small GPT learns the text of this repository, its optimizer sharded
#        bash examples/run.sh gpt --shard 4           the same with a quarter of parameters, gradients and state on each of four processes
#        bash examples/run.sh gpt --data 2 --tensor 2 the same shared by --data, --tensor, --pipeline, --ring or several of them: the losses of one process
#        bash examples/run.sh elastic                 four processes train, one is killed, three go on, another one joins: the same bits
#        bash examples/run.sh digits --leaves 8       a batch in 8 leaves: 1, 2 and 4 processes end with the same bits
#        bash examples/run.sh digits --outer 20       local steps and an outer step every 20 of them, for slow links, beside the synchronous training
#        bash examples/run.sh torch 3 6400            3 epochs of 6400 images: a network of libtorch's, by one process and by 1, 2 and 4 ranks: three new lines, three changed
#        bash examples/run.sh torch --against-gloo    a step of libtorch's: no exchange, its own c10d with Gloo, kolo; on 2 and 4 ranks, or as many as follow
#        bash examples/run.sh gpu 4                   CUDA kernels and NCCL, a process for each of 4 GPUs; with fewer the host's tensors
#        bash examples/run.sh digits --mpi            the same training under mpiexec, by every MPI that is installed
#        bash examples/run.sh synthetic --mpi         the same gradients over every MPI, beside MPI_Allreduce by hand
#        bash examples/run.sh under_mpi               a program that knows MPI only, without kolo and with it
#        bash examples/run.sh under_horovod           Horovod over each MPI, without kolo and with it; it builds Horovod first, some minutes
#        bash examples/run.sh lightgbm 500 20         LightGBM's wheel trains on 500 features, 20 rounds, by its own sockets and over kolo, by memory, TCP and MPI: the same model
#        bash examples/run.sh ddp                     a network of PyTorch's under DistributedDataParallel, by Gloo and by kolo, on 2 and 4 ranks
#        bash examples/run.sh ddp --mpi               every call of a process group over each MPI, by the same module built for it
#        bash examples/run.sh ddp --suite missing 2   PyTorch's own tests of process groups, by Gloo and by kolo
#        bash examples/run.sh own_transport           the same training over TCP, by a transport of one's own: on this host, and on two that are made of it
#        bash examples/run.sh timeline                who waited for whom in a few training steps: a trace, and a picture of it; --simulated
#        bash examples/run.sh doctor                  what this machine offers, and how fast kolo is on it; --quick
#        bash examples/run.sh own_algorithm mine.svg  an allreduce of twenty lines: proven, drawn, simulated, run
#        bash examples/run.sh synthesize              a schedule made for the links that there are, beside the known ones and the bound; --graph, --hosts
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
  "$build/examples/scaling/scaling" --overlap 1 --csv "$root/build/during.csv" || return
  echo
  "$build/examples/scaling/scaling" --overlap 0 --csv "$root/build/after.csv" || return
  echo
  "$(with_matplotlib)" "$root/examples/scaling/plot.py" "$root/build/scaling.svg" \
    "exchange during the backward pass=$root/build/during.csv" "after it=$root/build/after.csv" || return
  say "the plot: $root/build/scaling.svg"
}

# What the commands of each MPI that is here end with.
mpis() {
  local end
  for end in .mpich .openmpi; do
    if command -v mpicxx$end > /dev/null && command -v mpiexec$end > /dev/null; then echo $end; fi
  done
}

# launcher END: the mpiexec of that MPI, with what it wants on this machine.
launcher() {
  local words=("mpiexec$1")
  if [ "$1" = .openmpi ]; then
    words+=(--oversubscribe --mca mpi_yield_when_idle 1)  # ranks may be more than cores
    if [ "$(id -u)" = 0 ]; then words+=(--allow-run-as-root); fi
  fi
  echo "${words[*]}"
}

# on_mpi END PROGRAM [FLAG...]: on four ranks, on this machine.
on_mpi() {
  local words
  read -ra words <<< "$(launcher "$1") -n 4"
  shift
  say "${words[*]} $*"
  "${words[@]}" "$@"
}

# build_by END TARGET: in a build directory of its own, by that MPI.
build_by() {
  local build=$root/build/examples$1
  quietly "configuring build/examples$1" cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DKOLO_BUILD_EXAMPLES=ON \
    -DKOLO_BUILD_TESTS=OFF -DKOLO_INSTALL=OFF -DKOLO_MPI=ON -DMPI_CXX_COMPILER="mpicxx$1"
  quietly "building $2" cmake --build "$build" --target "$2" -j "$(nproc)"
}

# The example over each MPI.
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

# A training on 1, 2 and 4 processes that must learn the same up to rounding; then a short one that must learn the same bits.
digits() {
  local program=$build/examples/digits/digits
  "$program" --accuracy-above 95 || return
  echo
  say "a batch in 8 leaves: the same parameters on any number of processes"
  "$program" --leaves 8 --epochs 2
}

# horovod_for END: builds it once by that MPI, for the Python whose torch is Debian's; what it imports besides comes as wheels.
horovod=$root/build/horovod
horovod_for() {
  local home=$horovod/mpi$1 command pip=(timeout 1800 /usr/bin/python3 -m pip install --no-cache-dir)
  [ ! -e "$horovod/site$1/horovod" ] || return 0
  mkdir -p "$home/bin"
  for command in mpicc mpicxx mpiexec; do ln -sf "$(command -v $command$1)" "$home/bin/$command"; done
  [ -e "$horovod/needs" ] ||
    quietly "getting what Horovod imports" "${pip[@]}" --only-binary :all: --target "$horovod/needs" packaging cffi cloudpickle psutil pyyaml
  quietly "building Horovod by mpicxx$1: some minutes, this once" env PYTHONPATH="$horovod/needs" MPI_HOME="$home" PATH="$home/bin:$PATH" \
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

# The trace of a run, and its picture. Usage: timeline [--simulated]
timeline() {
  "$build/examples/timeline/timeline" "$@" "$root/build/timeline.json" || return
  python3 "$root/examples/timeline/timeline.py" "$root/build/timeline.json" "$root/build/timeline.svg" || return
  say "the trace, for ui.perfetto.dev: $root/build/timeline.json; the picture: $root/build/timeline.svg"
}

# One process, then so many ranks, each with its part of every batch of 64: all must learn the same.
torch() {
  local at=$build/examples/torch one=$root/build/torch.1 many=$root/build/torch.many ranks
  say "single.cpp: one process, batches of 64"
  "$at/torch_single" 64 "$@" | tee "$one"
  for ranks in 1 2 4; do
    say "parallel.cpp: $ranks x batches of $((64 / ranks))"
    torch_ranks $ranks "$@" | tee "$many" || return
    paste <(sed -n 's/.*loss \([0-9.]*\),.*/\1/p' "$one") <(sed -n 's/.*loss \([0-9.]*\),.*/\1/p' "$many") |
      awk '{ d = ($2 - $1) / $1; if (d < 0) d = -d; if (d > worst) worst = d; if (NF != 2) worst = 1 }
           END { printf "the losses differ by %.1e of those of one process\n", worst; exit NR == 0 || worst > 1e-4 }' || return
  done
  say "what makes one program of the other:"
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

# Two ranks on this host, then on two network namespaces; flags are those of digits. Both must give the same parameters.
own_transport() {
  local program=$build/examples/own_transport/own_transport here=$root/build/own_transport.here there=$root/build/own_transport.there status=0
  say "two ranks, through the loopback of this host"
  "$program" --ranks 2 "$@" | tee "$here" || return
  grep -q '^Parameters on' "$here" || return 0  # --help
  echo
  say "two ranks, each in a network namespace of its own, with a wire of ${RATE:-1gbit} between them"
  bash "$root/examples/own_transport/two_hosts.sh" "$program" "$@" | tee "$there" || status=$?
  echo
  if [ $status = 77 ]; then
    say "Two ranks have trained over TCP, on this host only. Two hosts were not tried: $(sed -n 's/^not run: //p' "$there")."
    return 0
  fi
  [ $status = 0 ] || return $status
  if [ "$(grep '^Parameters on' "$here")" != "$(grep '^Parameters on' "$there")" ]; then
    say "The two trainings have NOT given the same parameters."
    return 1
  fi
  say "Two ranks have trained over TCP, without MPI: through loopback, and as two hosts that share nothing but a wire. Both have the same parameters, bit for bit."
}

# The Python whose torch the module is for.
ddp() {
  local script=train.py
  if [ "${1:-}" = --suite ]; then script=suite.py; shift; fi
  PYTHONPATH=$build/examples/ddp /usr/bin/python3 "$root/examples/ddp/$script" "$@"
}

# LightGBM's library, from its wheel, which it keeps; and a program for each MPI that is there, whose ranks live on when one dies.
wheel=$root/build/lightgbm
get_lightgbm() {
  [ ! -e "$wheel/lightgbm/lib/lib_lightgbm.so" ] || return 0
  quietly "getting LightGBM's wheel" python3 -m pip download --no-deps --only-binary :all: --dest "$wheel" lightgbm
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
  "$build/examples/lightgbm/lightgbm" "$@" "${words[@]}" | sed '/^\[LightGBM\]/d'  # whose listening thread minds no callback
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

# It needs nvcc, which no package that could be installed here has.
gpu() {
  local nvcc
  nvcc=${NVCC:-$(PATH=$PATH:${CUDA_HOME:-}/bin:${CUDA_PATH:-}/bin:/usr/local/cuda/bin command -v nvcc || true)}
  [ -n "$nvcc" ] || give_up "The example gpu is compiled by nvcc of the CUDA toolkit, and needs NCCL; there is no nvcc here: NVCC=... says where it is."
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
  if [ $status = 0 ]; then say "done: all is well, after $SECONDS s"; else say "NOT well: the program returned $status"; fi
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
if [ "$status" = 0 ]; then say "done: all is well, after $SECONDS s"; else say "NOT well: the program returned $status"; fi
exit "$status"
