# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# examples/draw writes well-formed XML for every algorithm; examples/draw/four.svg is up to date.
"""Usage: draw.py PROGRAM REPOSITORY [--update]"""
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

program, root = sys.argv[1], pathlib.Path(sys.argv[2])
faults = []
FOUR = ["ring,recursive_doubling,circulant,double_tree", "allreduce", "5", "--segments", "2"]
SVG = "{http://www.w3.org/2000/svg}"


def run(*words):
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def look(words, text):
    """Checks: well-formed XML; every name that is used is defined once; no script, no external reference."""
    tree = xml.fromstring(text)
    names = [e.get("id") for e in tree.iter() if e.get("id")]
    used = {e.get("href")[1:] for e in tree.iter(SVG + "use")}
    large = "left: who sends" in text  # squares for each round, which define no names
    if len(names) != len(set(names)) or bool(used) == large or not used <= set(names):
        faults.append(f"{words}: names that are missing or not unique")
    if any(e.tag in (SVG + "script", SVG + "image") for e in tree.iter()) or "url(" in text:
        faults.append(f"{words}: not self-contained")
    if not any(e.get("class", "").startswith("dark" if large else "message") for e in tree.iter(SVG + "path")):
        faults.append(f"{words}: no message")


def refuses(sentence, *words):
    status, out, err = run(*words)
    if status == 0 or out or sentence not in err + out:
        faults.append(f"{words}: expected \"{sentence}\", found status {status}, \"{err}\"")


status, listed, _ = run("--list")
drawn = 0
for line in listed.splitlines():
    name, kinds = line.split(": ")
    for kind in kinds.split(", "):
        for ranks in ("2", "5", "8", "16"):
            status, text, said = run(name, kind, ranks)
            if status == 0:
                look((name, kind, ranks), text)
                drawn += 1
            elif "does not support this number of ranks" not in said:
                faults.append(f"{name} {kind} {ranks}: {said}")
if drawn < 80:
    faults.append(f"only {drawn} pictures")

refuses("there is no algorithm 'rign'; choose one of\nring: ", "rign", "allreduce", "4")
refuses("there is no broadcast in 'ring'; choose from\nring: ", "ring", "broadcast", "4")
refuses("does not support this number of ranks", "recursive_doubling", "allgather", "6")
refuses("ranks", "ring", "allreduce", "1")
refuses("name an algorithm; one of\nring: ")
refuses("cannot write", "ring", "--out", "/nowhere/at/all.svg")

picture = root / "examples/draw/four.svg"
status, text, said = run(*FOUR)
if "--update" in sys.argv:
    picture.write_text(text)
look(FOUR, text)
if not picture.exists() or picture.read_text() != text:
    faults.append(f"examples/draw/four.svg is out of date; make it anew: draw {' '.join(FOUR)} --out {picture}")
titles = re.findall(r'class="name"[^>]*>([^<]*)<', text)
if [title.split(",")[0] for title in titles] != FOUR[0].split(","):
    faults.append(f"four.svg has the titles {titles}")

print("\n".join(faults) or f"{drawn} pictures are sound, and four.svg is up to date")
sys.exit(1 if faults else 0)
