#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Draws a merged trace as an SVG timeline: a lane for each rank, with its operations, rounds and waits, and an arrow for each message.
"""Usage: timeline.py TRACE.json PICTURE.svg     TRACE.json: a result of kolo::merged_chrome_trace"""

import json
import sys
from collections import defaultdict
from html import escape

WIDTH, LEFT, TOP = 1200, 70, 96
ROW, GAP = 20, 16
OPERATIONS, ROUNDS, WAITS = 1, 2, 3
COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b"]


def colour_of(operation, known):
    return COLOURS[known.setdefault(operation, len(known)) % len(COLOURS)]


def lane_top(lane):
    return TOP + lane * (3 * ROW + GAP)


def messages(events):
    """(from, to, begin, end, details) of each message that is in the traces of both ranks. Messages of a pair arrive in the order in which they were sent."""
    begun, sent, received = {}, defaultdict(list), defaultdict(list)
    for e in events:
        if e["ph"] == "b":
            begun[e["id"]] = e
        elif e["ph"] == "e":
            first = begun[e["id"]]
            peer, outgoing = first["args"]["peer"], first["name"].startswith("to ")
            pair = (e["pid"], peer) if outgoing else (peer, e["pid"])
            (sent if outgoing else received)[pair].append((first["ts"], e["ts"], first["args"]))
    for pair, gone in sorted(sent.items()):
        for (begin, _, args), (_, end, _) in zip(sorted(gone, key=lambda m: m[0]), sorted(received[pair], key=lambda m: m[0])):
            yield *pair, begin, end, args


def nice_step(span):
    """The distance between the marks of an axis with about ten marks."""
    step = 10.0 ** (len(str(int(span * 1000))) - 5)
    while span / step > 12:
        step *= 2 if str(step).strip("0.")[:1] in ("1", "5") else 2.5
    return step


class Picture:
    def __init__(self, events):
        self.spans = [e for e in events if e["ph"] == "X"]
        self.ranks = sorted({e["pid"] for e in events})
        self.messages = list(messages(events))
        times = [e["ts"] for e in events if "ts" in e] + [e["ts"] + e["dur"] for e in self.spans]
        self.begin, self.end = (min(times), max(times)) if times else (0, 1)
        self.known, self.lines = {}, []

    def x(self, us):
        return LEFT + (us - self.begin) / max(self.end - self.begin, 1e-9) * (WIDTH - LEFT - 20)

    def text(self, x, y, what, size=11, more=""):
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{more}>{escape(what)}</text>')

    def box(self, e, row, fill, kind, label):
        x, y = self.x(e["ts"]), lane_top(self.ranks.index(e["pid"])) + row * ROW
        width = max(self.x(e["ts"] + e["dur"]) - x, 0.5)
        a = e["args"]
        about = f'rank {e["pid"]}: {a["operation"]} #{a["sequence"]}, {e["name"]}, {e["dur"]:.1f} us'
        self.lines.append(f'<rect class="{kind}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{ROW - 2}" fill="{fill}"><title>{escape(about)}</title></rect>')
        if width > 6.2 * len(label):
            self.text(x + width / 2, y + 13, label, 10, ' text-anchor="middle"')

    def axis(self):
        bottom, step = lane_top(len(self.ranks)), nice_step(self.end - self.begin)
        for k in range(int((self.end - self.begin) / step) + 1):
            x = self.x(self.begin + k * step)
            self.lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}" stroke="#ddd"/>')
            self.text(x, TOP - 12, f"{k * step:g}", 10, ' text-anchor="middle" fill="#666"')
        self.text(4, TOP - 12, "µs", 10, ' fill="#666"')

    def lanes(self):
        for lane, rank in enumerate(self.ranks):
            self.lines.append(f'<g class="lane" id="rank{rank}">')
            self.text(4, lane_top(lane) + 13, f"rank {rank}", 13)
            for row, what in ((ROUNDS, "rounds"), (WAITS, "waits")):
                self.text(4, lane_top(lane) + (row - 1) * ROW + 13, what, 10, ' fill="#666"')
            for e in (e for e in self.spans if e["pid"] == rank):
                own = colour_of(e["args"]["operation"], self.known)
                if e["tid"] == OPERATIONS:
                    self.box(e, 0, own, "operation", e["name"])
                elif e["tid"] == ROUNDS:
                    self.box(e, 1, own + ("66" if e["args"]["round"] % 2 else "aa"), "round", e["name"].removeprefix("round "))
                elif e["tid"] == WAITS:
                    self.box(e, 2, "#bbb", "wait", e["name"])
            self.lines.append("</g>")

    def arrows(self):
        for source, target, begin, end, a in self.messages:
            down = self.ranks.index(target) > self.ranks.index(source)
            y1 = lane_top(self.ranks.index(source)) + 2 * ROW - 2 - (0 if down else ROW - 2)
            y2 = lane_top(self.ranks.index(target)) + ROW + (0 if down else ROW - 2)
            about = f'{a["operation"]} #{a["sequence"]}, round {a["round"]}: {a["bytes"]} bytes from rank {source} to rank {target}, {end - begin:.1f} us'
            self.lines.append(f'<line class="message" x1="{self.x(begin):.2f}" y1="{y1}" x2="{self.x(end):.2f}" y2="{y2}" stroke="#000" '
                              f'stroke-opacity="0.35" marker-end="url(#tip)"><title>{escape(about)}</title></line>')

    def head(self):
        calls = sum(e["tid"] == OPERATIONS for e in self.spans) // max(len(self.ranks), 1)
        self.text(4, 22, f"{len(self.ranks)} ranks, {calls} calls, {len(self.messages)} messages, {self.end - self.begin:.0f} µs", 17, ' font-weight="bold"')
        x = 4
        for operation, k in [*self.known.items(), ("waits for a peer", None)]:
            fill = "#bbb" if k is None else COLOURS[k % len(COLOURS)]
            self.lines.append(f'<rect class="key" x="{x}" y="38" width="12" height="12" fill="{fill}"/>')
            self.text(x + 17, 48, operation, 12)
            x += 40 + 7 * len(operation)
        self.text(4, 66, "A lane: the calls, rounds and waits of a rank. An arrow: a message, from the start of the send to the end of the receive.", 11, ' fill="#666"')

    def svg(self):
        self.axis()
        self.lanes()
        self.arrows()
        self.head()
        height = lane_top(len(self.ranks)) + 6
        head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">',
                '<defs><marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0 L6,3 L0,6 z"/></marker></defs>',
                f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
        return "\n".join(head + self.lines + ["</svg>"]) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as trace:
        picture = Picture(json.load(trace)["traceEvents"])
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(picture.svg())
