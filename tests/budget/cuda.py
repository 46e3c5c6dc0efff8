#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The compile-time cost of communicators for a .cu file: preprocessed lines, for the host and for the device, compared with a table with 10 % slack.
"""Usage: cuda.py [--update] COMPILER INCLUDE TABLE | cuda.py --self-test COMPILER

nvcc compiles a file twice, for the host and for the device. Non-empty lines are counted after the preprocessor, header-only and in compiled mode;
CPATH has the folder of CUDA's headers. The table is for one major version of one compiler and one CUDA; otherwise the exit status is 77: not run. --update
writes the table anew.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from budget import GRACE, SLACK, identity, main, read

HEADERS = ("kolo/cuda/threads.cuh", "kolo/cuda/shm.cuh")
CUDA = ["-D__CUDACC__", "-D__NVCC__", "-include", "cuda_runtime.h"]
PASSES = {
    "host": [],
    "device": ["-D__CUDA_ARCH__=800"],
    "host-compiled": ["-DKOLO_COMPILED"],
    "device-compiled": ["-DKOLO_COMPILED", "-D__CUDA_ARCH__=800"],
}


def preprocessed(compiler, include, text, *flags):
    done = subprocess.run([compiler, "-std=c++20", "-E", "-P", *flags, "-I", include, "-x", "c++", "-"], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{text} cannot be preprocessed\n{done.stderr}")
    return [line for line in done.stdout.split("\n") if line.strip()]


def version(compiler, include):
    """The versions of the compiler and of CUDA."""
    cuda = preprocessed(compiler, include, "#include <cuda_runtime_api.h>\nCUDART_VERSION\n")[-1]
    return f"{identity(compiler)} cuda {cuda}"


def counted(compiler, include):
    """Maps header:pass to the number of lines."""
    return {f"{header}:{name}": len(preprocessed(compiler, include, f"#include <{header}>\n", *CUDA, *flags))
            for header in HEADERS for name, flags in PASSES.items()}


def update(compiler, include, table):
    rows = [f"{lines:6} -  {name}" for name, lines in counted(compiler, include).items()]
    table.write_text("# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"
                     "# Preprocessed lines of a .cu file with this header, by pass of nvcc; written by cuda.py --update.\n"
                     f"compiler {version(compiler, include)}\n" + "\n".join(rows) + "\n")
    return 0


def check(compiler, include, table):
    made_with, allowed = read(table)
    if made_with != version(compiler, include):
        print(f"not run: the table was made with {made_with}, this is {version(compiler, include)}")
        return 77
    now = counted(compiler, include)
    faults = [f"{name}: in the table, but does not exist" for name in allowed if name not in now]
    for name, lines in now.items():
        print(f"{name}: {lines} lines")
        if lines > allowed.get(name, 0) * SLACK + GRACE:
            faults.append(f"{name}: {lines} lines; {allowed.get(name, 0)} are allowed, plus 10 %")
    if faults:
        print("\n".join(faults))
        print(f"If this is intended: CPATH=... tests/budget/cuda.py --update {compiler} {include} {table}")
    return 1 if faults else 0


def self_test(compiler):
    with tempfile.TemporaryDirectory() as work:
        include, table = Path(work), Path(work, "table")
        (include / "kolo/cuda").mkdir(parents=True)
        for name in ("cuda_runtime.h", "cuda_runtime_api.h", *HEADERS):
            (include / name).write_text("#define CUDART_VERSION 1\nint f();\n")
        update(compiler, include, table)
        verdicts = [check(compiler, include, table)]      # 0
        lines = "\nint g();" * 100
        (include / HEADERS[0]).write_text(f"#ifndef KOLO_COMPILED{lines}\n#endif\n")
        verdicts.append(check(compiler, include, table))  # 1: more lines header-only
        (include / HEADERS[0]).write_text(f"#ifdef __CUDA_ARCH__{lines}\n#endif\n")
        verdicts.append(check(compiler, include, table))  # 1: more lines for the device
        update(compiler, include, table)
        verdicts.append(check(compiler, include, table))  # 0
        (include / "cuda_runtime_api.h").write_text("#define CUDART_VERSION 2\n")
        verdicts.append(check(compiler, include, table))  # 77: another CUDA
    print("verdicts", verdicts)
    return verdicts != [0, 1, 1, 0, 77]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], __doc__, check, update, self_test))
