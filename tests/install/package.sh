#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes a package, unpacks the .deb, and builds and runs programs from it: by pkg-config, by CMake, under kolo-run.
# Usage: package.sh CMAKE COMPILER SOURCE
set -euo pipefail
cmake=$(command -v "$1") compiler=$2 source=$(cd "$3" && pwd)
for tool in dpkg-deb pkg-config "$compiler"; do
  command -v "$tool" > /dev/null || { echo "not run: there is no $tool"; exit 77; }
done
echo '#include <CLI/CLI.hpp>' | "$compiler" -E -x c++ - > /dev/null 2>&1 || { echo "not run: there is no CLI11 (libcli11-dev)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset kolo_DIR kolo_ROOT CMAKE_PREFIX_PATH
export MPICH_CXX=$compiler OMPI_CXX=$compiler

"$cmake" -S "$source" -B "$work/build" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS=-O0 -DKOLO_BUILD_TESTS=OFF -DKOLO_BUILD_EXAMPLES=OFF \
  -DKOLO_PACKAGE=ON > "$work/log"
"$cmake" --build "$work/build" -j 2 >> "$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }
(cd "$work/build" && "$(dirname "$cmake")/cpack" >> "$work/log" 2>&1) || { tail -n 30 "$work/log"; exit 1; }
ls "$work"/build/*.tar.gz "$work"/build/*.deb
dpkg-deb -x "$work"/build/*.deb "$work/root"
for file in bin/kolo-run lib/libkolo_compiled.a share/doc/kolo/README.md share/doc/kolo/include/kolo/collective/README.md \
  share/doc/kolo/include/kolo/guide/from_mpi.md include/kolo/kolo.hpp; do
  [ -e "$work/root/usr/$file" ] || { echo "the package has no $file"; exit 1; }
done
for mpi in mpich openmpi; do
  if command -v mpicxx.$mpi > /dev/null; then
    nm -D --defined-only "$work/root/usr/lib/kolo/libkolo_mpi.$mpi.so" > "$work/names"
    grep -q ' MPI_Allreduce$' "$work/names" || { echo "libkolo_mpi.$mpi.so has no MPI_Allreduce"; exit 1; }
  fi
done
if grep -rlF -e "$source" -e "$work" "$work/root/usr/share"; then echo "the package contains the path where it was made"; exit 1; fi
if command -v rpm > /dev/null && command -v rpmbuild > /dev/null; then
  rpm -qlp "$work"/build/*.rpm > "$work/names"
  grep -qx /usr/bin/kolo-run "$work/names" || { echo "the .rpm has no kolo-run"; exit 1; }
else
  echo "(no .rpm: there is no rpmbuild)"
fi

export PKG_CONFIG_PATH=$work/root/usr/share/pkgconfig
[ "$(pkg-config --modversion kolo)" = "$(sed -n 's/^ *VERSION \([0-9.]*\)$/\1/p' "$source/CMakeLists.txt")" ]
for package in kolo kolo-compiled; do
  read -r -a flags <<< "$(pkg-config --cflags --libs $package)"
  "$compiler" "$source/examples/front_door/world.cpp" -I "$source/examples/front_door" "${flags[@]}" -o "$work/world"
  KOLO_LOG=info "$work/root/usr/bin/kolo-run" -n 3 "$work/world" 2>&1 | tee "$work/log"
  grep -q '^\[2\] kolo: rank 2: joined a communicator of 3 ranks$' "$work/log"
  grep -q '^\[0\] kolo: rank 0: allgather of [0-9]* bytes among 3 ranks runs as [a-z_]*, predicted to take [0-9.]* us$' "$work/log"
  [ "$(grep -c '^\[0\] .*allgather .* runs as' "$work/log")" = 1 ] || { echo "a choice is logged more than once"; exit 1; }
  echo "built by pkg-config $package, three ranks under kolo-run: passed"
done
"$cmake" -S "$source/tests/install/consumer" -B "$work/consumer" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/root/usr" -DVERSION=0.1 > "$work/log"
"$cmake" --build "$work/consumer" >> "$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }
"$work/consumer/consumer"
echo "built by find_package(kolo 0.1): passed"
