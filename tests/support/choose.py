#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What tests/run.sh builds and runs for a name: a test, a folder, a folder of include/kolo, a header, a file, a mutant, a word in the names of test cases.
"""Usage: choose.py REPOSITORY BUILD NAME... | choose.py --self-test

Writes lines: "target T" to build, "test NAME" for CTest, "program T FILTER" for a Catch2 program of which only some cases are wanted.
"""

import re
import sys
import tempfile
from pathlib import Path

# The tests of a header, besides itself, its mutants and the unit test of its name, for each folder ("room") of include/kolo. {} is the header's stem.
TRIED_BY = {
    "schedule": ["unit.schedule.proof", "unit.schedule.cost.*", "static.schedules_.*"],
    "simulate": ["unit.simulate.*", "laws.simulated"],
    "core": ["unit.core.*", "unit.collective.refusals"],
    "view": ["unit.view.*", "collectives.views"],
    "reduce": ["unit.reduce.*", "collectives.operators_structs"],
    "os": ["unit.os.*", "laws.shm_processes"],
    "shm": ["unit.shm.mapping", "laws.threads", "laws.shm_processes", "collectives.{}"],
    "launch": ["unit.launch.*", "laws.threads", "laws.shm_processes"],
    "transport": ["laws.threads", "laws.shm_processes"],
    "compose": ["laws.{}", "laws.routed", "laws.composite", "collectives.{}"],
    "observe": ["collectives.{}", "laws.threads"],
    "select": ["unit.select.*", "unit.execute.pattern", "collectives.trees"],
    "mpi": ["mpi.mpich.laws.*", "mpi.mpich.failures.*"],
    "execute": ["unit.execute.*", "unit.collective.refusals", "collectives.reduce", "collectives.move", "collectives.requests"],
    "collective": ["unit.collective.*", "unit.select.*", "collectives.{}", "collectives.trees"],
    "train": ["train.{}", "train.optimizer", "train.sharded"],
    "cuda": ["cuda\\.[a-z].*"],
    "adapt": ["train.{}", "collectives.traced"],
}
# Headers that are the subject of a test in another folder, or with another name.
SUBJECTS = {
    r"observe/(dump|watchdog)\.hpp": "unit.transport.flight_recorder",
    r"shm/(board_member|region|shm_member|slot_member)\.hpp": "unit.shm.slot_transport",
    r"schedule/(erased_schedule|expressions|prover|replay|semantics|verdict)\.hpp": "unit.schedule.verify",
}


def read(build):
    rows = []
    for line in (build / "tests/tests.tsv").read_text().splitlines():
        name, source, targets = line.split("\t")
        rows.append((name, source, targets.split()))
    return rows


def plain(path):
    """Without its suffix."""
    return re.sub(r"\.(cpp|hpp|cuh|cu|py|sh|ini)$", "", path.rstrip("/"))


def stem(path):
    return plain(path).split("/")[-1]


def run_alone(row):
    """One test: by the program of its file, if there is one."""
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


def patterns_for(header):
    """The tests of a header such as schedule/ring.hpp, besides itself and its mutants: regular expressions of their names."""
    room, *inner = plain(header).split("/")
    said = [f"unit.{room}.{re.escape(part)}" for part in inner]
    said += [pattern.replace("{}", re.escape(stem(header))) for pattern in TRIED_BY.get(room, [])]
    return said + [test for subject, test in SUBJECTS.items() if re.fullmatch(subject, header)]


def proofs_without(header, repository, rows):
    """The static tests of schedules that include neither that header nor one that is made of it, if others do."""
    texts = {f"schedule/{h.name}": h.read_text() for h in (repository / "include/kolo/schedule").glob("*.hpp") if h.name != "catalogue.hpp"}
    proofs = {row[0]: (repository / f"tests/static/{row[0].split('.')[1]}.cpp").read_text() for row in rows if row[0].startswith("static.schedules_")}
    found, wanted = [header], set()
    for part in found:
        found += [h for h, text in texts.items() if f"<kolo/{part}>" in text and h not in found]
        wanted |= {name for name, text in proofs.items() if f"<kolo/{part}>" in text}
    return set(proofs) - wanted if wanted else set()


def for_header(header, repository, rows):
    said, patterns = [], patterns_for(header)
    without = proofs_without(header, repository, rows)
    rows = [row for row in rows if row[0] not in without]
    for row in rows:
        name, source, _ = row
        if name == f"headers.alone.kolo/{header}" or (name.startswith("mutants.") and source == header):
            said += run_together([row])
        elif any(re.fullmatch(p, name) for p in patterns):
            said += run_alone(row)
    return said


def for_room(room, headers, rows):
    """Its folder in tests/unit; without one, the tests of its headers."""
    here = [row for row in rows if row[0].startswith(f"unit.{room}.")]
    if here:
        return run_together(here)
    patterns = [p for h in headers if h.startswith(f"{room}/") for p in patterns_for(h)]
    return [line for row in rows if any(re.fullmatch(p, row[0]) for p in patterns) for line in run_alone(row)]


