# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The recipes for vcpkg and Spack without the tools, which need a network: fakes take what a recipe says, and configure and install by it.
"""Usage: recipes.py CMAKE SOURCE"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import types

VCPKG = """
set(PORT kolo)
set(CURRENT_PACKAGES_DIR "@WORK@/packages")
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "@WORK@/vcpkg" "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" ${arg_OPTIONS})
endfunction()
function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --install "@WORK@/vcpkg")
endfunction()
function(wants)
  foreach(file IN LISTS ARGN)
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "there is no ${file}")
    endif()
  endforeach()
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" CONFIG_PATH "")
  wants("${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/kolo-config.cmake")
endfunction()
function(vcpkg_fixup_pkgconfig)
  wants("${CURRENT_PACKAGES_DIR}/share/pkgconfig/kolo.pc")
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  wants(${arg_FILE_LIST})
endfunction()
include("@SOURCE@/cmake/packaging/vcpkg/portfile.cmake")
"""


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode or "not used by the project" in done.stdout:
        sys.exit(done.stdout + f"\n{command[0]} returned {done.returncode}, or the project does not use an option of the recipe")


def spack_package(path, variants, mpi):
    """Loads the recipe's class with fake Spack modules. Returns its versions, and its CMake arguments for these variants."""
    versions = []

    class CMakePackage:
        def define(self, name, value):
            return f"-D{name}={('ON' if value else 'OFF') if isinstance(value, bool) else value}"

        def define_from_variant(self, name, variant):
            return self.define(name, variant in variants)

    class Spec(dict):
        def satisfies(self, asked):
            return set(asked.split("+")[1:]) <= set(variants)

    words = {word: lambda *a, **k: None for word in ("license", "variant", "depends_on", "conflicts")}
    names = {"spack.package": {**words, "version": versions.append}, "spack_repo.builtin.build_systems.cmake": {"CMakePackage": CMakePackage}}
    for name, content in names.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        sys.modules[name].__dict__.update(content)
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    package = space["Kolo"]()
    package.spec = Spec(mpi=types.SimpleNamespace(name=mpi, mpicxx="/nowhere/mpicxx"))
    return versions, package.cmake_args()


def main(cmake, source):
    recipes = source / "cmake/packaging"
    spack = recipes / "spack/spack_repo/kolo/packages/kolo/package.py"
    version = re.search(r"^ *VERSION ([\d.]+)$", (source / "CMakeLists.txt").read_text(), re.M)[1]
    with tempfile.TemporaryDirectory() as work:
        script = pathlib.Path(work, "vcpkg.cmake")
        script.write_text(VCPKG.replace("@WORK@", work).replace("@SOURCE@", str(source)))
        run(cmake, "-P", script)
        print("vcpkg: configured and installed, and the files that the port moves exist")
        versions, args = spack_package(spack, [], "mpich")
        run(cmake, "-S", source, "-B", f"{work}/spack", f"-DCMAKE_INSTALL_PREFIX={work}/prefix", *args)
        run(cmake, "--install", f"{work}/spack")
        print("Spack: configured and installed")
    for mpi, other in [("mpich", "openmpi"), ("openmpi", "mpich"), ("mvapich", "openmpi")]:
        args = spack_package(spack, ["run", "preload"], mpi)[1]
        own = "mpich" if mpi == "mvapich" else mpi
        if not {f"-DKOLO_MPICXX_{own}=/nowhere/mpicxx", f"-DKOLO_MPICXX_{other}=OFF", "-DKOLO_PACKAGE=ON", "-DKOLO_PACKAGE_PRELOAD=ON"} <= set(args):
            sys.exit(f"Spack: +run+preload ^{mpi} says {args}")
    found = {"vcpkg": json.loads((recipes / "vcpkg/vcpkg.json").read_text())["version-semver"], "Spack": versions[0],
             "Conan": re.search(r'^ *version = "([\d.]+)"$', (recipes / "conan/conanfile.py").read_text(), re.M)[1]}
    wrong = {tool: said for tool, said in found.items() if said != version}
    sys.exit(f"this is {version}, but {wrong}" if wrong else None)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], pathlib.Path(sys.argv[2]).resolve())
