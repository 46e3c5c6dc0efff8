# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# examples/ddp: every call of kolo's process group compared with the expected result, refusals, and a rank that dies.
"""Usage: ddp.py FOLDER [RANKS]     FOLDER: where the module kolo_c10d is. Under mpiexec: one rank, which only makes the calls."""
import datetime
import os
import signal
import sys
import time

sys.path.pop(0)  # the folder of this file has another torch.py
try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("not run: this Python has no torch (python3-torch)")
    sys.exit(77)
sys.path.insert(0, sys.argv[1])
import kolo_c10d  # noqa: E402, F401

FOLDER, RANKS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
Op = dist.ReduceOp


def full(value, shape=(5,), dtype=torch.float32):
    return torch.full(shape if isinstance(shape, tuple) else (shape,), value).to(dtype)


def same(got, wanted):
    assert got.dtype == wanted.dtype and torch.equal(got, wanted), f"{got} instead of {wanted}"


def refused(words, call, *values, **named):
    try:
        call(*values, **named)
    except RuntimeError as e:
        assert words in str(e), e
        return
    raise AssertionError(f"not refused: {words}")


def combined(r, p):
    numbers = range(1, p + 1)
    for op, wanted in ((Op.SUM, sum(numbers)), (Op.AVG, sum(numbers) / p), (Op.MIN, 1), (Op.MAX, p), (Op.PRODUCT, [1, 1, 2, 6, 24][p])):
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, *((torch.int64, torch.uint8) if op != Op.AVG else ())):
            t = full(r + 1, 7, dtype)
            dist.all_reduce(t, op=op)
            same(t, full(wanted, 7, dtype))
    for op, wanted in ((Op.BAND, 0), (Op.BOR, 2**p - 1), (Op.BXOR, 2**p - 1)):
        t = full(2**r, 7, torch.int32)
        dist.all_reduce(t, op=op)
        same(t, full(wanted, 7, torch.int32))
    t = torch.tensor([r == 0, True, False])
    dist.all_reduce(t)
    same(t, torch.tensor([True, True, False]))
    t = full(r + 1.0)
    dist.all_reduce(t, op=dist._make_nccl_premul_sum(2.0))
    same(t, full(2.0 * sum(numbers)))
    t = torch.arange(12.0).reshape(3, 4).t()  # strided
    dist.all_reduce(t)
    same(t, p * torch.arange(12.0).reshape(3, 4).t())
    t = full(r + 1.0)
    dist.reduce(t, dst=p - 1)
    assert r != p - 1 or torch.equal(t, full(float(sum(numbers))))
    t = torch.sparse_coo_tensor(torch.tensor([[r, 0]]), torch.tensor([1.0, 2.0]), (p,))
    dist.all_reduce(t)
    same(t.to_dense(), torch.tensor([2.0 * p + 1] + [1.0] * (p - 1)))
    parts = [full(10.0 * k + r, k + 1) for k in range(p)]  # of different lengths
    t = torch.zeros(r + 1)
    dist.reduce_scatter(t, parts)
    same(t, full(10.0 * r * p + sum(range(p)), r + 1))
    t = torch.zeros(2)
    dist.reduce_scatter_tensor(t, torch.arange(2.0 * p), op=Op.AVG)
    same(t, torch.arange(2.0 * r, 2.0 * r + 2))


