#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# If a group of ranks cannot start, dies or gets a wrong plan, the driver prints it and goes on, or stops. Usage: failures.py DRIVER
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

driver = Path(sys.argv[1])
wrong = []


def attempt(status, sentence, *words):
    done = subprocess.run([driver, *words], capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    if done.returncode != status or sentence not in said:
        wrong.append(f"{' '.join(map(str, words))}\n  status {done.returncode}, not {status}; expected: {sentence}\n{said}")


def plan(work, **entries):
    file = work / "plan.json"
    file.write_text(json.dumps({"rounds": 2, "burst_milliseconds": 1, "compare": [{"collective": ["allreduce"], **entries}]}))
    return file


WORKER = """
import os, socket, struct
ranks = []
for rank in range(2):
    s = socket.socket(socket.AF_UNIX)
    s.connect("\\0" + os.environ["KOLO_BENCH_SOCKET"])
    offers = b"allreduce/ring\\n"
    s.sendall(struct.pack("iiiI96s", rank, 2, os.getpid(), len(offers), b"1") + offers)
    ranks.append(s)
bursts = 0
while True:
    for rank, s in enumerate(ranks):
        asked = s.recv(152, socket.MSG_WAITALL)
        if not asked:
            raise SystemExit
        bursts += rank == 0 and not asked.startswith(b"nothing")
        is_wrong = rank == 1 and bursts == WRONG
        times = [] if is_wrong else [1000.0] * struct.unpack_from("i", asked, 144)[0]
        s.sendall(struct.pack("iI400s", 2 * is_wrong, len(times), b"rank 1 got it wrong" * is_wrong) + struct.pack(f"{len(times)}d", *times))
"""


def program(workers, name, text):
    file = workers / name
    file.write_text("#!/bin/sh\n" + text + "\n")
    file.chmod(0o755)


with tempfile.TemporaryDirectory() as directory:
    work = Path(directory)
    workers, out = work / "workers", work / "run.json"
    workers.mkdir()
    small = plan(work, bytes=[64])
    common = ["--out", out, "--workers", workers, "--implementations", "kolo,kolo_threads"]

    shutil.copy(driver.parent / "kolo_bench_threads", workers)
    program(workers, "kolo_bench_shm", "exit 3")
    attempt(1, "kolo with 2 ranks: ended while it started", small, *common)
    rows = [b["name"] for b in json.loads(out.read_text())["benchmarks"]]
    if not rows or any("/kolo/" in name for name in rows):
        wrong.append(f"only the other implementation's rows are expected: {rows}")

    # Enough time to start, too little to finish.
    program(workers, "kolo_bench_shm", f"exec timeout -s KILL 2 {driver.parent / 'kolo_bench_shm'} \"$@\"")
    endless = work / "endless.json"
    endless.write_text(json.dumps({"rounds": 1000000, "burst_milliseconds": 100, "compare": [{"collective": ["allreduce"], "bytes": [64]}]}))
    attempt(1, "has died", endless, "--out", out, "--workers", workers, "--implementations", "kolo")

    # Two ranks; the last one's result is wrong in one burst: the second one to calibrate, or the last measured one.
    for burst in (2, 4):
        worker = workers / "kolo_bench_shm"
        worker.write_text(f"#!{sys.executable}\nWRONG = {burst}\n{WORKER}")
        attempt(1, "rank 1 got it wrong", small, "--out", out, "--workers", workers, "--implementations", "kolo")
        if "/kolo/" in out.read_text():
            wrong.append(f"a wrong result in burst {burst} gives a row")

    os.remove(workers / "kolo_bench_shm")
    attempt(0, "", small, *common)
    if "has not been built" not in json.dumps(json.loads(out.read_text())["context"]):
        wrong.append("the context does not say that kolo_bench_shm has not been built")

    attempt(2, 'a plan has no entry "size"', plan(work, size=[64]), *common)
    small.write_text(json.dumps({"compare": 2 * [{"collective": ["allreduce"], "bytes": [64]}]}))
    attempt(2, "two entries of the plan measure the same: allreduce, 64 bytes", small, *common)
    attempt(2, "scatter is not measured in place", plan(work, collective=["scatter"], bytes=[64], place=["in_place"]), *common)
    attempt(2, "a plan is for one rank at least, not 0", plan(work, bytes=[64], ranks=[0]), *common)
    attempt(2, "there is no implementation called open-mpi", plan(work, bytes=[64]), *common[:-1], "kolo,open-mpi")
    attempt(0, "my_rnig: no implementation in this run offers it", plan(work, bytes=[64], algorithms=["ring", "my_rnig"]), *common)
    attempt(0, "all_reduce: no implementation in this run offers it", plan(work, collective=["all_reduce"], bytes=[64]), *common)
    small.write_text(json.dumps({"round": 50, "compare": []}))
    attempt(2, 'a plan has no entry "round"', small, *common)
    attempt(2, "there is no element called int", plan(work, bytes=[64], element=["int"]), *common)

print("\n".join(wrong) if wrong else "passed")
sys.exit(1 if wrong else 0)
