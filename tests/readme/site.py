# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The site of the target `docs`: Doxygen has no warning, every link is valid, every page is a chapter, and every name is on the site.
"""Usage: site.py REPOSITORY DOXYGEN [DRAW] | site.py --self-test"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from urllib.parse import unquote

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cmake/docs"))
import chapters  # noqa: E402
import public_names  # noqa: E402

# Doxygen's false warnings: specialisations of standard templates, `~std::uint64_t{0}` in a text.
KNOWN = r"scope for class std::numeric_limits|link request to 'uint64_t'"


def dead_links(site):
    texts = {page.name: page.read_text() for page in site.glob("*.html")}
    anchors = {name: set(re.findall(r'(?:id|name)="([^"]+)"', text)) for name, text in texts.items()}
    files = {path.relative_to(site).as_posix() for path in site.rglob("*")}
    for name, text in texts.items():
        for link in sorted(set(re.findall(r'(?:href|src)="([^"]+)"', text))):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = unquote(link).partition("#")
            target = target or name
            if target not in files or (anchor and target in anchors and anchor not in anchors[target]):
                yield f"{name}: a link to {link}, which does not exist"


def names_on(site):
    """The names on the site, by Doxygen's tag file."""
    for entry in xml.parse(site / "kolo.tag").getroot().findall("compound"):
        if (site / entry.findtext("filename")).exists():
            yield entry.findtext("name")
            yield from (f"{entry.findtext('name')}::{member.findtext('name')}" for member in entry.findall("member"))


def faults(root, doxygen, draw=None):
    with tempfile.TemporaryDirectory() as work:
        site = pathlib.Path(work).resolve()
        subprocess.run([doxygen, chapters.prepare(root, site, "0", draw)], check=True, stdout=subprocess.DEVNULL)
        yield from (line for line in (site / "warnings.txt").read_text().splitlines() if not re.search(KNOWN, line))
        yield from dead_links(site)
        there = {re.sub(r" *<.*", "", name) for name in names_on(site)}
        yield from (f"{name} is not on the site" for name in sorted(public_names.names_in(root, doxygen)) if name not in there)
        sidebar = (site / "layout.xml").read_text()
        for page, name in chapters.chapters_of(root).items():
            if not (site / f"{name}.html").exists():
                yield f"{page.relative_to(root)} is no chapter"
            if name != "index" and sidebar.count(f'url="{name}.html"') != 1:
                yield f"{page.relative_to(root)} is not in the sidebar exactly once"


def self_test():
    """Links between pages become links between chapters; a dead link is found."""
    root = pathlib.Path("/r")
    known = {root / "README.md": "index", root / "include/kolo/view/README.md": "view", root / "include/kolo/README.md": "house"}
    page = root / "include/kolo/view/README.md"
    told = {
        "# A `b`": "# A b {#view}\n\n[TOC]",
        "## Two words, `one`": "## Two words, one {#view_two-words-one}",
        "[up](../README.md#x-y) [here](#z)": "[up](house.html#view_x-y) [here](view.html#view_z)".replace("house.html#view", "house.html#house"),
        "[the first](../../../README.md)": "[the first](index.html)",
        "![p](../a/b.svg) [code](view.hpp) [web](https://a.b/c)": "![p](b.svg) code [web](https://a.b/c)",
        "```\n# no heading, [no](link)\n```": "```\n# no heading, [no](link)\n```",
        "    [no](link)": "    [no](link)",
    }
    wrong = [f"{text!r} became {got!r}" for text, expected in told.items() if (got := chapters.chapter(text, page, known)) != expected + "\n"]
    if chapters.chapter("## A\n\n## A\n", page, known) != "## A {#view_a}\n\n## A {#view_a-1}\n":
        wrong.append("a repeated heading has no name of its own")
    header = ("// SPDX\n// For what.\n// And more.\n\nnamespace kolo::inline KOLO_ABI {\n/// f(comm, x)   in place\n///\n/// Cost    n.\n///         m\n/// Errors: none\n"
              "int f;  ///< Cost  no\n/// g(x) is no form here.\nint g;\n/// Cost  k\n")
    read = ("// SPDX\n// For what.\n// And more.\n\nnamespace kolo {\n/// For what. And more.\n///\n/// - `f(comm, x)`   in place\n///\n/// @par Cost\n/// n.\n///         m\n"
            "/// @par Errors\n/// none\nint f;  ///< Cost  no\n/// g(x) is no form here.\nint g;\n/// @par Cost\n/// k\n")
    got = subprocess.run(["awk", "-f", chapters.HERE / "comments.awk"], input=header, capture_output=True, text=True, check=True).stdout
    if got != read:
        wrong.append(f"a header became\n{got}")
    with tempfile.TemporaryDirectory() as work:
        site = pathlib.Path(work)
        (site / "a.html").write_text('<p id="x"><a href="#x"></a><a href="b.html"></a><a href="a.html#y"></a><a href="https://c"></a><img src="d.svg">')
        found = sorted(fault.split()[4] for fault in dead_links(site))
        if found != ["a.html#y,", "b.html,", "d.svg,"]:
            wrong.append(f"dead links: {found}")
    print("\n".join(wrong) or f"{len(told) + 3} judged correctly")
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    if not shutil.which(sys.argv[2]):
        print("not run: there is no Doxygen")
        sys.exit(77)
    found = list(faults(pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:]))
    print("\n".join(found) or "the site has no dead link")
    sys.exit(found != [])
