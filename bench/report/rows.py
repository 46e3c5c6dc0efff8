# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The rows of a run, read from Google Benchmark's JSON, and grouped for the report.
"""A row is one contestant in one cell, at one distance of the cores. A scene is everything but the size and the contestant."""

import json
from collections import namedtuple
from dataclasses import dataclass

Scene = namedtuple("Scene", "collective ranks element place mode distance")
Contestant = namedtuple("Contestant", "implementation algorithm buffers")

MPIS = ("mpich", "openmpi")
PEERS = ("mpich", "openmpi", "gloo")
OVER_MPI = ("kolo_mpich", "kolo_openmpi")  # kolo over MPI, and that MPI, in the same processes
ORDER = ["kolo", "kolo_threads", "mpich", "openmpi", "gloo", "floor", *OVER_MPI]
COLLECTIVES = ["allreduce", "broadcast", "allgather", "reduce_scatter", "reduce", "gather", "scatter", "alltoall", "scan", "exclusive_scan", "shift", "exchange", "barrier"]
MODES = ["touched", "hot", "cold", "back_to_back"]


@dataclass(frozen=True)
class Row:
    scene: Scene
    who: Contestant
    bytes: int
    p10: float  # nanoseconds, like p50 and p90
    p50: float
    p90: float
    algbw: float
    busbw: float
    pingpong: float
    bursts: int
    percent_of_bound: float | None
    mpi_ratio: float | None
    behind: tuple | None = None  # time / the fastest peer's, in the same rounds: 10th, 50th and 90th percentile

    @property
    def key(self):
        return self.scene, self.who, self.bytes


@dataclass
class Run:
    context: dict
    rows: list

    @property
    def left_out(self):
        return [v for k, v in self.context.items() if k.startswith("left_out_")]

    @property
    def settings(self):
        """{implementation, and whether there were more ranks than cores: its environment and command}"""
        return {k.removeprefix("settings "): v for k, v in self.context.items() if k.startswith("settings ")}


def row_of(benchmark):
    # Google Benchmark appends parts of its own to the name.
    parts = benchmark["name"].split("/")[:10]
    if len(parts) != 10:
        raise ValueError(f"this is no row of the harness: {benchmark['name']}")
    collective, algorithm, implementation, size, ranks, element, place, buffers, mode, distance = parts
    number = {k: float(benchmark[k]) for k in ("p10", "p50", "p90", "algbw", "busbw", "pingpong")}
    return Row(Scene(collective, int(ranks), element, place, mode, distance), Contestant(implementation, algorithm, buffers), int(size),
               bursts=int(benchmark["bursts"]), percent_of_bound=benchmark.get("percent_of_bound"),
               mpi_ratio=benchmark.get("mpi_ratio"),
               behind=tuple(benchmark[f"peer_p{n}"] for n in (10, 50, 90)) if "peer_p50" in benchmark else None, **number)


def load(path):
    with open(path, encoding="utf-8") as f:
        j = json.load(f)
    return Run(j["context"], [row_of(b) for b in j["benchmarks"]])


def place_in(order, x):
    return order.index(x) if x in order else len(order)


def scene_order(s):
    return s.ranks, place_in(COLLECTIVES, s.collective), s.element != "float", s.element, place_in(MODES, s.mode), s.place, s.distance != "near"


def contestant_order(w):
    return place_in(ORDER, w.implementation), w.algorithm != "automatic", w.algorithm, w.buffers


def fastest_of_floor(contestants):
    """The floor as one contestant for each kind of buffers, with its fastest way at each size."""
    folded = {}
    for who, by_size in contestants.items():
        mine = folded.setdefault(who._replace(algorithm="default") if who.implementation == "floor" else who, {})
        for n, row in by_size.items():
            if n not in mine or row.p50 < mine[n].p50:
                mine[n] = row
    return folded


def scenes(rows):
    """{scene: {contestant: {bytes: row}}}, in reading order."""
    found = {}
    for r in rows:
        found.setdefault(r.scene, {}).setdefault(r.who, {})[r.bytes] = r
    found = {s: fastest_of_floor(contestants) for s, contestants in found.items()}
    return {s: {w: dict(sorted(found[s][w].items())) for w in sorted(found[s], key=contestant_order)}
            for s in sorted(found, key=scene_order)}


def size_name(n):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit:
            return f"{n / unit:.4g} {name}"
    return f"{n} B" if n else "-"


def scene_name(s):
    where = "" if s.collective in ("barrier", "broadcast") else {"in_place": ", in place", "out_of_place": ", out of place"}[s.place]
    what = "" if s.collective == "barrier" else {"tally": ", 16-byte type and operator of a user"}.get(s.element, f", {s.element}")
    return f"{s.collective}{where}, {s.ranks} ranks{what}, {s.mode.replace('_', ' ')}, cores {s.distance}"


def contestant_name(w):
    name = {"kolo_threads": "kolo threads", "openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo"}.get(w.implementation, w.implementation)
    if w.algorithm not in ("automatic", "default"):
        name += f" {w.algorithm}"
    return name + (f" ({w.buffers})" if w.buffers != "ordinary" else "")