def moved(r, p):
    everybody = [full(k, (2, 3), torch.int16) for k in range(p)]
    t = full(r, (3, 2), torch.int16).t()
    dist.broadcast(t, src=1)
    same(t, everybody[1])
    got = [torch.zeros(2, 3, dtype=torch.int16) for _ in range(p)]
    dist.all_gather(got, everybody[r])
    all(same(*pair) is None for pair in zip(got, everybody))
    t = torch.zeros(2 * p, 3, dtype=torch.int16)
    dist.all_gather_into_tensor(t, everybody[r])
    same(t, torch.cat(everybody))
    got = [torch.zeros(2, 3, dtype=torch.int16) for _ in range(p)] if r == 1 else None
    dist.gather(everybody[r], got, dst=1)
    for a, b in zip(got or [], everybody):
        same(a, b)
    t = torch.zeros(2, 3, dtype=torch.int16)
    dist.scatter(t, everybody if r == 0 else None, src=0)
    same(t, everybody[r])
    got = [torch.zeros(r + 1) for _ in range(p)]
    dist.all_to_all(got, [full(float(r), k + 1) for k in range(p)])
    for k, t in enumerate(got):
        same(t, full(float(k), r + 1))
    t = torch.zeros(2 * p)
    dist.all_to_all_single(t, full(float(r), 2 * p))
    same(t, torch.arange(float(p)).repeat_interleave(2))
    objects = [None] * p
    dist.all_gather_object(objects, {"rank": r})
    assert objects == [{"rank": k} for k in range(p)]


def sent(r, p):
    """Messages match by tag, in any order; several are pending at once."""
    after, before = (r + 1) % p, (r - 1) % p
    a, b = torch.zeros(4), torch.zeros(4)
    receipts = [dist.irecv(b, before, tag=2), dist.irecv(a, before, tag=1)]
    for tag in (1, 2):
        dist.isend(full(10.0 * tag + r, 4), after, tag=tag).wait()
    for receipt in receipts:
        receipt.wait()
    same(a, full(10.0 + before, 4))
    same(b, full(20.0 + before, 4))
    if r == 0:
        t = torch.zeros(1)
        assert {dist.recv(t) for _ in range(p - 1)} == set(range(1, p))
    else:
        dist.send(full(float(r), 1), 0)


class Busy(dist.Store):
    """Refuses to set and to get the first message, once each."""

    def __init__(self, store):
        super().__init__()
        self.store, self.refused = store, set()

    def refuse_once(self, call, key):
        if "message" in key and call not in self.refused:
            self.refused.add(call)
            raise RuntimeError("the store is busy")

    def set(self, key, value):
        self.refuse_once("set", key)
        self.store.set(key, value)

    def get(self, key):
        self.refuse_once("get", key)
        return self.store.get(key)

    def add(self, key, n):
        return self.store.add(key, n)

    def check(self, keys):
        return all(self.store.compare_set(k, "absent", "absent") != b"absent" for k in keys)

    def wait(self, keys, timeout=None):
        self.store.wait(keys)

    def deleteKey(self, key):
        return self.store.delete_key(key)


def sent_again(r, p):
    """A message that the store has refused is not sent, or not received, and the next call sends or receives it."""
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    its = Busy(store)  # the store's Python object must outlive the group
    group = kolo_c10d.make(its, r, p, datetime.timedelta(seconds=10))
    t = full(7.0 if r == 0 else 0.0)
    if r == 0:
        refused("busy", lambda: group.send([t], 1, 0).wait())
        group.send([t], 1, 0).wait()
    elif r == 1:
        refused("busy", lambda: group.recv([t], 0, 0).wait())
        group.recv([t], 0, 0).wait()
        same(t, full(7.0))
    dist.barrier()


def asynchronous(r, p):
    in_flight = [dist.all_reduce(full(float(r), 1000), async_op=True) for _ in range(20)]
    for work in in_flight:
        work.wait()
    t = full(1.0)
    last = dist.all_reduce(t, async_op=True)
    while not last.is_completed():  # no rank waits for it
        time.sleep(0.001)
    same(t, full(float(p)))
    same(last.result()[0], t)
    assert torch.equal(dist.all_reduce(t, async_op=True).get_future().wait()[0], full(float(p * p)))
    if r == 0:
        late = dist.barrier(async_op=True)
        refused("timed out", late.wait, datetime.timedelta(milliseconds=20))
        dist.send(torch.ones(1), 1, tag=9)
        late.wait()
    elif r == 1:
        dist.recv(torch.ones(1), 0, tag=9)
    if r > 0:
        dist.barrier()


