#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Changes one line of a copy of the headers, and checks that a small program, the catcher, notices.
"""Usage: mutants.py mutant NAME COMPILER INCLUDE BUILT | generate INCLUDE BUILT | build PROGRAM CATCHER... COMPILER INCLUDE BUILT
       | self-test COMPILER

A mutant is a section of FOLDER.ini, the folder of include/kolo with its header:

    [name]
    file = schedule/ring.hpp          under include/kolo
    old = mod(r + 1, p)               occurs exactly once in that file
    new = mod(r + 2, p)
    catcher = schedules               the program catch_schedules.cpp, without Catch2: it compiles in a few seconds
    caught = run                      the catcher compiles, and then ends with a status other than 0. compile: a static_assert of
                                      it fails. hang: as run, or it does not end within 20 s
    alone = a declaration             why it is compiled by itself

`generate` writes a copy of the headers with all mutants in it, switched by an environment variable (switches.py), to BUILT/include;
`build` compiles a catcher with them, once, to BUILT/catch_NAME; each mutant is then one run of it (caught.sh), and a run without a
mutant must pass. Catchers with a line "// built with others: GROUP" are one program, BUILT/group_GROUP, so that the engine is compiled
once for them. Mutants that the compiler catches, and those with `alone`, are each compiled separately on a changed copy of the headers
(`mutant`). BUILT/standard.hpp and its precompiled form save a third of the compile time.
"""

import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import switches

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import combine  # noqa: E402

FIELDS = {"file", "old", "new", "catcher"}
LIMITS = {"run": 100, "hang": 20}  # seconds; as in CMakeLists.txt


class Wrong(Exception):
    """An error in the lists or in the tree; or a mutant that is not caught."""


def read(home, only=None):
    """The mutants of all folders, or of those whose list has this one."""
    mutants = {}
    for path in sorted(home.glob("*.ini")):
        text = path.read_text()
        if only and f"[{only}]\n" not in text:
            continue
        parser = configparser.ConfigParser(interpolation=None, delimiters="=")
        parser.read_string(text)
        for name in parser.sections():
            if name in mutants:
                raise Wrong(f"[{name}] stands in two files, of which one is {path.name}")
            if not parser[name].get("file", "").startswith(f"{path.stem}/"):
                raise Wrong(f"[{name}] stands in {path.name}, but its header does not stand in include/kolo/{path.stem}")
            mutants[name] = {"caught": "run", **parser[name]}
    return mutants


def check(include, mutant):
    """Checks that it is a mutant of these headers. Returns its header's text."""
    if not FIELDS <= set(mutant) or mutant["caught"] not in ("run", "compile", "hang"):
        raise Wrong(f"a mutant has {', '.join(sorted(FIELDS))}, and perhaps caught = run, compile or hang; this one is {mutant}")
    path = include / "kolo" / mutant["file"]
    if not path.exists():
        raise Wrong(f"there is no kolo/{mutant['file']}")
    text = path.read_text()
    found = text.count(mutant["old"])
    if found != 1:
        raise Wrong(f"\"{mutant['old']}\" stands {found} times in {mutant['file']}; it must stand there once")
    if mutant["old"] == mutant["new"]:
        raise Wrong("old and new are the same")
    return text


def mutate(include, mutant):
    """Applies the mutant to the tree `include`."""
    text = check(include, mutant)
    (include / "kolo" / mutant["file"]).write_text(text.replace(mutant["old"], mutant["new"]))


def group_of(source):
    found = re.search(r"^// built with others: (\S+)$", source.read_text(), re.MULTILINE)
    return found and found[1]


def is_switched(mutant):
    return mutant["caught"] != "compile" and "alone" not in mutant


def source_of(catcher, home):
    source = home / f"catch_{catcher}.cpp"
    if not source.exists():
        raise Wrong(f"there is no {source.name}")
    return source


def commands(compiler, source, includes, program, standard=None):
    """The commands that build a catcher. With a line "// instrumented, with FILE" it is compiled for the thread sanitizer, and FILE,
    below tests, replaces the sanitizer's library; "// linked with NAME..." names libraries; "// optimised" compiles it with -O1."""
    words = [compiler, "-std=c++20", *(word for i in (*includes, HERE.parent) for word in ("-I", i))]
    library = re.search(r"^// instrumented, with (\S+)$", source.read_text(), re.MULTILINE)
    if not library:
        optimised = re.search(r"^// optimised$", source.read_text(), re.MULTILINE)
        first = ["-include", standard] if standard and standard.exists() and not optimised else []
        names = re.search(r"^// linked with (.+)$", source.read_text(), re.MULTILINE)
        return [[*words, "-O1" if optimised else "-O0", "-pthread", *first, source, "-o", program, *(f"-l{n}" for n in (names[1].split() if names else []))]]
    part = f"{program}.o"
    return [[*words, "-O1", "-fsanitize=thread", "-c", source, "-o", part], [*words, "-O1", part, HERE.parent / library[1], "-o", program]]


