#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Prints the driver's results as tables, and writes them as one HTML file.
"""Usage: report.py RUN.json [--compare OLD.json] [--html FILE] [--brief] [--fail-on-regression] [--format nccl-tests|osu [--only FIELD=VALUE]...]"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
import findings  # noqa: E402: after dont_write_bytecode
import formats  # noqa: E402
import page  # noqa: E402
import rows  # noqa: E402
import words  # noqa: E402


def drawing(out):
    """The module that draws; None, with a message to `out`, if matplotlib is not installed."""
    try:
        import plots
    except ImportError:
        print("The report has no plots, because matplotlib is not installed (python3-matplotlib).", file=out)
        return None
    return plots


def field(words):
    name, equals, value = words.partition("=")
    if not equals or name not in (*rows.Scene._fields, *rows.Contestant._fields):
        raise argparse.ArgumentTypeError(f"{words} is not FIELD=VALUE; fields are {' '.join((*rows.Scene._fields, *rows.Contestant._fields))}")
    return name, value


def main():
    parser = argparse.ArgumentParser(description="Tables and an HTML report of a run of the benchmarks.")
    parser.add_argument("run", help="the driver's JSON file")
    parser.add_argument("--compare", metavar="OLD.json", help="an older run; slower rows are red")
    parser.add_argument("--html", metavar="FILE", help="write a self-contained report")
    parser.add_argument("--brief", action="store_true", help="print only the bars and the changes")
    parser.add_argument("--colour", choices=["auto", "always", "never"], default="auto")
    parser.add_argument("--fail-on-regression", action="store_true", help="exit with 1 if a row became slower")
    parser.add_argument("--format", choices=sorted(formats.FORMATS), help="print the columns of these programs, of kolo's automatic choice, in place of the tables")
    parser.add_argument("--only", metavar="FIELD=VALUE", action="append", default=[], type=field,
                        help="with --format: collective, ranks, element, place, mode, distance; implementation, algorithm, buffers")
    asked = parser.parse_args()

    run = rows.load(asked.run)
    old = rows.load(asked.compare) if asked.compare else None
    colour = asked.colour == "always" or (asked.colour == "auto" and sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    paint = words.Paint(colour)
    if asked.format:
        parts = [list(formats.FORMATS[asked.format](run, dict(asked.only)))]
        if not parts[0]:
            sys.exit("no row matches; unless --only selects others, the rows are those of kolo's automatic choice in ordinary buffers")
    else:
        parts = [words.opening(run), words.worst(run)] + ([] if asked.brief else [words.measured(run)]) + [words.bars(run), words.started(run), words.remarks(run, paint)]
    if old and not asked.format:
        parts.append(words.comparison(run, old, paint))
    for part in parts:
        for line in part:
            print(line)
    if asked.html:
        with open(asked.html, "w", encoding="utf-8") as out:
            out.write(page.page(run, old, drawing(sys.stderr if asked.format else sys.stdout)))
    slower = bool(old) and any(c.slower for c in findings.changes(run, old))
    return 1 if asked.fail_on_regression and slower else 0


if __name__ == "__main__":
    sys.exit(main())
