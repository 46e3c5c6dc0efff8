#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The timeline is well-formed, and has a lane for each rank with all operations, rounds, waits and messages of the trace.
"""Usage: timeline.py PROGRAM REPOSITORY"""

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"
RANKS = 4
CALLS = ["broadcast #1", "allreduce #2", "allreduce #3", "allreduce #4", "allreduce #5", "allreduce #6"]


def demand(condition, sentence):
    if not condition:
        raise SystemExit(sentence)


def titles(lane, kind):
    return [rect.find(SVG + "title").text for rect in lane.iter(SVG + "rect") if rect.get("class") == kind]


def check(trace, picture):
    events = json.loads(trace.read_text())["traceEvents"]
    root = xml.parse(picture).getroot()
    lanes = [g for g in root.iter(SVG + "g") if g.get("class") == "lane"]
    demand([g.get("id") for g in lanes] == [f"rank{r}" for r in range(RANKS)], "a lane for each rank, in order")
    for rank, lane in enumerate(lanes):
        mine = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
        for track, kind in ((1, "operation"), (2, "round"), (3, "wait")):
            demand(len(titles(lane, kind)) == sum(e["tid"] == track for e in mine), f"rank {rank}: each {kind} of the trace")
        drawn = titles(lane, "operation")
        demand(all(any(call in t for t in drawn) for call in CALLS), f"rank {rank}: all calls; drawn are {drawn}")
        rounds = titles(lane, "round")
        for k in range(6):  # the rounds of a ring of four
            demand(any(f"allreduce #2, round {k}," in t for t in rounds), f"rank {rank}: round {k}; drawn are {rounds}")
    arrows = [line for line in root.iter(SVG + "line") if line.get("class") == "message"]
    demand(len(arrows) == sum(e["ph"] == "b" and e["name"].startswith("to ") for e in events), "an arrow for each message")
    demand(all(float(a.get("x1")) <= float(a.get("x2")) + 0.01 for a in arrows), "messages arrive after they were sent")
    texts = [t.text for t in root.iter(SVG + "text")]
    demand(any(t.startswith(f"{RANKS} ranks, 6 calls, {len(arrows)} messages, ") for t in texts), f"a title; the texts are {texts[-8:]}")
    keys = [box for box in root.iter(SVG + "rect") if box.get("class") == "key"]
    demand(len(keys) == 3 and {"allreduce", "broadcast", "waits for a peer"} <= set(texts), "a legend of the colours")
    for box in root.iter(SVG + "rect"):
        demand(float(box.get("x", 0)) >= 0 and float(box.get("x", 0)) + float(box.get("width")) <= 1201, "nothing is outside the picture")


def main(program, repository):
    draw = Path(repository, "examples/timeline/timeline.py")
    with tempfile.TemporaryDirectory() as work:
        for flags in ([], ["--simulated"]):
            trace, picture = Path(work, "trace.json"), Path(work, "picture.svg")
            subprocess.run([program, *flags, str(trace)], check=True, timeout=60)
            subprocess.run([sys.executable, str(draw), str(trace), str(picture)], check=True, timeout=60)
            check(trace, picture)
        demand(subprocess.run([program, "--no"], capture_output=True).returncode == 2, "an unknown flag was accepted")
        demand(subprocess.run([program, work], capture_output=True).returncode != 0, "a file that cannot be written is no error")
    print("all is drawn")


if __name__ == "__main__":
    main(*sys.argv[1:])
