# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# examples/torch: parallel.cpp differs from single.cpp by at most six lines, train/README.md shows exactly these, and both learn the same.
"""Usage: torch.py diff REPOSITORY | torch.py run SINGLE PARALLEL"""
import difflib
import os
import pathlib
import re
import subprocess
import sys

LINES, TOLERANCE = 6, 1e-4  # of a loss; another seed, or gradients that are not averaged, change it by a tenth and more


def changed(root):
    """The lines that only one of the files has, with diff's signs."""
    texts = [(root / "examples/torch" / name).read_text().splitlines() for name in ("single.cpp", "parallel.cpp")]
    return [line for line in difflib.unified_diff(*texts, n=0, lineterm="") if re.match(r"[+-](?![+-]{2} )", line)]


def diff(root):
    lines = changed(root)
    for sign in "-+":
        count = sum(line[0] == sign for line in lines)
        assert 0 < count <= LINES, f"{count} lines with {sign}:\n" + "\n".join(lines)
    page = (root / "include/kolo/train/README.md").read_text()
    shown = [block.splitlines() for block in re.findall(r"```diff\n(.*?)```", page, re.S) if "torch_optimizer" in block]
    assert len(shown) == 1, "include/kolo/train/README.md shows the difference once"
    assert shown[0] == lines, "include/kolo/train/README.md shows another difference; it is\n" + "\n".join(lines)
    print(f"{sum(line[0] == '+' for line in lines)} lines of parallel.cpp are new")


def losses(ranks, program, batch):
    """Runs the ranks, and returns (loss, percent) of each epoch."""
    environments = [{**os.environ, "KOLO_JOB": f"torch.{os.getpid()}", "KOLO_RANK": str(r), "KOLO_SIZE": str(ranks)} for r in range(ranks)]
    running = [subprocess.Popen([program, str(batch), "3"], env=e, stdout=subprocess.PIPE, text=True) for e in environments]
    said = "".join(p.communicate(timeout=100)[0] for p in running)
    assert all(p.returncode == 0 for p in running), [p.returncode for p in running]
    found = [(float(l), float(p)) for l, p in re.findall(r"^epoch \d+: loss ([\d.]+), ([\d.]+) %", said, re.M)]
    assert len(found) == 3 and said.count("\n") == 3, said
    return found


def run(single, parallel):
    one = losses(1, single, 64)
    assert one[-1][1] > 80, f"nothing was learned: {one}"
    for ranks in (1, 2, 4):
        many = losses(ranks, parallel, 64 // ranks)
        apart = max(abs(a - b) / a for (a, _), (b, _) in zip(one, many))
        print(f"{ranks} ranks, batches of {64 // ranks}: losses differ by {apart:.1e} from those of one process")
        assert apart <= TOLERANCE, f"{many} instead of {one}"


if __name__ == "__main__":
    if sys.argv[1] == "diff":
        diff(pathlib.Path(sys.argv[2]))
    else:
        run(*sys.argv[2:])
