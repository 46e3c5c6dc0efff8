# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The form of all pages: links are valid, lines are short, and every block of C++ is a program, or a part of a tested one.
"""Usage: pages.py REPOSITORY | pages.py --self-test"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from judged_trees import misjudged

FOLDERS = ("include", "examples", "bench", "tests", "cmake")
LINE, LINES = 160, 150  # of every page; of the root's page
PROGRAMS = 7            # in all pages together, at least


def pages(root):
    """The root's page, and those in folders."""
    return [p for p in [root / "README.md", *(p for f in FOLDERS for p in sorted((root / f).rglob("*.md")))] if p.exists()]


def blocks(text, language="cpp"):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def programs(text):
    """The whole programs of a page."""
    return [block for block in blocks(text) if "int main" in block]


def prose(text):
    """The page without its code blocks; lines keep their numbers."""
    return re.sub(r"^```.*?^```|^    .*?$", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)


def anchors(text):
    """The anchors of a page, by GitHub's rule: lower case, no punctuation, hyphens for spaces, a number for a repeated heading."""
    found = []
    for title in re.findall(r"^#{1,6} +(.*?) *$", prose(text), re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        earlier = sum(re.fullmatch(re.escape(name) + r"(-\d+)?", other) is not None for other in found)
        found.append(f"{name}-{earlier}" if earlier else name)
    return found


def link_faults(root, page, text):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"links to {link}, which does not exist"
        elif root not in (target, *target.parents):
            yield f"links to {link}, which lies outside of the repository"
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target.read_text())):
            yield f"links to {link}, but there is no such heading"
    for path in re.findall(r"`((?:include|examples|tests|bench|cmake)/[\w./-]+)`", prose(text)):
        if not (root / path).exists():
            yield f"names {path}, which does not exist"
    for name in re.findall(r"`(?:[\w.-]+/)*(\w+\.(?:hpp|cuh|cpp|cu|py|sh))`", prose(text)):
        if not name.startswith("X.") and not any(next((root / folder).rglob(name), None) for folder in FOLDERS):
            yield f"names {name}, which stands nowhere"


def faults(root):
    root = root.resolve()
    tested = "".join(p.read_text() for p in sorted((root / "examples").rglob("*.cpp")))
    count = 0
    for page in pages(root):
        name, text = page.relative_to(root), page.read_text()
        count += len(programs(text))
        found = list(link_faults(root, page, text))
        lines = text.splitlines()
        found += [f"line {i} has {len(line)} characters; {LINE} are enough" for i, line in enumerate(lines, 1) if len(line) > LINE]
        if page.parent == root and len(lines) > LINES:
            found.append(f"{len(lines)} lines; {LINES} are enough for the first page")
        for block in blocks(text):
            if "int main" not in block and block not in tested:
                found.append(f"this C++ is no whole program, and no program under examples/ contains it word for word:\n{block}")
        yield from (f"{name}: {fault}" for fault in found)
    if count < PROGRAMS:
        yield f"only {count} whole programs were found in the READMEs; there have been {PROGRAMS}"


def self_test():
    """A small good tree has no fault; each of these changes causes its fault."""
    program = "```cpp\nint main() {}\n```\n"
    good = {
        "README.md": "# Top\n\n[a](include/README.md#two-words-1) `include/a.hpp` [web](https://x.y/z)\n" + program * PROGRAMS,
        "include/README.md": "## Two words\n\n## Two `words`\n\n[up](../README.md) [here](#two-words)\n\n```cpp\npart();\n```\n\n    [no](link)\n",
        "include/a.hpp": "",
        "examples/b.cpp": "int main() {\npart();\n}\n",
    }
    inner = good["include/README.md"]
    bad = [
        ("which does not exist", "include/README.md", "[a](b.hpp)\n"),
        ("there is no such heading", "include/README.md", inner + "[a](#three)\n"),
        ("there is no such heading", "include/README.md", "## Other\n"),
        ("outside of the repository", "include/README.md", inner + "[a](../..)\n"),
        ("names include/b.hpp", "include/README.md", inner + "`include/b.hpp`\n"),
        ("names b.hpp, which stands nowhere", "include/README.md", inner + "`a/b.hpp`\n"),
        ("161 characters", "include/README.md", inner + "x" * 161 + "\n"),
        ("161 characters", "README.md", good["README.md"] + "```\n" + "x" * 161 + "\n```\n"),
        ("enough for the first page", "README.md", good["README.md"] + "x\n" * LINES),
        ("no whole program", "examples/b.cpp", "int main() {}\n"),
        (f"only {PROGRAMS - 1} whole programs", "README.md", good["README.md"].replace(program, "", 1)),
    ]
    return misjudged(faults, good, bad)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test() != 0)
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or f"{len(pages(pathlib.Path(sys.argv[1])))} pages have their form")
    sys.exit(found != [])
