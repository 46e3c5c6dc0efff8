# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks what examples/synthetic prints over MPI: every way to exchange, with equal bits whenever it exchanges; and consistent numbers.
"""Usage: synthetic_over_mpi.py PROGRAM MPIEXEC"""
import re
import subprocess
import sys

program, mpiexec = sys.argv[1:]
faults = []
ROW = re.compile(r"^ +(after|during|helper) +(planned|tensor|one|by hand) +(\d+) +(\S+) +(\S+) \+- +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)  ([0-9a-f]{16})$", re.M)


def run(ranks, *words):
    done = subprocess.run([mpiexec, "-n", str(ranks), program, "--shrink", "512", "--steps", "3", "--compute-ms", "1", "--batch", "8", *words],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def expect(condition, sentence):
    if not condition:
        faults.append(sentence)


def rows_of(text):
    """(exchange, cut) -> number of buckets, median, mean, sigma, samples/s, computing, updating, hidden, bits."""
    return {(r[0], r[1]): (*map(float, r[2:10]), r[10]) for r in ROW.findall(text)}


def check(ranks, cuts, *words):
    status, text, said = run(ranks, "--when", "after,during,helper", "--cut", ",".join(cuts), *words)
    expect(status == 0, f"{ranks} ranks, {words}: {said}{text}")
    rows = rows_of(text)
    wanted = {(when, cut) for when in ("after", "during", "helper") for cut in cuts} | ({("after", "by hand")} if "--no-hand" not in words else set())
    expect(set(rows) == wanted, f"{ranks} ranks: the rows are {sorted(rows)}")
    for (when, cut), (number, median, _, _, rate, computing, _, hidden, bits) in rows.items():
        if cut != "by hand":
            expect(bits == rows["after", cut][-1], f"{ranks} ranks, {cut}: other bits {when} the backward pass")
        expect({"tensor": 161, "by hand": 161, "one": 1}.get(cut, number) == number, f"{number} buckets, {cut}")
        expect(abs(rate * median - 1e3 * ranks * 8) <= 6e-4 * rate + 0.06 * median, f"samples/s of {when}, {cut}: {rate}, {median}")  # to the printed precision
        expect(0 < computing and 0 <= hidden <= 100 and (hidden == 0 or when != "after"), f"computing or hidden of {when}, {cut}: {computing}, {hidden}")
    return text, rows


text, rows = check(2, ("planned", "tensor", "one"))
expect("161 gradient tensors, 25557032 elements, reduced by --shrink to" in text and "2 ranks on 1 node" in text, "the sizes are not printed")
expect(len({row[-1] for row in rows.values()}) == 1, "among two ranks there is only one order to add in")
for when, cut, said in (("during", "tensor", "a bucket for each tensor"), ("after", "one", "one bucket for all"), ("helper", "by hand", "MPI_Allreduce for each tensor")):
    found = re.search(rf"^{when}: planned buckets take (\S+) of the time of {said}\.$", text, re.M)
    ratio = rows[when, "planned"][1] / rows["after" if cut == "by hand" else when, cut][1]
    expect(found and abs(float(found[1]) - ratio) < 0.01 * ratio + 0.001, f"{when}, {said}: {found and found[1]}, not {ratio}")
check(3, ("planned",), "--no-hand", "--bucket-bytes", "50000", "--algorithm", "ring")
check(2, ("planned",), "--transport", "routed", "--compute-exchanges", "0.5")

expect(run(2, "--expect-shorter", "99.9", "--no-hand")[0] != 0, "99.9 % shorter is not possible")
for words, sentence in ((("--cut", "two"), "two"), (("--when", "before"), "before"), (("--expect-shorter", "5", "--when", "after"), "needs --when"), (("--transport", "carrier"), "carrier")):
    for _ in range(5):  # MPICH's mpiexec sometimes drops the output of a process that ends at once
        status, text, said = run(1, *words)
        if said + text:
            break
    expect(status != 0 and sentence in said + text, f"{words}: \"{sentence}\" was not said, but \"{said}\"")

for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