def chained(r, p):
    """Callbacks wait for other calls, several at once, as in PyTorch's PowerSGD hook; and for messages."""

    def again(done):
        return dist.all_reduce(done.value()[0], async_op=True).get_future().wait()

    begun = [dist.all_reduce(full(1.0, 1 << 18), async_op=True) for _ in range(4)]
    for end in [one.get_future().then(again) for one in begun]:  # they may run in any order
        same(end.wait()[0], full(float(p**2), 1 << 18))
    same(dist.all_reduce(full(1.0), async_op=True).get_future().then(again).then(again).wait()[0], full(float(p**3)))
    after, before = (r + 1) % p, (r - 1) % p
    for tag in (3, 4):
        dist.send(full(float(r)), after, tag=tag)
    first, second = torch.zeros(5), torch.zeros(5)
    dist.irecv(first, before, tag=3).get_future().then(lambda _: dist.irecv(second, before, tag=4).get_future().wait()).wait()
    same(first + second, full(2.0 * before))


def coalesced(r, p):
    lists = [full(r + 1.0, 3), full(r + 1.0, (2, 2)).t()]
    dist.all_reduce_coalesced(lists, op=Op.MAX)
    same(lists[0], full(float(p), 3))
    same(lists[1], full(float(p), (2, 2)))
    got = [[torch.zeros(3), torch.zeros(2, 2)] for _ in range(p)]
    dist.all_gather_coalesced(got, [full(float(r), 3), full(10.0 + r, (2, 2))])
    for k, (a, b) in enumerate(got):
        same(a, full(float(k), 3))
        same(b, full(10.0 + k, (2, 2)))


def monitored(r, p):
    """A rank that does not call is named, and gets the error when it calls; the group can be used afterwards."""
    barrier = dist.group.WORLD.monitored_barrier

    def miss(late, words, seconds, **named):
        """Rank 0's barrier times out on the ranks in `late`; all others call within its `seconds`."""
        soon = datetime.timedelta(seconds=seconds)
        if r not in late:
            refused(words if r == 0 else f"Rank {r} successfully reached", barrier, soon, **named)
        dist.barrier()
        if r in late:
            refused(f"Rank {r} successfully reached", barrier, soon)

    barrier()
    miss([p - 1], f"Rank {p - 1} failed to pass monitoredBarrier", 2)
    everybody = list(range(1, p))
    miss(everybody, f"Rank{'s' if p > 2 else ''} {', '.join(map(str, everybody))} failed", 0.1, wait_all_ranks=True)
    barrier()
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    kept = store.num_keys()
    dist.barrier()
    for _ in range(20):
        barrier()
    dist.barrier()
    assert store.num_keys() == kept, "barriers leave keys in the store"
    dist.barrier()


def subgroups(r, p):
    some = dist.new_group([0, p - 1])
    if r in (0, p - 1):
        t = full(float(r))
        dist.all_reduce(t, group=some)
        same(t, full(float(p - 1)))
    t = full(float(r))
    dist.all_reduce(t)
    same(t, full(float(sum(range(p)))))


def refusals(r, p):
    refused("average is not defined on elements of type int32", dist.all_reduce, full(1, 3, torch.int32), op=Op.AVG)
    refused("bit_and is not defined on elements of type float32", dist.all_reduce, full(1.0), op=Op.BAND)
    refused("not as long", dist.all_gather_into_tensor, torch.zeros(3), torch.zeros(2))
    parts = [full(1.0, 1, torch.float32 if k == r else torch.float64) for k in range(p)]
    refused("of different types", dist.group.WORLD.reduce_scatter, [torch.zeros(1)], [parts])  # dist.reduce_scatter checks it itself
    one = torch.ones(1)
    for call in (dist.all_reduce, lambda t: dist.broadcast(t, src=0), lambda t: dist.recv(t, (r + 1) % p)):
        refused("share memory", call, one.expand(5))
    refused("share memory", dist.all_gather, [one.expand(5) for _ in range(p)], full(1.0))
    whole = torch.arange(2.0 * p)
    begin = 2 * r - (r > 0) + (r == 0)  # overlaps this rank's part, but is not it
    refused("in and out overlap", dist.reduce_scatter_tensor, whole[begin : begin + 2], whole)
    refused("in and out overlap", dist.all_gather_into_tensor, whole, whole[begin : begin + 2])
    refused("in and out overlap", dist.all_to_all_single, whole, whole)
    dist.reduce_scatter_tensor(whole[2 * r : 2 * r + 2], whole)
    same(whole[2 * r : 2 * r + 2], p * torch.arange(2.0 * r, 2.0 * r + 2))
    t = full(1.0)
    dist.all_reduce(t)  # the group works as before
    same(t, full(float(p)))


