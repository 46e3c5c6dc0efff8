#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The code size of programs that include kolo: functions and bytes of code of their objects, compared with a table with 5 % slack.
"""Usage: objects.py [--update] COMPILER INCLUDE TABLE | objects.py --self-test COMPILER

The programs are beside the table; each is compiled header-only, and in compiled mode (the lines that end with "compiled"). They are compiled without
optimisation, so that the code is counted before the optimiser changes it. The table is for one major version of one compiler; with another one the exit
status is 77: not run. --update writes the table anew.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from budget import identity, main

SLACK = 1.05


MODES = {"": [], "compiled": ["-DKOLO_COMPILED"]}


def programs(table):
    """Each program in each mode: its name in the table, the file, the mode's flags."""
    return [(f"{p.name} {mode}".strip(), p, flags) for p in sorted(table.parent.glob("*.cpp")) for mode, flags in MODES.items()]


def written(compiler, include, program, flags):
    """Returns the number of functions and the bytes of code."""
    with tempfile.TemporaryDirectory() as work:
        made = Path(work, "program.o")
        subprocess.run([compiler, "-std=c++20", "-O0", "-w", *flags, "-I", include, "-c", program, "-o", made], check=True)
        names = subprocess.run(["nm", "--defined-only", made], capture_output=True, text=True, check=True).stdout
        sizes = subprocess.run(["size", "-A", made], capture_output=True, text=True, check=True).stdout
    functions = len(re.findall(r"^[0-9a-f]+ [tTwW] ", names, flags=re.M))
    return functions, sum(int(n) for n in re.findall(r"^\.text\S*\s+(\d+)", sizes, flags=re.M))


def update(compiler, include, table):
    rows = ["{:6} {:8}  {}".format(*written(compiler, include, p, flags), name) for name, p, flags in programs(table)]
    table.write_text("# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"
                     "# Functions, and bytes of code, of each program's object at -O0; written by objects.py --update.\n"
                     f"compiler {identity(compiler)}\n" + "\n".join(rows) + "\n")
    return 0


def check(compiler, include, table):
    rows = [line.split() for line in table.read_text().split("\n") if line and not line.startswith("#")]
    if rows[0][1:] != identity(compiler).split():
        print(f"not run: the table was made with {' '.join(rows[0][1:])}, this is {identity(compiler)}")
        return 77
    allowed = {" ".join(row[2:]): (int(row[0]), int(row[1])) for row in rows[1:]}
    faults = [f"{name}: in the table, but does not exist" for name in allowed if name not in (known for known, *_ in programs(table))]
    for name, program, flags in programs(table):
        now = written(compiler, include, program, flags)
        print(f"{name}: {now[0]} functions, {now[1]} bytes")
        if name not in allowed:
            faults.append(f"{name}: not in the table")
            continue
        for what, n, most in zip(("functions", "bytes of code"), now, allowed[name]):
            if n > most * SLACK:
                faults.append(f"{name}: {n} {what}; {most} are allowed, plus 5 %")
    if faults:
        print("\n".join(faults))
        print(f"If this is intended: tests/budget/objects.py --update {compiler} {include} {table}")
    return 1 if faults else 0


def self_test(compiler):
    with tempfile.TemporaryDirectory() as work:
        include, table, program = Path(work), Path(work, "table"), Path(work, "a.cpp")
        small = "\n".join(f"int f{i}() {{ return {i}; }}" for i in range(40)) + "\n"
        program.write_text(small)
        update(compiler, include, table)
        verdicts = [check(compiler, include, table)]                    # 0
        program.write_text(small + "\n".join(f"int g{i}();" for i in range(40)))
        verdicts.append(check(compiler, include, table))                # 0: a declaration is no code
        program.write_text(small + "\n".join(f"int g{i}() {{ return {i}; }}" for i in range(4)))
        verdicts.append(check(compiler, include, table))                # 1: a tenth more
        program.write_text(small.replace("return 39;", "return " + " + ".join(f"f{i}() * 3" for i in range(39)) + ";"))
        verdicts.append(check(compiler, include, table))                # 1: the same number of functions, one of which is long
        program.unlink()
        verdicts.append(check(compiler, include, table))                # 1: a budget without a program
        table.write_text(table.read_text().replace(identity(compiler), "abacus 1"))
        verdicts.append(check(compiler, include, table))                # 77: another compiler
    print("verdicts", verdicts)
    return verdicts != [0, 0, 1, 1, 1, 77]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], __doc__, check, update, self_test))
