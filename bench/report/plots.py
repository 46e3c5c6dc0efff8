# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A scene as plots: time, ratio to the best peer, percent of the bound; as SVG text.

import io
from statistics import median

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif", "axes.grid": True, "grid.alpha": 0.3,
                            "axes.spines.top": False, "axes.spines.right": False, "lines.markersize": 3.5, "lines.linewidth": 1.4})
import matplotlib.pyplot as plt  # noqa: E402: the backend comes first
from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: E402

import rows as r  # noqa: E402

COLOURS = {"kolo": "#1f5fbf", "kolo_threads": "#38a3a5", "mpich": "#e07b00", "openmpi": "#c0392b", "gloo": "#8d99ae", "floor": "#222222"}
ALGORITHMS = ["#6a4c93", "#2a9d8f", "#e9a03b", "#d1495b", "#3d5a80", "#7f9c3b", "#8c564b"]


def style(who, others):
    dashed = "--" if who.buffers != "ordinary" else "-"
    if who in others:
        names = sorted({w.algorithm for w in others})
        return {"color": ALGORITHMS[names.index(who.algorithm) % len(ALGORITHMS)], "linestyle": dashed}
    return {"color": COLOURS.get(who.implementation, "#555555"), "linestyle": ":" if who.implementation == "floor" and who.buffers == "ordinary" else dashed}


def size_axis(axis, sizes):
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda n, _: r.size_name(round(n)).replace("iB", "").replace(" ", "")))
    axis.tick_params(axis="x", labelrotation=60, labelsize=7)


def time_panel(axis, contestants, others):
    for who, by_size in contestants.items():
        rows = [x for n, x in by_size.items() if n > 0]
        looks = style(who, others)
        axis.plot([x.bytes for x in rows], [x.p50 / 1000 for x in rows], marker="o", label=r.contestant_name(who), **looks)
        axis.fill_between([x.bytes for x in rows], [x.p10 / 1000 for x in rows], [x.p90 / 1000 for x in rows], color=looks["color"], alpha=0.12, lw=0)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:g}"))
    axis.set_title("time, microseconds (band: 10 to 90 %)", fontsize=9, loc="left")


def ratio_panel(axis, contestants, others):
    """The best peer's time / each of kolo's times: above 1 is faster than every peer."""
    peers = [s for w, s in contestants.items() if w.implementation in r.PEERS]
    for who, by_size in contestants.items():
        if who.implementation in r.PEERS:
            continue
        points = [(n, min(p[n].p50 for p in peers if n in p) / x.p50) for n, x in by_size.items() if n > 0 and any(n in p for p in peers)]
        if points:
            axis.plot(*zip(*points), marker="o", **style(who, others))
    axis.axhline(1, color="#c0392b", lw=1)
    axis.set_yscale("log", base=2)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:g}x"))
    axis.set_title("times faster than the best peer", fontsize=9, loc="left")


def bound_panel(axis, contestants, others):
    for who, by_size in contestants.items():
        points = [(n, x.percent_of_bound) for n, x in by_size.items() if n > 0 and x.percent_of_bound]
        if points and who.implementation != "floor":
            axis.plot(*zip(*points), marker="o", **style(who, others))
    axis.axhline(100, color="#222222", lw=1, ls=":")
    axis.set_ylim(bottom=0)
    axis.set_title("percent of the bound", fontsize=9, loc="left")


def figures(contestants):
    """Plots of the libraries, and of kolo's algorithms with its automatic choice."""
    named = {w: s for w, s in contestants.items() if w.implementation.startswith("kolo") and w.algorithm != "automatic"}
    libraries = {w: s for w, s in contestants.items() if w not in named}
    own = {w: s for w, s in libraries.items() if w.implementation in {x.implementation for x in named}}
    return "".join(figure(part, list(named)) for part in (libraries, {**own, **named} if named else {}))


def in_short(cells):
    """One plot of the run: the fastest peer's time / kolo's over sizes, a line for each collective; empty with less than two sizes."""
    sizes = sorted({b.row.bytes for b in cells if b.row.bytes > 0})
    if len(sizes) < 2:
        return ""
    canvas, axis = plt.subplots(figsize=(9.2, 3.6))
    for i, kind in enumerate(sorted({b.row.scene.collective for b in cells})):
        of = {n: [1 / b.ratio for b in cells if b.row.scene.collective == kind and b.row.bytes == n] for n in sizes}
        points = [(n, median(x)) for n, x in of.items() if x]
        if points:
            axis.plot(*zip(*points), marker="o", label=kind, color=f"C{i % 10}")
    axis.axhline(1, color="#c0392b", lw=1)
    axis.set_yscale("log", base=2)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:g}x"))
    axis.set_title("times faster than the fastest peer, the median of all places and distances", fontsize=9, loc="left")
    size_axis(axis, sizes)
    axis.legend(fontsize=7, frameon=False, ncol=5, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return as_text(canvas)


def figure(contestants, others):
    """The plot as SVG; empty with less than two sizes."""
    sizes = sorted({n for s in contestants.values() for n in s if n > 0})
    if len(sizes) < 2:
        return ""
    panels = [time_panel]
    if any(w.implementation in r.PEERS for w in contestants):
        panels.append(ratio_panel)
    if any(x.percent_of_bound for w, s in contestants.items() if w.implementation != "floor" for x in s.values()):
        panels.append(bound_panel)
    canvas, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.4), squeeze=False)
    for panel, axis in zip(panels, axes[0]):
        panel(axis, contestants, others)
        size_axis(axis, sizes)
    handles, labels = axes[0][0].get_legend_handles_labels()
    columns = min(6, max(2, 2 * len(panels)))
    canvas.legend(handles, labels, loc="lower center", ncol=columns, fontsize=7, frameon=False)
    canvas.tight_layout(rect=(0, 0.055 * -(-len(labels) // columns), 1, 1))
    return as_text(canvas)


def as_text(canvas):
    text = io.StringIO()
    canvas.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(canvas)
    svg = text.getvalue()
    return svg[svg.index("<svg"):]
