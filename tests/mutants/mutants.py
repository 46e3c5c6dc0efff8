#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Changes one line of a copy of the headers and demands that a small program, the catcher, notices.
"""Usage: mutants.py mutant NAME COMPILER INCLUDE [STANDARD] | mutants.py clean CATCHER COMPILER INCLUDE | mutants.py self-test COMPILER

STANDARD: standard.hpp with its precompiled form, standard.hpp.gch, beside it; that spares a third of what a mutant costs.

A mutant is a section of mutants.ini:

    [name]
    file = schedule/ring.hpp          under include/kolo
    old = mod(r + 1, p)               stands exactly once in that file
    new = mod(r + 2, p)
    catcher = schedules               the program catch_schedules.cpp, without Catch2: it compiles in a few seconds
    caught = run                      or compile: a static_assert of the catcher fails. run: the catcher compiles, and then
                                      ends with a status other than 0, or does not end
"""

import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIELDS = {"file", "old", "new", "catcher"}


class Wrong(Exception):
    """The list, or the tree, is not as it should be; or a mutant lives."""


def read(path):
    parser = configparser.ConfigParser(interpolation=None, delimiters="=")
    parser.read_string(path.read_text())
    return {name: {"caught": "run", **parser[name]} for name in parser.sections()}


def mutate(include, mutant):
    """Changes the one place in the tree `include`."""
    if not FIELDS <= set(mutant) or mutant["caught"] not in ("run", "compile"):
        raise Wrong(f"a mutant has {', '.join(sorted(FIELDS))}, and perhaps caught = run or compile; this one is {mutant}")
    path = include / "kolo" / mutant["file"]
    if not path.exists():
        raise Wrong(f"there is no kolo/{mutant['file']}")
    text = path.read_text()
    found = text.count(mutant["old"])
    if found != 1:
        raise Wrong(f"\"{mutant['old']}\" stands {found} times in {mutant['file']}; it must stand there once")
    if mutant["old"] == mutant["new"]:
        raise Wrong("old and new are the same")
    path.write_text(text.replace(mutant["old"], mutant["new"]))


def commands(compiler, source, include, program, standard=None):
    """How a catcher is built. Where a line of it says "// instrumented, with FILE", it is compiled for the thread sanitizer, and FILE,
    below tests, stands for the sanitizer's library; where one says "// linked with NAME...", these are libraries."""
    words = [compiler, "-std=c++20", "-I", include, "-I", HERE.parent]
    library = re.search(r"^// instrumented, with (\S+)$", source.read_text(), re.MULTILINE)
    if not library:
        first = ["-include", standard] if standard else []
        names = re.search(r"^// linked with (.+)$", source.read_text(), re.MULTILINE)
        return [[*words, "-O0", "-pthread", *first, source, "-o", program, *(f"-l{n}" for n in (names[1].split() if names else []))]]
    part = f"{program}.o"
    return [[*words, "-O1", "-fsanitize=thread", "-c", source, "-o", part], [*words, "-O1", part, HERE.parent / library[1], "-o", program]]


def try_catcher(catcher, compiler, include, home, limit=20, standard=None):
    """Compiles and runs: what happened ("passed", "compile", "run"), a sentence about it, and the compiler's output."""
    source = home / f"catch_{catcher}.cpp"
    if not source.exists():
        raise Wrong(f"there is no {source.name}")
    with tempfile.TemporaryDirectory() as work:
        program = Path(work, "catcher")
        start = time.monotonic()
        for command in commands(compiler, source, include, program, standard):
            compiled = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
            if compiled.returncode != 0:
                break
        spent = f"{time.monotonic() - start:.1f} s to compile"
        if compiled.returncode != 0:
            return "compile", f"does not compile; {spent}", compiled.stdout
        start = time.monotonic()
        running = subprocess.Popen([program], start_new_session=True)
        try:
            status = running.wait(limit)
            said = f"exit status {status}"
        except subprocess.TimeoutExpired:
            status, said = None, f"no end within {limit} s"
        try:
            os.killpg(running.pid, signal.SIGKILL)  # whatever processes it started, too
        except ProcessLookupError:
            pass
        running.wait()
        return ("passed" if status == 0 else "run"), f"{said}; {spent}, {time.monotonic() - start:.1f} s to run", ""


def judge_clean(catcher, compiler, include, home=HERE):
    result, sentence, output = try_catcher(catcher, compiler, include, home, 100)
    if result != "passed":
        raise Wrong(f"catch_{catcher} refuses the headers as they are: {sentence}\n{output}")
    return sentence


