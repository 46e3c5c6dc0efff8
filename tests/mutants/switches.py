# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A copy of the headers with many mutants side by side: an environment variable turns one on.
"""Each mutant changes a few tokens of a header. The smallest unit around them is written twice:

* an operand, an argument, an initialiser or a condition e becomes ((KOLO_MUTANT(n) ? (changed) : (e)));
* a statement s becomes if (KOLO_MUTANT(n)) { changed } else { s }.

In a constant evaluation no mutant is on. A mutant that cannot be written so (of a declaration, a type, or code that only
constant expressions use) is compiled by itself; the lists mark it with `alone`.
"""

import re
from pathlib import Path

TOKEN = re.compile(r'''(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<directive>(?<=\n)[ \t]*\#[^\n]*)|(?P<text>R"(?P<d>\w*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  |(?P<word>[A-Za-z_]\w*|[0-9](?:['.\w]|(?<=[eE])[+-])*)|(?P<sign><<=|>>=|\.\.\.|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)''', re.S | re.X)
CLOSES = {"(": ")", "[": "]", "{": "}"}
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
ENDS = {",", ";", "?", ":"}
BEFORE = ENDS | ASSIGNS | {"return", "throw", "else", "do"}
AFTER_A_LIST = {",", ")", ";", ".", "]", "}", "(", "->", "||", "&&", "==", "!=", "<", ">", "+", "|", "<<", "?", ":"}  # after a } that ends no block
DECLARES = {"const", "constexpr", "auto", "using", "static", "inline", "struct", "int", "bool", "unsigned", "double", "template", "typename"}

HEADER = """// Generated: which mutant is on.
#pragma once
#include <cstdlib>
#include <type_traits>
namespace kolo_mutants {
inline const unsigned long on = [] {
  unsigned hash = 2166136261u;
  const char* name = std::getenv("KOLO_MUTANT");
  if (!name) return 0u;
  for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return hash | 1;
}();
constexpr bool is_on(unsigned long n) { return !std::is_constant_evaluated() && on == n; }
}  // namespace kolo_mutants
#define KOLO_MUTANT(n) ::kolo_mutants::is_on(n)
"""


class Impossible(Exception):
    """This mutant must be compiled by itself."""


def number(name):
    """HEADER's FNV-1a hash of the name. It depends on nothing else: a new mutant does not change the other headers."""
    n = 2166136261
    for byte in name.encode():
        n = (n ^ byte) * 16777619 & 0xffffffff
    return n | 1


def tokens(text):
    """(kind, text, begin, end) of all tokens but spaces and comments."""
    return [(m.lastgroup if m.lastgroup != "d" else "text", m[0], m.start(), m.end()) for m in TOKEN.finditer(text) if m.lastgroup != "space"]


def partners(all_tokens):
    """The index of the bracket that belongs to each bracket."""
    found, stack = {}, []
    for i, (_, t, _, _) in enumerate(all_tokens):
        if t in CLOSES:
            stack.append(i)
        elif t in CLOSES.values() and stack:
            j = stack.pop()
            found[i], found[j] = j, i
    return found


def changed_tokens(before, after):
    """The ranges of tokens that differ."""
    first = 0
    while first < min(len(before), len(after)) and before[first][1] == after[first][1]:
        first += 1
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last][1] == after[-1 - last][1]:
        last += 1
    begin, end, new_end = first, len(before) - last, len(after) - last
    while begin < end and end < len(before) and before[begin][1] == before[end][1] == ";" and new_end == begin:  # "; a" and then ";" is "a;"
        begin, end, new_end = begin + 1, end + 1, new_end + 1
    return begin, end, new_end


def is_balanced(part):
    depth = 0
    for _, t, _, _ in part:
        depth += (t in CLOSES) - (t in CLOSES.values())
        if depth < 0:
            return False
    return depth == 0


def has_at_depth_0(part, signs):
    depth = 0
    for _, t, _, _ in part:
        depth += (t in CLOSES) - (t in CLOSES.values())
        if depth == 0 and t in signs:
            return True
    return False


