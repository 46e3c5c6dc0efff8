# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The report as one self-contained HTML file.

from html import escape

import findings as f
import rows as r
import words as w

CSS = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 1150px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { font-size: 1.25em; margin-top: 2em; border-bottom: 1px solid #ccc } h3 { font-size: 1em; margin: 1.6em 0 .3em }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; margin: .6em 0 }
th, td { padding: .15em .7em; text-align: right; border-bottom: 1px solid #eee } th { border-bottom: 1px solid #999; vertical-align: bottom }
th:first-child, td:first-child { text-align: left } .slower { color: #c0392b; font-weight: 600 } .faster { color: #1a7f37 }
.note { color: #555; font-size: .92em } details { margin: .3em 0 } summary { cursor: pointer; color: #1f5fbf } svg { max-width: 100%; height: auto }
.wide { overflow-x: auto }
"""


def html_table(head, lines, classes=None):
    body = "".join("<tr" + (f' class="{classes[i]}"' if classes and classes[i] else "") + ">" + "".join(f"<td>{escape(c)}</td>" for c in line) + "</tr>"
                   for i, line in enumerate(lines))
    return f'<div class="wide"><table><tr>{"".join(f"<th>{escape(h)}</th>" for h in head)}</tr>{body}</table></div>'


def detail_table(contestants):
    head = ["contestant", "size", "p10 us", "p50 us", "p90 us", "algbw GB/s", "busbw GB/s", "MPI / this", "% of bound", "ping-pong ns", "bursts"]
    lines = [[r.contestant_name(x.who), r.size_name(n), *(w.number(t / 1000) for t in (x.p10, x.p50, x.p90)), w.number(x.algbw),
              w.number(x.busbw), w.number(x.mpi_ratio), w.number(x.percent_of_bound), w.number(x.pingpong), str(x.bursts)]
             for who, s in contestants.items() for n, x in s.items()]
    return html_table(head, lines)


def scene_section(scene, contestants, draw):
    sentences = [s for s in [f.fastest_by_size(contestants), *f.crossovers(contestants)] if s]
    picture = draw.figures(contestants) if draw else ""
    return (f"<h3>{escape(r.scene_name(scene))}</h3>" + picture + "".join(html_table(*w.times(half)) for half in w.halves(contestants)) +
            "".join(f'<p class="note">{escape(s)}</p>' for s in sentences) +
            f"<details><summary>all figures</summary>{detail_table(contestants)}</details>")


def comparison(new, old):
    changed = f.changes(new, old)
    notable = [c for c in changed if c.slower or c.faster]
    head = ["row", "old us", "new us", "new / old"]

    def line(c):
        return [f"{r.contestant_name(c.row.who)}, {r.size_name(c.row.bytes)}, {r.scene_name(c.row.scene)}", w.number(c.old.p50 / 1000),
                w.number(c.row.p50 / 1000), f"{c.ratio:.2f}"]

    def classes(cs):
        return ["slower" if c.slower else "faster" if c.faster else "" for c in cs]

    words = next(line for line in w.comparison(new, old, w.Paint(False)) if line)
    return (f"<h2>Compared with the older run</h2><p>{escape(words)}</p>{html_table(head, [line(c) for c in notable], classes(notable))}"
            f"<details><summary>all {len(changed)} rows</summary>{html_table(head, [line(c) for c in changed], classes(changed))}</details>")


def bars(run):
    _, lines = w.bar_rows(run)
    _, choices = w.choice_rows(run)
    return (("<h2>Bars</h2><p>How many times faster kolo's automatic choice is than the faster MPI, over the sizes, and how far it is above the "
             "hand-written floor.</p>" + html_table(*w.bar_rows(run)) if lines else "") +
            (html_table(*w.beside_mpi_rows(run)) if f.beside_mpi(run) else "") +
            "".join(f"<p>{escape(s)}</p>" for s in w.narrow_sentences(run)) +
            ("<details><summary>what it costs to name an algorithm</summary>" + html_table(*w.choice_rows(run)) + "</details>" if choices else ""))


def worst(run):
    """All cells: the slowest ones shown, the others folded."""
    head, lines = w.worst_rows(run)
    if not lines:
        return ""
    rest = lines[w.WORST:]
    return ("<h2>Where kolo is slowest beside the fastest peer</h2>" + "".join(f"<p>{escape(s)}</p>" for s in w.worst_sentences(run)) +
            html_table(head, lines[:w.WORST], ["slower" if c.is_slower else "" for c in f.behind(run)][:w.WORST]) +
            (f"<details><summary>the other {len(rest)} cells</summary>" + html_table(head, rest) + "</details>" if rest else ""))


def in_short(run, draw):
    sentences = "".join(f"<p>{escape(s)}</p>" for s in w.in_short(run))
    cells = [b for b in f.behind(run) if b.row.who.implementation not in r.OVER_MPI]
    return sentences + (draw.in_short(cells) if draw and sentences else "")


def setting(run):
    keep = {k: v for k, v in run.context.items() if k in ("date", "num_cpus", "cores", "mhz_per_cpu", "cpu", "plan") or k.startswith(("version_", "overhead_", "settings "))}
    return ("<details><summary>host and versions</summary>" + html_table(["", ""], [[k.replace("_", " "), str(v)] for k, v in keep.items()]) + "</details>" +
            "".join(f'<p class="slower">Left out: {escape(s)}</p>' for s in run.left_out))


def page(run, old, draw):
    groups = {}
    for scene, contestants in r.scenes(run.rows).items():
        oversubscribed = scene.ranks > int(run.context.get("cores", run.context.get("num_cpus", scene.ranks)))
        title = "More ranks than cores" if oversubscribed else f"Cores {scene.distance}"
        groups.setdefault((oversubscribed, scene.distance == "far" and not oversubscribed, title), []).append(scene_section(scene, contestants, draw))
    intro = "".join(f"<p class=note>{escape(s)}</p>" for s in w.LEGEND)
    body = "".join(f"<h2>{escape(title)}</h2>" + "".join(sections) for (_, _, title), sections in sorted(groups.items()))
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>kolo: collectives compared</title><style>{CSS}</style>'
            f"<h1>Collectives compared</h1>{in_short(run, draw)}{worst(run)}{intro}{setting(run)}{comparison(run, old) if old else ''}{bars(run)}{body}</html>\n")