def choose(name, repository, rows):
    bare = re.sub(r"^(tests|include/kolo|kolo)/", "", name.removeprefix("./")).rstrip("/")
    headers = [str(p.relative_to(repository / "include/kolo")) for p in sorted((repository / "include/kolo").rglob("*.[hc]*"))]
    exact = [row for row in rows if row[0] == bare]
    if exact:
        return run_alone(exact[0])
    folder = [row for row in rows if row[0].startswith(bare.replace("/", ".") + ".") and not row[0].startswith("headers.alone.")]
    if folder and "." not in bare.removeprefix("unit."):
        return run_together(folder)
    if bare in TRIED_BY:
        return for_room(bare, headers, rows)
    listed = [row for row in rows if row[0].startswith("mutants.") and row[1].startswith(f"{stem(bare)}/")]
    if listed and plain(bare) == f"mutants/{stem(bare)}":
        return run_together(listed)
    named = [h for h in headers if "/" in bare and h in (bare, f"{bare}.hpp")]
    if named:
        return for_header(named[0], repository, rows)
    files = [row for row in rows if row[1].startswith("/") and plain(f"/{row[1]}").endswith(f"/{plain(bare)}") and not bare.endswith(".hpp")]
    if files:
        return [line for row in files for line in run_alone(row)]
    mutant = [row for row in rows if row[0] == f"mutants.{bare}"]
    if mutant:
        return run_together(mutant)
    named = [h for h in headers if stem(h) == stem(bare)]
    if named:
        return [line for h in named for line in for_header(h, repository, rows)]
    said = []
    for row in rows:
        if row[1].endswith(".cpp") and Path(row[1]).exists() and any(t.startswith("one.") for t in row[2]):
            cases = re.findall(r'^(?:TEMPLATE_)?TEST_CASE\("([^"]*)"', Path(row[1]).read_text(), re.M)
            if any(bare in case for case in cases):
                one = next(t for t in row[2] if t.startswith("one."))
                said += [f"target {one}", f"program {one} *{bare}*"]
    return said


def self_test():
    def unit(name, program):
        return (f"unit.{name}", f"/t/unit/{name.replace('.', '/')}.cpp", [f"test.unit.{program}", f"one.unit.{name}"])

    def alone(*names):
        return [line for name in names for line in (f"target one.unit.{name}", f"program one.unit.{name}")]

    def together(program, *names):
        return [line for name in names for line in (f"target test.unit.{program}", f"test unit.{name}")]

    rows = [unit("shm.a", "x"), unit("shm.b", "x"), unit("schedule.proof", "s"), unit("schedule.r", "s"), unit("schedule.verify", "s"),
            ("laws.routed", "/t/laws/routed.cpp", ["test.laws", "one.laws.routed"]),
            ("mutants.m", "schedule/r.hpp", ["kolo_mutants_s"]), ("headers.alone.kolo/schedule/r.hpp", "schedule/r.hpp", []),
            ("static.schedules_r", "", []), ("static.schedules_q", "", [])]
    header = ["target kolo_mutants_s", "test mutants.m", "test headers.alone.kolo/schedule/r.hpp", "test static.schedules_r"]
    wanted = {
        "unit.shm.a": alone("shm.a"),
        "tests/unit/shm/b.cpp": alone("shm.b"),
        "b": alone("shm.b"),
        "r": alone("schedule.r"),
        "tests/unit/shm": together("x", "shm.a", "shm.b"),
        "shm": together("x", "shm.a", "shm.b"),
        "include/kolo/shm/": together("x", "shm.a", "shm.b"),
        "compose": ["target one.laws.routed", "program one.laws.routed"],
        "unit": together("x", "shm.a", "shm.b") + together("s", "schedule.proof", "schedule.r", "schedule.verify"),
        "schedule/r": alone("schedule.proof", "schedule.r") + header,
        "include/kolo/schedule/r.hpp": alone("schedule.proof", "schedule.r") + header,
        "schedule/prover.hpp": alone("schedule.proof", "schedule.verify") + ["test static.schedules_r", "test static.schedules_q"],
        "m": header[:2],
        "mutants.m": header[:2],
        "mutants/schedule.ini": header[:2],
        "nothing": [],
    }
    wrong = []
    with tempfile.TemporaryDirectory() as repository:
        for name in ("schedule/r.hpp", "schedule/prover.hpp", "compose/routed.hpp"):
            path = Path(repository, "include/kolo", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        for name, text in (("r", "#include <kolo/schedule/r.hpp>"), ("q", "")):
            path = Path(repository, f"tests/static/schedules_{name}.cpp")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name, lines in wanted.items():
            said = choose(name, Path(repository), rows)
            if said != lines:
                wrong.append(f"{name}: {said}, not {lines}")
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
            print(f"nothing is called {name}: not a test, a folder ({', '.join(near)}), a folder of include/kolo, a header, a file, a mutant, "
                  "nor a word of a test case's name", file=sys.stderr)
            return 2
        said += lines
    print("\n".join(dict.fromkeys(said)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
