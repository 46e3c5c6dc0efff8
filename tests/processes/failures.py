#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks that failures.txt names existing tests for each failure. Usage: failures.py ROOT
import pathlib
import re
import sys


def is_there(path, name):
    """Whether `path` has that test: a TEST_CASE, a program's run or law, an argument of main, a comment at a line's end, a check."""
    text = path.read_text() if path.is_file() else ""
    quoted = r'(?:TEST_CASE|TEMPLATE_TEST_CASE|run|law|which ==) ?\(?"' + re.escape(name) + '"'
    return bool(re.search(quoted, text) or re.search(r"// " + re.escape(name) + "$", text, re.M)
                or re.search(r"kolo_check\(" + re.escape(name) + r"\b", text) or re.search(r"^extern .*\b" + re.escape(name) + r"\(", text, re.M))


def main(root):
    wrong, row, tests, rows = [], None, 0, 0
    for line in (root / "tests/processes/failures.txt").read_text().splitlines() + ["[end]"]:
        if line.startswith("["):
            if row and not tests:
                wrong.append(f"{row}: no test")
            row, tests, rows = line, 0, rows + 1
        elif line and not line.startswith("#"):
            path, _, name = line.partition(": ")
            tests += 1
            if not is_there(root / path, name):
                wrong.append(f"{row}: {path} has no test that is called \"{name}\"")
    print("\n".join(wrong) or f"{rows - 1} failures, each with its tests")
    return 1 if wrong or rows < 20 else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
