#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The compile time of kolo's programs and of other libraries', as a table in Markdown.
"""Usage: compile_times.py [--compiler g++] [--repeat 3] [--update bench/README.md]

Compiles each program alone, `-std=c++20 -c`, and takes the minimum user time of --repeat runs; the programs alternate, so that a slower machine slows all of them.
--update writes the table between the two marks in that page. Libraries that are not installed (nlohmann-json, Eigen, an MPI) are skipped, with a message.
"""

import argparse
import datetime
import platform
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BUDGET = ROOT / "tests" / "budget"
BEGIN, END = "<!-- compile times: begin -->", "<!-- compile times: end -->"
EIGEN = ["-isystem", "/usr/include/eigen3"]


def programs(compiler):
    """Yields name, source, and additional flags."""
    kolo = ["-I", str(ROOT / "include")]
    compiled = [*kolo, "-DKOLO_COMPILED"]
    mpi = next((c for c in ("mpicxx.mpich", "mpicxx.openmpi", "mpicxx") if shutil.which(c)), "mpicxx")
    mpi_flags = subprocess.run([mpi, "-show"], capture_output=True, text=True).stdout.split() if shutil.which(mpi) else ["-DNO_MPI_HERE"]
    mpi_flags = [f for f in mpi_flags if f.startswith(("-I", "-isystem", "-DNO"))]
    yield "eight standard headers, and a line", HERE / "standard.cpp", []
    yield "one `MPI_Allreduce`, with `mpi.h` of C", HERE / "mpi.cpp", [*mpi_flags, "-DMPICH_SKIP_MPICXX", "-DOMPI_SKIP_MPICXX"]
    yield "nlohmann-json: parse and dump", HERE / "json.cpp", []
    yield "Eigen: an inverse", HERE / "eigen.cpp", EIGEN
    for name, source in (("the README's first program", "first"), ("four calls", "four_calls"), ("eight calls, five types and operators", "eight_calls"), ("a program that trains", "training")):
        yield f"kolo, header-only: {name}", BUDGET / f"{source}.cpp", kolo
        yield f"kolo, compiled mode: {name}", BUDGET / f"{source}.cpp", compiled


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(command, capture_output=True)
    return None if done.returncode else resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def measure(compiler, repeat):
    rows = list(programs(compiler))
    least = {}
    for _ in range(repeat):
        for name, source, flags in rows:
            for level in ("-O0", "-O2"):
                took = seconds([compiler, "-std=c++20", level, *flags, "-c", str(source), "-o", "/dev/null"])
                if took is None:
                    least[name] = None
                elif least.setdefault(name, {}) is not None:
                    least[name][level] = min(took, least[name].get(level, took))
    return least


def table(least, compiler):
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    lines = ["| program | `-O0` | `-O2` |", "|---|---|---|"]
    for name, times in least.items():
        if times:
            lines.append(f"| {name} | {times['-O0']:.1f} | {times['-O2']:.1f} |")
        else:
            print(f"skipped, because it does not compile: {name}", file=sys.stderr)
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    return "\n".join([*lines, "", f"User seconds of one compile, the least of several; {compiler} {version}, {model}, {datetime.date.today():%B %Y}; by "
                      "`python3 bench/compile_times/compile_times.py`."])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--compiler", default="g++")
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--update", type=Path)
    o = options.parse_args()
    written = table(measure(o.compiler, o.repeat), o.compiler)
    print(written)
    if o.update:
        page = o.update.read_text()
        if BEGIN not in page or END not in page:
            sys.exit(f"{o.update} has no place for the table: {BEGIN} and {END}")
        o.update.write_text(re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: f"{BEGIN}\n{written}\n{END}", page, flags=re.S))


if __name__ == "__main__":
    main()
