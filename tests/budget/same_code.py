#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What is not named costs nothing: a call compiles to the same instructions whether the headers that watch it are included or not.
"""Usage: same_code.py COMPILER INCLUDE"""

import re
import subprocess
import sys

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
    """Its lines, without the order in which a compiler writes functions, the numbers that it gives them, and where in a frame a variable lies."""
    done = subprocess.run([compiler, "-std=c++20", "-O1", "-S", "-o", "-", "-I", include, "-x", "c++", "-"], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"this does not compile:\n{text}\n{done.stderr}")
    output = re.sub(r"(\.L[A-Za-z_]*|GCC_except_table)\d+(_\d+)?", r"\1", done.stdout)
    lines = re.sub(r"-?\d*\((%[re]?[sb]p)\)", r"(\1)", output).split("\n")
    return sorted(line for line in lines if not line.lstrip().startswith((".file", ".ident", "#")))


def main(compiler, include):
    plain = assembly(compiler, include, CALL)
    beside = assembly(compiler, include, WATCHERS + CALL)
    if plain != beside:
        differ = next((pair for pair in zip(plain, beside) if pair[0] != pair[1]), ("the end", "the end"))
        raise SystemExit(f"{len(plain)} lines without the watchers, {len(beside)} beside them; the first that differ:\n{differ[0]}\n{differ[1]}")
    watching = [line for line in plain if "trace" in line or "onlooker" in line or "dump" in line]
    if watching:
        raise SystemExit(f"the call knows that it could be watched: {watching[0]}")
    if not any("traced" in line for line in assembly(compiler, include, WATCHERS + TRACED)):
        raise SystemExit("a traced call is not seen to be one, so this test sees nothing")
    print(f"the same {len(plain)} lines")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
