#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The house rules that a compiler does not check: first lines, which folder may include which, macros, lengths, names.
"""Usage: house.py REPOSITORY | house.py --self-test"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from judged_trees import misjudged

ALL = "kolo.hpp"
EVERYTHING = "everything.hpp"
# Headers beside kolo.hpp.
OWN = {
    "train.hpp": {ALL, "train"},
    "simulate.hpp": {"simulate"},
    "explain.hpp": {"select", "impl"},
    "fit.hpp": {"collective"},
    "point_to_point.hpp": {"collective"},
    "scaled.hpp": {"collective"},
    "untyped.hpp": {"collective", "reduce", "view"},
    "dump.hpp": {"observe"},
    "watchdog.hpp": {"observe"},
    "checked.hpp": {"observe"},
    "composite.hpp": {"compose"},
}
# The folders that each folder may include, besides itself and config.hpp and version.hpp; from the bottom to the top.
ROOMS = {
    "core": set(),
    "os": {"core"},
    "view": {"core"},
    "reduce": {"view", "core"},
    "schedule": {"core"},
    "transport": {"core"},
    "execute": {"schedule", "transport", "reduce", "view", "core"},
    "shm": {"execute", "transport", "view", "os", "core"},
    "launch": {"shm", "execute", "transport", "os", "core"},
    "select": {"execute", "schedule", "transport", "reduce", "core"},
    "impl": {"train", "select", "launch", "shm", "execute", "schedule", "transport", "reduce", "view", "os", "core"},
    "observe": {"impl", "execute", "transport", "os", "core"},
    "compose": {"impl", "launch", "shm", "execute", "transport", "view", "core"},
    "simulate": {"impl", "launch", "execute", "schedule", "transport", "core"},
    "collective": {"impl", "select", "execute", "schedule", "transport", "reduce", "view", "os", "core"},
    "train": {"collective", "select", "execute", "reduce", "view", "os", "core"},
    ALL: {"collective", "launch", "shm", "execute", "schedule", "reduce", "view", "core"},
    **OWN,
    EVERYTHING: {ALL, *OWN},
    "mpi": {ALL, "impl", "compose", "execute", "schedule", "transport", "os", "core"},
    "cuda": {ALL, "impl", "mpi", "collective", "select", "compose", "launch", "shm", "execute", "transport", "reduce", "view", "core"},
    "adapt": {ALL, "train.hpp", "untyped.hpp", "point_to_point.hpp", "impl", "train", "simulate", "observe", "execute", "schedule", "transport", "view", "core"},
}
BOTTOM = {"config.hpp", "version.hpp"}
# Headers that users include by name; all others are in everything.hpp.
OPT_IN = ("adapt/", "schedule/verify.hpp", "schedule/same_bits.hpp", "schedule/catalogue.hpp", "schedule/cost.hpp", "schedule/draw.hpp", "schedule/synthesize.hpp", "observe/", "compose/messages.hpp",
          "simulate/simulated.hpp", "simulate/read_graph.hpp", "train/sharded_parameters.hpp", "impl/src.hpp", "impl/instantiate.hpp", "mpi/", "cuda/")
FORBIDDEN = {"iostream", "regex", "ranges", "functional", "format", "filesystem", "future"}
# Code that may use public names only; and the exceptions.
OUTSIDE = ("examples", "include/kolo/adapt")
REACHES_IN = {"torch.hpp": {"AnyAlgorithm", "check_before_comparison", "engine"}, "chrome_trace.hpp": {"engine", "in_the_name_of", "small_allgather"}}
ONLY_IN = {"mpi.h": "mpi/", "nccl.h": "cuda/nccl/"}
# A file that includes one of these headers must use a name that begins so, after std:: or a leading ::.
USES = {
    "algorithm": "adjacent_|all_of|any_of|binary_|clamp|copy|count|equal|fill|find|generate|includes|is_|iter_|lower_|max|merge|min|none_"
    r"|nth_|\w*_heap|partition|remove|replace|reverse|rotate|search|set_|sort|stable_|swap_|transform|unique|upper_", "array": "array|to_array",
    "atomic": "atomic|memory_order", "bit": r"bit_c|bit_w|bit_f|count[lr]_|endian|has_single|popcount|rot[lr]\b", "chrono": "chrono",
    "cstdint": r"u?int\w*_t\b", "cstring": "mem[csm]|str[cnles]", "exception": "current_ex|exception|make_ex|rethrow|terminate|uncaught", "map": r"map\b",
    "mutex": r"\w*mutex|\w*_lock|lock_|once_|call_",
    "memory": "addressof|align|construct_|default_delete|destroy|enable_sh|make_|shared_|unique_|uninit|weak_", "optional": "nullopt|optional",
    "span": "as_|span", "string": r"string\b|to_string|sto", "string_view": "string_view", "thread": r"\w*thread",
    "tuple": "apply|forward_as|get|make_from|make_tuple|tie|tuple",
    "type_traits": "add_|bool_c|common|conditional|decay|enable_if|false_type|has_|integral_c|invoke_r|is_|make_(?:un)?signed|remove_"
    "|true_type|type_i|underlying|void_t",
    "utility": "as_const|cmp_|declval|exchange|forward|get|in_place|index_|integer_|make_i|make_p|move|pair|piece|swap|tuple_|unreach",
    "variant": "get|holds|monostate|variant|visit", "vector": "vector",
}
COMPILERS = r"__GNUC__|__clang__|_MSC_VER|__NVCC__|__CUDACC__|__CUDA_ARCH__|__INTEL"
MACROS = 14
LINES = 500
PLACES = ("include", "tests", "bench", "examples", "cmake", ".ci")
TOP = {"include", "tests", "bench", "examples", "cmake", "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE"}
# Words that only kolo used, as whole identifiers. include/kolo/README.md has the field's words for them.
PRIVATE = set("""
    problem hands Hands host_hands hands_at noting_hands hands_of said_ swap_place swapped end_swap swap_bytes door manner patience situation bell before_ringing
    to_ring_ look_around seat seats crossing way_to_lanes way_to_root news host_news own_news quick_plan quick_planner quick_run quick_messages quick_for is_quick
    books two_sides common_fate fate_ take_turn tray Tray worksheet sheet_ elsewhere is_elsewhere goes_elsewhere bring_home agreeing suspect disagree sight Sight
    let_kernels_reach onlooker mischief mishap misbehave invitation greeting ruling guest parcel meeting_host let_go Pairing Slotted Messaging mailbox
    region_member region_head rank_board board_of kept_call kept_work keep_own recognise notebook stand_in instead_ carve settle
    agenda baton flight_note flight_guard flight_subject one_caller note_type note_numbers unborn wanted_after holds_before untyped_schedule recorded_program
    recording_executor is_noted_ region_record neighbourhood of_second_ring size_place slice_place
    wire_ job_ letters_ looked_ joined_notes told_address brood obituary last_words leave_word live_as_rank withdraw
    company driven drive_all_but unsaid unsaid_failure in_room pinned_room stock nobody_known with_culprit region_places said_in_unwinding had_said
    first_looks pair_book ways_to_run is_between_two shown_memory can_be_shown crosses_once
