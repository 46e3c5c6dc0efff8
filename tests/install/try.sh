#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests one way to use kolo from another project. Usage: try.sh WAY CMAKE COMPILER SOURCE [LIBRARY]
# LIBRARY: for compiled_plain_include, the compiled library that this compiler made; else it is built.
set -euo pipefail
way=$1 cmake=$2 compiler=$3 source=$4 library=${5:-}
consumer=$source/tests/install/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset kolo_DIR kolo_ROOT CMAKE_PREFIX_PATH  # ignores other installations of kolo

# Installs to one place and moves it: a package must not contain the path where it was made.
install_kolo() {
  "$cmake" -S "$source" -B "$work/kolo" -DCMAKE_CXX_COMPILER="$compiler" -DKOLO_BUILD_TESTS=OFF -DKOLO_BUILD_EXAMPLES=OFF
  "$cmake" --install "$work/kolo" --prefix "$work/first" > "$work/installed"
  mv "$work/first" "$work/prefix"
  rm -rf "$work/kolo"
}

configure() {
  "$cmake" -S "$consumer" -B "$work/build" -DCMAKE_CXX_COMPILER="$compiler" "$@"
}

build_and_run() {
  "$cmake" --build "$work/build" --target "${1-all}"
  "$work/build/${1-consumer}"
}

# refused SENTENCE ARGUMENT...: configuring must fail with this sentence.
refused() {
  local sentence=$1
  shift
  if configure "$@" > "$work/log" 2>&1; then echo "this was not refused: $*"; exit 1; fi
  tr -s ' \n' ' ' < "$work/log" | grep -qF -- "$sentence" || { echo "not printed: $sentence"; cat "$work/log"; exit 1; }
  echo "refused with: $sentence"
}

# for_each_mpi COMMAND ARGUMENT...: runs it for each installed MPI. Exit status 77: there is none.
for_each_mpi() {
  local mpi library some=no
  consumer=$source/tests/install/consumer_mpi
  while read -r mpi library; do
    command -v "mpicxx.$mpi" > /dev/null || continue
    some=yes
    rm -rf "$work/build"
    "$@" -DMPI_CXX_COMPILER="mpicxx.$mpi"
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 build_and_run
    ldd "$work/build/consumer" > "$work/libraries"
    grep -q "$library" "$work/libraries" || { echo "this was built with another MPI than $mpi"; exit 1; }
  done <<< $'mpich libmpich\nopenmpi libmpi\\.so'
  [ $some = yes ] || { echo "not run: neither MPICH nor Open MPI is installed"; exit 77; }
}

# with_cuda COMPONENT SENTENCE PACKAGE: tests it installed, as a subdirectory, and without the package that it needs. Exit status 77: there is no toolkit.
with_cuda() {
  local root found
  command -v "${NVCC:-nvcc}" > /dev/null || { echo "not run: there is no CUDA toolkit"; exit 77; }
  root=-DCUDAToolkit_ROOT=$(dirname "$(dirname "$(readlink -f "$(command -v "${NVCC:-nvcc}")")")")
  consumer=$source/tests/install/consumer_cuda
  install_kolo
  for found in "-DCMAKE_PREFIX_PATH=$work/prefix" "-DKOLO_SOURCE=$source"; do
    configure "$found" -DCOMPONENT="$1" "$root"
    build_and_run
    rm -rf "$work/build"
  done
  refused "$2" -DCMAKE_PREFIX_PATH="$work/prefix" -DCOMPONENT="$1" -DCMAKE_DISABLE_FIND_PACKAGE_"$3"=ON
}

