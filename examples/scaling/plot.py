#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Plots the files of `scaling --csv FILE`: images per second and efficiency over the number of GPUs, with published figures.
"""Usage: plot.py PICTURE.svg|PICTURE.png LABEL=FILE.csv [LABEL=FILE.csv...]     needs matplotlib (python3-matplotlib)"""

import csv
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("plot.py needs matplotlib (python3-matplotlib)")
matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "kolo"  # the same picture every time
import matplotlib.pyplot as plt  # noqa: E402


def read(path):
    with open(path, newline="") as file:
        return [{k: float(v) if v else None for k, v in row.items() if k != "algorithms"} for row in csv.DictReader(file)]


def main(picture, *curves):
    figure, (speed, efficiency) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    published = {}
    for curve in curves:
        label, path = curve.split("=", 1)
        rows = read(path)
        gpus = [r["gpus"] for r in rows]
        speed.plot(gpus, [r["images_per_second"] for r in rows], "-", marker=".", label=label)
        efficiency.plot(gpus, [r["efficiency_percent"] for r in rows], "-", marker=".", label=label)
        base = rows[0]["images_per_second"] / rows[0]["gpus"] / (rows[0]["efficiency_percent"] / 100)
        for r in rows:
            for name in ("published", "published_later"):
                if r[name]:
                    published[r["gpus"], r[name]] = 100 * r[name] / (r["gpus"] * base)
    points = sorted(published)
    speed.plot([g for g, _ in points], [rate for _, rate in points], "kx", label="published")
    efficiency.plot([g for g, _ in points], [published[p] for p in points], "kx", label="published")
    for axes in (speed, efficiency):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("GPUs")
        axes.xaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
        axes.grid(alpha=0.3)
        axes.legend()
    speed.set_yscale("log", base=10)
    speed.set_ylabel("images per second")
    efficiency.set_ylim(0, 105)
    efficiency.set_ylabel(f"efficiency, % of {base:.0f} images per second and GPU")
    figure.savefig(picture, metadata={"Date": None} if picture.endswith(".svg") else None)


if __name__ == "__main__":
    if len(sys.argv) < 3 or any("=" not in c for c in sys.argv[2:]):
        sys.exit(__doc__)
    main(*sys.argv[1:])
