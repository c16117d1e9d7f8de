"""Lines and parameters of every function in OpenCL C files, including macros that define one or contain a body.

    python3 tests/kernel_length.py [--list] FILE.cl...

Prints each function of more than 100 lines; with --list, all of them, longest first: lines, parameters, file, name.
A macro of more than one line counts as a function, since its text is one after expansion."""
import pathlib
import re
import sys

MOST_LINES = 100
NOT_FUNCTIONS = {"__attribute__", "_Pragma", "defined"}


def without_comments(text):
    """The same lines, with comments and string contents blanked."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def matching(text, start):
    """The index of the closing parenthesis or brace for the one at `start`."""
    pairs, depth = {"(": ")", "{": "}"}, 0
    opens, closes = text[start], pairs[text[start]]
    for i in range(start, len(text)):
        depth += (text[i] == opens) - (text[i] == closes)
        if depth == 0:
            return i
    return len(text) - 1


def parameters(inside):
    depth, count = 0, 1 if inside.strip() not in ("", "void") else 0
    for c in inside:
        depth += (c in "([") - (c in ")]")
        count += c == "," and depth == 0
    return count


def called(head):
    """The last `name(` of a head outside of parentheses: the start of its parameters, and the name."""
    depth, found = 0, None
    for i, c in enumerate(head):
        if c == "(" and depth == 0:
            name = re.search(r"(\w+)\s*$", head[:i])
            if name and name.group(1) not in NOT_FUNCTIONS:
                found = i, name.group(1)
        depth += (c == "(") - (c == ")")
    return found


def functions(text):
    """(first line, lines, parameters, name) of each `name(...) {` outside of braces."""
    i, begin = 0, 0
    while i < len(text):
        if text[i] in ";}":
            begin = i + 1
        if text[i] == "{":
            end, head = matching(text, i), text[begin:i]
            found = called(head)
            if found and head.rstrip().endswith(")") and "=" not in head:
                first, open_at = begin + len(head) - len(head.lstrip()), begin + found[0]
                inside = text[open_at + 1:matching(text, open_at)]
                yield text.count("\n", 0, first) + 1, text.count("\n", first, end) + 1, parameters(inside), found[1]
            i, begin = end, end + 1
        i += 1


def first_branches(text):
    """Removes the #else of an #if that opens braces, which would be opened twice."""
    lines, stack = text.split("\n"), []
    for n, line in enumerate(lines):
        if re.match(r"\s*#\s*if", line):
            stack.append([n, None])
        elif re.match(r"\s*#\s*(else|elif)", line) and stack[-1][1] is None:
            stack[-1][1] = n
        elif re.match(r"\s*#\s*endif", line):
            start, other = stack.pop()
            branch = "\n".join(lines[start:other])
            if other is not None and branch.count("{") != branch.count("}"):
                lines[other:n] = [""] * (n - other)
    return "\n".join(lines)


def file_functions(path):
    text = without_comments(path.read_text())
    for macro in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?(.*(?:\\\n.*)*)", text, flags=re.M):
        lines = macro.group().count("\n") + 1
        if lines > 1:
            listed = (macro.group(2) or "()")[1:-1]
            yield text.count("\n", 0, macro.start()) + 1, lines, parameters(listed), macro.group(1) + " (macro)"
    code = re.sub(r"^[ \t]*#.*(?:\\\n.*)*", lambda m: re.sub(r"[^\n]", "", m.group()), first_branches(text), flags=re.M)
    yield from functions(code)


def main(arguments):
    found = [(lines, params, f"{path}:{line}", name) for path in map(pathlib.Path, arguments) if path.suffix == ".cl"
             for line, lines, params, name in file_functions(path)]
    everything = "--list" in arguments
    for lines, params, place, name in sorted(found, reverse=True):
        if everything or lines > MOST_LINES:
            print(f"{place} {name}: {lines} lines, {params} parameters")
    return 0 if found and (everything or max(found)[0] <= MOST_LINES) else 1


sys.exit(main(sys.argv[1:]))
