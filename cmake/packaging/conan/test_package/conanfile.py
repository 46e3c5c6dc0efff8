# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds and runs a program that uses the package.
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout


class Test(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        self.run(str(Path(self.cpp.build.bindir, "consumer").resolve()), env="conanrun")
