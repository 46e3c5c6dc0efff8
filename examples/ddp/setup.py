#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the Python module kolo_c10d for the Python and torch that run this script: python3 setup.py build_ext --build-lib DIRECTORY, or pip install .
import os
import pathlib

import setuptools
from torch.utils.cpp_extension import BuildExtension, CppExtension

here = pathlib.Path(__file__).resolve().parent
os.chdir(here)
module = CppExtension("kolo_c10d", ["module.cpp"], include_dirs=[str(here.parent.parent / "include")], extra_compile_args=["-std=c++20", "-O2"])
setuptools.setup(name="kolo_c10d", version="0.2.0", ext_modules=[module], cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)})
