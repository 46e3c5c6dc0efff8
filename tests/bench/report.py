#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The report finds real regressions only; crossovers and bars. Usage: report.py REPORT
import json
import subprocess
import sys
import tempfile
from pathlib import Path

report = Path(sys.argv[1])
wrong = []


def row(name, p50, spread=0.02, **more):
    return {"name": name + "/iterations:9/manual_time", "p10": p50 * (1 - spread), "p50": p50, "p90": p50 * (1 + spread), "algbw": 1.0, "busbw": 1.0,
            "pingpong": 60.0, "bursts": 9.0, **more}


def name(algorithm, implementation, size, place="in_place"):
    return f"allreduce/{algorithm}/{implementation}/{size}/2/float/{place}/ordinary/touched/near"


def write(file, *rows):
    file.write_text(json.dumps({"context": {"num_cpus": 2, "left_out_1": "gloo: is not here"}, "benchmarks": list(rows)}))
    return file


def said(status, *words):
    done = subprocess.run([sys.executable, report, *words], capture_output=True, text=True)
    if done.returncode != status:
        wrong.append(f"{' '.join(map(str, words))}: status {done.returncode}, not {status}\n{done.stderr}")
    return done.stdout


def expect(condition, sentence):
    if not condition:
        wrong.append(sentence)


