#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks that each header compiles alone and without a warning, in both modes and also when it is included twice, with few runs of the compiler.
"""Usage: alone.py COMPILER INCLUDE --mode MODE [--except REGEX]   all headers, in few runs of the compiler
       alone.py COMPILER INCLUDE HEADER                          one header by itself, in both modes

MODE is header_only or compiled. REGEX: headers that are skipped.

A header that compiles by itself includes what it needs. This is also shown if everything that was parsed before it is what it includes
anyway: after a, b is parsed as if alone when b includes a, directly or indirectly, before its code and before the code of headers with
which it forms a cycle. So one file includes the headers of a chain a, b, c, each of which includes the previous one; and a header that
many include is precompiled, for their chains.
An #include under an #if counts as possibly absent.

All are checked in compiled mode, where a header includes less. In header-only mode only those are checked that are parsed differently there: in
their code KOLO_COMPILED occurs, or a macro that config.hpp makes of it, or they include bodies that include them.
"""

import argparse
import functools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

flags = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
modes = {"header_only": "-UKOLO_COMPILED", "compiled": "-DKOLO_COMPILED"}
makes_the_library = "kolo/impl/src.hpp"  # it is for compiled mode only


class Headers:
    def __init__(self, include, left_out):
        self.text = {str(p.relative_to(include)): p.read_text() for p in sorted(Path(include).rglob("*.[hc]*"))}
        self.names = [h for h in self.text if not (left_out and re.match(left_out, h))]
        self.may_include = {h: self.included(h, True) for h in self.text}
        self.includes = {h: self.included(h, False) for h in self.text}

    def included(self, header, under_if):
        depth, found = 0, []
        for line in self.text[header].splitlines():
            if word := re.match(r"\s*#\s*(if|endif)", line):
                depth += 1 if word[1] == "if" else -1
            elif (name := re.match(r"\s*#\s*include\s*<(.*?)>", line)) and name[1] in self.text and (under_if or depth == 0):
                found.append(name[1])
        return found

    @functools.lru_cache(None)
    def all_in(self, header):
        """The headers that it includes unconditionally."""
        return self.reached(header, self.includes)

    @functools.lru_cache(None)
    def all_that_may_be_in(self, header):
        return self.reached(header, self.may_include)

    @functools.lru_cache(None)
    def before_code(self, header):
        """The headers that have been parsed before its code, and before the code of headers that it forms a cycle with."""
        cycle = {h for h in self.all_that_may_be_in(header) if header in self.all_that_may_be_in(h)} | {header}
        entered, found = set(), set()

        def only_includes(h):
            entered.add(h)
            depth = 0
            for line in self.text[h].splitlines():
                if word := re.match(r"\s*#\s*(if|endif)", line):
                    depth += 1 if word[1] == "if" else -1
                elif name := re.match(r"\s*#\s*include\s*<(.*?)>", line):
                    if name[1] not in self.text or name[1] in entered:
                        continue
                    if name[1] in cycle:
                        if depth > 0 or not only_includes(name[1]):
                            return False
                    elif depth == 0:
                        found.update(self.all_in(name[1]), [name[1]])
                elif not re.match(r"\s*(#|//|$)", line):
                    return False
            return True

        only_includes(header)
        return found

    @functools.lru_cache(None)
    def size(self, header):
        """The approximate size of all that is parsed for it: a standard header is as long as twenty of kolo's."""
        parsed = self.all_that_may_be_in(header) | {header}
        standard = {name for h in parsed for name in re.findall(r"(?m)^#include <([a-z_/]*)(?:\.h)?>$", self.text[h])}
        return sum(len(self.text[h]) for h in parsed) + 40000 * len(standard)

    def is_same_in_both_modes(self, header):
        return header not in self.all_that_may_be_in(header) and not re.search(r"KOLO_(COMPILED|DECLARES)\b", self.text[header])

    @staticmethod
    def reached(header, graph):
        seen, ahead = set(), [header]
        while ahead:
            for h in graph[ahead.pop()]:
                if h not in seen:
                    seen.add(h)
                    ahead.append(h)
        return seen