""".split())
# Words that have another meaning in tests; in include/ and examples/ they are private, too.
PRIVATE_IN_CODE = set("said seen seen_ hear tell listen notes kept kept_ letter give_back look look_ refer alarm touch".split())
# The namespaces that a folder may open beside `kolo` and `kolo::detail::<folder>`: public ones, and those whose names it declares or defines for others.
NAMESPACES = {
    "execute": {"self"},
    "shm": {"shm", "threads"},
    "launch": {"shm", "threads"},
    "schedule": {"where"},
    "select": {"default_tuning"},
    "impl": {"shm", "threads", "detail::execute", "detail::shm", "detail::launch"},  # bodies of names that these declare
    "simulate": {"simulate", "virtual_time", "simulated"},
    "train": {"update"},
    "mpi": {"mpi", "default_tuning"},
    "cuda": {"cuda", "nccl"},
    "adapt": {"simulate", "c10d"},
    ALL: {"simulate"},
}
WIDEST = 120
LICENCE = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
COMMENT = {".hpp": "//", ".cuh": "//", ".cpp": "//", ".cu": "//", ".py": "#", ".sh": "#", ".cmake": "#"}
BY_NAME = {"CMakeLists.txt": "#", "run": "#", ".clang-format": "#", ".gitignore": "#"}


def without_comments(text):
    """The text with comments and strings blanked; lines keep their numbers."""
    pattern = r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    blank = lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else '""' + "\n" * m[0].count("\n")
    kept = [l if re.match(r"\s*#\s*include", l) else None for l in text.split("\n")]
    stripped = re.sub(pattern, blank, text, flags=re.S).split("\n")
    return "\n".join(k.split("//")[0] if k and s.strip() else s for k, s in zip(kept, stripped))


def private_words(root):
    """Identifiers and file names that are private words where the field has its own (include/kolo/README.md)."""
    kinds = {".hpp", ".cuh", ".cpp", ".cu", ".c"}
    for path in sorted(path for place in ("include", "tests", "bench", "examples") for path in (root / place).rglob("*")):
        if path.suffix not in kinds:
            continue
        name = path.relative_to(root)
        is_code = name.parts[0] in ("include", "examples") and "front_door" not in name.parts
        private = PRIVATE | PRIVATE_IN_CODE if is_code else PRIVATE
        if path.stem in private:
            yield f"{name}: the file's name is a private word; see the glossary"
        for number, line in enumerate(path.read_text(errors="replace").split("\n") if str(name).startswith("include/") else [], 1):
            if re.search(r"//.*\b[Ww]hoever\b", line):
                yield f"{name}:{number}: `whoever` hides who is meant: a rank that, the caller, the thread that"
        for number, line in enumerate(without_comments(path.read_text(errors="replace")).split("\n"), 1):
            if not re.match(r"\s*#\s*include", line):
                line = re.sub(r"(?<![\w>])::\w+", "", line)  # system calls: ::listen
                yield from (f"{name}:{number}: `{word}` is a private word; see the glossary" for word in set(re.findall(r"[A-Za-z_]\w*", line)) & private)
                if is_code and re.search(r"\bwire(->|\.(?!data\b))", line):
                    yield f"{name}:{number}: `wire` is a format here, and has no members; see the glossary"


def head_faults(root):
    files = [*root.iterdir(), *(path for place in PLACES for path in (root / place).rglob("*"))]
    for path in sorted(files):
        parts = path.relative_to(root).parts
        mark = COMMENT.get(path.suffix) or BY_NAME.get(path.name)
        if not mark or not path.is_file():
            continue
        lines = path.read_text().split("\n")[:3]
        if lines[0].startswith("#!"):
            lines = lines[1:]
        if lines[0] != f"{mark} {LICENCE}":
            yield f"{'/'.join(parts)}: the first line is not the licence line"
        elif not re.match(re.escape(mark) + r" [^ ].*[.?!:]", (lines + [""])[1]):
            yield f"{'/'.join(parts)}: the second line is not a sentence that says what the file is for"


def top_names(root):
    """The names that git has; without git, all but build folders."""
    if not (root / ".git").exists() or not shutil.which("git"):
        return {path.name for path in root.iterdir() if not path.name.startswith("build")}
    listed = subprocess.run(["git", "-C", str(root), "-c", "safe.directory=*", "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    return {name.split("/")[0] for name in listed.split("\0") if name}


def top_faults(root):
    for name in sorted(top_names(root) - TOP):
        if not name.startswith("."):
            yield f"{name}: does not belong at the top; there stand {' '.join(sorted(TOP))}, and dotfiles"


def includes(code):
    return re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', code, flags=re.M)


def is_forwarder(text, code):
    """True for an old path that only includes the new one."""
    lines = [line for line in code.split("\n") if line.strip()]
    return "// Forwards to " in text and len(lines) == 2 and lines[0].strip() == "#pragma once" and len(includes(code)) == 1


def without_bodies(code):
    """The header without the includes at its end: its bodies in impl/ or ROOM/impl/, for header-only programs."""
    return re.sub(r"\n#ifndef KOLO_DECLARES\n(?:#include <kolo/(?:\w+/)?impl/\w+\.hpp>\n)+#endif\s*$", "\n", code)


def may_include(name, other):
    room, other_room = name.split("/")[0], other.split("/")[0]
    return other_room == room or other in BOTTOM or other_room in ROOMS.get(room, set()) or (name in BOTTOM and other in BOTTOM)


def opened(code):
    """Yields each namespace below kolo that is opened: its name, and its own text."""
    stack = []
    for part in re.split(r"(\bnamespace\s+[\w:\s]*\{|[{}])", code):
        found = re.fullmatch(r"namespace\s+([\w:\s]*)\{", part)
        if found:
            outer = stack[-1][0] if stack and stack[-1][0] is not None else ""
            stack.append([re.sub(r"^::", "", f"{outer}::{re.sub(r'^kolo(::inline KOLO_ABI)?', '', found[1].strip())}".replace("::::", "::")).strip(":"), ""])
        elif part == "{":
            stack.append([None, ""])
        elif part == "}" and stack:
            name, text = stack.pop()
            if name is not None:
                yield name, text
            elif stack:
                stack[-1][1] += "{}"
        elif stack:
            stack[-1][1] += part


def namespace_faults(name, code):
    """A folder's private names are in `kolo::detail::<folder>`. It may only forward-declare another folder's."""
    room = name.split("/")[0]
    own = {"", "detail::" + room, "detail::core::own_header", *NAMESPACES.get(room, ())}
    for other, text in opened(code):
        ahead = other.startswith("detail::") and other.count("::") == 1 and not re.search(r"[{=]", text)
        if other not in own and not ahead:
            yield f"{name}: opens kolo::{other}; what is private in {room}/ is in kolo::detail::{room}"


def cycles(graph):
    done, path = set(), []

    def visit(name):
        if name in path:
            yield "a circle of includes: " + " -> ".join(path[path.index(name):] + [name])
        elif name not in done:
            path.append(name)
            for other in graph.get(name, []):
                yield from visit(other)
            done.add(path.pop())

    for name in sorted(graph):
        yield from visit(name)


def unreached(graph, forwarders):
    reached, ahead = set(), [ALL, EVERYTHING, *(name for name in graph if name.startswith(OPT_IN) or name.endswith(".cuh"))]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += graph.get(name, [])
    for name in sorted(set(graph) - reached - forwarders):
        yield f"{name}: neither everything.hpp nor an opt-in header leads to it"


def header_faults(root):
    base = root / "include" / "kolo"
    headers = {str(p.relative_to(base)): p for p in sorted(base.rglob("*")) if p.suffix in (".hpp", ".cuh")}
    if not headers:
        yield "there is no header under include/kolo"
    graph, bodies, macros, forwarders = {}, {}, set(), set()
    for name, path in headers.items():
        text = path.read_text()
        code = without_comments(text)
        room = name.split("/")[0]
        if name not in BOTTOM and room not in ROOMS:
            yield f"{name}: there is no room \"{room}\" on the plan"
        if text.count("\n") >= LINES:
            yield f"{name}: {text.count(chr(10))} lines; a header has fewer than {LINES}"
        if "#pragma once" not in code:
            yield f"{name}: no #pragma once"
        if re.search(r"\busing\s+namespace\b", code):
            yield f"{name}: using namespace"
        if re.search(r"\bnamespace\s+kolo\b(?!::inline KOLO_ABI\b)", code):
            yield f"{name}: namespace kolo without its inline version"
        yield from namespace_faults(name, code)
        yield from (f"{name}:{n}: {len(line)} columns; {WIDEST} are enough" for n, line in enumerate(text.split("\n"), 1) if len(line) > WIDEST)
        graph[name] = []
        declared = without_bodies(code)
        bodies[name] = [other[len("kolo/"):] for _, other in includes(code[len(declared) - 1:]) if re.match(r"kolo/(\w+/)?impl/", other)]
        if is_forwarder(text, code):
            forwarders.add(name)
        for quote, other in includes(declared):
            if quote == '"':
                yield f"{name}: includes \"{other}\"; write <kolo/...>"
            if other in FORBIDDEN:
                yield f"{name}: includes <{other}>, which costs too much for a header"
            if other in USES and not re.search(rf"(?:\bstd|(?<!\w))::(?:{USES[other]})", code):
                yield f"{name}: includes <{other}> and uses no name of it"
            if other in ONLY_IN and not name.startswith(ONLY_IN[other]):
                yield f"{name}: only {ONLY_IN[other]}* includes <{other}>"
            if other.startswith("kolo/"):
                other = other[len("kolo/"):]
                graph[name].append(other)
                if other not in headers:
                    yield f"{name}: includes <kolo/{other}>, which does not exist"
                elif not may_include(name, other) and not is_forwarder(text, code):
                    yield f"{name}: may not include <kolo/{other}>: arrows go down only"
        for macro in re.findall(r"^\s*#\s*define\s+(\w+)", code, flags=re.M):
            macros.add(macro)
            if (name != "config.hpp" and room != "impl") or not macro.startswith("KOLO_"):
                yield f"{name}: defines {macro}; macros are named KOLO_... and live in config.hpp, and in impl/"
        if name != "config.hpp":
            for line in re.findall(rf"^\s*#\s*(?:el)?if.*(?:{COMPILERS}).*", code, flags=re.M):
                yield f"{name}: tells compilers apart, which only config.hpp does: {line.strip()}"
    if len(macros) > MACROS:
        yield f"{len(macros)} macros; {MACROS} are enough: {' '.join(sorted(macros))}"
    yield from cycles(graph)
    yield from unreached({name: graph[name] + bodies[name] for name in graph}, forwarders)


def inner_faults(root):
    """Code that shows how to build on the library must use public names only: no name of kolo's `detail` but its own or its folder's, and no engine."""
    inner = lambda text: " ".join(re.findall(r"^namespace (?:[\w: ]*::)?detail(?:::\w+)? \{$(.*?)^\}  // namespace ", text, flags=re.S | re.M))
    adapters = " ".join(inner(path.read_text()) for path in sorted((root / "include/kolo/adapt").glob("*.hpp")))
    for path in sorted(path for place in OUTSIDE for path in (root / place).rglob("*") if path.suffix in (".hpp", ".cpp")):
        name, text = path.relative_to(root), path.read_text()
        code, own = without_comments(text), inner(text)
        code = re.sub(r"^namespace .*$", "", code, flags=re.M)
        code = re.sub(rf"\bdetail::adapt::(?:{'|'.join(re.findall(r'[A-Za-z_][A-Za-z_0-9]*', adapters)) or '-'})\b", "", code)
        used = set(re.findall(rf"(?<!\bat::)\bdetail::(?:(?:{'|'.join(ROOMS)})::)?(\w+)", code)) | ({"engine"} & set(re.findall(r"(?:\.|->)(engine)\(\)", code)))
        allowed = REACHES_IN.get(path.name, set())
        yield from (f"{name}: reaches into kolo: detail::{word}" for word in sorted(used - allowed) if not re.search(rf"\b{word}\b", own))


def version_faults(root):
    cmake, header = root / "CMakeLists.txt", root / "include/kolo/version.hpp"
    project = re.search(r"\bVERSION\s+(\d+)\.(\d+)\.(\d+)", cmake.read_text()) if cmake.exists() else None
    if not project or not header.exists():
        yield "no version in CMakeLists.txt or no version.hpp"
        return
    for part, value in zip(("major", "minor", "patch"), project.groups()):
        if not re.search(rf"\bversion_{part} = {value};", header.read_text()):
            yield f"version.hpp: version_{part} is not {value}, which CMakeLists.txt says"


def faults(root):
    return [*top_faults(root), *head_faults(root), *header_faults(root), *inner_faults(root), *version_faults(root), *private_words(root)]


def self_test():
    """A small good tree has no fault; each of these changes causes its fault."""
    head = f"// {LICENCE}\n// A part.\n#pragma once\n"
    good = {
        "CMakeLists.txt": f"# {LICENCE}\n# The project.\nproject(kolo VERSION 0.1.0)\n",
        "include/kolo/config.hpp": head + "#ifdef __GNUC__\n#define KOLO_A\n#endif\n",
        "include/kolo/version.hpp": head + "version_major = 0;\nversion_minor = 1;\nversion_patch = 0;\n",
        "include/kolo/core/a.hpp": head + "#include <kolo/config.hpp>\nnamespace kolo::inline KOLO_ABI {}\n",
        "include/kolo/view/b.hpp": head + "#include <kolo/core/a.hpp>  // below\n// using namespace\n",
        "include/kolo/impl/c.hpp": head + "#include <kolo/execute/c.hpp>\n",
        "include/kolo/execute/c.hpp": head + "struct s;\n\n#ifndef KOLO_DECLARES\n#include <kolo/impl/c.hpp>\n#endif\n",
        "include/kolo/kolo.hpp": head + "#include <kolo/execute/c.hpp>\n" + "#include <kolo/version.hpp>\n#include <kolo/view/b.hpp>\n",
    }
    a, config = "include/kolo/core/a.hpp", "include/kolo/config.hpp"
    bad = [
        ("arrows go down only", a, head + "#include <kolo/view/b.hpp>\n"),
        ("a circle of includes", a, head + "#include <kolo/core/a.hpp>\n"),
        ("arrows go down only", a, head + "#include <kolo/kolo.hpp>\n"),
        ("arrows go down only", a, head + "#ifndef KOLO_DECLARES\n#include <kolo/view/b.hpp>\n#endif\n"),
        ("arrows go down only", a, head + "#include <kolo/impl/c.hpp>\nstruct s;\n"),
        ("does not exist", a, head + "#include <kolo/core/none.hpp>\n"),
        ("write <kolo/...>", a, head + '#include "b.hpp"\n'),
        ("costs too much", a, head + "#include <functional>\n"),
        ("no name of it", a, head + "#include <vector>  // std::vector\n"),
        ("only mpi/*", a, head + "#include <mpi.h>\n"),
        ("leads to it", "include/kolo/view/c.hpp", head),
        ("reaches into kolo: detail::share", "include/kolo/adapt/a.hpp", head + "namespace detail {\nint mine;\n}  // namespace detail\nint a = detail::mine + kolo::detail::share();\n"),
        ("reaches into kolo: detail::engine", "examples/under_mpi/a.hpp", head + "auto& e = *comm.engine();\n"),
        ("reaches into kolo: detail::share", "examples/lightgbm/a.hpp", head + "int a = at::detail::b() + kolo::detail::share();\n"),
        ("no room \"shed\"", "include/kolo/shed/c.hpp", head),
        ("the first line", a, "// A part.\n#pragma once\n"),
        ("the second line", a, f"// {LICENCE}\n#pragma once\n"),
        ("does not belong at the top", "picture.svg", "<svg/>\n"),
        ("the first line", "tests/t.sh", "#!/bin/sh\necho\n"),
        ("no #pragma once", a, head.replace("#pragma once", "")),
        ("using namespace", a, head + "using namespace std;\n"),
        ("inline version", a, head + "namespace kolo::threads {}\n"),
        ("opens kolo::detail::view", a, head + "namespace kolo::inline KOLO_ABI::detail::view {\nstruct s {};\n}\n"),
        ("opens kolo::mpi", a, head + "namespace kolo::inline KOLO_ABI {\nnamespace mpi {\nstruct s {};\n}\n}\n"),
        ("columns; 120 are enough", a, head + "// " + "x" * WIDEST + "\n"),
        ("live in config.hpp, and in impl/", a, head + "#define KOLO_B 1\n"),
        ("named KOLO_", config, head + "#define B 1\n"),
        ("macros; 14 are enough", config, head + "".join(f"#define KOLO_{i} 1\n" for i in range(15))),
        ("tells compilers apart", a, head + "#if defined(__clang__)\n#endif\n"),
        ("a header has fewer", a, head + "\n" * LINES),
        ("`worksheet` is a private word", a, head + "struct worksheet; // situation\n"),
        ("`said` is a private word", a, head + "int said = ::listen(0, 0);\n"),
        ("hides who is meant", a, head + "// Whoever waits.\n"),
        ("`wire` is a format", a, head + "int r = wire.rank();\n"),
        ("file's name is a private word", "include/kolo/view/mailbox.hpp", head),
        ("version_minor is not 1", "include/kolo/version.hpp", good["include/kolo/version.hpp"].replace("minor = 1", "minor = 2")),
    ]
    return misjudged(faults, good, bad)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test() != 0)
    found = faults(Path(sys.argv[1]))
    print("\n".join(found) if found else "no fault")
    sys.exit(found != [])
