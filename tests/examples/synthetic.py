# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks what examples/synthetic prints: sizes, steps, learning rates, the table of all runs; on two processes, and in virtual time.
"""Usage: synthetic.py PROGRAM REPOSITORY"""
import pathlib
import re
import subprocess
import sys

program, root = sys.argv[1], pathlib.Path(sys.argv[2])
network = root / "examples/scaling/v100_25gbit.json"
faults = []


def run(*words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def expect(condition, sentence):
    if not condition:
        faults.append(sentence)


def scaling(text):
    """(ranks, overlap) -> samples/s, step ms, communication %, efficiency %, start-up s."""
    lines = re.findall(r"^ +(\d+) +(on|off) +(.*)$", text, re.M)
    return {(int(ranks), mode): list(map(float, rest.split())) for ranks, mode, rest in lines}


def check_table(text, batch, compute_ms):
    rows = scaling(text)
    base = next(iter(rows.values()))[1]
    for (ranks, mode), (rate, step, communication, efficiency, start) in rows.items():
        expect(abs(rate - 1e3 * ranks * batch / step) < 2e-3 * rate, f"samples/s and step of {ranks} {mode}")
        expect(abs(efficiency - 100 * base / step) < 0.2, f"the efficiency of {ranks} {mode}")
        expect(0 <= communication < 100 and step >= compute_ms / 2 and start >= 0, f"the times of a step of {ranks} {mode}")
    return rows


status, text, said = run("--shrink", 64, "--compute-ms", 2, "--steps", 4, "--batch", 8)
expect(status == 0, f"two processes: {said}")
expect("161 gradient tensors, 25557032 elements, reduced by --shrink to" in text, "the sizes of ResNet-50 are not printed")
expect(list(check_table(text, 8, 2)) == [(1, "off"), (1, "on"), (2, "off"), (2, "on")], "the rows of two processes")
expect("1.96 sigma" in text and "as in the first line" in text, "spread or base is not printed")

virtual = ("--simulate", network, "--ranks", 4, "--shrink", 256, "--compute-ms", 1, "--batch", 4, "--steps", 11, "--every", 10)
status, text, said = run(*virtual, "--model", "gpt2", "--bucket-bytes", 300000)
expect(status == 0 and "148 gradient tensors, 124439808 elements" in text, f"GPT-2: {said}")
rates = re.findall(r"^ +(\d+) +\S+ +(\d\.\d{5}) ", text, re.M)[:3]
expect(rates == [("0", "6.40000"), ("1", "6.38721"), ("10", "6.27264")], f"steps and learning rates: {rates}")
rows = check_table(text, 4, 1)
expect(rows[4, "on"][1] < rows[4, "off"][1], f"overlap does not help: {rows}")
tensors = [int(n) for n in re.findall(r"^  \d+: \d+ bytes, (\d+) tensors?", text, re.M)]
expect(len(tensors) > 2 and sum(tensors) == 148, f"the plan of the buckets: {tensors}")
expect(text == run(*virtual, "--model", "gpt2", "--bucket-bytes", 300000)[1], "virtual time differs from run to run")

for words, sentence in ((("--model", "alexnet"), "alexnet"), (("--algorithm", "star"), "star"), (("--expect-shorter", 5, "--overlap", "on"), "needs --overlap both"),
                        (("--simulate", "/nowhere.json"), "/nowhere.json")):
    status, text, said = run(*words)
    expect(status != 0 and sentence in said + text, f"{words}: \"{sentence}\" was not said, but \"{said}\"")
expect(run(*virtual, "--bucket-bytes", 300000, "--expect-shorter", 99)[0] == 1, "99 % shorter is not possible")

for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