with tempfile.TemporaryDirectory() as directory:
    work = Path(directory)
    a, b = name("automatic", "kolo", 1024), name("automatic", "kolo", 4096)
    old = write(work / "old.json", row(a, 1000), row(b, 3000))
    slower = write(work / "slower.json", row(a, 1300), row(b, 3000))
    noisy = write(work / "noisy.json", row(a, 1300, spread=0.4), row(b, 3100))
    faster = write(work / "faster.json", row(a, 500), row(b, 3000))
    other = write(work / "other.json", row(name("automatic", "kolo", 8192), 9000))

    text = said(0, slower, "--compare", old, "--colour", "always")
    expect("2 rows are in both: 1 slower, 0 faster" in text, "30 % slower is not reported")
    expect("\033[31mSLOWER   1.30x" in text, "a slower row is not red")
    said(1, slower, "--compare", old, "--fail-on-regression")
    for same in (old, noisy, other):
        expect(" 0 slower, 0 faster" in said(0, same, "--compare", old, "--fail-on-regression"), f"{same.name}: a false regression is reported")
    expect(" 0 slower, 1 faster" in said(0, faster, "--compare", old, "--fail-on-regression"), "twice as fast is not reported")
    said(0, slower, "--compare", old, "--html", work / "report.html")
    expect('<tr class="slower"><td>kolo, 1 KiB' in (work / "report.html").read_text(), "the HTML does not show a slower row")

    odd = write(work / "odd.json", row(name("automatic", "kolo", 1023 * 1024), 999600))
    text = said(0, odd)
    expect("1023 KiB  1000\n" in text, "a number has an exponent")
    odd.write_text(odd.read_text().replace('"num_cpus": 2', '"num_cpus": 64, "cores": "1"'))
    said(0, odd, "--html", work / "report.html")
    expect("<h2>More ranks than cores" in (work / "report.html").read_text(), "the page uses the host's cores, not the ranks'")

    pair = write(work / "pair.json", row(name("ring", "kolo", 1024), 900), row(name("ring", "kolo", 4096), 1000), row(name("ring", "kolo", 16384), 1100),
                 row(name("one_shot", "kolo", 1024), 300), row(name("one_shot", "kolo", 4096), 900), row(name("one_shot", "kolo", 16384), 3000),
                 row(name("automatic", "kolo", 1024), 300, mpi_ratio=3.0, percent_of_bound=80.0),
                 row(name("automatic", "kolo", 4096), 900, mpi_ratio=2.0, percent_of_bound=100.0),
                 row(name("automatic", "kolo", 16384), 1000, mpi_ratio=7.0, percent_of_bound=90.0))
    text = said(0, pair)
    expect("one_shot is faster than ring below about 8 KiB, slower above." in text, "the crossover is not found")
    expect("Fastest of kolo's: one_shot at 1 KiB, one_shot at 4 KiB, ring at 16 KiB." in text, "the fastest are not named")
    bar = next((line.split() for line in text.splitlines() if line.startswith("allreduce, in place, 2 ranks, float, touched, cores near: kolo  ")), [])
    expect(bar[-8:] == ["3", "2", "4", "KiB", "3", "1.25", "1", "KiB"], f"the bar is {bar}")

    def cell(implementation, size, p50, **more):
        return row(name("automatic" if implementation == "kolo" else "default", implementation, size), p50, **more)

    worst = write(work / "worst.json", cell("kolo", 8, 1000, peer_p10=0.4, peer_p50=0.5, peer_p90=0.9), cell("openmpi", 8, 2000), cell("mpich", 8, 4000),
                  cell("kolo", 1024, 3000, peer_p10=1.1, peer_p50=1.5, peer_p90=2.5), cell("gloo", 1024, 2000), cell("mpich", 1024, 9000),
                  cell("kolo", 4096, 900, spread=0.5), cell("mpich", 4096, 1000, spread=0.5), cell("kolo", 8192, 7),
                  row(name("staged", "floor", 8), 500), row(name("staged, slots streamed", "floor", 8), 400))
    short, _, rest = said(0, worst).partition("\n\n")
    short = short.splitlines()
    expect(short == ["kolo's automatic choice in ordinary buffers beside Gloo, MPICH and Open MPI: 3 cells, of allreduce, 8 B to 4 KiB, 2 ranks.",
                     "It takes less time than the fastest of them in 2 of the 3; the fastest takes 1.11 times kolo's time in the median.",
                     "The worst cell: allreduce, in place, 2 ranks, float, touched, cores near, 1 KiB, where kolo takes 1.5 times the time of Gloo; "
                     "in 1 cells it is slower in nine of ten rounds."], f"the report in short: {short}")
    said_worst = rest.splitlines()
    expect("beside the fastest peer, 3 cells" in said_worst[0] and "In 1 of them" in said_worst[0], f"the report begins with {said_worst[0]}")
    found = [line.split("kolo  ")[-1].split() for line in said_worst[2:6]]
    expect(found == [["1", "KiB", "3", "2", "Gloo", "1.5", "1.1", "to", "2.5"], ["4", "KiB", "0.9", "1", "MPICH", "0.9", "0.3", "to", "2.7"],
                     ["8", "B", "1", "2", "Open", "MPI", "0.5", "0.4", "to", "0.9"], []], f"the slowest cells are {found}")
    times = next(line for line in said_worst if line.startswith("size  "))
    expect(times.split() == "size kolo MPICH Open MPI Gloo floor".split(), f"the floor is not one column: {times}")
    expect(any(line.startswith("8 B") and line.split()[-1] == "0.4" for line in said_worst), "the floor is not the fastest of its ways")
    said(0, worst, "--html", work / "worst.html")
    page = (work / "worst.html").read_text()
    expect(0 < page.find("in 2 of the 3") < page.find("Where kolo is slowest"), "the page does not begin with the summary")
    expect(0 < page.find("Where kolo is slowest") < page.find("Medians in microseconds"), "the page does not begin with the slowest cells")
    expect('<tr class="slower"><td>allreduce' in page, "a cell in which kolo is slower is not red")

    beside = write(work / "beside.json", *(row(name(a, "kolo_mpich", n, "out_of_place"), t, mpi_ratio=100 / t) for a, times in
                                           {"MPI": (100, 100, 100), "own": (90, 105, 300), "automatic": (90, 300, 300), "any order": (80, 104, 106),
                                            "shared memory": (20, 60, 60)}.items() for n, t in zip((8, 1024, 65536), times)))
    lines = {line.split("  ")[0]: line.split() for line in said(0, beside, "--brief").splitlines() if line.startswith("mpich, 2 ranks: ")}
    for way, words in {"own algorithms": "3 1.05 3 allreduce 64 KiB 1.1 in the median held", "shared memory": "3 0.6 0.6 allreduce 1 KiB 0.5 in the median not held",
                       "the choice": "3 1.04 1.06 allreduce 64 KiB 1.05 everywhere not held: 1 cells above it"}.items():
        line = lines.get("mpich, 2 ranks: " + way, [])
        expect(line[-len(words.split()):] == words.split(), f"beside MPI: {line} instead of {words}")
    expect("Left out: gloo: is not here" in text, "the report does not print what was left out")

print("\n".join(wrong) if wrong else "passed")
sys.exit(1 if wrong else 0)
