# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Findings over all rows: comparisons with the MPIs and the floor, crossovers between algorithms, and comparisons of two runs.

from dataclasses import dataclass
from statistics import median

import rows as r


@dataclass(frozen=True)
class Bar:
    scene: r.Scene
    who: r.Contestant
    sizes: int
    least: float  # of the faster MPI's time / this one's, over sizes
    least_at: int
    middle: float
    over_floor: float | None  # the maximum of this one's time / the floor's
    over_floor_at: int | None


def bars(run):
    """Compares kolo's automatic choice with the MPIs and the floor, over the sizes of each scene."""
    found = []
    for scene, contestants in r.scenes(run.rows).items():
        for who, by_size in contestants.items():
            ratios = [(row.mpi_ratio, n) for n, row in by_size.items() if row.mpi_ratio is not None]
            if not who.implementation.startswith("kolo") or who.implementation in r.OVER_MPI or who.algorithm != "automatic" or not ratios:
                continue
            least, at = min(ratios)
            floors = [(100 / row.percent_of_bound, n) for n, row in by_size.items() if row.percent_of_bound]
            worst, worst_at = max(floors) if floors else (None, None)
            found.append(Bar(scene, who, len(ratios), least, at, median(x for x, _ in ratios), worst, worst_at))
    return found


@dataclass(frozen=True)
class Behind:
    """kolo and the fastest peer in one cell: kolo's time / the peer's."""
    row: r.Row
    peer: r.Row
    ratio: float
    low: float  # 10 and 90 % of the rounds in which both ran
    high: float

    @property
    def is_slower(self):
        return self.low > 1


def behind(run):
    """All cells with a peer, slowest first: kolo's automatic choice in ordinary buffers; for kolo over MPI, `any order` if it was measured."""
    peers, any_order = {}, {(row.scene, row.who.implementation, row.bytes) for row in run.rows if row.who.algorithm == "any order"}
    for row in run.rows:
        over = row.who.implementation in r.OVER_MPI and row.who.algorithm == "MPI"
        if row.who.implementation in r.PEERS or over:
            key = row.scene, row.bytes, row.who.implementation if over else ""
            if key not in peers or row.p50 < peers[key].p50:
                peers[key] = row
    found = []
    for row in run.rows:
        over = row.who.implementation in r.OVER_MPI
        peer = peers.get((row.scene, row.bytes, row.who.implementation if over else ""))
        chosen = "any order" if over and (row.scene, row.who.implementation, row.bytes) in any_order else "automatic"
        if peer and row.who.implementation.startswith("kolo") and row.who.buffers == "ordinary" and row.who.algorithm == chosen:
            low, middle, high = row.behind or (row.p10 / peer.p90, row.p50 / peer.p50, row.p90 / peer.p10)
            found.append(Behind(row, peer, middle, low, high))
    return sorted(found, key=lambda b: -b.ratio)


@dataclass(frozen=True)
class BesideMpi:
    """One way of kolo compared with MPI's blocking collective in the same processes: its time / MPI's. All its rows count for its bar."""
    mpi: str
    ranks: int
    way: str
    bar: float
    ratios: list  # (ratio, scene, bytes)
    at_every_size: bool

    @property
    def middle(self):
        return median(x for x, *_ in self.ratios)

    @property
    def is_held(self):
        return all(x <= self.bar for x, *_ in self.ratios) if self.at_every_size else self.middle <= self.bar


def beside_mpi(run):
    """Bars over MPI, for each MPI and number of ranks. MPI's own collective may be chosen if nothing is reduced, or in any order: so if rows
    `any order` were measured, the choice is judged by them."""
    ratios = {}
    for row in run.rows:
        if row.who.implementation in r.OVER_MPI and row.mpi_ratio:
            of = ratios.setdefault((row.who.implementation, row.scene.ranks), {})
            of.setdefault(row.who.algorithm, {})[row.scene, row.bytes] = 1 / row.mpi_ratio
    found = []
    for (who, ranks), ways in sorted(ratios.items()):
        chosen = {**ways.get("automatic", {}), **ways.get("any order", {})}
        for way, bar, cells, every in (("own algorithms", 1.1, ways.get("own", {}), False), ("the choice", 1.05, chosen, True),
                                       ("kolo::native", None, ways.get("native", {}), False), ("shared memory", 0.5, ways.get("shared memory", {}), False)):
            if cells:
                found.append(BesideMpi(who.removeprefix("kolo_"), ranks, way, bar or float("inf"), [(x, *cell) for cell, x in cells.items()], every))
    return found


