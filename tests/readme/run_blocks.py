# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles and runs every whole program of pages, with no option but -I include.
"""Usage: run_blocks.py REPOSITORY COMPILER PAGE... [--alone [OPTION...]]

The programs are compiled as one (tests/support/combine.py), in which each is run: the headers are parsed, and the engine is generated, once.
--alone: each must also compile alone; it is parsed, and not run. That is shown too if everything that was included before is what it
includes itself: one run of the compiler parses a chain of programs, each of which includes what the one before does.
OPTION: the compiler's options for programs that include <kolo/kolo.hpp>, which use it precompiled.
A program's name is its page and its number there.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import pages

root, compiler, *names = pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:]
alone, precompiled = "--alone" in names, []
if alone:
    names, precompiled = names[:names.index("--alone")], names[names.index("--alone") + 1:]
sys.path.insert(0, str(root / "tests/support"))
import combine  # noqa: E402

programs, faults = {}, []
for name in names:
    of_page = pages.programs((root / name).read_text())
    programs |= {f"{re.sub(r'[^A-Za-z0-9]', '_', name)}_{number}": program for number, program in enumerate(of_page, 1)}
    if not of_page:
        faults.append(f"{name} has no whole program")
words = ["-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-I", root / "include"]


def headers(name):
    return "".join(re.findall(r"(?m)^#include .*\n", programs[name]))


def chains():
    def of(name):
        return set(headers(name).splitlines())

    result = []
    for name in sorted(programs, key=lambda name: len(of(name))):
        before = [chain for chain in result if of(chain[-1]) <= of(name)]
        if before:
            max(before, key=lambda chain: len(of(chain[-1]))).append(name)
        else:
            result.append([name])
    return result


def compiles(what, *more):
    build = subprocess.run([compiler, *more, *words], capture_output=True, text=True)
    if build.returncode != 0:
        faults.append(f"{what} does not compile:\n{build.stderr[:3000]}")
    return build.returncode == 0


with tempfile.TemporaryDirectory() as scratch:
    sources = {name: pathlib.Path(scratch, f"{name}.cpp") for name in programs}
    for name, source in sources.items():
        source.write_text(programs[name])
    together, binary = pathlib.Path(scratch, "together.cpp"), pathlib.Path(scratch, "together")
    if alone:
        for chain in chains():
            together.write_text("".join(f'{headers(name)}namespace in_{name} {{\n#include "{name}.cpp"\n}}\n' for name in chain))
            before = precompiled if re.search("<kolo/(kolo|train).hpp>", headers(chain[0])) else []  # train.hpp includes kolo.hpp
            compiles(" or ".join(chain), *before, "-fsyntax-only", "-Wno-return-type", together)  # a main() in a namespace is an ordinary function
    elif programs:
        together.write_text(combine.combine(sources.values(), True))
        if compiles(", ".join(names), together, "-o", binary, "-pthread"):
            for name in programs:
                run = subprocess.run([binary, name], capture_output=True, text=True, timeout=60)
                if run.returncode != 0:
                    faults.append(f"{name} returns {run.returncode}:\n{run.stderr}")

print("\n".join(faults) or f"{len(programs)} programs of {', '.join(names)} {'compile' if alone else 'ran'}")
sys.exit(1 if faults else 0)
