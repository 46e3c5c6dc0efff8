# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The page of variables and options has all that exist, and no others.
"""Usage: variables.py REPOSITORY | variables.py --self-test"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from judged_trees import misjudged

PAGE = "include/kolo/guide/variables.md"
CODE = {".hpp", ".cuh", ".cpp", ".cu", ".py", ".sh"}
# Fields of options that only the library itself sets.
INNER = {"rendezvous_options"}


def sources(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and (path.suffix in CODE | {".cmake", ".in"} or path.name == "CMakeLists.txt"):
                yield path, path.read_text(errors="replace")


def wanted(root):
    """Maps each name that the page must have to a file that has it."""
    found = {}
    for path, text in sources(root, "include", "examples", "bench", "cmake", "tests"):
        name = path.relative_to(root)
        if path.suffix in CODE and name.parts[0] != "tests":
            for variable in re.findall(r'"(KOLO_[A-Z0-9_]+)"', text):
                found.setdefault(variable, name)
            for macro in re.findall(r"^#(?:ifn?def|.*\bdefined\()\s*(KOLO_\w+)", text, re.M):
                found.setdefault(macro, name)
        if path.suffix in (".hpp", ".cuh") and name.parts[0] == "include":
            for struct, body in re.findall(r"^ *struct ((?:\w+_)?options) \{\n(.*?)^ *\};", text, re.S | re.M):
                body = re.sub(r"//[^\n]*|static [^;]*;", "", body)
                for field in re.findall(r"^\s+[A-Za-z_][\w:<>\s,*]*?\s\*?(\w+)\s*(?:=[^;]*|\{[^;]*\})?;", body, re.M) if struct not in INNER else ():
                    found.setdefault("." + field, name)
    for path, text in [(root / "CMakeLists.txt", (root / "CMakeLists.txt").read_text()), *sources(root, "include", "examples", "bench", "cmake", "tests")]:
        if path.name == "CMakeLists.txt" or path.suffix == ".cmake":
            for name in re.findall(r"\b(?:option|find_program|find_path|find_library)\((KOLO_\w+)[\s)]|\bset\((KOLO_\w+) [^)]*CACHE", text):
                found.setdefault(name[0] or name[1], path.relative_to(root))
    return found


def faults(root):
    page = (root / PAGE).read_text()
    said = set(re.findall(r"KOLO_\w+", page)) | set(re.findall(r"`(\.\w+)`", page))
    yield from (f"{PAGE} does not have {name}, which {where} has" for name, where in sorted(wanted(root).items()) if name not in said)
    everything = "".join(text for _, text in sources(root, "include", "examples", "bench", "cmake", "tests")) + (root / "CMakeLists.txt").read_text()
    known = set(re.findall(r"\w+", everything))
    yield from (f"{PAGE} has {name}, which is in no other file" for name in sorted(said) if name.lstrip(".") not in known)


def self_test():
    good = {PAGE: "`KOLO_A` `KOLO_B` `KOLO_C` `KOLO_D` `.x` `.y` `.z`", "include/kolo/a.hpp": 'std::getenv("KOLO_A");\n#ifdef KOLO_B\n#endif\nstruct options {\n'
            "  std::chrono::nanoseconds x{};  ///< text; and more\n  int y = 0;\n  helper* z = nullptr;\n};\n",
            "CMakeLists.txt": 'option(KOLO_C "See" OFF)\n', "tests/CMakeLists.txt": 'set(KOLO_D "" CACHE STRING "")\n', "examples/a.cpp": '// "KOLO_" alone\n'}
    bad = [("does not have KOLO_E", "examples/a.cpp", 'getenv("KOLO_E")'), ("does not have KOLO_F", "bench/a.hpp", 'f("KOLO_F");'),
           ("does not have KOLO_G", "include/kolo/b.hpp", "#if defined(KOLO_G)\n#endif\n"), ("does not have KOLO_H", "cmake/a.cmake", "find_program(KOLO_H h)\n"),
           ("does not have .w", "include/kolo/b.hpp", "struct my_options {\n  bool w = false;\n};\n"), ("has KOLO_I", PAGE, good[PAGE] + " `KOLO_I`"), ("has .v", PAGE, good[PAGE] + " `.v`")]
    return misjudged(faults, good, bad, alone=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test() != 0)
    found = list(faults(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found) or f"{len(wanted(pathlib.Path(sys.argv[1]).resolve()))} variables and options are on their page")
    sys.exit(found != [])
