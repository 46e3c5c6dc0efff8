#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Trains a network with DistributedDataParallel over Gloo and over kolo; compares losses and times per step; then kills a rank.
"""Usage: train.py [--ranks 2 4] [--steps 30] [--width 2500]

Trains the same network three times, with interleaved steps: without an exchange, over Gloo, over kolo. To use kolo, a program needs:

    import kolo_c10d
    torch.distributed.init_process_group("kolo")
"""
import argparse
import os
import signal
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import kolo_c10d  # noqa: F401: registers the backend "kolo"

INPUTS, CLASSES, BATCH = 64, 10, 8
MIB = 2**20


def network(width):
    torch.manual_seed(1)
    layers = [layer for i in (INPUTS, width, width) for layer in (torch.nn.Linear(i, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, CLASSES))


def trainer(model):
    """Returns step(), which trains on this rank's batch and returns its loss."""
    x = torch.randn(BATCH, INPUTS, generator=torch.Generator().manual_seed(100 + dist.get_rank()))
    wanted = x[:, :CLASSES].argmax(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        loss = torch.nn.functional.cross_entropy(model(x), wanted)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def seconds(f):
    """The result of f, and its seconds on the slowest rank."""
    dist.barrier()
    begin = time.perf_counter()
    value = f()
    taken = torch.tensor(time.perf_counter() - begin)
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return value, taken.item()


def no_exchange(_, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def compare(rank, ranks, options):
    dist.init_process_group("kolo", rank=rank, world_size=ranks)
    groups = {"gloo": dist.new_group(backend="gloo"), "kolo": dist.group.WORLD}
    models = {name: DistributedDataParallel(network(options.width), process_group=groups.get(name), bucket_cap_mb=25) for name in ("none", *groups)}
    models["none"].register_comm_hook(None, no_exchange)
    steps = {name: trainer(model) for name, model in models.items()}
    bucket = {name: torch.zeros(25 * MIB // 4) for name in groups}
    taken, exchanged, losses = ({name: [] for name in steps} for _ in range(3))
    for _ in range(options.steps):
        for name, step in steps.items():
            loss, s = seconds(step)
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
            losses[name].append(loss.item())
            taken[name].append(1e3 * s)
        for name, group in groups.items():
            exchanged[name].append(1e3 * seconds(lambda: dist.all_reduce(bucket[name], group=group))[1])
    if rank == 0:
        report(ranks, options, taken, exchanged, losses)
    dist.barrier()
    dist.destroy_process_group()


def report(ranks, options, taken, exchanged, losses):
    # DDP rebuilds its buckets in the first step.
    step, exchange = ({name: statistics.median(all[2:]) for name, all in of.items()} for of in (taken, exchanged))
    elements = sum(p.numel() for p in network(options.width).parameters())
    print(f"{ranks} ranks, {elements / 1e6:.1f} million parameters, {4 * elements / MIB:.0f} MiB of gradients in buckets of 25 MiB; milliseconds, medians of {options.steps - 2} steps")
    print(f"{'':8}{'step':>8}{'communication':>16}{'25 MiB':>10}   first and last loss")
    for name in step:
        rest = f"{step[name] - step['none']:16.1f}{exchange[name]:10.1f}" if name in exchange and exchange[name] else " " * 26
        print(f"{name:8}{step[name]:8.1f}{rest}   {losses[name][0]:.6f} {losses[name][-1]:.6f}")
    apart = max(abs(a - b) for a, b in zip(losses["gloo"], losses["kolo"])) / losses["gloo"][0]
    faster = (step["gloo"] - step["none"]) / max(step["kolo"] - step["none"], 1e-3)
    print(f"Losses differ by at most {apart:.1e} of the first one. Communication takes Gloo {faster:.1f} times as long as kolo in a step, and "
          f"{exchange['gloo'] / exchange['kolo']:.1f} times as long for one bucket of 25 MiB.", flush=True)
    assert apart < 1e-4, losses  # with more than two ranks the order of sums differs
    assert losses["kolo"][-1] < losses["kolo"][0], "the loss has not decreased"


def lose_one(rank, ranks, options):
    """Kills rank 1 in the middle of the training; the exceptions of the others must name it within a second."""
    dist.init_process_group("kolo", rank=rank, world_size=ranks)
    step = trainer(DistributedDataParallel(network(64)))
    killed = None
    try:
        for i in range(100):
            if i == 50 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            killed = time.perf_counter()
            step()
    except RuntimeError as e:
        took = time.perf_counter() - killed
        print(f"rank {rank} fails {took:.2f} s after the start of its last step: {e}", flush=True)
        assert "rank 1" in str(e) and took < 1, "the exception does not name rank 1 within a second"
        return
    raise AssertionError(f"rank {rank} got no exception")


def run(ranks, body, options):
    """Runs body on `ranks` processes; returns their exit codes."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29400 + os.getpid() % 500), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    processes = [torch.multiprocessing.get_context("fork").Process(target=body, args=(rank, ranks, options)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="numbers of ranks, one comparison each (default: 2 4)")
    parser.add_argument("--steps", type=int, default=30, help="steps; the first two are not counted (default: 30)")
    parser.add_argument("--width", type=int, default=2500, help="width of the two hidden layers (default: 2500)")
    options = parser.parse_args()
    if options.steps < 3:
        parser.error("--steps must be at least 3: the first two are not counted")
    torch.set_num_threads(1)
    well = all([run(ranks, compare, options) == [0] * ranks for ranks in options.ranks])
    print("Three ranks train over kolo; rank 1 is killed:", flush=True)
    well = run(3, lose_one, options) == [0, -signal.SIGKILL, 0] and well
    sys.exit(not well)
