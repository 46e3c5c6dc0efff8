# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The report as text on a terminal.

from decimal import Decimal
from statistics import median

import findings as f
import rows as r


class Paint:
    def __init__(self, on):
        self.on = on

    def __call__(self, code, text):
        return f"\033[{code}m{text}\033[0m" if self.on else text


def number(x, digits=3):
    """Three significant digits, all digits from 1000 on, without an exponent."""
    if x is None:
        return "-"
    return f"{x:.0f}" if x >= 1000 else f"{Decimal(f'{x:.{digits}g}'):f}"


def table(head, lines):
    """Columns as wide as needed; the first aligned left, the others right."""
    cells = [head] + lines
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) for row in cells]


def halves(contestants):
    """The libraries, with kolo's automatic choice; then kolo's algorithms."""
    named = {w: s for w, s in contestants.items() if w.implementation.startswith("kolo") and w.algorithm != "automatic"}
    return [part for part in ({w: s for w, s in contestants.items() if w not in named}, named) if part]


def times(contestants):
    """Header and lines: a line for each size, a column for each contestant."""
    sizes = sorted({n for s in contestants.values() for n in s})
    head = ["size"] + [r.contestant_name(w) for w in contestants]
    return head, [[r.size_name(n)] + [number(s[n].p50 / 1000) if n in s else "-" for s in contestants.values()] for n in sizes]


def ratio_lines(contestants):
    """kolo's automatic choice compared with the peers and the floor, in one line for each kind of buffers."""
    for who, by_size in contestants.items():
        if who.implementation != "kolo" or who.algorithm != "automatic":
            continue
        against = [f"{r.size_name(n) if n else ''} {number(row.mpi_ratio)}x".strip() for n, row in by_size.items() if row.mpi_ratio]
        if against:
            yield f"  {r.contestant_name(who)}: times faster than the faster MPI: " + ", ".join(against)
        bound = [f"{r.size_name(n)} {number(row.percent_of_bound)} %" for n, row in by_size.items() if row.percent_of_bound]
        if bound:
            yield f"  {r.contestant_name(who)}: percent of the bound: " + ", ".join(bound)


LEGEND = (
    "Medians in microseconds, from the ranks' common start until the last of them has ended, minus the cost of reading the clocks.",
    "size: of the vector; for allgather, gather and scatter of one rank's part.",
    "touched: every rank rewrites its input before a call and reads its result after it, outside the clock; hot: it does not; "
    "cold: in buffers that are in no cache; back to back: many calls in one window, the time divided by their number.",
    "cores near, far: a cache line took less than 130 ns from core to core around the burst, or not.",
    "over MPI (kolo_mpich, kolo_openmpi), in one process: MPI: its blocking collective; own: the choice among kolo's algorithms; any order: MPI's "
    "own may be chosen for all calls; native: MPI's non-blocking collective; shared memory: kolo's.",
    "symmetric: buffers that the peers can access; all others are ordinary memory. The bound is a hand-written sum of floats over two ranks.",
)


def in_short(run):
    """The run in at most five sentences; empty without a peer."""
    cells = [b for b in f.behind(run) if b.row.who.implementation not in r.OVER_MPI]
    if not cells:
        return
    peers = sorted({r.contestant_name(row.who) for row in run.rows if row.who.implementation in r.PEERS})
    kinds = sorted({b.row.scene.collective for b in cells})
    sizes = [b.row.bytes for b in cells if b.row.bytes > 0] or [0]
    ratios = [1 / b.ratio for b in cells]
    yield (f"kolo's automatic choice in ordinary buffers beside {' and '.join([', '.join(peers[:-1]), peers[-1]] if len(peers) > 1 else peers)}: {len(cells)} cells, "
           f"of {', '.join(kinds)}, {r.size_name(min(sizes))} to {r.size_name(max(sizes))}, {', '.join(map(str, sorted({b.row.scene.ranks for b in cells})))} ranks.")
    yield (f"It takes less time than the fastest of them in {sum(x > 1 for x in ratios)} of the {len(cells)}; the fastest takes {number(median(ratios))} times "
           f"kolo's time in the median.")
    worst = cells[0]
    yield (f"The worst cell: {r.scene_name(worst.row.scene)}, {r.size_name(worst.row.bytes)}, where kolo takes {number(worst.ratio)} times the time of "
           f"{r.contestant_name(worst.peer.who)}; in {sum(b.is_slower for b in cells)} cells it is slower in nine of ten rounds.")
    floors = [100 / b.row.percent_of_bound for b in cells if b.row.percent_of_bound and b.row.bytes >= 8192]
    if floors:
        yield f"Beside the hand-written floor it takes {number(median(floors))} times as long in the median from 8 KiB on, and {number(max(floors))} times at most."
    apart = {d: median(1 / b.ratio for b in cells if b.row.scene.distance == d) for d in sorted({b.row.scene.distance for b in cells}) if d}
    if len(apart) > 1:
        yield "With the ranks' cores " + ", ".join(f"{d} the median is {number(x)}" for d, x in apart.items()) + "."


def opening(run):
    for sentence in in_short(run):
        yield sentence
    yield ""


WORST = 10  # the number of cells in the first table


