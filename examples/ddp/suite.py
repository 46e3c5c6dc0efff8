#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs PyTorch's own tests of process groups, which its package contains, on CPUs of this host over Gloo and over kolo.
"""Usage: suite.py gloo|kolo|kolo-as-gloo RANKS [TEST...]
          suite.py missing RANKS [TEST...]

Prints `passed NAME`, `failed NAME` or `skipped NAME: why` for each test. `missing`: runs all tests over gloo, those that pass there over kolo-as-gloo, and
those that fail there over kolo; the exit status is not 0 if one fails in both. `kolo-as-gloo`: the backend "gloo" creates kolo's groups, so that tests which
require "gloo" run as well; only test_ddp_logging_data_cpu, which expects "gloo" in DDP's log, fails there and passes over `kolo`. All but gloo need the
module kolo_c10d in PYTHONPATH.
"""
import dataclasses
import os
import subprocess
import sys
import tempfile
import types
import unittest

_field = dataclasses._get_field


def relaxed(cls, name, *rest):
    """torch 1.13 has dataclass defaults without a hash, which Python 3.11 refuses."""
    default = getattr(cls, name, dataclasses.MISSING)
    default = default.default if isinstance(default, dataclasses.Field) else default
    if dataclasses.is_dataclass(default) and type(default).__hash__ is None:
        type(default).__hash__ = object.__hash__
    return _field(cls, name, *rest)


dataclasses._get_field = relaxed


class Outcomes(unittest.TextTestResult):
    """One line for each test."""

    def say(self, outcome, test):
        print(outcome, test._testMethodName, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("passed", test)

    def addFailure(self, test, fault):
        super().addFailure(test, fault)
        self.say("failed", test)

    def addError(self, test, fault):
        super().addError(test, fault)
        self.say("failed", test)

    def addSkip(self, test, why):
        super().addSkip(test, why)
        print("skipped", f"{test._testMethodName}: {why}", flush=True)


def instead_of_gloo(c10d, make):
    """Replaces Gloo's groups by kolo's, except the one that compares calls in the debug mode DETAIL, which needs a real Gloo group."""
    gloo, wrap = c10d.ProcessGroupGloo, c10d._create_process_group_wrapper

    def wrapped(*values, **named):
        c10d.ProcessGroupGloo = gloo
        try:
            return wrap(*values, **named)
        finally:
            c10d.ProcessGroupGloo = make

    c10d.ProcessGroupGloo, c10d._create_process_group_wrapper = make, wrapped


def suite(backend, ranks, names):
    os.environ.update(BACKEND="kolo" if backend == "kolo" else "gloo", WORLD_SIZE=str(ranks), TEMP_DIR=tempfile.mkdtemp(), OMP_NUM_THREADS="1")
    os.environ.setdefault("INIT_METHOD", "env://")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    try:
        import expecttest
    except ImportError:  # the tests of process groups do not need it
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
    import torch
    from torch.distributed import distributed_c10d
    from torch.testing._internal import common_distributed, common_utils
    if backend != "gloo":
        import kolo_c10d
    if backend == "kolo":
        for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
            common_distributed.DistTestCases.backend_feature[feature].add("kolo")
    if backend == "kolo-as-gloo":
        instead_of_gloo(distributed_c10d, lambda store, rank, size, timeout: kolo_c10d.make(store, rank, size, timeout, "gloo"))
    from torch.testing._internal.distributed import distributed_test as tests
    if backend == "kolo":
        tests.PROFILING_SUPPORTED_BACKENDS.append("kolo")
        tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.append("kolo")
    common_utils.TestCase.maxDiff = None

    class Forked(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)  # fork: no new import of torch

    loader = unittest.defaultTestLoader
    chosen = unittest.TestSuite(Forked(name) for name in loader.getTestCaseNames(Forked) if not names or name in names)
    result = unittest.TextTestRunner(resultclass=Outcomes, verbosity=0).run(chosen)
    sys.exit(not result.wasSuccessful())


def run(backend, ranks, names):
    """Runs the tests in a new process; returns the names of tests by outcome."""
    done = subprocess.run([sys.executable, __file__, backend, ranks, *names], stdout=subprocess.PIPE, text=True)
    outcomes = {}
    for line in done.stdout.splitlines():
        outcome, _, name = line.partition(" ")
        if outcome in ("passed", "failed", "skipped"):
            outcomes.setdefault(outcome, []).append(name)
    print(f"{backend}, {ranks} ranks:", ", ".join(f"{len(names)} {outcome}" for outcome, names in outcomes.items()), flush=True)
    return outcomes


def missing(ranks, names):
    expected = run("gloo", ranks, names).get("passed", [])
    lost = expected
    for backend in ("kolo-as-gloo", "kolo"):
        got = run(backend, ranks, lost).get("passed", []) if lost else []
        lost = [name for name in lost if name not in got]
    print("kolo passes all tests that Gloo passes" if not lost else "Gloo passes these tests, but kolo does not: " + " ".join(lost))
    sys.exit(not expected or bool(lost))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("gloo", "kolo", "kolo-as-gloo", "missing"):
        sys.exit(__doc__)
    (missing if sys.argv[1] == "missing" else lambda *rest: suite(sys.argv[1], *rest))(sys.argv[2], sys.argv[3:])