def run(program, mutant, caught, seconds):
    """Checks that this program notices the mutant. Returns a sentence."""
    done = subprocess.run(["bash", HERE / "caught.sh", caught, str(seconds), *program], env={**os.environ, "KOLO_MUTANT": mutant}, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Wrong(done.stdout)
    return done.stdout


def generate(include, built, home=HERE):
    """Writes the headers with switches. A mutant that cannot be switched must say `alone`."""
    mutants = {n: m for n, m in read(home).items() if is_switched(m)}
    for m in mutants.values():
        check(include, m)
    impossible = switches.generate(include, built / "include", mutants)
    if impossible:
        raise Wrong("\n".join(f"[{n}] needs a line \"alone = ...\": {why}" for n, why in impossible.items()))
    return f"{len(mutants)} mutants in one copy of the headers"


def build(name, catchers, compiler, include, built, home=HERE):
    """Compiles a catcher, or a group of them, with all of its mutants; writes its dependencies to a file beside it."""
    program, sources = built / name, [source_of(c, home) for c in catchers]
    source = sources[0]
    if name.startswith("group_"):
        source = built / f"{name}.cpp"
        switches.write_if_changed(source, combine.combine(sources, True))
    told = ["-MD", "-MF", f"{program}.d", "-MT", program, "-Wno-everything" if "clang" in compiler else "-w"]
    for command in commands(compiler, source, [built / "include", include], program, built / "standard.hpp"):
        if subprocess.run([*command, *told]).returncode != 0:
            raise Wrong(f"{name} does not compile with its mutants: the one in the line that is named needs \"alone = ...\"")
        told = []  # only for the first file
    return f"{program}"


def judge_mutant(mutant, compiler, include, built=None, home=HERE, limits=LIMITS):
    """Compiles and runs a mutant with `alone`, or one that the compiler catches."""
    check(include, mutant)
    source = source_of(mutant["catcher"], home)
    with tempfile.TemporaryDirectory() as work:
        changed, program = Path(work, "include"), Path(work, "catcher")
        shutil.copytree(include, changed)
        mutate(changed, mutant)
        for command in commands(compiler, source, [changed], program, built and built / "standard.hpp"):
            compiled = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if compiled.returncode != 0:
                break
        if (compiled.returncode != 0) != (mutant["caught"] == "compile"):
            raise Wrong(f"should have been caught by {mutant['caught']}, but the compiler's status is {compiled.returncode}\n{compiled.stdout}")
        if compiled.returncode == 0:
            return run([program], "", mutant["caught"], limits[mutant["caught"]])
    first = next((line for line in compiled.stdout.splitlines() if "error:" in line), "")  # later errors may be anything
    if not any(w in first for w in ("static assertion failed", "static_assert failed", "constant expression")):
        raise Wrong(f"the mutant is not C++: no static_assert of {source.name} caught it\n{compiled.stdout}")
    return f"caught by {source.name}"


def generate_from(files, include, built, home):
    """With these lists only."""
    for path in home.glob("*.ini"):
        path.unlink()
    for room, text in files.items():
        (home / f"{room}.ini").write_text(text)
    return generate(include, built, home)


def self_test(compiler):
    header = "#pragma once\ninline constexpr int twice(int x) { return 2 * x; }\ninline bool more(int x) { return x < 3; }\n"
    catchers = {
        "run": "int main() { int x = 1; while (more(x)) ++x; return twice(x) == 6 ? 0 : 1; }",
        "compile": "static_assert(twice(2) == 4);\nint main() {}",
        "blind": "int main() {}",
        "alarmed": "extern \"C\" unsigned alarm(unsigned);\nint main() { alarm(1); int x = 1; while (more(x)) ++x; return 0; }",
        "constant": "constexpr int four = twice(2);\nint main() { return four == 4 ? 0 : 1; }",
        "first": "// built with others: pair\nint main() {\n  return twice(3) == 6 ? 0 : 1;\n}",
        "second": "// built with others: pair\nint main() {\n  return more(2) ? 0 : 1;\n}",
    }
    cases = [  # the expected text, and the mutant
        ("caught: exit status 1", {"old": "2 * x", "new": "3 * x", "catcher": "run"}),
        ("caught: exit status 137", {"old": "x < 3", "new": "true", "catcher": "run", "caught": "hang"}),
        ("caught: exit status 1\n", {"old": "2 * x", "new": "3 * x", "catcher": "run", "caught": "hang"}),
        ("no end within 2 s or", {"old": "x < 3", "new": "x < 3 || true", "catcher": "alarmed"}),
        ("caught: exit status 142", {"old": "x < 3", "new": "x < 3 || true", "catcher": "alarmed", "caught": "hang"}),
        ("caught by catch_compile", {"old": "2 * x", "new": "3 * x", "catcher": "compile", "caught": "compile"}),
        ("the mutant lives", {"old": "2 * x", "new": "3 * x", "catcher": "blind"}),
        ("the mutant lives", {"old": "2 * x", "new": "3 * x", "catcher": "blind", "caught": "hang"}),
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
    switched = [  # the same for switched mutants; how they are run
        ("caught: exit status 1", "tripled", {"old": "2 * x", "new": "3 * x", "catcher": "run"}, ["catch_run"], "run"),
        ("caught: exit status 137", "endless", {"old": "x < 3", "new": "true", "catcher": "run"}, ["catch_run"], "hang"),
        ("no end within 2 s", "unending", {"old": "x < 3", "new": "1 < 3", "catcher": "run"}, ["catch_run"], "run"),
        ("caught: exit status 1", "emptied", {"old": "return x < 3;", "new": "return false;", "catcher": "run"}, ["catch_run"], "run"),
        ("the mutant lives", "unseen", {"old": "2 * x", "new": "4 * x", "catcher": "blind"}, ["catch_blind"], "run"),
        ("the mutant lives", "constant", {"old": "2 * x", "new": "5 * x", "catcher": "constant"}, ["catch_constant"], "run"),
        ("caught: exit status 1", "sixfold", {"old": "2 * x", "new": "6 * x", "catcher": "first"}, ["group_pair", "catch_first"], "run"),
        ("the mutant lives", "sevenfold", {"old": "2 * x", "new": "7 * x", "catcher": "second"}, ["group_pair", "catch_second"], "run"),
        ("there is no", "eightfold", {"old": "2 * x", "new": "8 * x", "catcher": "second"}, ["catch_second"], "run"),
    ]
    with tempfile.TemporaryDirectory() as work:
        home = Path(work)
        include, built = home / "include", home / "built"
        (include / "kolo/room").mkdir(parents=True)
        (include / "kolo/room/h.hpp").write_text(header)
        for name, text in catchers.items():
            (home / f"catch_{name}.cpp").write_text(f"#include <kolo/room/h.hpp>\n{text}\n")
        (home / "room.ini").write_text("".join(
            f"[{name}]\nfile = room/h.hpp\n" + "".join(f"{k} = {v}\n" for k, v in m.items()) for _, name, m, *_ in switched))
        generate(include, built, home)
        for name in ("run", "blind", "constant"):
            build(f"catch_{name}", [name], compiler, include, built, home)
        build("group_pair", ["first", "second"], compiler, include, built, home)
        actions = [(text, lambda m=m: judge_mutant({"file": "room/h.hpp", "caught": "run", **m}, compiler, include, None, home, {"run": 2, "hang": 2}))
                   for text, m in cases]
        actions += [(text, lambda n=n, p=p, how=how: run([built / p[0], *p[1:]], n, how, 2)) for text, n, _, p, how in switched]
        typed = "[typed]\nfile = room/h.hpp\nold = inline bool\nnew = inline int\ncatcher = run\n"
        lists = [("needs a line \"alone = ...\"", {"room": typed}), ("stands in two files", {"room": typed, "shed": typed}),
                 ("does not stand in include/kolo/shed", {"shed": typed})]
        actions += [(text, lambda files=files: generate_from(files, include, built, home)) for text, files in lists]
        wrong = 0
        for expected, action in actions:
            try:
                said = action()
            except Wrong as w:
                said = str(w)
            if expected not in said:
                wrong += 1
                print(f"expected \"{expected}\", got \"{said}\"")
        if (include / "kolo/room/h.hpp").read_text() != header:
            wrong += 1
            print("the original was changed")
    print(f"{len(actions) - wrong} of {len(actions)} cases judged rightly")
    if wrong:
        raise Wrong("the driver misjudges")
    return "the driver can fail, and says why"


def main(action, *args):
    paths = [Path(a) for a in args[-2:]]
    if action == "self-test" and len(args) == 1:
        return self_test(*args)
    if action == "generate" and len(args) == 2:
        return generate(*paths)
    if action == "build" and len(args) > 4:
        return build(args[0], args[1:-3], args[-3], *paths)
    if action == "mutant" and len(args) == 4:
        mutants = read(HERE, args[0])
        if args[0] not in mutants:
            raise Wrong(f"no list of mutants has [{args[0]}]")
        return judge_mutant(mutants[args[0]], args[1], *paths)
    sys.exit(__doc__)


if __name__ == "__main__":
    try:
        print(main(*(sys.argv[1:] or [""])))
    except Wrong as w:
        sys.exit(str(w))
