# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Every public name has a comment that Doxygen finds: namespaces, their members, nested types, fields of options, members of HELD types; and a compiled program
# that uses it: an example, one of a page, a test.
"""Usage: public_names.py REPOSITORY DOXYGEN | public_names.py --self-test DOXYGEN"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / "cmake/docs/Doxyfile.in"  # the site's, so that both have the same names
OVER = {"EXTRACT_ALL": "YES", "HIDE_UNDOC_CLASSES": "NO", "GENERATE_HTML": "NO", "GENERATE_XML": "YES", "XML_PROGRAMLISTING": "NO", "LAYOUT_FILE": "",
        "HTML_EXTRA_STYLESHEET": "", "USE_MDFILE_AS_MAINPAGE": "", "IMAGE_PATH": "", "EXAMPLE_PATH": "", "GENERATE_TAGFILE": "", "FILE_PATTERNS": "*.hpp *.cuh *.dox"}
TYPES = ("class", "struct", "union", "concept")
# Types that programs use directly: their public functions and fields count as well. (For other types the type's comment describes the members.)
HELD = {"kolo::" + name for name in (
    "communicator request plan error failure extent launched traffic explanation explanation::considered bucket_plan bucket_plan::one moments sharded "
    "symmetric_array shm::allocator bucket strided elements device_span wait_context watchdog dump_on background adasum sharded_optimizer "
    "simulate::network simulate::link simulate::straggler tuning").split()}
# Names that no program here uses. Concepts are constraints; names for CUDA, NCCL and PyTorch need these to compile.
NO_PROGRAM = re.compile(r"kolo::(cuda|nccl|c10d|ability)(::|$)|(.*::)?[A-Z]\w*$")
NO_PROGRAM_EITHER = {"kolo::" + name for name in (
    "call_site explanation::considered operator_check overlap_report predivided product_t schedule_is_wrong synthesized::of_kind bits_differ torch_elements "  # deduced with `auto`, or in a compiler's message
    "from_json to_json simulate::from_json simulate::to_json "                             # nlohmann::json calls them
    "wait_context::deadline_of wait_context::is_point_to_point wait_context::number_for_all wait_context::only_sends wait_context::with_peer error::mark_thrown "  # between transport and engine
    "tuning::native_row tuning::size_position default_tuning::mpich_one_host default_tuning::openmpi_one_host "  # internal to the selection
    "failure::caused_by shm::allocator::resource sharded_optimizer::expect_load sharded_optimizer::values_of "  # between parts of the library
    "bucket_plan::one bucket_plan::one::range sharded::iterator recursive_halving::halving neighbour "  # deduced with `auto`, or parts of other types
    "background::change background::demand_free background::is_cancelled_within background::wait_until cccl_communicator::group_guard_type rabenseifner::nearest_first").split()}


def has_comment(node):
    return any("".join(node.find(part).itertext()).strip() for part in ("briefdescription", "detaileddescription") if node.find(part) is not None)


def has_members(name):
    return name in HELD or re.search(r"(_|::)options$", name)


def is_member(name):
    return has_members(name.rpartition("::")[0])


def names_in(root, doxygen):
    """Maps a name to whether it has a comment, and its place. One comment is enough for all overloads and specialisations; a deduction guide needs none."""
    found, hidden, types = {}, set(), set()

    def note(name, node):
        name = re.sub(r" *<.*", "", name)
        place = node.find("location")
        known, where = found.get(name, (False, None))
        found[name] = known or has_comment(node), where or f"{place.get('file')}:{place.get('line')}"

    with tempfile.TemporaryDirectory() as work:
        values = {"SOURCE": str(root), "HERE": str(CONFIGURATION.parent), "OUTPUT": work, "VERSION": "", "IMAGES": ""}
        text = re.sub(r"@([A-Z]+)@", lambda m: values[m[1]], CONFIGURATION.read_text().replace("between @ and @", ""))
        text += "".join(f"{key} = {value}\n" for key, value in OVER.items()) + f'INPUT = "{root}/include/kolo" "{root}/cmake/docs"\n'
        pathlib.Path(work, "Doxyfile").write_text(text)
        subprocess.run([doxygen, pathlib.Path(work, "Doxyfile")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for page in sorted(pathlib.Path(work, "xml").glob("*.xml")):
            for node in xml.parse(page).getroot().findall("compounddef"):
                name, kind = node.findtext("compoundname"), node.get("kind")
                if not name.startswith("kolo") or "::detail" in name:
                    continue
                if node.get("prot") in ("private", "protected"):
                    hidden.add(name)
                elif kind in TYPES:
                    types.add(re.sub(r" *<.*", "", name))
                    note(name, node)
                    plain = re.sub(r" *<.*", "", name)
                    if has_members(plain):
                        for member in node.findall("sectiondef/memberdef[@prot='public'][@static='no']"):
                            own = member.findtext("name")
                            if member.get("kind") in ("variable", "function") and own.strip("~") != plain.split("::")[-1] and not own.startswith("operator"):
                                note(f"{plain}::{own}", member)
                elif kind == "namespace":
                    note(name, node)
                    for member in node.findall("sectiondef/memberdef"):
                        if "detail::" not in member.findtext("name"):
                            note(f"{name}::{member.findtext('name')}", member)
    return {n: v for n, v in found.items() if not any(n == h or n.startswith(h + "::") for h in hidden)}


def faults(root, doxygen, least=0):
    names = names_in(root, doxygen)
    if len(names) < least:
        yield f"Doxygen finds only {len(names)} names; there have been more than {least}"
    yield from (f"{where.replace(str(root) + '/', '')}: {name} has no comment" for name, (has, where) in sorted(names.items()) if not has)
    if (root / "examples").exists():
        without = unused(root, names)
        allowed = {name for name in without if NO_PROGRAM.match(name) or name in NO_PROGRAM_EITHER}
        yield from (f"{name} is in no program: one of examples/front_door may show it" for name in sorted(without - allowed))
        yield from (f"{name} is in a program, or nowhere: NO_PROGRAM_EITHER need not have it" for name in sorted(NO_PROGRAM_EITHER - allowed) if least)


def unused(root, names):
    """Names whose last part is in no program's code; for members, after a `.`, `->` or `::`."""
    files = [p for folder in ("examples", "tests") for p in (root / folder).rglob("*") if p.suffix in (".cpp", ".hpp", ".cu", ".cuh")]
    texts = [re.sub(r"//.*", "", p.read_text()) for p in files if not {"compile_fail", "fake_cuda"} & set(p.parts)]
    texts += ["".join(re.findall(r"^```cpp\n(.*?)^```", p.read_text(), re.S | re.M)) for p in root.rglob("*.md") if "build" not in p.parts]
    code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', "\n".join(texts))
    words, members = set(re.findall(r"\w+", code)), set(re.findall(r"(?:\.|->|::)(?:template )?(\w+)", code))
    return {name for name in names if name.split("::")[-1] not in (members if is_member(name) else words)}


