# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles and runs every whole program of the README, with nothing but -I include, and checks that every file it names exists.
import pathlib
import re
import subprocess
import sys
import tempfile

root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
text = (root / "README.md").read_text()
faults = []

programs = [block for block in re.findall(r"```cpp\n(.*?)```", text, re.S) if "int main" in block]
if len(programs) < 3:
    faults.append(f"only {len(programs)} whole programs were found in the README")
with tempfile.TemporaryDirectory() as scratch:
    for number, program in enumerate(programs):
        source, binary = pathlib.Path(scratch, f"{number}.cpp"), pathlib.Path(scratch, f"{number}")
        source.write_text(program)
        build = subprocess.run([compiler, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", root / "include", source, "-o", binary],
                               capture_output=True, text=True)
        if build.returncode != 0:
            faults.append(f"program {number} does not compile:\n{build.stderr[:3000]}")
            continue
        run = subprocess.run([binary], capture_output=True, text=True, timeout=60)
        if run.returncode != 0:
            faults.append(f"program {number} returns {run.returncode}:\n{run.stderr}")

for link in re.findall(r"\]\(([\w./-]+)\)", text):
    if "://" not in link and not (root / link).exists():
        faults.append(f"the README names {link}, which does not exist")
for path in re.findall(r"`((?:include|examples|tests|cmake)/[\w./-]+)`", text):
    if not (root / path).exists():
        faults.append(f"the README names {path}, which does not exist")

print("\n".join(faults) or f"{len(programs)} programs ran, every file that is named exists")
sys.exit(1 if faults else 0)