def judge_mutant(mutant, compiler, include, standard=None, home=HERE, limit=20):
    with tempfile.TemporaryDirectory() as work:
        changed = Path(work, "include")
        shutil.copytree(include, changed)
        mutate(changed, mutant)
        result, sentence, output = try_catcher(mutant["catcher"], compiler, changed, home, limit, standard)
    if result == "passed":
        raise Wrong(f"the mutant lives: catch_{mutant['catcher']} noticed nothing: {sentence}")
    if result != mutant["caught"]:
        raise Wrong(f"it should have been caught by {mutant['caught']}, but: {sentence}\n{output}")
    first = next((line for line in output.splitlines() if "error:" in line), "")  # what follows from it may be anything
    if result == "compile" and not any(w in first for w in ("static assertion failed", "static_assert failed", "constant expression")):
        raise Wrong(f"the mutant is not C++: no static_assert of catch_{mutant['catcher']} caught it\n{output}")
    return f"caught by catch_{mutant['catcher']}: {sentence}"


def self_test(compiler):
    header = "inline constexpr int twice(int x) { return 2 * x; }\ninline bool more(int x) { return x < 3; }\n"
    catchers = {
        "run": "int main() { int x = 1; while (more(x)) ++x; return twice(x) == 6 ? 0 : 1; }",
        "compile": "static_assert(twice(2) == 4);\nint main() {}",
        "blind": "int main() {}",
        "broken": "int main() { return 1; }",
    }
    cases = [  # what must be said, and the mutant
        ("caught by catch_run: exit status 1", {"old": "2 * x", "new": "3 * x", "catcher": "run"}),
        ("caught by catch_run: no end", {"old": "x < 3", "new": "true", "catcher": "run"}),
        ("caught by catch_compile", {"old": "2 * x", "new": "3 * x", "catcher": "compile", "caught": "compile"}),
        ("the mutant lives", {"old": "2 * x", "new": "3 * x", "catcher": "blind"}),
        ("should have been caught by run", {"old": "2 * x", "new": "3 * y", "catcher": "run"}),
        ("is not C++", {"old": "2 * x", "new": "3 * y", "catcher": "compile", "caught": "compile"}),
        ("should have been caught by compile", {"old": "2 * x", "new": "3 * x", "catcher": "run", "caught": "compile"}),
        ("stands 0 times", {"old": "4 * x", "new": "3 * x", "catcher": "run"}),
        ("stands 2 times", {"old": "int x", "new": "long x", "catcher": "run"}),
        ("are the same", {"old": "2 * x", "new": "2 * x", "catcher": "run"}),
        ("there is no catch_none.cpp", {"old": "2 * x", "new": "3 * x", "catcher": "none"}),
        ("a mutant has", {"old": "2 * x", "new": "3 * x"}),
        ("there is no kolo/none.hpp", {"file": "none.hpp", "old": "2 * x", "new": "3 * x", "catcher": "run"}),
    ]
    with tempfile.TemporaryDirectory() as work:
        home = Path(work)
        (home / "include/kolo").mkdir(parents=True)
        (home / "include/kolo/h.hpp").write_text(header)
        for name, text in catchers.items():
            (home / f"catch_{name}.cpp").write_text(f"#include <kolo/h.hpp>\n{text}\n")
        actions = [(text, lambda m=m: judge_mutant({"file": "h.hpp", "caught": "run", **m}, compiler, home / "include", None, home, 2))
                   for text, m in cases]
        actions.append(("exit status 0", lambda: judge_clean("run", compiler, home / "include", home)))
        actions.append(("refuses the headers as they are", lambda: judge_clean("broken", compiler, home / "include", home)))
        wrong = 0
        for expected, action in actions:
            try:
                said = action()
            except Wrong as w:
                said = str(w)
            if expected not in said:
                wrong += 1
                print(f"expected \"{expected}\", got \"{said}\"")
        if (home / "include/kolo/h.hpp").read_text() != header:
            wrong += 1
            print("the original was changed")
    print(f"{len(actions) - wrong} of {len(actions)} cases judged rightly")
    if wrong:
        raise Wrong("the driver misjudges")
    return "the driver can fail, and says why"


def main(action, *args):
    if action == "self-test" and len(args) == 1:
        return self_test(*args)
    if action == "clean" and len(args) == 3:
        return judge_clean(*args)
    if action == "mutant" and len(args) in (3, 4):
        mutants = read(HERE / "mutants.ini")
        if args[0] not in mutants:
            raise Wrong(f"mutants.ini has no [{args[0]}]")
        return judge_mutant(mutants[args[0]], *args[1:])
    sys.exit(__doc__)


if __name__ == "__main__":
    try:
        print(main(*(sys.argv[1:] or [""])))
    except Wrong as w:
        sys.exit(str(w))
