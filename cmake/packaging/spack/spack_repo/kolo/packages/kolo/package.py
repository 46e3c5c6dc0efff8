# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kolo for Spack 1, from the source tree in the current directory: spack dev-build kolo@0.2.0
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Kolo(CMakePackage):
    """Collective operations as readable C++20 templates."""

    license("Apache-2.0 WITH LLVM-exception")
    version("0.2.0")

    variant("run", default=False, description="the compiled library and the launcher kolo-run")
    variant("preload", default=False, description="libraries to be preloaded under MPI programs", when="+run")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("cli11", type="build", when="+run")
    depends_on("mpi", when="+preload")
    conflicts("%gcc@:10", msg="kolo needs g++ 11 or clang 14, or newer")
    conflicts("%clang@:13", msg="kolo needs g++ 11 or clang 14, or newer")

    def cmake_args(self):
        args = [
            self.define("KOLO_BUILD_TESTS", False),
            self.define("KOLO_BUILD_EXAMPLES", False),
            self.define("KOLO_BUILD_BENCH", False),
            self.define("KOLO_INSTALL", True),
            self.define("KOLO_MPI", False),
            self.define("KOLO_CUDA", False),
            self.define("KOLO_NCCL", False),
            self.define_from_variant("KOLO_PACKAGE", "run"),
            self.define_from_variant("KOLO_PACKAGE_PRELOAD", "preload"),
        ]
        if self.spec.satisfies("+preload"):  # only with the compiler wrapper of this MPI; Debian adds the MPI's name as a suffix
            own = "openmpi" if self.spec["mpi"].name == "openmpi" else "mpich"
            wrapper = self.spec["mpi"].mpicxx
            wrapper = f"{wrapper}.{own}" if os.path.exists(f"{wrapper}.{own}") else wrapper
            args.append(self.define("KOLO_MPICXX_mpich", wrapper if own == "mpich" else False))
            args.append(self.define("KOLO_MPICXX_openmpi", wrapper if own == "openmpi" else False))
        return args
