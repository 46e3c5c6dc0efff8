#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes one translation unit of several test files: the headers are parsed, and templates instantiated, once for all of them.
"""Usage: combine.py [--main] OUTPUT SOURCE...

What a file has before its first declaration (comments, #include) comes first, for all files. The rest of each file is in a
namespace of its own, so names of two files do not collide; messages of the compiler refer to the lines of the files themselves.
A file that specialises a template of the library, or replaces operator new, cannot be combined.

--main: each file ends with a main(); the program runs the one whose file its first argument names.
"""

import sys
from pathlib import Path


def split(lines):
    """The number of lines before the first declaration."""
    for i, line in enumerate(lines):
        text = line.strip()
        if text and not text.startswith(("//", "#")):
            return i
    return len(lines)


def combine(sources, with_main):
    heads, bodies, calls = [], [], []
    for path in sources:
        lines = path.read_text().rstrip("\n").split("\n")
        first = split(lines)
        name = path.stem.replace("-", "_").replace(".", "_")
        if with_main:
            plain = any(line.startswith("int main()") for line in lines)
            calls.append((name, f"in_{name}::main({'' if plain else 'count - 1, words + 1'})"))
            if lines[-1] != "}":
                sys.exit(f"{path} does not end with its main()")
            lines[-1] = "return 0; }"  # implicit in a main() only
        heads += [f'#line 1 "{path}"', *lines[:first]]
        bodies += [f"namespace in_{name} {{", f'#line {first + 1} "{path}"', *lines[first:], f"}}  // namespace in_{name}"]
    if with_main:
        cases = " ".join(f'if (name == "{name}") return {call};' for name, call in calls)
        heads += ["#include <cstdio>", "#include <string_view>"]
        bodies += ["int main(int count, char** words) {", '  const std::string_view name = count > 1 ? words[1] : "";', f"  {cases}",
                   f'  std::puts("the first argument is one of: {" ".join(name for name, _ in calls)}");', "  return 2;", "}"]
    return "\n".join([*heads, *bodies]) + "\n"


def main(words):
    with_main = words[:1] == ["--main"]
    words = words[with_main:]
    if len(words) < 2:
        sys.exit(__doc__)
    Path(words[0]).write_text(combine([Path(w).resolve() for w in words[1:]], with_main))


if __name__ == "__main__":
    main(sys.argv[1:])