def narrow_types(run):
    """[(scene, contestant, bytes of bfloat16, its time / the time of the same number of floats)]"""
    times = {row.key: row.p50 for row in run.rows}
    found = []
    for row in run.rows:
        if row.scene.element == "bfloat16" and row.who.implementation.startswith("kolo"):
            wide = times.get((row.scene._replace(element="float"), row.who, 2 * row.bytes))
            if wide:
                found.append((row.scene, row.who, row.bytes, row.p50 / wide))
    return found


def explicit_choices(run):
    """[(scene, contestant, minimum of time / automatic's time, its bytes, maximum, its bytes)] for kolo's other algorithms"""
    found = []
    for scene, contestants in r.scenes(run.rows).items():
        for who, by_size in contestants.items():
            automatic = contestants.get(who._replace(algorithm="automatic"), {})
            ratios = [(row.p50 / automatic[n].p50, n) for n, row in by_size.items() if n in automatic]
            if who.algorithm != "automatic" and who.implementation not in r.OVER_MPI and ratios:
                found.append((scene, who, *min(ratios), *max(ratios)))
    return found


def crossover(a, b, clear=1.1):
    """The size in bytes at which b becomes faster than a, if that happens once and the difference is clear at both ends; else None."""
    sizes = [n for n in a if n in b and n > 0]
    if len(sizes) < 2:
        return None
    ratio = [a[n].p50 / b[n].p50 for n in sizes]  # above 1: b is faster
    changes = [i for i in range(1, len(sizes)) if (ratio[i - 1] < 1) != (ratio[i] < 1)]
    if len(changes) != 1 or ratio[0] > 1 / clear or ratio[-1] < clear:
        return None
    return (sizes[changes[0] - 1] * sizes[changes[0]]) ** 0.5


def crossovers(contestants):
    """Sentences about pairs of kolo's algorithms in one scene."""
    own = [(w, s) for w, s in contestants.items() if w.implementation == "kolo" and w.buffers == "ordinary" and w.algorithm != "automatic"]
    found = []
    for a, a_sizes in own:
        for b, b_sizes in own:
            at = crossover(a_sizes, b_sizes)
            if at is not None:
                found.append((at, f"{a.algorithm} is faster than {b.algorithm} below about {r.size_name(round(at))}, slower above."))
    return [sentence for _, sentence in sorted(found)]


def fastest_by_size(contestants):
    """A sentence with the fastest of kolo's algorithms at each size; None if there are less than two."""
    own = {w.algorithm: s for w, s in contestants.items() if w.implementation == "kolo" and w.buffers == "ordinary" and w.algorithm != "automatic"}
    sizes = sorted({n for s in own.values() for n in s if n > 0})
    if len(own) < 2 or not sizes:
        return None
    best = [(n, min((s[n].p50, name) for name, s in own.items() if n in s)[1]) for n in sizes]
    return "Fastest of kolo's: " + ", ".join(f"{name} at {r.size_name(n)}" for n, name in best) + "."


@dataclass(frozen=True)
class Change:
    row: r.Row
    old: r.Row
    ratio: float  # new / old

    @property
    def slower(self):
        return self.ratio > 1.10 and self.row.p50 > self.old.p90 and self.old.p50 < self.row.p10

    @property
    def faster(self):
        return self.ratio < 1 / 1.10 and self.row.p50 < self.old.p10 and self.old.p50 > self.row.p90


def changes(new, old):
    """The rows that both runs have, worst first. A change counts if it is more than 10 % and outside the 10 to 90 % range of the bursts."""
    before = {row.key: row for row in old.rows}
    both = [Change(row, before[row.key], row.p50 / before[row.key].p50) for row in new.rows if row.key in before]
    return sorted(both, key=lambda c: -c.ratio)
