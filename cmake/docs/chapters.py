# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Prepares the site: converts pages to chapters, with links to chapters; writes the layout that lists them, and the Doxyfile.
"""Usage: chapters.py REPOSITORY OUTPUT VERSION [DRAW]     DRAW: the program examples/draw, to add pictures to the pages of algorithms"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = ("include", "examples", "bench", "tests", "cmake")
TAKEN = ("annotated", "classes", "concepts", "examples", "files", "namespaces", "pages")  # pages of Doxygen's own
# The groups of the sidebar, and the folders of their chapters; chapters of other folders are in the last group.
GROUPS = [
    ("Guide", ["include/kolo/guide", "include/kolo/collective", "include/kolo/train", "include/kolo/view", "include/kolo/mpi", "include/kolo/cuda",
               "include/kolo/transport", "include/kolo/schedule", "include/kolo/simulate", "cmake/packaging"]),
    ("Programs and numbers", ["examples", "bench"]),
    ("How it is made", ["include/kolo", "tests", "cmake/docs"]),
]


def chapters_of(root):
    """Maps the path of each page to the name of its chapter; the root's page is the site's first."""
    pages = [root / "README.md", *(p for f in FOLDERS for p in sorted((root / f).rglob("*.md")))]
    return {page: name_of(page.relative_to(root)) for page in pages if page.exists()}


def name_of(page):
    parts = [part for part in page.parent.parts if part not in ("include", "kolo")] + ([] if page.stem == "README" else [page.stem])
    name = "_".join(parts) or ("index" if page.parent == pathlib.Path() else "house")
    return name + "_page" if name in TAKEN else name


def anchor(title):
    """The anchor of a heading by GitHub's rule: lower case, no punctuation, hyphens for spaces."""
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def relinked(match, page, chapters):
    """Converts a link: to a page, to its chapter; to an image, to its file, which Doxygen copies; to another file of the repository, to plain text."""
    bang, text, link = match.groups()
    if "://" in link:
        return match[0]
    path, _, heading = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if bang:
        return f"![{text}]({target.name})"
    target = target / "README.md" if target.is_dir() else target
    if target not in chapters:
        return text
    name = chapters[target]
    return f"[{text}]({name}.html{'#' + name + '_' + heading if heading else ''})"


