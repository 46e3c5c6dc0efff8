#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Turns what the driver has written into tables on the terminal and one HTML file.
"""Usage: report.py RUN.json [--compare OLD.json] [--html FILE] [--brief] [--fail-on-regression]"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
import findings  # noqa: E402: nothing is left in the source tree
import page  # noqa: E402
import rows  # noqa: E402
import words  # noqa: E402


def drawing():
    """What draws a scene; nothing, with a sentence, where matplotlib is not installed."""
    try:
        import plots
    except ImportError:
        print("The report has no plots, because matplotlib is not installed (python3-matplotlib).")
        return None
    return plots.figures


def main():
    parser = argparse.ArgumentParser(description="Tables and an HTML report of a run of the benchmarks.")
    parser.add_argument("run", help="the JSON that the driver has written")
    parser.add_argument("--compare", metavar="OLD.json", help="an older run; what became slower is shown in red")
    parser.add_argument("--html", metavar="FILE", help="write a report that needs nothing else")
    parser.add_argument("--brief", action="store_true", help="on the terminal only the bars and what has changed")
    parser.add_argument("--colour", choices=["auto", "always", "never"], default="auto")
    parser.add_argument("--fail-on-regression", action="store_true", help="exit with 1 where a row became slower")
    asked = parser.parse_args()

    run = rows.load(asked.run)
    old = rows.load(asked.compare) if asked.compare else None
    colour = asked.colour == "always" or (asked.colour == "auto" and sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    paint = words.Paint(colour)
    parts = ([] if asked.brief else [words.measured(run)]) + [words.bars(run), words.remarks(run, paint)]
    if old:
        parts.append(words.comparison(run, old, paint))
    for part in parts:
        for line in part:
            print(line)
    if asked.html:
        with open(asked.html, "w", encoding="utf-8") as out:
            out.write(page.page(run, old, drawing()))
    slower = bool(old) and any(c.slower for c in findings.changes(run, old))
    return 1 if asked.fail_on_regression and slower else 0


if __name__ == "__main__":
    sys.exit(main())
