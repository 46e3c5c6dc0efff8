# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kolo for Conan 2, from this source: conan create cmake/packaging/conan
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Kolo(ConanFile):
    name = "kolo"
    version = "0.2.0"
    license = "Apache-2.0 WITH LLVM-exception"
    description = "Collective operations as readable C++20 templates"
    settings = "os", "compiler", "build_type", "arch"
    options = {"compiled": [True, False]}  # True: engine, shared memory and threads in a library, target kolo::compiled
    default_options = {"compiled": False}

    def validate(self):
        if self.settings.os != "Linux":
            from conan.errors import ConanInvalidConfiguration
            raise ConanInvalidConfiguration("kolo runs on Linux only")
        if self.settings.compiler.get_safe("cppstd"):
            check_min_cppstd(self, 20)

    def export_sources(self):
        root = Path(self.recipe_folder).resolve().parents[2]
        for pattern in ("CMakeLists.txt", "LICENSE", "include/*", "cmake/*"):
            copy(self, pattern, root, self.export_sources_folder, excludes="*/test_package/*")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_BENCH", "MPI", "CUDA", "NCCL", "PACKAGE"):
            toolchain.cache_variables["KOLO_" + option] = False
        toolchain.cache_variables["KOLO_INSTALL"] = True
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        if self.options.compiled:
            cmake.build(target="kolo_compiled")

    def package(self):
        CMake(self).install()
        if self.options.compiled:
            copy(self, "*.a", self.build_folder, str(Path(self.package_folder, "lib")), keep_path=False)

    def package_id(self):
        if not self.info.options.compiled:
            self.info.clear()

    def package_info(self):
        self.cpp_info.components["headers"].set_property("cmake_target_name", "kolo::kolo")
        self.cpp_info.components["headers"].system_libs = ["pthread"]
        self.cpp_info.components["headers"].bindirs = self.cpp_info.components["headers"].libdirs = []
        if self.options.compiled:
            self.cpp_info.components["compiled"].set_property("cmake_target_name", "kolo::compiled")
            self.cpp_info.components["compiled"].libs = ["kolo_compiled"]
            self.cpp_info.components["compiled"].defines = ["KOLO_COMPILED"]
            self.cpp_info.components["compiled"].requires = ["headers"]