def optimizers(r, p):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    def trained(make):
        torch.manual_seed(3)
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)))
        optimizer = make(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(full(float(r), (3, 4))).square().sum().backward()
            optimizer.step()
        return torch.nn.utils.parameters_to_vector(model.parameters())

    whole = trained(lambda x: torch.optim.Adam(x, lr=0.1))
    same(trained(lambda x: ZeroRedundancyOptimizer(x, torch.optim.Adam, lr=0.1)), whole)
    everybody = [torch.zeros_like(whole) for _ in range(p)]
    dist.all_gather(everybody, whole.detach())
    for other in everybody:
        same(other, whole)


def well(r, p):
    for part in (combined, moved, coalesced, sent, sent_again, asynchronous, chained, monitored, subgroups, refusals, optimizers):
        part(r, p)
        dist.barrier()
    dist.destroy_process_group()


def lets_go(r, p):
    done = dist.all_reduce(full(1.0), async_op=True)
    done.wait()
    dist.barrier()
    dist.destroy_process_group()
    with open("/proc/self/maps") as maps:
        assert "memfd:kolo" not in maps.read(), "a completed call keeps its communicator mapped"
    assert done.is_completed()


def one_dies(r, p):
    dist.all_reduce(full(1.0))
    if r == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    refused("rank 1", dist.all_reduce, full(1.0))
    assert time.monotonic() - begin < 5, "the error came late"  # on a busy machine; alone it is a tenth of a second
    refused("rank 1", dist.all_reduce, full(1.0))


def one_throws(r, p):
    """An error that shows only when the call runs: PyTorch cannot multiply these."""
    factor = [torch.ones(7)] if r == 0 else 2.0
    refused("must match" if r == 0 else "rank 0", dist.all_reduce, full(1.0), op=dist._make_nccl_premul_sum(factor))


def ranks(body):
    def run(rank):
        torch.set_num_threads(1)
        dist.init_process_group("kolo", rank=rank, world_size=RANKS, store=dist.TCPStore("127.0.0.1", meeting.port, is_master=False))
        body(rank, RANKS)

    meeting = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # in this process, which outlives all ranks
    fork = torch.multiprocessing.get_context("fork")
    processes = [fork.Process(target=run, args=(rank,)) for rank in range(RANKS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    return [process.exitcode for process in processes]


def of_mpi(name, other):
    return int(os.environ.get(name, os.environ.get(other, "-1")))


def under_mpi(r, p):
    torch.set_num_threads(1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29510")
    dist.init_process_group("kolo", rank=r, world_size=p)
    well(r, p)
    if r == 0:
        print(f"{p} ranks over MPI: all calls are right", flush=True)


if __name__ == "__main__":
    if of_mpi("PMI_RANK", "OMPI_COMM_WORLD_RANK") >= 0:
        under_mpi(of_mpi("PMI_RANK", "OMPI_COMM_WORLD_RANK"), of_mpi("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"))
        sys.exit()
    assert ranks(well) == [0] * RANKS
    assert ranks(lets_go) == [0] * RANKS
    assert ranks(one_throws) == [0] * RANKS
    assert ranks(one_dies) == [0, -signal.SIGKILL] + [0] * (RANKS - 2)
    print(f"{RANKS} ranks: all calls are right")
