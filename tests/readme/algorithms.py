# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The list of algorithms in the schedules' README has the fields of the headers' comments, and the facts that a program prints.
"""Usage: algorithms.py REPOSITORY COMPILER [--update] | algorithms.py --self-test"""
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

PAGE, WIDTH = "include/kolo/schedule/README.md", 150
BEGIN, END = "<!-- algorithms: written by tests/readme/algorithms.py --update -->\n", "<!-- end of algorithms -->\n"
HEAD = "| algorithm | collectives | any size? | order |\n|---|---|---|---|\n"
FIELDS = ("Before", "After", "Cost", "Order", "Errors", "Source")


def facts(root, compiler):
    """Maps a family's name to [(collective, sizes, order)], as the program prints them."""
    with tempfile.TemporaryDirectory() as scratch:
        binary = pathlib.Path(scratch, "algorithms")
        source = root / "tests/readme/algorithms.cpp"
        subprocess.run([compiler, "-std=c++20", "-I", root / "include", source, "-o", binary], check=True)
        lines = subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines()
    families = {}
    for name, *fact in (line.split("\t") for line in lines):
        families.setdefault(name, []).append(fact)
    return families


def fields_of(comment):
    """The fields of a comment; a comment without them is its cost."""
    lines = [line.removeprefix("///").rstrip() for line in comment.strip().splitlines()]
    fields, last = {}, None
    for line in lines:
        word = line.split()[0] if line.split() else ""
        if word in FIELDS and line.startswith(" " + word):
            last, line = word, line.strip()[len(word):]
        if last:
            fields[last] = (fields.get(last, "") + " " + line.strip()).strip()
    return fields if "Cost" in fields else {"Cost": " ".join(line.strip() for line in lines)}


def families_in(text):
    """Maps each commented struct to its fields and parameters; a family without a source has the previous one's."""
    found, source = {}, ""
    for match in re.finditer(r"((?:^///.*\n)+)(?:template .*\n)?struct (\w+)(?: : [^{]*)? \{\n((?:.*\n)*?)\};", text, re.M):
        comment, name, body = match.groups()
        fields = fields_of(comment)
        source = fields.setdefault("Source", source)
        parameters = re.findall(r"^  int (\w+) = (\d+);", body, re.M)
        fields["parameters"] = ", ".join(f".{p} = {value}" for p, value in parameters)
        found[name] = fields
    return found


def grouped(facts, column):
    """One word if all collectives agree; otherwise the most frequent one, and the exceptions by name."""
    said = [(f[0], f[column]) for f in facts if f[column]]
    words = [word for _, word in said]
    if not words:
        return ""
    usual = max(dict.fromkeys(words), key=words.count)
    others = "".join(f"; {', '.join(k for k, w in said if w == word)}: {word}" for word in dict.fromkeys(words) if word != usual)
    return usual + others


def item(name, cost, source):
    """The list item of cost and source, in short lines."""
    text = f"* `{name}`: {cost} *Source*: {source}"
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"


def table(root, compiler):
    """The table, and below it cost and source of each algorithm."""
    schedules = root / "include/kolo/schedule"
    fields = {}
    for header in sorted(schedules.rglob("*.hpp")):
        fields.update(families_in(header.read_text()))
    expressions = dict(re.findall(r'see\("(\w+)", (.*?)\{\}\);', (schedules / "catalogue.hpp").read_text()))
    rows, items = [], []
    for name, known in facts(root, compiler).items():
        said = fields.get(name, {})
        if not said.get("Cost") or not said.get("Source"):
            raise SystemExit(f"the comment above struct {name} has no Cost, or no Source")
        shown = expressions.get(name, name) + (f"{{{said['parameters']}}}" if said["parameters"] else "")
        cells = [f"`{shown}`", ", ".join(fact[0] for fact in known), grouped(known, 1), grouped(known, 2)]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
        items.append(item(expressions.get(name, name), said["Cost"], said["Source"]))
    return HEAD + "".join(rows) + "\nCost and source of each:\n\n" + "".join(items)


def replaced(text, new):
    """The text with a new table between the marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"{PAGE} lacks the marks of the list of algorithms")
    before, rest = text.split(BEGIN)
    return before + BEGIN + new + END + rest.split(END)[1]


def self_test():
    text = ("/// Before  x.\n/// Cost    q rounds;\n///         n bytes.\n/// Source  A, \"B\", 1999.\ntemplate <class I = j>\nstruct a {\n"
            "  int segments = 3;\n  /// Inner.\n  struct b;\n};\n\n/// The same, slower.\nstruct c {\n};\n"
            "/// A part.\nstruct a::b {\n};\n")
    found = families_in(text)
    assert found["a"] == {"Before": "x.", "Cost": "q rounds; n bytes.", "Source": 'A, "B", 1999.', "parameters": ".segments = 3"}, found
    assert found["c"] == {"Cost": "The same, slower.", "Source": 'A, "B", 1999.', "parameters": ""}, found
    assert found.keys() == {"a", "c"}, found
    assert grouped([["x", "any"], ["y", "even"], ["z", "any"]], 1) == "any; y: even"
    assert grouped([["x", ""]], 1) == ""
    assert replaced(f"1{BEGIN}old\n{END}2", "new\n") == f"1{BEGIN}new\n{END}2"
    assert item("a", "b " * 80 + "c.", "d.").splitlines()[1].startswith("  b"), item("a", "b " * 80, "d.")
    assert all(len(line) <= WIDTH for line in item("a", "b " * 80, "d.").splitlines())
    print("passed")


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    readme = root / PAGE
    text = readme.read_text()
    now = replaced(text, table(root, sys.argv[2]))
    if "--update" in sys.argv:
        readme.write_text(now)
    elif now != text:
        new = set(now.splitlines()) - set(text.splitlines())
        raise SystemExit(f"the list of algorithms in {PAGE} is out of date; algorithms.py --update writes it anew. Lines that differ:\n" + "\n".join(new))
    listed = sum(line.startswith("* ") for line in now.split(BEGIN)[1].split(END)[0].splitlines())
    print(f"{listed} algorithms are in {PAGE} as they are in the headers")


if __name__ == "__main__":
    main()
