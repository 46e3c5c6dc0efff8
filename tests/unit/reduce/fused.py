#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The instructions of users' operators: vectors of 256 bits in a plain -O2 build, and no fused multiply-add; with g++ not even where the processor has it.
"""Usage: fused.py INCLUDE COMPILER..."""

import re
import shutil
import subprocess
import sys

QUATERNIONS = """#include <kolo/reduce/kernel.hpp>
struct quaternion { float w, x, y, z; };
struct compose {
  quaternion operator()(quaternion a, quaternion b) const {
    return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
  }
};
kolo::kernel quaternions(const compose& op) { return kolo::make_kernel<quaternion>(op); }
"""
NUMBERS = """#include <kolo/reduce/kernel.hpp>
kolo::kernel floats() { static const auto op = [](float a, float b) { return a * b + a; }; return kolo::make_kernel<float>(op); }
"""
OTHER_CODE = "float f(float a, float b, float c) { return a * b + c; }"
FUSED = {"x86_64": r"\tvfn?m(add|sub)\w+", "aarch64": r"\tfn?m(add|sub|la|ls)\b"}


def assembly(compiler, include, program, *flags):
    command = [compiler, "-std=c++20", "-S", "-o", "-", "-I", include, *flags, "-x", "c++", "-"]
    done = subprocess.run(command, input=program, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_where_it_may(compiler, include, fused, *flags):
    """The processor has fused multiply-add: kernels by g++ have none, since g++ would fuse other products in each loop; clang fuses within an expression."""
    if not fused.search(assembly(compiler, include, OTHER_CODE, "-O2", *flags)):
        raise SystemExit(f"{compiler} {' '.join(flags)}: no fused multiply-add in other code, so this test detects nothing")
    is_clang = "clang" in output(compiler, "--version")
    found = fused.search(assembly(compiler, include, NUMBERS, "-O2", *flags))
    if bool(found) != is_clang:
        raise SystemExit(f"{compiler} {' '.join(flags)}: {found[0].strip() if found else 'nothing fused'} in a kernel")
    print(f"{compiler} {' '.join(flags)}: in a kernel {'products within an expression are' if is_clang else 'nothing is'} fused")


def check(compiler, include):
    machine = output(compiler, "-dumpmachine").split("-")[0]
    if machine not in FUSED:
        print(f"not run: {compiler} compiles for a processor that is unknown to this test")
        return
    fused = re.compile(FUSED[machine])
    if machine == "aarch64":
        check_where_it_may(compiler, include, fused)
        return
    wide, chosen = re.compile(r"\tv(add|sub|mul)ps\b.*%ymm"), re.compile("transform_chunks")
    plain = assembly(compiler, include, QUATERNIONS + NUMBERS, "-O2")
    if found := fused.search(plain):
        raise SystemExit(f"{compiler} -O2: {found[0].strip()}, which rounds differently from processors without it")
    if not wide.search(plain) or not chosen.search(plain):
        raise SystemExit(f"{compiler} -O2: no vectors of 256 bits, so there is nothing to choose from")
    for flags in (["-O0"], ["-O2", "-mavx2"], ["-O2", "-mavx2", "-mfma"]):
        if chosen.search(assembly(compiler, include, QUATERNIONS + NUMBERS, *flags)):
            raise SystemExit(f"{compiler} {' '.join(flags)}: loops are compiled twice without need")
    print(f"{compiler}: vectors of 256 bits, chosen at run time, and no fused multiply-add")
    for flags in (["-mfma"], ["-mavx2", "-mfma"]):
        check_where_it_may(compiler, include, fused, *flags)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for compiler in dict.fromkeys(sys.argv[2:]):
        if shutil.which(compiler):
            check(compiler, sys.argv[1])
        else:
            print(f"not run: there is no {compiler}")
