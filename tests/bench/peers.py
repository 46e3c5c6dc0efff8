#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kolo beside a peer, which is kolo's threads under another name: the ratio to the fastest peer, the peer's settings, and a time limit. Usage: peers.py DRIVER
# BENCH
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

driver, bench = Path(sys.argv[1]), Path(sys.argv[2])
wrong = []


def expect(condition, sentence):
    if not condition:
        wrong.append(sentence)


def measured(work, **plan):
    file, out = work / "plan.json", work / "run.json"
    file.write_text(json.dumps(plan))
    try:
        done = subprocess.run([driver, file, "--out", out, "--workers", work, "--implementations", "kolo,gloo"], capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        wrong.append(f"not done after 90 s: {plan}")
        return {"context": {}, "benchmarks": []}
    expect(done.returncode == 0, done.stdout + done.stderr)
    return json.loads(out.read_text()) if done.returncode == 0 else {"context": {}, "benchmarks": []}


with tempfile.TemporaryDirectory() as directory:
    work = Path(directory)
    shutil.copy(driver.parent / "kolo_bench_shm", work)
    shutil.copy(driver.parent / "kolo_bench_threads", work / "kolo_bench_gloo")
    cell = {"collective": ["allreduce"], "algorithms": ["automatic"]}
    run = measured(work, rounds=1, burst_milliseconds=1, compare=[{**cell, "bytes": [64, 1024, 4096, 16384]}])  # one round: the ratio of two numbers
    where = {b["name"].split("/iterations")[0]: b["p50"] for b in run["benchmarks"]}
    kolo = [b for b in run["benchmarks"] if "/automatic/kolo/" in b["name"]]
    expect(kolo, "there is no row of kolo")
    for b in kolo:  # if the distance between the cores changes between two bursts, a row has no peer
        peers = [t for name, t in where.items() if "/gloo/" in name and name.split("/")[3:] == b["name"].split("/iterations")[0].split("/")[3:]]
        if peers:
            expect(abs(b.get("peer_p50", 0) - b["p50"] / min(peers)) <= 1e-6 * b["p50"] / min(peers), f"the ratio is not time / the fastest peer's time: {b}")
    expect(any("peer_p50" in b for b in kolo), "there is no ratio to a peer")
    expect(not any("peer_p50" in b for b in run["benchmarks"] if "/gloo/" in b["name"]), "a peer is compared with peers")
    expect(run["context"].get("settings gloo") == "kolo_bench_gloo RANKS", "the context does not say how the peer was started")
    text = subprocess.run([sys.executable, bench / "report/report.py", work / "run.json"], capture_output=True, text=True).stdout
    if kolo:
        expect(text.startswith("kolo's automatic choice in ordinary buffers beside ") and "cells, slowest first" in text, "the report does not begin with the summary")

    # 10000 bursts of each row would take minutes.
    limited = measured(work, rounds=10000, burst_milliseconds=20, row_seconds=0.3, compare=[{**cell, "bytes": [4096], "ranks": [5]}])
    expect(all(1 <= b["bursts"] < 10000 for b in limited["benchmarks"]), "there are as many bursts as without a limit")

print("\n".join(wrong) if wrong else "passed")
sys.exit(1 if wrong else 0)
