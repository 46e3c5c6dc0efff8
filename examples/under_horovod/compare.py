#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compares unchanged Horovod over an MPI without and with the library of examples/under_mpi: results, and times of allreduce.
"""Usage: compare.py NAME LAUNCHER LIBRARY [--ranks 2 4] [--repeats 20] [--limit 300]
NAME: the MPI's name, for the output; LAUNCHER: its mpiexec; LIBRARY: libkolo_mpi.so; LIMIT: seconds after which ranks are killed

Runs itself with LAUNCHER, without the library and with it, twice each in turn. The ranks call all functions of horovod.torch for host tensors, with numbers
whose sums are exact in every order, and train a network with DistributedOptimizer. Times are the lower one of the two runs' medians.
"""
import argparse
import hashlib
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import torch

MIB = 2**20
SIZES = (1, 16, 64)


def calls(hvd):
    """The results of all calls, in order. Horovod names an unnamed call by the number of calls of its rank: after calls that only some ranks make, calls need
    names, or they wait for ever."""
    r, p = hvd.rank(), hvd.size()
    x = torch.arange(6.0).reshape(2, 3) + r
    for op in (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product, hvd.Adasum):
        yield hvd.allreduce(x, op=op)
    yield hvd.allreduce_(x.clone(), op=hvd.Sum)
    yield hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
    yield hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16)
    for dtype in (torch.int32, torch.int64, torch.float16, torch.float64):
        yield hvd.allreduce(x.to(dtype), op=hvd.Sum)
    yield from hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum)
    yield from hvd.grouped_allreduce_([x.clone(), 2 * x], op=hvd.Sum)
    yield hvd.sparse_allreduce_async(torch.eye(3)[r % 3].to_sparse(), name="sparse", op=hvd.Sum)().to_dense()
    yield hvd.allgather(x[: 1 + r % 2])
    yield from hvd.grouped_allgather([x, 3 * x])
    yield torch.tensor(hvd.allgather_object({"rank": r})[-1]["rank"])
    for root in range(p):
        yield hvd.broadcast(x, root)
        yield hvd.broadcast_(x.clone(), root)
    yield torch.tensor(hvd.broadcast_object([r, 7], 1))
    yield hvd.alltoall(torch.arange(2.0 * p) + r)
    yield from hvd.alltoall(torch.arange(p * (p + 1) / 2) + r, splits=torch.arange(1, p + 1, dtype=torch.int32))
    rows = torch.arange(2.0 * p).reshape(2 * p, 1) + r
    yield hvd.reducescatter(rows, op=hvd.Sum)
    yield from hvd.grouped_reducescatter([rows, 2 * rows], op=hvd.Average)
    later = hvd.allreduce_async(x, op=hvd.Sum)
    while not hvd.poll(later):
        time.sleep(0)
    yield hvd.synchronize(later)
    some = hvd.add_process_set([p - 1])
    if some.included():
        yield hvd.allreduce(x, op=hvd.Sum, process_set=some)
    hvd.remove_process_set(some)
    hvd.barrier()
    if r == 0:  # the other ranks are in join()
        yield hvd.allreduce(x, op=hvd.Sum, name="of one rank alone")
    hvd.join()


def training(hvd):
    """The parameters after some steps, as one vector."""
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    x = torch.randn(32, 64)
    for _ in range(30):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), x[:, :10].argmax(1)).backward()
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def milliseconds(hvd, mib, repeats):
    """Milliseconds of an allreduce on the slowest rank, the median."""
    x, all_taken = torch.zeros(mib * MIB // 4), []
    for _ in range(3 + repeats):
        hvd.barrier()
        begin = time.perf_counter()
        hvd.allreduce_(x, op=hvd.Sum, name=f"{mib} MiB")
        all_taken.append(1e3 * hvd.allreduce(torch.tensor(time.perf_counter() - begin), op=hvd.Max, name="taken").item())
    return statistics.median(all_taken[3:])


def as_rank(to, repeats):
    import horovod.torch as hvd
    hvd.init()
    torch.set_num_threads(1)
    digest = hashlib.sha256()
    for i, result in enumerate(calls(hvd)):
        digest.update(f"{i} {result.dtype} {tuple(result.shape)}".encode())
        digest.update(result.contiguous().numpy().tobytes())
    digests = hvd.allgather_object(digest.hexdigest())
    parameters = training(hvd)
    everybody = hvd.allgather(parameters[None], name="parameters")
    assert all(torch.equal(one, parameters) for one in everybody), "ranks have different parameters"
    taken = {str(mib): milliseconds(hvd, mib, repeats) for mib in SIZES}
    if hvd.rank() == 0:
        with open(to, "w") as out:
            json.dump({"digests": digests, "parameters": parameters.tolist(), "taken": taken}, out)
    hvd.shutdown()


def run(options, ranks, preloaded):
    """Runs the ranks; returns their results."""
    with tempfile.NamedTemporaryFile() as found:
        command = [*shlex.split(options.launcher), "-n", str(ranks), "timeout", "-k", "5", str(options.limit), "env", "HOROVOD_DYNAMIC_PROCESS_SETS=1"]
        if preloaded:
            command += ["KOLO_MPI_REPORT=1", f"LD_PRELOAD={preloaded}"]
        command += [sys.executable, __file__, "rank", found.name, str(options.repeats)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=options.limit + 30)
        if done.returncode:
            sys.exit(f"{done.stdout}\n{shlex.join(command)}\nreturned {done.returncode}")
        one = json.load(found)
        one["ran"] = [line for line in done.stdout.splitlines() if line.startswith("kolo under MPI, rank 0:")]
        return one


def compare(options, ranks):
    """Prints a comparison without and with kolo; returns whether the results are equal."""
    ways = {"without": "", "with": options.preloaded}
    found = {way: [] for way in ways}
    for _ in range(2):
        for way, preloaded in ways.items():
            found[way].append(run(options, ranks, preloaded))
    one, other = found["without"][0], found["with"][0]
    apart = max(abs(a - b) for a, b in zip(one["parameters"], other["parameters"]))
    calls_agree = one["digests"] == other["digests"]
    print(f"{options.name}, {ranks} ranks: all calls {'have the same results' if calls_agree else 'do NOT have the same results'}; parameters after DistributedOptimizer differ by {apart:.1e}")
    for mib in SIZES:
        before, after = (min(run["taken"][str(mib)] for run in found[way]) for way in ways)
        print(f"  hvd.allreduce_, {mib:2} MiB: {before:7.1f} ms without, {after:7.1f} ms with kolo, {before / after:.1f}x")
    print("  " + "; ".join(other["ran"]), flush=True)
    return calls_agree and apart <= (0 if ranks == 2 else 1e-4) and bool(other["ran"])  # with more than two ranks the order of sums differs


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        as_rank(sys.argv[2], int(sys.argv[3]))
        sys.exit()
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("name", "launcher", "preloaded"):
        parser.add_argument(name)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--limit", type=int, default=300)
    options = parser.parse_args()
    sys.exit(not all([compare(options, ranks) for ranks in options.ranks]))
