#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The instructions of a user's product of quaternions: vectors of 256 bits in a plain -O2 build, and nowhere a fused multiply-add.
"""Usage: fused.py INCLUDE COMPILER..."""

import re
import shutil
import subprocess
import sys

PROGRAM = """#include <kolo/reduce/kernel.hpp>
struct quaternion { float w, x, y, z; };
struct compose {
  quaternion operator()(quaternion a, quaternion b) const {
    return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
  }
};
kolo::kernel quaternions(const compose& op) { return kolo::make_kernel<quaternion>(op); }
kolo::kernel floats() { static const auto op = [](float a, float b) { return a * b + a; }; return kolo::make_kernel<float>(op); }
"""


def assembly(compiler, include, *flags):
    command = [compiler, "-std=c++20", "-S", "-o", "-", "-I", include, *flags, "-x", "c++", "-"]
    done = subprocess.run(command, input=PROGRAM, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def check(compiler, include):
    if "x86_64" not in subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=True).stdout:
        print(f"not run: {compiler} compiles for a processor that has none of this")
        return
    fused, wide, chosen = re.compile(r"\tvfn?m(add|sub)\w+"), re.compile(r"\tv(add|sub|mul)ps\b.*%ymm"), re.compile("transform_chunks")
    plain = assembly(compiler, include, "-O2")
    if found := fused.search(plain):
        raise SystemExit(f"{compiler} -O2: {found[0].strip()}, which rounds otherwise than processors without it")
    if not wide.search(plain) or not chosen.search(plain):
        raise SystemExit(f"{compiler} -O2: no vectors of 256 bits, so there is nothing to choose from")
    covered = assembly(compiler, include, "-O2", "-mavx2", "-mfma")
    if not fused.search(covered):
        raise SystemExit(f"{compiler} -mfma: a fused multiply-add is not seen, so this test sees nothing")
    for flags in (["-O0"], ["-O2", "-mavx2"], ["-O2", "-mavx2", "-mfma"]):
        if chosen.search(assembly(compiler, include, *flags)):
            raise SystemExit(f"{compiler} {' '.join(flags)}: loops are compiled twice, and need not be")
    print(f"{compiler}: vectors of 256 bits, chosen at run time, and no fused multiply-add")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for compiler in dict.fromkeys(sys.argv[2:]):
        if shutil.which(compiler):
            check(compiler, sys.argv[1])
        else:
            print(f"not run: there is no {compiler}")
