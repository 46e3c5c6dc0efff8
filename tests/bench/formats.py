#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The output of --format can be read by scripts for nccl-tests and for the OSU micro-benchmarks. Usage: formats.py REPORT
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

report = Path(sys.argv[1])
wrong = []

# The patterns of cluster sweeps, SuperBench, ReFrame and hpcbench.
NCCL_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\d+|N/A)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\d+|N/A)\s*$")
NCCL_OUT_OF_PLACE = re.compile(r"^\s*(\d+)\s+\d+\s+\S+\s+\S+\s+-?\d+\s+([0-9.]+)\s+([0-9.]+)\s+([0-9.]+)")
NCCL_RANK = re.compile(r"^#\s+Rank\s+\d+\s+Group\s+\d+\s+Pid\s+\d+\s+on\s+(\S+)\s+device")
NCCL_BYTES = re.compile(r"^#\s*nThread\s+\d+\s+nGpus\s+\d+\s+minBytes\s+(\d+)\s+maxBytes\s+(\d+)\s+step:", re.M)
NCCL_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*([\d.]+)", re.M)
NCCL_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s+OK")
NCCL_START = re.compile(r"^#\s*Collective test starting:\s*(\S+)", re.M)
NCCL_HEAD = """\
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
"""
OSU_ROW = re.compile(r"^(\d+)[\s]+(\d*\.?\d+)", re.M)
OSU_HEAD = "# Size       Avg Latency(us)"


def expect(found, wanted, what):
    if found != wanted:
        wrong.append(f"{what}: {found!r} instead of {wanted!r}")


def row(collective, size, ranks, place, microseconds, algbw, busbw, implementation="kolo", algorithm="automatic"):
    p = 1000.0 * microseconds
    return {"name": f"{collective}/{algorithm}/{implementation}/{size}/{ranks}/float/{place}/ordinary/touched/near/iterations:9/manual_time",
            "p10": p, "p50": p, "p90": p, "algbw": algbw, "busbw": busbw, "pingpong": 60.0, "bursts": 9.0}


def said(file, *words, status=0):
    done = subprocess.run([sys.executable, report, file, *words], capture_output=True, text=True)
    expect(done.returncode, status, " ".join(words) + "\n" + done.stderr)
    return done.stdout


def superbench(text):
    """The maximum busbw out of place, by columns from the right; skips the first row."""
    lines = text.splitlines()
    begin = max(i for i, line in enumerate(lines) if "out-of-place" in line) + 4
    end = max(i for i, line in enumerate(lines) if "Out of bounds values" in line)
    return max(float(re.sub(" +", " ", line.strip(" ")).split(" ")[-6]) for line in lines[begin:end])


def look_at_nccl(file):
    text = said(file, "--format", "nccl-tests", "--only", "collective=allreduce", "--only", "ranks=4")
    expect(NCCL_START.findall(text), ["all_reduce_perf"], "the program")
    expect(NCCL_BYTES.findall(text), [("8", "4194304")], "the range of sizes")
    expect(len([line for line in text.splitlines() if NCCL_RANK.match(line)]), 4, "ranks")
    expect(NCCL_HEAD in text, True, "the header of nccl-tests' table")
    rows = [m.groups() for m in map(NCCL_ROW.match, text.splitlines()) if m]
    expect(rows, [("8", "2", "2.50", "0.00", "0.01", "0", "2.25", "0.00", "0.01", "0"),
                  ("4194304", "1048576", "1234.56", "3.40", "5.10", "0", "1000.00", "4.19", "6.29", "0")], "rows")
    expect(float(NCCL_AVERAGE.search(text)[1]), 2.85075, "the average over both places")
    expect(NCCL_BOUNDS.findall(text), ["0"], "out of bounds values")
    expect(superbench(text), 5.10, "busbw, from the right")

    parts = said(file, "--format", "nccl-tests", "--only", "collective=allgather")
    expect([m.groups() for m in map(NCCL_OUT_OF_PLACE.match, parts.splitlines()) if m], [("4096", "10.00", "0.41", "0.20")], "allgather counts all parts")
    expect([line.split() for line in parts.splitlines() if line.strip() and line[0] != "#"],
           [["4096", "512", "float", "none", "-1", "10.00", "0.41", "0.20", "0", "N/A", "N/A", "N/A", "N/A"]], "a place that was not measured")
    other = said(file, "--format", "nccl-tests", "--only", "implementation=openmpi", "--only", "collective=allreduce")
    expect([line.split()[5] for line in other.splitlines() if line.strip() and line[0] != "#"], ["77.00"], "another contestant's rows")


def look_at_osu(file):
    text = said(file, "--format", "osu", "--only", "collective=allreduce")
    expect(text.startswith("\n# OSU MPI Allreduce Latency Test v"), True, "OSU's title")
    expect(OSU_HEAD in text.splitlines(), True, "OSU's header")
    expect([(int(n), float(t)) for n, t in OSU_ROW.findall(text)], [(8, 2.5), (4194304, 1234.56)], "OSU's rows, out of place")
    expect(re.search(r"^8\s+(?P<latency>\S+)", text, re.M)["latency"], "2.50", "one size")
    expect("8                       2.50" in text.splitlines(), True, "the widths of OSU's columns")
    everything = said(file, "--format", "osu")
    expect(OSU_ROW.findall(everything.split("All-to-All Personalized Exchange")[1])[0], ("1024", "3.00"), "alltoall's size is that of one message")
    expect(re.search(r"# OSU MPI Barrier Latency Test v\S+\n#.*\n# Avg Latency\(us\)\n\s+1\.25$", everything, re.M) is not None, True, "a barrier has no sizes")


with tempfile.TemporaryDirectory() as work:
    run = Path(work) / "run.json"
    run.write_text(json.dumps({"context": {"num_cpus": 4, "host_name": "here", "version_kolo": "kolo 1.2.3"}, "benchmarks": [
        row("allreduce", 4194304, 4, "out_of_place", 1234.56, 3.397, 5.096), row("allreduce", 8, 4, "in_place", 2.25, 0.004, 0.006),
        row("allreduce", 8, 4, "out_of_place", 2.5, 0.003, 0.006), row("allreduce", 4194304, 4, "in_place", 1000.0, 4.194, 6.295),
        row("allreduce", 8, 4, "out_of_place", 77.0, 1, 1, "openmpi", "default"), row("allreduce", 8, 4, "out_of_place", 88.0, 1, 1, algorithm="ring"),
        row("allgather", 2048, 2, "out_of_place", 10.0, 0.4096, 0.2048), row("alltoall", 2048, 2, "out_of_place", 3.0, 1, 1),
        row("barrier", 0, 2, "out_of_place", 1.25, 0, 0)]}))
    look_at_nccl(run)
    look_at_osu(run)
    said(run, "--format", "osu", "--only", "size=8", status=2)
    said(run, "--format", "osu", "--only", "implementation=nobody", status=1)

print("\n".join(wrong) if wrong else "passed")
sys.exit(1 if wrong else 0)