def self_test(doxygen):
    """Each of these texts is judged correctly, alone in a small tree."""
    good = ["/// A number.\ninline int a = 1;", "struct b;\n/// A type.\nstruct b {\n  int member = 0;\n};", "/// For ints.\nvoid f(int);\nvoid f(double);",
            "namespace detail::core {\nstruct c;\ninline int d = 1;\n}", "/// A type.\ntemplate <class T>\nstruct e {\n  e(T);\n};\ntemplate <class T>\ne(T) -> e<T>;",
            "/// A type.\nclass g {\n  struct own {\n    struct inner {};\n  };\n};", "/// For it.\nstruct some_options {\n  int x = 0;  ///< so many\n};",
            "/// Held.\nclass request {\n public:\n  request();\n  ~request();\n  /// Has it ended?\n  bool test();\n  request& operator=(request&&);\n private:\n  int state_;\n};"]
    bad = {"kolo::a": "inline int a = 1;", "kolo::b": "struct b {};", "kolo::f": "inline void f() {}", "kolo::E": "enum class E { one };",
           "kolo::C": "template <class T>\nconcept C = true;", "kolo::u": "// Not such a one.\nusing u = int;", "kolo::o::inner": "/// A type.\nstruct o {\n  struct inner {};\n};",
           "kolo::x_options::y": "/// For it.\nstruct x_options {\n  int y = 0;\n};", "kolo::plan::run": "/// Held.\nclass plan {\n public:\n  void run();\n};",
           "kolo::other": "namespace other {\n/// One.\ninline constexpr int v = 1;\n}",
           "kolo::deep::v": "namespace deep {\ninline constexpr int v = 1;\n}"}
    wrong = 0
    with tempfile.TemporaryDirectory() as work:
        about = pathlib.Path(work, "cmake/docs/namespaces.dox")
        about.parent.mkdir(parents=True)
        about.write_text("/// \\namespace kolo\n/// All.\n/// \\namespace kolo::deep\n/// Below.\n")
        header = pathlib.Path(work, "include/kolo/a.hpp")
        header.parent.mkdir(parents=True)
        for expected, text in [("", "\n".join(good)), *bad.items()]:
            header.write_text(f"#pragma once\nnamespace kolo::inline KOLO_ABI {{\n{text}\n}}\n")
            found = [fault.split(": ")[1] for fault in faults(pathlib.Path(work).resolve(), doxygen)]
            if found != ([f"{expected} has no comment"] if expected else []):
                wrong += 1
                print(f"expected {expected or 'no fault'}, found {found}")
        header.write_text("#pragma once\nnamespace kolo::inline KOLO_ABI {\n/// One.\nvoid f();\n/// Two.\nvoid g();\n"
                          "/// Held.\nclass plan {\n public:\n  /// Runs.\n  void run();\n};\n}\n")
        program = pathlib.Path(work, "examples/a/a.cpp")
        program.parent.mkdir(parents=True)
        program.write_text('int main() { kolo::plan run(kolo::f("not g")); }  // not g\n')
        found = list(faults(pathlib.Path(work).resolve(), doxygen))
        if [fault.split(" is")[0] for fault in found] != ["kolo::deep", "kolo::g", "kolo::plan::run"]:
            wrong += 1
            print(f"expected kolo::deep, kolo::g and kolo::plan::run, which no program has, found {found}")
    print(f"{len(bad) + 2 - wrong} of {len(bad) + 2} headers judged correctly")
    return wrong


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if not shutil.which(sys.argv[2]):
        print("not run: there is no Doxygen")
        sys.exit(77)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test(sys.argv[2]) != 0)
    found = list(faults(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], 500))
    print("\n".join(found) or "every public name has a comment and a program")
    sys.exit(found != [])