def chains(headers, names):
    """Chains such that each name is in one, and their last headers, which determine the cost, are small: a matching of maximum weight."""
    followers = {h: [g for g in names if h in headers.before_code(g)] for h in names}
    before = {}

    def follow(header, seen):
        for g in followers[header]:
            if g not in seen:
                seen.add(g)
                if g not in before or follow(before[g], seen):
                    before[g] = header
                    return True
        return False

    for h in sorted(names, key=lambda h: -headers.size(h)):
        follow(h, set())
    after = {h: g for g, h in before.items()}
    result = []
    for h in names:
        if h not in before:
            chain = [h]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            result.append(chain)
    return result


def groups(headers, names):
    """Pairs of a header that is precompiled, or None, and the chains after it."""
    result, rest = [], list(names)
    while True:
        over = {b: [h for h in rest if b in headers.before_code(h)] for b in rest}
        spared = {b: headers.size(b) * (len(chains(headers, over[b])) - 3) for b in rest if len(over[b]) > 3}
        base = max(spared, key=spared.get, default=None)
        if base is None or spared[base] <= 0:
            return [*result, (None, chains(headers, rest))]
        result.append((base, chains(headers, over[base])))
        rest = [h for h in rest if h not in over[base] and h != base]


def lines(names):
    return "".join(f"#include <{h}>\n" for h in names for _ in range(2))


def compiles(compiler, include, mode, text, *more):
    done = subprocess.run([compiler, modes[mode], *flags, "-I", include, *more, "-x", "c++", "-"], input=text, text=True, capture_output=True)
    return done.returncode == 0, done.stderr


def stands_alone(compiler, include, mode, header):
    if mode == "header_only" and header == makes_the_library:
        return True
    good, said = compiles(compiler, include, mode, lines([header]), "-fsyntax-only")
    if not good:
        print(f"{header} does not stand alone ({mode}):\n{said}")
    return good


def check(compiler, include, mode, left_out):
    headers = Headers(include, left_out)
    if mode == "compiled":
        names = headers.names
    else:
        names = [h for h in headers.names if h != makes_the_library and not headers.is_same_in_both_modes(h)]
    good, runs, shown = True, 0, set()
    with tempfile.TemporaryDirectory() as work:
        for base, group in groups(headers, names):
            before = []
            if base:
                precompiled = Path(work, "base.hpp")
                precompiled.write_text(lines([base]))
                runs += 1
                done = subprocess.run([compiler, modes[mode], *flags, "-I", include, "-x", "c++-header", str(precompiled), "-o", f"{precompiled}.gch"],
                                      capture_output=True)
                if done.returncode == 0:
                    before = ["-include", str(precompiled)]
                else:
                    good = False
                    if stands_alone(compiler, include, mode, base):
                        sys.exit(f"{base} cannot be precompiled: {done.stderr.decode()}")
                shown.add(base)
            for chain in group:
                runs += 1
                shown.update(chain)
                if not compiles(compiler, include, mode, lines(chain), "-fsyntax-only", *before)[0]:
                    runs += len(chain)
                    good = all([stands_alone(compiler, include, mode, h) for h in chain]) and good  # together they may warn, and alone not
    if shown != set(names) or not headers.names:
        sys.exit(f"not checked: {set(names) - shown or 'all of them'}")
    print(f"{len(names)} headers alone, {mode}: {runs} runs of the compiler")
    return good


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("compiler")
    parser.add_argument("include")
    parser.add_argument("header", nargs="?")
    parser.add_argument("--mode", choices=modes)
    parser.add_argument("--except", dest="left_out")
    words = parser.parse_args()
    if words.header:
        good = all([stands_alone(words.compiler, words.include, mode, words.header) for mode in modes])
    elif words.mode:
        good = check(words.compiler, words.include, words.mode, words.left_out)
    else:
        parser.error("--mode or HEADER")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
