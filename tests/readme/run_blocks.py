# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles and runs every whole program of one README, with nothing but -I include.
"""Usage: run_blocks.py REPOSITORY COMPILER PAGE"""
import pathlib
import subprocess
import sys
import tempfile

import pages

root, compiler, page = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
programs = pages.programs((root / page).read_text())
faults = [] if programs else [f"{page} has no whole program"]
with tempfile.TemporaryDirectory() as scratch:
    for number, program in enumerate(programs):
        source, binary = pathlib.Path(scratch, f"{number}.cpp"), pathlib.Path(scratch, f"{number}")
        source.write_text(program)
        build = subprocess.run([compiler, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", root / "include", source, "-o", binary],
                               capture_output=True, text=True)
        if build.returncode != 0:
            faults.append(f"program {number} does not compile:\n{build.stderr[:3000]}")
            continue
        run = subprocess.run([binary], capture_output=True, text=True, timeout=60)
        if run.returncode != 0:
            faults.append(f"program {number} returns {run.returncode}:\n{run.stderr}")

print("\n".join(faults) or f"{len(programs)} programs of {page} ran")
sys.exit(1 if faults else 0)
