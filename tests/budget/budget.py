#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The compile-time cost of each header for users: preprocessed lines, compared with a table with 10 % slack.
"""Usage: budget.py [--update] COMPILER INCLUDE TABLE | budget.py --self-test COMPILER

The table has for each header the number of non-empty lines that the compiler sees, and how many seconds it took to
parse them when the table was made; only the lines are compared. They depend on the standard library, so the table is for
one major version of one compiler; with another one the exit status is 77: not run. --update writes the table anew.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SLACK = 1.10
GRACE = 20  # lines; ten percent of a tiny header is too little


def identity(compiler):
    macros = subprocess.run([compiler, "-dM", "-E", "-x", "c++", "/dev/null"], capture_output=True, text=True, check=True).stdout
    name, macro = ("clang", "__clang_major__") if "__clang__ " in macros else ("gcc", "__GNUC__")
    return f"{name} {re.search(f'#define {macro} ([0-9]+)', macros)[1]}"


def headers(include):
    """Headers that users include, except those for torch and c10d, which need more than the standard library."""
    names = sorted(str(p.relative_to(include)) for folder in (".", "kolo", "kolo/adapt") for p in (include / folder).glob("*.hpp"))
    return [name for name in names if name not in ("kolo/adapt/torch.hpp", "kolo/adapt/c10d.hpp")]


def compile_it(compiler, include, header, *flags):
    return subprocess.run([compiler, "-std=c++20", *flags, "-I", include, "-x", "c++", "-"], input=f"#include <{header}>\n",
                          capture_output=True, text=True)


def lines(compiler, include, header):
    done = compile_it(compiler, include, header, "-E", "-P")
    if done.returncode != 0:
        raise SystemExit(f"{header} cannot be preprocessed\n{done.stderr}")
    return sum(1 for line in done.stdout.split("\n") if line.strip())


def seconds(compiler, include, header):
    start = time.monotonic()
    compile_it(compiler, include, header, "-fsyntax-only")
    return time.monotonic() - start


def read(table):
    rows = [line.split() for line in table.read_text().split("\n") if line and not line.startswith("#")]
    return " ".join(rows[0][1:]), {row[2]: int(row[0]) for row in rows[1:]}


def update(compiler, include, table):
    rows = [f"{lines(compiler, include, h):6} {seconds(compiler, include, h):6.2f}  {h}" for h in headers(include)]
    table.write_text("# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"
                     "# Preprocessed lines, and seconds to parse (not held to), per header; written by budget.py --update.\n"
                     f"compiler {identity(compiler)}\n" + "\n".join(rows) + "\n")
    return 0


def check(compiler, include, table):
    made_with, allowed = read(table)
    if made_with != identity(compiler):
        print(f"not run: the table was made with {made_with}, this is {identity(compiler)}")
        return 77
    faults = [f"{h}: in the table, but does not exist" for h in allowed if h not in headers(include)]
    for header in headers(include):
        now = lines(compiler, include, header)
        if header not in allowed:
            faults.append(f"{header}: {now} lines, not in the table")
        elif now > allowed[header] * SLACK + GRACE:
            faults.append(f"{header}: {now} lines; {allowed[header]} are allowed, plus 10 %")
    front = "kolo/kolo.hpp"
    if (include / front).exists():
        print(f"{front}: {lines(compiler, include, front)} lines, {seconds(compiler, include, front):.2f} s to parse")
    if faults:
        print("\n".join(faults))
        print(f"If this is intended: tests/budget/budget.py --update {compiler} {include} {table}")
    return 1 if faults else 0


def self_test(compiler):
    with tempfile.TemporaryDirectory() as work:
        include, table = Path(work), Path(work, "table")
        small = "\n".join(f"inline int f{i}() {{ return {i}; }}" for i in range(100))
        (include / "a.hpp").write_text(small)
        update(compiler, include, table)
        (include / "a.hpp").write_text(small + "\n\n// a comment\n")
        verdicts = [check(compiler, include, table)]                 # 0: comments cost nothing
        (include / "a.hpp").write_text(small + "\nint x();" * 50)
        verdicts.append(check(compiler, include, table))             # 1: half as large again
        (include / "a.hpp").write_text(small)
        (include / "b.hpp").write_text(small)
        verdicts.append(check(compiler, include, table))             # 1: a header without a budget
        update(compiler, include, table)
        verdicts.append(check(compiler, include, table))             # 0
        (include / "b.hpp").unlink()
        verdicts.append(check(compiler, include, table))             # 1: a budget without a header
        table.write_text(table.read_text().replace(identity(compiler), "abacus 1"))
        verdicts.append(check(compiler, include, table))             # 77: another compiler
    print("verdicts", verdicts)
    return verdicts != [0, 1, 1, 0, 1, 77]


def main(arguments, usage, check, update, self_test):
    """Parses the command line; also used by objects.py and cuda.py."""
    if len(arguments) == 2 and arguments[0] == "--self-test":
        return self_test(arguments[1])
    action = check
    if arguments[:1] == ["--update"]:
        action, arguments = update, arguments[1:]
    if len(arguments) != 3:
        sys.exit(usage)
    return action(arguments[0], Path(arguments[1]), Path(arguments[2]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], __doc__, check, update, self_test))