def chapter(text, page, chapters):
    name, seen, lines, fenced = chapters[page], {}, [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        heading = re.match(r"(#{1,6}) +(.*?) *$", line)
        plain = heading and heading[2].replace("`", "")  # tables of contents show no code
        if fenced or line.startswith(("```", "    ")):
            pass
        elif heading and heading[1] == "#":
            line = f"# {plain} {{#{'mainpage' if name == 'index' else name}}}\n\n[TOC]"
        elif heading:
            title = anchor(heading[2])
            seen[title] = seen.get(title, -1) + 1
            line = f"{heading[1]} {plain} {{#{name}_{title}{'-' + str(seen[title]) if seen[title] else ''}}}"
        lines.append(line)
    text = "\n".join(lines) + "\n"
    prose = r"(^```.*?^```|^    [^\n]*$)|(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)"
    return re.sub(prose, lambda m: m[1] or relinked(re.match(r"(!?)\[(.*)\]\(([^)\s]+)\)$", m[0], re.S), page, chapters), text, flags=re.S | re.M)


def title_of(page):
    return re.search(r"^# +(.*?) *$", page.read_text(), re.M)[1].replace("`", "")


def layout(root, chapters):
    left = {page: name for page, name in chapters.items() if name != "index"}
    tabs = ['    <tab type="mainpage" visible="yes" title="kolo"/>']
    for number, (group, folders) in enumerate(GROUPS):
        there = lambda f, page: page.is_relative_to(root / f) if f != "include/kolo" else page.parent == root / f
        last = number == len(GROUPS) - 1
        chosen = [page for f in folders for page in left if there(f, page)] + ([page for page in left] if last else [])
        tabs.append(f'    <tab type="usergroup" visible="yes" title="{group}">')
        for page in dict.fromkeys(chosen):
            title = title_of(page).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
            tabs.append(f'      <tab type="user" visible="yes" url="{left.pop(page)}.html" title="{title}"/>')
        if "examples" in folders:
            tabs.append('      <tab type="examples" visible="yes" title="Programs" intro="The tests compile and run each of them."/>')
            tabs.append('      <tab type="user" visible="yes" url="names_in_programs.html" title="Which program uses which name"/>')
        tabs.append("    </tab>")
    return (HERE / "layout.xml.in").read_text().replace("@CHAPTERS@", "\n".join(tabs))


def pictures(draw, output):
    """Adds to the page of each family a picture of each of its collectives."""
    (output / "pictures").mkdir(exist_ok=True)
    blocks = []
    for line in subprocess.run([draw, "--list"], capture_output=True, text=True, check=True).stdout.splitlines():
        family, collectives = line.split(": ")
        blocks.append(f"/// \\class kolo::{family}\n/// \\par Pictures\n/// Eight ranks; four segments, if the algorithm has segments.\n")
        for collective in collectives.split(", "):
            name = f"{family}.{collective}.svg"
            subprocess.run([draw, family, collective, "8", "--segments", "4", "--out", output / "pictures" / name], check=True)
            blocks.append(f"///\n/// \\image html {name} \"{collective}\"\n")
        blocks.append("\n")
    (output / "chapters" / "pictures.dox").write_text("".join(blocks))


def programs(root, output, chapters):
    """Lists the examples and the programs on pages: Doxygen links names to them, and by_name makes the list of all names."""
    found = {p.relative_to(root / "examples").as_posix(): p.read_text() for p in sorted((root / "examples").glob("*/*.[ch]pp"))}
    said = {name: text.splitlines()[1].removeprefix("// ") for name, text in found.items()}
    (output / "programs").mkdir(exist_ok=True)
    for page, name in chapters.items():
        whole = [block for block in re.findall(r"^```cpp\n(.*?)^```", page.read_text(), re.S | re.M) if "int main" in block]
        for number, block in enumerate(whole, 1):
            program = f"{name}_{number}.cpp"
            (output / "programs" / program).write_text(block)
            found[program], said[program] = block, f"[{title_of(page)}]({name}.html)"
    (output / "chapters" / "programs.dox").write_text("".join(f"/// \\example {name}\n/// {text}\n\n" for name, text in said.items()))
    tests = {p.relative_to(root).as_posix(): p.read_text() for p in sorted((root / "tests").rglob("*.cpp")) if "compile_fail" not in p.parts}
    (output / "chapters" / "names_in_programs.md").write_text(by_name(found, tests))


def names_in(text):
    """The names of kolo in a text, with those of enclosing namespaces and types: `kolo::ring::allreduce` contains `kolo::ring`, too."""
    for name in set(re.findall(r"\bkolo((?:::\w+)+)", re.sub(r"//.*", "", text))) - {"::detail"}:
        parts = name.split("::")[1:]
        yield from ("kolo::" + "::".join(parts[:end]) for end in range(1, len(parts) + 1) if "detail" not in parts)


def by_name(found, tests):
    """The page that lists the programs that use each name; tests, if no other program does. Names that Doxygen knows are links."""
    page = lambda name: "".join({"/": "_2", ".": "_8"}.get(c, c) for c in name) + "-example.html"
    places = {}
    for name, text in found.items():
        for word in names_in(text):
            places.setdefault(word, []).append(f"[{name}]({page(name)})")
    shown = set(places)
    for name, text in tests.items():
        for word in set(names_in(text)) - shown:
            places.setdefault(word, []).append(name)
    rows = "".join(f"| {word} | {', '.join(places[word][:4])} |\n" for word in sorted(places))
    return f"# Which program uses which name {{#names_in_programs}}\n\nAt most four programs for each name; tests, if no other program uses it.\n\n| name | programs |\n|---|---|\n{rows}"


def prepare(root, output, version, draw=None):
    chapters = chapters_of(root)
    (output / "chapters").mkdir(parents=True, exist_ok=True)
    for old in (output / "chapters").iterdir():
        old.unlink()
    for page, name in chapters.items():
        (output / "chapters" / f"{name}.md").write_text(chapter(page.read_text(), page, chapters))
    programs(root, output, chapters)
    if draw:
        pictures(draw, output)
    (output / "layout.xml").write_text(layout(root, chapters))
    images = {p.parent for f in FOLDERS for p in (root / f).rglob("*.svg")} | ({output / "pictures"} if draw else set())
    values = {"SOURCE": root, "HERE": HERE, "OUTPUT": output, "VERSION": version, "IMAGES": " ".join(f'"{folder}"' for folder in sorted(images))}
    text = (HERE / "Doxyfile.in").read_text()
    (output / "Doxyfile").write_text(re.sub(r"@([A-Z]+)@", lambda m: str(values[m[1]]), text.replace("between @ and @", "")))
    return output / "Doxyfile"


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    prepare(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:])
