"""Compares chat templates with transformers: the files of a folder for several conversations, and random expressions.
    python3 chat_templates.py LIBTFM FOLDER [EXPRESSIONS [SEED]]
A text must be transformers', or refused with a reason; at least 95 % of the texts of the folder must be rendered, and
nothing that transformers refuses. The last line is "N passed, N failed, N skipped"."""
import ctypes
import datetime
import glob
import json
import os
import random
import sys
import warnings

import transformers.utils.chat_template_utils as reference

NOW = 1753000000
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
HERE = os.path.dirname(os.path.abspath(__file__))
with open(HERE + "/golden/jinja.json", encoding="utf-8") as golden:
    GOLDEN = json.load(golden)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW)


class Options(ctypes.Structure):
    """tfm_chat_options."""
    _fields_ = [("add_generation_prompt", ctypes.c_bool), ("continue_final_message", ctypes.c_bool),
                ("tools", ctypes.c_char_p), ("documents", ctypes.c_char_p), ("variables", ctypes.c_char_p),
                ("template_name", ctypes.c_char_p), ("now", ctypes.c_int64), ("reserved", ctypes.c_uint64 * 8)]


def as_json(value):
    return None if value is None else json.dumps(value).encode()


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.tfm_error_message.restype = ctypes.c_char_p

    def render(self, template, case):
        """The text, or None, and the reason of a refusal."""
        chat, out, text = ctypes.c_void_p(), ctypes.c_void_p(), template.encode()
        options = Options(case.get("add_generation_prompt", False), case.get("continue_final_message", False),
                          as_json(case.get("tools")), as_json(case.get("documents")), as_json(case.get("variables")),
                          None, NOW)
        status = self.lib.tfm_chat_new(ctypes.byref(chat), text, ctypes.c_size_t(len(text)), as_json(TOKENS)) or \
            self.lib.tfm_chat_render(chat, ctypes.byref(out), as_json(case["messages"]), ctypes.byref(options))
        why = self.lib.tfm_error_message().decode("utf-8", "replace") if status else ""
        found = None if status else ctypes.string_at(out).decode()
        self.lib.tfm_text_free(ctypes.byref(out))
        self.lib.tfm_chat_free(ctypes.byref(chat))
        return found, why


def expected(template, case):
    """The text that transformers renders, or None, and its error."""
    try:
        messages = reference._normalize_chat_messages(case["messages"])
        return reference.render_jinja_template(
            [messages], tools=case.get("tools"), documents=case.get("documents"), chat_template=template,
            continue_final_message=case.get("continue_final_message", False),
            add_generation_prompt=case.get("add_generation_prompt", False), **TOKENS | case.get("variables", {}))[0][0], ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


class Counts:
    def __init__(self):
        self.equal = self.refused = self.both = self.wrong = 0

    def compare(self, library, name, template, case):
        """Counts a case, prints a wrong text, and returns the reason of a refusal."""
        found, why = library.render(template, case)
        want, error = expected(template, case)
        if found is not None and found == want:
            self.equal += 1
        elif found is None and want is None:
            self.both += 1
        elif found is None:
            self.refused += 1
            return why
        else:
            self.wrong += 1
            print(f"{name}: rendered {found!r:.300}, transformers {want!r:.300} {error}")
        return None


# ---- Random expressions

ATOMS = ["x", "y", "neg", "s", "e", "n", "t", "f", "l", "el", "d", "ed", "users", "mixed", "ws", "html", "multi",
         "words", "undef", "1", "0", "-1", "2.5", '"a"', '"aB c"', '""', "none", "true", "[1,2]", '(1,"b")',
         '{"k":1}', '"日本é"', "users[0]", "d.b", "range(4)", "messages", "3", '"3"', '" 7.5 "', "[]", '("q",)',
         "d.items()", "d.keys()", "d.values()", 'l|map("string")', "namespace(a=1)", "joiner", '"x,y,z"']
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "**"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list", 'join(",")', "string",
           "int", "float", "abs", "round", "round(1)", "sort", "sort(reverse=true)", "unique|list", "reverse", "sum",
           "min", "max", "tojson", "tojson(indent=2)", 'default("D")', 'default("D",true)', 'replace("a","b")',
           "safe", "e", "items|list", "dictsort", "batch(2)|list", 'map("string")|list', 'map("upper")|join',
           'map(attribute="name")|list', 'select("string")|list', 'reject("none")|list', 'selectattr("name")|list',
           'rejectattr("a")|list', "indent", "indent(2,true)", "wordcount", "truncate(5)", "center(9)", "select|list",
           'map("length")|list', 'groupby("age")|list', "count", "urlencode", "slice(2)|list", 'map("int")|list',
           'map("tojson")|join(" ")', "first|upper", "join", 'attr("x")', "format(1)", 'max(attribute="age")',
           'sum(attribute="age")', 'map("first")|list', 'map("default","z")|list']
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "sequence", "iterable", "true", "false",
         "boolean", "integer", "float", "odd", "even", "divisibleby 2", "eq 1", 'ne "a"', "gt 1", "lt 2", "in l",
         "in s", "sameas none", "callable", "lower", "upper", "escaped", "in d", "ge 1", "le 1"]