def worst_rows(run):
    head = ["slowest beside the fastest peer", "size", "kolo us", "peer us", "fastest peer", "kolo/peer", "10 to 90 %"]
    return head, [[f"{r.scene_name(b.row.scene)}: {r.contestant_name(b.row.who)}", r.size_name(b.row.bytes), number(b.row.p50 / 1000),
                   number(b.peer.p50 / 1000), r.contestant_name(b.peer.who), number(b.ratio), f"{number(b.low)} to {number(b.high)}"]
                  for b in f.behind(run)]


def worst_sentences(run):
    cells = f.behind(run)
    slower = sum(b.is_slower for b in cells)
    yield (f"kolo's automatic choice in ordinary buffers beside the fastest peer, {len(cells)} cells, slowest first; above 1 kolo is slower. In {slower} of "
           "them it is slower in nine of ten rounds.")


def worst(run):
    head, lines = worst_rows(run)
    if lines:
        yield from worst_sentences(run)
        yield from table(head, lines[:WORST])
        yield ""


def started(run):
    """The settings of the MPIs, and the version of the floor; empty if none ran."""
    lines = [f"  {who}: {words}" for who, words in run.settings.items() if who.split(",")[0] in (*r.MPIS, *r.OVER_MPI)]
    if lines:
        yield ""
        yield "Commands and settings of the MPIs:"
        yield from lines
    floor = run.context.get("version_floor")
    if floor:
        yield f"The floor: {floor}; the fastest of its ways in each cell."


def measured(run):
    yield from LEGEND
    for scene, contestants in r.scenes(run.rows).items():
        yield ""
        yield r.scene_name(scene)
        for half in halves(contestants):
            yield from table(*times(half))
        yield from ratio_lines(contestants)
        for sentence in [f.fastest_by_size(contestants), *f.crossovers(contestants)]:
            if sentence:
                yield "  " + sentence


def bar_rows(run):
    head = ["bars: kolo's automatic choice", "sizes", "MPI/kolo: least", "at", "median", "kolo/floor: most", "at"]
    lines = [[f"{r.scene_name(b.scene)}: {r.contestant_name(b.who)}", str(b.sizes), number(b.least), r.size_name(b.least_at), number(b.middle),
              number(b.over_floor), r.size_name(b.over_floor_at) if b.over_floor_at is not None else "-"] for b in f.bars(run)]
    return head, lines


def choice_rows(run):
    head = ["kolo's algorithms beside automatic", "least time / automatic's", "at", "most", "at"]
    lines = [[f"{r.scene_name(scene)}: {r.contestant_name(who)}", number(least), r.size_name(at), number(most), r.size_name(most_at)]
             for scene, who, least, at, most, most_at in f.explicit_choices(run) if who.implementation == "kolo"]
    return head, lines


def bars(run):
    for title, (head, lines) in (("Times faster than the faster MPI, over the sizes; and how far above the hand-written floor", bar_rows(run)),
                                 ("Beside the blocking collective of the MPI in the same processes", beside_mpi_rows(run)),
                                 ("What it costs to name an algorithm", choice_rows(run))):
        if lines:
            yield ""
            yield title
            yield from table(head, lines)
    for sentence in narrow_sentences(run):
        yield sentence


def beside_mpi_rows(run):
    head = ["kolo over MPI: its time / MPI's", "cells", "median", "most", "where", "bar", "verdict"]
    lines = []
    for b in f.beside_mpi(run):
        most, scene, size = max(b.ratios, key=lambda x: x[0])
        over = sum(x > b.bar for x, *_ in b.ratios)
        bar = "-" if b.bar == float("inf") else f"{b.bar} " + ("everywhere" if b.at_every_size else "in the median")
        verdict = "" if bar == "-" else "held" if b.is_held else f"not held: {over} cells above it" if b.at_every_size else "not held"
        lines.append([f"{b.mpi}, {b.ranks} ranks: {b.way}", str(len(b.ratios)), number(b.middle), number(most), f"{scene.collective} {r.size_name(size)}", bar, verdict])
    return head, lines


def narrow_sentences(run):
    for scene, who, size, ratio in f.narrow_types(run):
        yield (f"bfloat16 takes {ratio:.2f} of the time of as many floats: {r.size_name(size)} of bfloat16, {r.scene_name(scene)}, "
               f"{r.contestant_name(who)}")


def comparison(new, old, paint):
    changed = f.changes(new, old)
    slower, faster = [c for c in changed if c.slower], [c for c in changed if c.faster]
    yield ""
    yield (f"Compared with the older run, {len(changed)} rows are in both: {len(slower)} slower, {len(faster)} faster "
           "(by more than 10 %, and outside the 10 to 90 % range of the bursts).")
    for c in slower + faster:
        line = (f"{'SLOWER' if c.slower else 'faster'}  {c.ratio:5.2f}x  {number(c.old.p50 / 1000)} -> {number(c.row.p50 / 1000)} us  "
                f"{r.contestant_name(c.row.who)}, {r.size_name(c.row.bytes)}, {r.scene_name(c.row.scene)}")
        yield paint("31" if c.slower else "32", line)


def remarks(run, paint):
    for sentence in run.left_out:
        yield paint("33", f"Left out: {sentence}")
