#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Unused decorators cost nothing: a call compiles to the same functions, calls and branches whether their headers are included or not.
"""Usage: same_code.py COMPILER INCLUDE"""

import re
import subprocess
import sys
from collections import Counter

CALL = """#include <kolo/collective/allreduce.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/launch/threads.hpp>
#line 1 "call.cpp"
void call(kolo::threads::communicator& comm, float* x) { kolo::allreduce(comm, std::span{x, 1000}, kolo::sum, kolo::ring{}); }
"""
WATCHERS = "".join(f"#include <kolo/{h}.hpp>\n" for h in ("adapt/chrome_trace", "observe/counted", "observe/dump", "observe/faulty", "observe/traced",
                                                          "observe/watchdog"))
TRACED = CALL.replace("kolo::threads::communicator&", "kolo::communicator<kolo::traced<kolo::threads::transport>>&")


def assembly(compiler, include, text):
    """The lines of its assembly. Without optimisation, because inlining depends on the size of the whole unit."""
    done = subprocess.run([compiler, "-std=c++20", "-O0", "-S", "-o", "-", "-I", include, "-x", "c++", "-"], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"this does not compile:\n{text}\n{done.stderr}")
    return done.stdout.split("\n")


def what_it_does(lines):
    """The functions, their calls, and the number of branches. Not the instructions: registers and moves depend on the order in which the compiler
    parsed the declarations."""
    functions = Counter(line for line in lines if re.match(r"[A-Za-z_][\w.]*:$", line))
    words = [line.split() for line in lines]
    calls = Counter(" ".join(w) if "(" not in w[1] and "%" not in w[1] else "call *" for w in words if len(w) == 2 and w[0] == "call")
    branches = Counter("branch" for w in words if len(w) == 2 and re.match(r"j(?!mp)", w[0]))
    return functions + calls + branches


def main(compiler, include):
    plain = assembly(compiler, include, CALL)
    without, beside = what_it_does(plain), what_it_does(assembly(compiler, include, WATCHERS + CALL))
    if without != beside:
        raise SystemExit(f"without the watchers alone: {dict(without - beside)}\nbeside them alone: {dict(beside - without)}")
    watching = [line for line in plain if "traced" in line or "tracer" in line or "dump" in line]
    if watching:
        raise SystemExit(f"the call has code of a decorator: {watching[0]}")
    if not any("traced" in line for line in assembly(compiler, include, WATCHERS + TRACED)):
        raise SystemExit("a traced call has no code of the decorator, so this test finds nothing")
    print(f"the same {sum(without.values())} functions, calls and branches")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