METHODS = [".upper()", ".lower()", ".strip()", ".split()", '.split(",")', ".title()", ".items()", ".keys()",
           '.get("a")', '.get("k",2)', '.startswith("a")', '.endswith("c")', '.replace("a","")', '.find("B")',
           ".splitlines()", '.join(["p","q"])', '.count("a")', ".isdigit()", "[0]", "[-1]", "[1:]", "[:2]", "[::-1]",
           '["a"]', ".a", ".name", '["name"]', ".index(1)", ".values()", ".capitalize()", '.lstrip("a")', ".rstrip()",
           ".format(1,2)", '.rsplit(" ",1)', '.partition(" ")', ".zfill(6)", ".isupper()", ".copy()", ".count(1)",
           '.removeprefix("a")', ".swapcase()", ".casefold()", "[0:1]", "[2]", '["k"]', ".role", ".content"]


def expression(draw, depth):
    kind = draw.random()
    if depth == 0 or kind < 0.2:
        return draw.choice(ATOMS)
    inner = "(" + expression(draw, depth - 1) + ")"
    if kind < 0.4:
        return f"{inner} {draw.choice(OPERATORS)} ({expression(draw, depth - 1)})"
    if kind < 0.6:
        return inner + "|" + draw.choice(FILTERS)
    if kind < 0.68:
        return f"{inner} is {draw.choice(['', 'not '])}{draw.choice(TESTS)}"
    if kind < 0.85:
        return inner + draw.choice(METHODS)
    if kind < 0.9:
        return f"{inner} if {expression(draw, depth - 1)} else ({expression(draw, depth - 1)})"
    if kind < 0.95:
        return f"[{inner}, {expression(draw, depth - 1)}]"
    return draw.choice(["not ", "-"]) + inner


def main():
    reference.datetime = Clock
    warnings.simplefilter("ignore")  # of constants such as 3[1:]
    library, files = Library(sys.argv[1]), sorted(glob.glob(sys.argv[2] + "/*.jinja"))
    expressions, seed = int((sys.argv[3:] or [5000])[0]), int((sys.argv[4:] or [1])[0])
    cases, folder, sampled = GOLDEN["cases"], Counts(), Counts()
    for path in files:
        with open(path, encoding="utf-8") as file:
            template = file.read()
        for case in cases:
            name = f"{os.path.basename(path)}, {case['name']}"
            why = folder.compare(library, name, template, case)
            if why:
                print(f"{name} is refused: {why}")
    texts = folder.equal + folder.refused + folder.wrong
    print(f"{len(files)} templates: {folder.equal} of {texts} texts are equal, {folder.refused} refused, {folder.wrong} "
          f"wrong; {folder.both} cases are refused by both")
    draw = random.Random(seed)
    case = {"messages": cases[0]["messages"], "variables": GOLDEN["variables"]}
    for _ in range(expressions):
        template = "{{ " + expression(draw, draw.choice([1, 2, 2, 3])) + " }}"
        sampled.compare(library, template, template, case)
    print(f"{expressions} expressions of seed {seed}: {sampled.equal} equal, {sampled.both} refused by both, {sampled.refused} "
          f"refused here, {sampled.wrong} wrong")
    good = [len(files) >= 60 and folder.equal >= 0.95 * texts and not folder.wrong, not sampled.wrong]
    print(f"{sum(good)} passed, {2 - sum(good)} failed, 0 skipped")
    sys.exit(sum(good) < 2)


main()