class Unit:
    """What is written twice: characters begin to end of the header; `edits`: each mutant's replaced characters and their replacement."""

    def __init__(self, begin, end, is_statement, edit, is_condition=False):
        self.begin, self.end, self.is_statement, self.edits = begin, end, is_statement, [edit]
        self.type = "bool" if is_condition else ""

    def text(self, header):
        old, said = header[self.begin:self.end], ""
        if not self.is_statement:
            for n, b, e, new in self.edits:
                said += f"KOLO_MUTANT({n}) ? {self.type}({header[self.begin:b]}{new}{header[e:self.end]}) : "
            return f"({said}{self.type}({old}))"
        for n, b, e, new in self.edits:
            said += f"if (KOLO_MUTANT({n})) {{ {header[self.begin:b]}{new}{header[e:self.end]} }} else "
        return f"{said}{{ {old} }}"


def is_block(all_tokens, i, pairs):
    """True if this { opens a block, not an initialiser."""
    t = all_tokens[i - 1][1]
    return t in {")", "]", ";", "{", "}", "else", "do", "try", "const", "noexcept", "mutable", ":", "override"}


def is_step(all_tokens, semicolon, pairs):
    """True if this is the second semicolon of a for."""
    i, semicolons = semicolon, 0
    while i >= 0 and all_tokens[i][1] not in CLOSES:
        semicolons += all_tokens[i][1] == ";"
        i = pairs[i] - 1 if all_tokens[i][1] in CLOSES.values() and i in pairs else i - 1
    return all_tokens[semicolon][1] == ";" and i > 0 and all_tokens[i - 1][1] == "for" and semicolons > 1


def find_unit(header, name, old, new):
    at = header.index(old)
    before, after = tokens(header), tokens(header[:at] + new + header[at + len(old):])
    pairs = partners(before)
    begin, end, new_end = changed_tokens(before, after)
    edit_new = after[begin:new_end]
    if not (is_balanced(before[begin:end]) and is_balanced(edit_new)):  # then the whole `old` and `new`
        begin = next(i for i, t in enumerate(before) if t[2] >= at)
        end = next((i for i, t in enumerate(before) if t[2] >= at + len(old)), len(before))
        edit_new = [t for t in after if at <= t[2] < at + len(new)]
        if not (is_balanced(before[begin:end]) and is_balanced(edit_new)):
            raise Impossible("a bracket is changed")
    said = " ".join(t for _, t, _, _ in edit_new)
    edit_begin = before[begin][2] if begin < len(before) else len(header)
    edit_end = before[end - 1][3] if end > begin else edit_begin
    edit = (number(name), edit_begin, edit_end, f" {said} ")
    in_statements = any(has_at_depth_0(part, {";"}) for part in (before[begin:end], edit_new))

    left, right = begin - 1, end
    if any(has_at_depth_0(part, {","}) for part in (before[begin:end], edit_new)):  # several arguments: the whole call
        while left >= 0 and before[left][1] not in CLOSES:
            left = pairs[left] - 1 if left in pairs else left - 1
        if before[left][1] == "(" or (before[left][1] == "{" and before[left - 1][0] == "word" and not is_block(before, left, pairs)):
            left, right = left - 1, pairs[left] + 1
        else:
            in_statements, left = True, begin - 1
    if not in_statements:  # the smallest expression around the change
        while left >= 0:
            kind, t, _, _ = before[left]
            if t in (")", "]") or (t == "}" and left + 1 < len(before) and before[left + 1][1] in AFTER_A_LIST):
                left = pairs[left] - 1
            elif t == ">" and before[left + 1][1] in {"(", "{"}:  # template arguments of a call
                depth = 0
                while left >= 0:
                    depth += (before[left][1] == ">") - (before[left][1] == "<")
                    left -= 1
                    if depth == 0:
                        break
            elif t in CLOSES or t in CLOSES.values() or t in BEFORE or kind == "directive":
                break
            else:
                left -= 1
        while right < len(before):
            kind, t, _, _ = before[right]
            if t in CLOSES:
                right = pairs[right] + 1
            elif t in CLOSES.values() or t in ENDS or kind == "directive":
                break
            else:
                right += 1
        boundary = before[left][1]
        is_expression = boundary in {"(", "[", ",", "?", "return", "throw"} | ASSIGNS or (boundary == "{" and not is_block(before, left, pairs))
        if boundary == ":":
            is_expression = True
        if boundary == ";":  # in a for, or the end of a statement
            opener = left - 1
            while opener >= 0 and before[opener][1] not in CLOSES:
                opener = pairs[opener] - 1 if before[opener][1] in CLOSES.values() and opener in pairs else opener - 1
            is_expression = opener >= 0 and before[opener][1] == "("
        if is_expression:
            if left + 1 >= right:
                raise Impossible("nothing is left of the expression")
            if before[left + 1][1] == "{" or said.startswith("{"):
                raise Impossible("a list in braces has no type")
            if not said and (left + 1, right) == (begin, end):
                raise Impossible("nothing is left of the expression")
            word = before[left - 1][1] if boundary == "(" else ""
            is_condition = (word in {"if", "while"} and before[right][1] == ")") or before[right][1] == "?" or (boundary == ";" and before[right][1] == ")")
            if boundary == "=" and any(before[i][1] in {"using", "template", "typename"} for i in range(max(0, left - 4), left)):
                raise Impossible("it is a type")
            return Unit(before[left + 1][2], before[right - 1][3], False, edit, is_condition and not is_step(before, left, pairs))
    # the statements around the change
    left, right = begin - 1, end
    while left >= 0:
        kind, t, _, _ = before[left]
        if t in (")", "]") or (t == "}" and before[left + 1][1] in AFTER_A_LIST):
            left = pairs[left] - 1
        elif t in {";", "{", "}", "else", "do"} or kind == "directive":
            break
        else:
            left -= 1
    if before[left][1] == "{" and not is_block(before, left, pairs):
        raise Impossible("a list in braces has no statements")
    ends_well = end > begin and (before[end - 1][1] == ";" or (before[end - 1][1] == "}" and before[end][1] != ";"))
    if not ends_well:
        while right < len(before) and before[right][1] != ";":
            right = pairs[right] + 1 if before[right][1] in CLOSES else right + 1
            if right < len(before) and before[right][1] in CLOSES.values():
                raise Impossible("the statement has no end")
        right += 1
    first = before[left + 1][1]
    if first in DECLARES or first.startswith("std"):
        raise Impossible("it declares something")
    if right < len(before) and before[right][1] == "else":
        raise Impossible("an else belongs to it")
    return Unit(before[left + 1][2], before[right - 1][3], True, edit)


