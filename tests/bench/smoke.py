#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A run of seconds gives the rows of its plan, with consistent fields, and a report. Usage: smoke.py DRIVER BENCH
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
driver, bench = sys.argv[1], Path(sys.argv[2])
sys.path.insert(0, str(bench / "report"))
import rows as r  # noqa: E402

wrong = []


def expect(condition, sentence):
    if not condition:
        wrong.append(sentence)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    expect(done.returncode == 0, f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def look_at(row):
    name = f"{row.scene} {row.who} {row.bytes}"
    expect(0 < row.p10 <= row.p50 <= row.p90, f"{name}: percentiles are out of order")
    expect(row.p90 < 1e9, f"{name}: a second")
    expect(1 <= row.bursts <= 3, f"{name}: {row.bursts} bursts")
    expect(row.mpi_ratio is None, f"{name}: mpi_ratio without an MPI")
    half = row.scene.collective in ("allgather", "reduce_scatter", "gather", "scatter", "alltoall")
    expect(abs(row.busbw - row.algbw * (0.5 if half else 1)) <= 1e-6 * row.algbw, f"{name}: busbw of two ranks")
    parts = 2 if row.scene.collective in ("allgather", "gather", "scatter") else 1
    expect(abs(row.algbw * row.p50 - parts * row.bytes) <= 1e-6 * parts * row.bytes, f"{name}: algbw is not bytes over time")


def cache(program):
    """The CMake cache of the build of this program."""
    return next(((folder / "CMakeCache.txt").read_text() for folder in Path(program).resolve().parents if (folder / "CMakeCache.txt").exists()), "")


def expected():
    for size in (64, 65536):
        for place in ("in_place", "out_of_place"):
            for buffers in ("ordinary", "symmetric"):
                for implementation in ("kolo", "kolo_threads"):
                    for algorithm in ("automatic", "ring"):
                        yield "allreduce", algorithm, implementation, size, "float", place, buffers, "touched"
            yield "allreduce", "staged", "floor", size, "float", place, "ordinary", "touched"
    for place in ("in_place", "out_of_place"):
        for way in ("staged, put by moves", "staged, slots streamed"):
            yield "allreduce", way, "floor", 65536, "float", place, "ordinary", "touched"
        for way in ("direct", "direct, peer's streamed"):
            yield "allreduce", way, "floor", 65536, "float", place, "symmetric", "touched"
    yield "allreduce", "direct, whole", "floor", 65536, "float", "out_of_place", "symmetric", "touched"
    for collective in r.COLLECTIVES[1:-1]:
        yield collective, "automatic", "kolo", 4096, "float", "out_of_place", "ordinary", "touched"
    yield "reduce_scatter", "automatic", "kolo", 8, "float", "out_of_place", "ordinary", "touched"  # one element for each rank
    yield "broadcast", "chain", "kolo", 4, "float", "out_of_place", "ordinary", "touched"
    yield "barrier", "dissemination", "kolo", 0, "float", "out_of_place", "ordinary", "touched"
    for element in ("bfloat16", "tally"):
        for mode in ("hot", "back_to_back"):
            yield "allreduce", "automatic", "kolo", 4096, element, "out_of_place", "ordinary", mode
    yield "allreduce", "automatic", "kolo", 65536, "float", "out_of_place", "ordinary", "cold"


def look_at_tables(runs, work):
    """Generated headers keep the line length; the table of an MPI that was not measured is the library's, line by line."""
    header, over_mpi = work / "default_tuning.hpp", work / "one_host_tuning.hpp"
    run(Path(driver).with_name("kolo_bench_tune"), runs, "--header", header, "--mpi-header", over_mpi)
    if wrong:
        return
    expect(over_mpi.read_text() == (bench.parent / "include/kolo/mpi/one_host_tuning.hpp").read_text(), "the library's table is not laid out as the generator writes it")
    for line in header.read_text().splitlines() + over_mpi.read_text().splitlines():
        expect(len(line) <= 120, f"a table's line of {len(line)} columns: {line}")


with tempfile.TemporaryDirectory() as work:
    out, html = Path(work) / "run.json", Path(work) / "report.html"
    run(driver, bench / "plans/smoke.json", "--out", out, "--implementations", "kolo,kolo_threads,floor")
    if not wrong:
        measured = r.load(out)
        found = {(x.scene.collective, x.who.algorithm, x.who.implementation, x.bytes, x.scene.element, x.scene.place, x.who.buffers, x.scene.mode)
                 for x in measured.rows}
        for row in measured.rows:
            look_at(row)
        for key in expected():  # if the distance between the cores changes in each of three bursts, a row is missing
            expect(key in found, f"no row {'/'.join(map(str, key))}")
        floors = {}
        for row in measured.rows:
            if row.who.implementation == "floor":
                floors.setdefault((row.scene, row.who.buffers, row.bytes), []).append(row)
        for ways in floors.values():
            fastest = min(ways, key=lambda row: row.p50)
            expect(abs(fastest.percent_of_bound - 100) < 1e-6, f"{fastest.who}, {fastest.bytes}: the fastest way is not 100 % of the bound")
        flags = Path("/proc/cpuinfo").read_text()
        widest = "AVX-512" if " avx512f " in flags else "AVX" if " avx " in flags else "SSE2"
        expect(any(f"with {x}" in measured.context.get("version_floor", "") for x in ("AVX-512", "AVX", "SSE2")), "the context does not say for which instructions the floor is built")
        if "KOLO_BENCH_NATIVE_RUNS:INTERNAL=1" in cache(driver):
            expect(measured.context.get("version_floor", "").endswith("with " + widest), f"the floor does not use {widest}")
        names = [b["name"] for b in json.loads(out.read_text())["benchmarks"]]
        expect(len(names) == len(set(names)), "two rows have one name")
        expect(measured.context.get("version_kolo", "").startswith("kolo "), "the context has no version")
        text = run(sys.executable, bench / "report/report.py", out, "--html", html, "--compare", out, "--fail-on-regression")
        expect("allreduce, in place, 2 ranks, float, touched" in text, "the report does not name the measured calls")
        expect(": 0 slower, 0 faster" in text, "a run is not as fast as itself")
        page = html.read_text() if html.exists() else ""
        expect(page.startswith("<!doctype html>") and page.rstrip().endswith("</html>"), "the HTML is incomplete")
        expect("no plots" in text or "<svg" in page, "the HTML has no plots")
        expect("http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace("http://creativecommons.org", ""),
               "the HTML refers to another site")
        look_at_tables(out, Path(work))

print("\n".join(wrong) if wrong else "passed")
sys.exit(1 if wrong else 0)
