# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles and runs every whole program of a folder's pages, with nothing but -I include.
"""Usage: run_blocks.py REPOSITORY COMPILER PAGE... [--alone [OPTION...]]

The programs are compiled as one (tests/support/combine.py), in which each is run: the headers are parsed, and the engine is generated, once.
--alone: each must compile as it stands, too; it is parsed, and not run. OPTION: of the compiler, for what includes <kolo/kolo.hpp>: where it is precompiled.
"""
import pathlib
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

programs, faults = [], []
for name in names:
    of_page = pages.programs((root / name).read_text())
    programs += of_page
    if not of_page:
        faults.append(f"{name} has no whole program")
words = ["-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-I", root / "include"]


def compiles(what, *more):
    build = subprocess.run([compiler, *more, *words], capture_output=True, text=True)
    if build.returncode != 0:
        faults.append(f"{what} does not compile:\n{build.stderr[:3000]}")
    return build.returncode == 0


with tempfile.TemporaryDirectory() as scratch:
    sources = [pathlib.Path(scratch, f"program_{number}.cpp") for number in range(len(programs))]
    for source, program in zip(sources, programs):
        source.write_text(program)
        if alone:
            compiles(source.stem, *(precompiled if "#include <kolo/kolo.hpp>" in program else []), "-fsyntax-only", source)
    if not alone and programs:
        together, binary = pathlib.Path(scratch, "together.cpp"), pathlib.Path(scratch, "together")
        together.write_text(combine.combine(sources, True))
        if compiles(", ".join(names), together, "-o", binary, "-pthread"):
            for source in sources:
                run = subprocess.run([binary, source.stem], capture_output=True, text=True, timeout=60)
                if run.returncode != 0:
                    faults.append(f"{source.stem} returns {run.returncode}:\n{run.stderr}")

print("\n".join(faults) or f"{len(programs)} programs of {', '.join(names)} {'compile' if alone else 'ran'}")
sys.exit(1 if faults else 0)