def with_switches(header, mutants):
    """The header with all of these, {name: {old, new}}; and {name: why} for those that cannot be switched."""
    units, alone = [], {}
    for name, m in mutants.items():
        try:
            units.append((name, find_unit(header, name, m["old"], m["new"])))
        except Impossible as why:
            alone[name] = str(why)
    units.sort(key=lambda u: (u[1].begin, -u[1].end))
    kept = []
    for name, unit in units:
        outer = kept[-1] if kept else None
        if outer and unit.begin < outer.end:
            if unit.end > outer.end:
                alone[name] = "it overlaps another one"
                continue
            outer.edits += unit.edits
        else:
            kept.append(unit)
    for unit in reversed(kept):
        header = header[:unit.begin] + unit.text(header) + header[unit.end:]
    where = header.index("#pragma once") + len("#pragma once")
    return header[:where] + "\n#include <kolo/mutated.hpp>" + header[where:], alone


def write_if_changed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def generate(include, output, mutants):
    """Writes the headers that differ from `include` to `output`. Returns {name: why} for those that should be switched but cannot."""
    by_file, impossible, written = {}, {}, {output / "kolo/mutated.hpp"}
    for name, m in mutants.items():
        by_file.setdefault(m["file"], {})[name] = m
    write_if_changed(output / "kolo/mutated.hpp", HEADER)
    for file, here in by_file.items():
        text, alone = with_switches((include / "kolo" / file).read_text(), here)
        impossible.update(alone)
        write_if_changed(output / "kolo" / file, text)
        written.add(output / "kolo" / file)
    for path in output.rglob("*.[hc]*"):
        if path.is_file() and path not in written:
            path.unlink()
    return impossible