# The consumer's file and the library's; and a program with files of both modes, whose communicators are different types.
compiled_without_cmake() {
  local flags=(-std=c++20 -I "$source/include")
  echo '#include <kolo/impl/src.hpp>' > "$work/library.cpp"
  if [ -z "$library" ]; then
    library=$work/library.o
    "$compiler" "${flags[@]}" -DKOLO_COMPILED -c "$work/library.cpp" -o "$library"
  fi
  "$compiler" "${flags[@]}" -DKOLO_COMPILED "$consumer/main.cpp" "$library" -pthread -o "$work/consumer"
  "$work/consumer"
  if "$compiler" "${flags[@]}" -c "$work/library.cpp" -o "$work/wrong.o" 2> "$work/log"; then echo "src.hpp compiles without KOLO_COMPILED"; exit 1; fi
  grep -q 'define KOLO_COMPILED for all files' "$work/log"
  if "$compiler" "${flags[@]}" -DKOLO_COMPILED -fsyntax-only "$consumer/../own_transport.cpp" 2> "$work/log"; then
    echo "a transport that is not in the library compiles without its engine"; exit 1
  fi
  grep -q 'include <kolo/impl/engine.hpp> for' "$work/log"
  "$compiler" "${flags[@]}" -c "$consumer/../two_modes.cpp" -o "$work/header_only.o"
  "$compiler" "${flags[@]}" -DKOLO_COMPILED -c "$consumer/../two_modes.cpp" -o "$work/compiled.o"
  "$compiler" "$work/header_only.o" "$work/compiled.o" "$library" -pthread -o "$work/consumer"
  "$work/consumer"
  "$compiler" "${flags[@]}" -DHANDED_ACROSS -c "$consumer/../two_modes.cpp" -o "$work/header_only.o"
  if "$compiler" "$work/header_only.o" "$work/compiled.o" "$library" -pthread -o "$work/consumer" 2> "$work/log"; then
    echo "a communicator was passed to code of the other mode"; exit 1
  fi
  grep -q 'kolo::v0::communicator' "$work/log" || { echo "the linker does not say why"; cat "$work/log"; exit 1; }
}

command -v "$compiler" > /dev/null || { echo "not run: there is no $compiler"; exit 77; }
case $way in
  find_package)
    install_kolo
    configure -DCMAKE_PREFIX_PATH="$work/prefix" -DVERSION=0.1
    build_and_run
    build_and_run consumer_of_compiled
    if grep -rn "$source" "$work/prefix/share"; then echo "the package contains the path of its source"; exit 1; fi
    ;;
  wrong_component)
    install_kolo
    refused 'has no component "nonsense"' -DCMAKE_PREFIX_PATH="$work/prefix" -DVERSION=0.1 -DCOMPONENTS=nonsense
    ;;
  wrong_version)
    install_kolo
    refused 'compatible with requested version "0.3"' -DCMAKE_PREFIX_PATH="$work/prefix" -DVERSION=0.3
    rm -rf "$work/build"
    refused 'compatible with requested version "0.0.9"' -DCMAKE_PREFIX_PATH="$work/prefix" -DVERSION=0.0.9
    rm -rf "$work/build"
    configure -DCMAKE_PREFIX_PATH="$work/prefix" -DVERSION=0.2
    ;;
  add_subdirectory)
    configure -DKOLO_SOURCE="$source"
    build_and_run
    "$cmake" --install "$work/build" --prefix "$work/parent" > /dev/null
    if [ "$(cd "$work/parent" && find . -type f)" != ./bin/consumer ]; then
      echo "installing the parent installed more:"; find "$work/parent" -type f; exit 1
    fi
    ;;
  leak_is_noticed)
    mkdir "$work/leaky"
    cp -r "$source/CMakeLists.txt" "$source/cmake" "$source/include" "$work/leaky"
    for leak in 'set(CMAKE_CXX_FLAGS -O3 PARENT_SCOPE)' 'option(BUILD_SHARED_LIBS "" ON)' 'include(CTest)'; do
      rm -rf "$work/build"
      cp "$source/CMakeLists.txt" "$work/leaky"
      echo "$leak" >> "$work/leaky/CMakeLists.txt"
      refused 'add_subdirectory changed its parent' -DKOLO_SOURCE="$work/leaky"
    done
    ;;
  mpi_component)
    install_kolo
    for_each_mpi configure -DCMAKE_PREFIX_PATH="$work/prefix" -DCOMPONENTS="COMPONENTS;mpi"
    rm -rf "$work/build"
    refused 'component mpi needs an MPI' -DCMAKE_PREFIX_PATH="$work/prefix" -DCOMPONENTS="COMPONENTS;mpi" -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
    rm -rf "$work/build"
    refused 'kolo::mpi' -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
  cuda_component) with_cuda cuda 'component cuda needs the CUDA toolkit' CUDAToolkit ;;
  nccl_component) with_cuda nccl 'component nccl needs the CUDA toolkit and NCCL' NCCL ;;
  mpi_subdirectory) for_each_mpi configure -DKOLO_SOURCE="$source" ;;
  plain_include)
    "$compiler" -std=c++20 -I "$source/include" "$consumer/main.cpp" -pthread -o "$work/consumer"
    "$work/consumer"
    ;;
  compiled_plain_include) compiled_without_cmake ;;
  *) echo "there is no way called $way"; exit 2 ;;
esac
