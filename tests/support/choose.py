#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What tests/run.sh builds and runs for a name: a test, a folder, a file's stem, a header, a mutant, a word in the names of test cases.
"""Usage: choose.py REPOSITORY BUILD NAME... | choose.py --self-test

Writes lines: "target T" to build, "test NAME" for CTest, "program T FILTER" for a Catch2 program of which only some cases are wanted.
"""

import re
import sys
from pathlib import Path

# What tries a header, besides itself and its mutants: tests by name, for each room of include/kolo. {} is the header's stem.
TRIED_BY = {
    "schedule": ["unit.schedule_proof", "unit.schedule_cost", "unit.schedule_cost_.*", "unit.schedule_{}", "static.schedules_.*"],
    "simulate": ["unit.schedule_simulate", "laws.simulated"],
    "core": ["unit.core_.*", "unit.execute_refusals"],
    "view": ["unit.view_.*", "collectives.views"],
    "reduce": ["unit.reduce_.*", "collectives.operators_structs"],
    "transport": ["unit.shm_{}.*", "unit.{}", "laws.threads", "laws.shm_processes", "collectives.{}"],
    "execute": ["unit.execute_.*", "collectives.reduce", "collectives.move", "collectives.requests"],
    "collective": ["unit.collective_.*", "collectives.{}", "collectives.trees"],
    "train": ["train.{}", "train.optimizer", "train.sharded"],
    "cuda": ["cuda\\.[a-z].*"],
    "adapt": ["unit.adapt_{}", "train.{}", "collectives.traced"],
}


def read(build):
    rows = []
    for line in (build / "tests/tests.tsv").read_text().splitlines():
        name, source, targets = line.split("\t")
        rows.append((name, source, targets.split()))
    return rows


def stem(path):
    return re.sub(r"\.(cpp|hpp|cuh|py|sh)$", "", path.rstrip("/").split("/")[-1])


def run_alone(row):
    """One test: by the program of its file, where there is one."""
    name, _, targets = row
    for target in targets:
        if target.startswith("one."):
            return [f"target {target}", f"program {target}"]
    return [f"target {t}" for t in targets] + [f"test {name}"]


def run_together(rows):
    said = []
    for name, _, targets in rows:
        said += [f"target {t}" for t in targets if not t.startswith("one.")] + [f"test {name}"]
    return said


def for_header(header, rows):
    """header: schedule/ring.hpp"""
    room, patterns = header.split("/")[0], []
    for pattern in TRIED_BY.get(room, []):
        patterns.append(pattern.replace("{}", re.escape(stem(header))))
    said = []
    for row in rows:
        name, source, _ = row
        if name == f"headers.alone.kolo/{header}" or (name.startswith("mutants.") and source == header):
            said += run_together([row])
        elif any(re.fullmatch(p, name) for p in patterns):
            said += run_alone(row)
    return said


def choose(name, repository, rows):
    bare = re.sub(r"^(tests|include/kolo|kolo)/", "", name.removeprefix("./")).rstrip("/")
    exact = [row for row in rows if row[0] == bare]
    if exact:
        return run_alone(exact[0])
    folder = [row for row in rows if row[0].startswith(bare.replace("/", ".") + ".")]
    if folder and "." not in bare:
        return run_together(folder)
    files = [row for row in rows if row[1].startswith("/") and stem(row[1]) == stem(bare) and not bare.endswith(".hpp")]
    if files:
        return [line for row in files for line in run_alone(row)]
    mutant = [row for row in rows if row[0] == f"mutants.{bare}"]
    if mutant:
        return run_together(mutant)
    headers = [str(p.relative_to(repository / "include/kolo")) for p in (repository / "include/kolo").rglob("*.[hc]*")]
    named = [h for h in headers if h in (bare, f"{bare}.hpp")] or [h for h in headers if stem(h) == stem(bare)]
    if named:
        return [line for h in named for line in for_header(h, rows)]
    said = []
    for row in rows:
        if row[1].endswith(".cpp") and Path(row[1]).exists() and any(t.startswith("one.") for t in row[2]):
            cases = re.findall(r'^(?:TEMPLATE_)?TEST_CASE\("([^"]*)"', Path(row[1]).read_text(), re.M)
            if any(bare in case for case in cases):
                one = next(t for t in row[2] if t.startswith("one."))
                said += [f"target {one}", f"program {one} *{bare}*"]
    return said


def self_test():
    rows = [("unit.a", "/t/unit/a.cpp", ["test.unit.x", "one.unit.a"]), ("unit.b", "/t/unit/b.cpp", ["test.unit.x", "one.unit.b"]),
            ("mutants.m", "schedule/r.hpp", ["kolo_mutants_s"]), ("headers.alone.kolo/schedule/r.hpp", "schedule/r.hpp", []),
            ("unit.schedule_proof", "/t/unit/schedule_proof.cpp", ["test.unit.s", "one.unit.schedule_proof"])]
    wanted = {
        "unit.a": ["target one.unit.a", "program one.unit.a"],
        "tests/unit/b.cpp": ["target one.unit.b", "program one.unit.b"],
        "unit": ["target test.unit.x", "test unit.a", "target test.unit.x", "test unit.b", "target test.unit.s", "test unit.schedule_proof"],
        "m": ["target kolo_mutants_s", "test mutants.m"],
        "nothing": [],
    }
    wrong = [f"{name}: {choose(name, Path('/nowhere'), rows)}" for name, lines in wanted.items() if choose(name, Path("/nowhere"), rows) != lines]
    said = for_header("schedule/r.hpp", rows)
    if said != ["target kolo_mutants_s", "test mutants.m", "test headers.alone.kolo/schedule/r.hpp", "target one.unit.schedule_proof", "program one.unit.schedule_proof"]:
        wrong.append(f"schedule/r.hpp: {said}")
    print("\n".join(wrong) or "chosen rightly")
    return 1 if wrong else 0


def main(words):
    if words == ["--self-test"]:
        return self_test()
    if len(words) < 3:
        sys.exit(__doc__)
    repository, rows, said = Path(words[0]), read(Path(words[1])), []
    for name in words[2:]:
        lines = choose(name, repository, rows)
        if not lines:
            near = sorted({r[0].split(".")[0] for r in rows})
            print(f"nothing is called {name}: not a test, a folder ({', '.join(near)}), a file's stem, a header, a mutant, nor a word of a test case's name",
                  file=sys.stderr)
            return 2
        said += lines
    print("\n".join(dict.fromkeys(said)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
