#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kolo beside a peer, which is kolo's threads under another name: how rows say who is behind, with what settings, and a limit of time.
# Usage: peers.py DRIVER BENCH
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

driver, bench = Path(sys.argv[1]), Path(sys.argv[2])
wrong = []


def expect(condition, sentence):
    if not condition:
        wrong.append(sentence)


def measured(work, **plan):
    file, out = work / "plan.json", work / "run.json"
    file.write_text(json.dumps(plan))
    done = subprocess.run([driver, file, "--out", out, "--workers", work, "--implementations", "kolo,gloo"], capture_output=True, text=True, timeout=120)
    expect(done.returncode == 0, done.stdout + done.stderr)
    return json.loads(out.read_text()) if done.returncode == 0 else {"context": {}, "benchmarks": []}


with tempfile.TemporaryDirectory() as directory:
    work = Path(directory)
    shutil.copy(driver.parent / "kolo_bench_shm", work)
    shutil.copy(driver.parent / "kolo_bench_threads", work / "kolo_bench_gloo")
    cell = {"collective": ["allreduce"], "bytes": [4096], "algorithms": ["automatic", "ring"]}
    run = measured(work, rounds=3, burst_milliseconds=1, compare=[cell])
    kolo = [b for b in run["benchmarks"] if "/automatic/kolo/" in b["name"]]
    expect(kolo, "there is no row of kolo's")
    for b in kolo:
        expect(0 < b["peer_p10"] <= b["peer_p50"] <= b["peer_p90"], f"the ratio to the peer is out of order: {b}")
        if b["bursts"] == 1:
            peer = min(p["p50"] for p in run["benchmarks"] if "/gloo/" in p["name"] and p["name"].split("/")[9] == b["name"].split("/")[9])
            expect(abs(b["peer_p50"] - b["p50"] / peer) < 1e-6 * b["peer_p50"], "the ratio is not time / the peer's time")
    expect(not any("peer_p50" in b for b in run["benchmarks"] if "/gloo/" in b["name"]), "a peer is compared with peers")
    expect(run["context"].get("settings gloo") == "kolo_bench_gloo RANKS", "nothing says how the peer was started")
    text = subprocess.run([sys.executable, bench / "report/report.py", work / "run.json"], capture_output=True, text=True).stdout
    if any("peer_p50" in b for b in kolo):
        expect(text.startswith("kolo's automatic choice in ordinary buffers beside the fastest peer"), "the report does not begin with the slowest cells")

    start = time.monotonic()
    crowded = measured(work, rounds=10000, burst_milliseconds=20, row_seconds=0.3, compare=[{**cell, "ranks": [5], "algorithms": ["automatic"]}])
    expect(time.monotonic() - start < 30, "row_seconds does not limit the time of a row")  # 10000 bursts would take minutes
    expect(all(1 <= b["bursts"] < 10000 for b in crowded["benchmarks"]), "there are as many bursts as without a limit")

print("\n".join(wrong) if wrong else "as it should be")
sys.exit(1 if wrong else 0)
