# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks what examples/scaling prints and writes: the table, the CSV file, the sizes, the error messages, the picture.
"""Usage: scaling.py PROGRAM REPOSITORY"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

program, root = sys.argv[1], pathlib.Path(sys.argv[2])
faults = []


def run(*words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def expect(condition, sentence):
    if not condition:
        faults.append(sentence)


def rows_of(text):
    """Maps a number of GPUs to the words of its line."""
    lines = [line.split() for line in text.splitlines()]
    return {int(words[0]): words for words in lines if len(words) >= 8 and words[0].isdigit() and words[1].isdigit()}


def refuses(sentence, *words):
    status, out, err = run(*words)
    expect(status not in (0, None) and sentence in err + out, f"{words}: expected \"{sentence}\", found status {status}, \"{err}\"")


with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    status, text, said = run("--csv", work / "a.csv")
    rows = rows_of(text)
    expect(status == 0, f"status {status}: {said}")
    expect(list(rows) == [1, 2, 4, 8, 16, 32, 64, 128, 256], f"rows of {list(rows)}")
    expect("25557032 gradients" in text and "not fitted" in text and "753.0 images per second" in text, "the assumptions are not printed")
    for gpus, published in ((4, "3012"), (8, "5874"), (32, "19600"), (256, "143000")):
        expect(rows[gpus][6] == published, f"{published} does not stand beside {gpus} GPUs: {rows[gpus]}")
        expect(abs(float(rows[gpus][7]) - float(rows[gpus][1]) / float(published)) < 1e-3, f"the ratio of {gpus} GPUs: {rows[gpus]}")
    expect(" 171000 " in text, "171000 is missing")
    for gpus, words in rows.items():
        rate, step, communication, efficiency = map(float, words[1:5])
        expect(abs(rate - gpus * 256 / step * 1e3) < 1e-3 * rate, f"img/s and time of {gpus} GPUs: {words}")
        expect(abs(efficiency - 100 * rate / (753 * gpus)) < 0.1 and abs(efficiency + communication - 100) < 0.1, f"efficiency of {gpus}: {words}")
        expect(words[5] == "-", f"a start-up time that was not given: {words}")
    expect(float(rows[1][1]) == 753 and float(rows[256][1]) < 256 * 753, "one GPU is the base, and 256 lose something")

    with open(work / "a.csv", newline="") as file:
        written = list(csv.DictReader(file))
    expect([int(r["gpus"]) for r in written] == list(rows), "the rows of the CSV file")
    expect(written[-1]["published"] == "143000" and written[-1]["published_later"] == "171000", "the published figures of the CSV file")
    expect(abs(float(written[-1]["images_per_second"]) - float(rows[256][1])) < 2, "img/s of the CSV file")

    step = {}
    for flags in ((), ("--overlap", 0), ("--overlap", 0, "--wire", "float16"), ("--overlap", 0, "--algorithm", "ring"), ("--bucket-mib", 200)):
        status, text, said = run("--gpus", 64, *flags)
        expect(status == 0, f"{flags}: {said}")
        step[flags] = float(rows_of(text)[64][2])
    expect(step["--overlap", 0] > step[()], "without overlap a step takes no longer")
    expect(step["--overlap", 0, "--wire", "float16"] < step["--overlap", 0], "half the bytes take no less")
    expect(step["--overlap", 0, "--algorithm", "ring"] >= step["--overlap", 0], "the ring is faster than the fastest")
    expect(step["--bucket-mib", 200] > step[()], "one bucket hides as much as five")

    network = work / "network.json"
    network.write_text(json.dumps({"latency": 1e-5, "seconds_per_byte": 1e-9}))
    status, text, said = run("--which", "--network", network, "--ranks", 16)
    expect(status == 0 and all(f"\n{k}\n" in text for k in ("allreduce", "broadcast", "allgather")), f"--which: {said}")
    tables = text.split("\n\n")[1:]
    for table in tables:
        lines = table.splitlines()[2:]
        expect(len(lines) >= (1 if table.strip().startswith("allgather") else 2) and lines[0].split()[:2] == ["4", "B"] and " 1 GiB " in lines[-1], f"--which: {table}")

    network.write_text('{"lag": 1}')
    refuses('network.json: kolo: a network has no "lag"', "--network", network)
    refuses("cannot be read", "--network", work / "none.json")
    refuses('there is no allreduce "rign"', "--algorithm", "rign")
    refuses("--wire", "--wire", "float8")
    refuses("--overlap", "--overlap", "2")
    refuses("cannot write", "--csv", work / "none" / "a.csv", "--gpus", 2)

    plot = [sys.executable, root / "examples/scaling/plot.py", work / "a.svg", f"fastest={work / 'a.csv'}"]
    done = subprocess.run(plot, capture_output=True, text=True, timeout=100)
    if "needs matplotlib" in done.stderr:
        print("no matplotlib: plot.py is not tested")
    else:
        expect(done.returncode == 0 and "<svg" in (work / "a.svg").read_text(), f"plot.py: {done.stderr}")

print("\n".join(faults) or "passed")
sys.exit(1 if faults else 0)
