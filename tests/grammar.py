"""Grammars and JSON schemas of constrained decoding against published peers.
    python3 grammar.py LIBTFM GRAMMAR_WALK SUITE.tar.gz VOCABULARY...
SUITE.tar.gz is the source distribution of jsonschema, with the JSON-Schema-Test-Suite; a vocabulary is a tokenizer
directory or a GGUF file. No invalid instance may be accepted, and no valid one rejected but KNOWN; a schema is refused
with a reason. Random texts of the masks must be valid by jsonschema, for schemas written after those of APIs. Masks are
compared with those of llguidance if it is installed. The last line is "N passed, N failed, N skipped"."""
import collections
import ctypes
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import tarfile
import tempfile

import jsonschema

DRAFT = "/json/tests/draft2020-12/"
# Unusual forms of formats, an integer that a double writes with a fraction, and a schema of an unknown dialect.
KNOWN = {"optional/format/date-time.json": 3, "optional/format/email.json": 5, "optional/format/time.json": 7,
         "optional/format/uri.json": 2, "const.json": 1, "vocabulary.json": 1}
WALKS = int(os.environ.get("GRAMMAR_WALKS", "20"))


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.tfm_error_message.restype = ctypes.c_char_p
        self.lib.tfm_grammar_matches.restype = ctypes.c_bool

    def compile(self, schema):
        grammar = ctypes.c_void_p()
        refused = self.lib.tfm_grammar_from_json_schema(ctypes.byref(grammar), json.dumps(schema).encode())
        return (None, self.lib.tfm_error_message().decode("utf-8", "replace")) if refused else (grammar, None)

    def matches(self, grammar, text):
        data = text.encode("utf-8", "surrogatepass")
        return self.lib.tfm_grammar_matches(grammar, data, ctypes.c_size_t(len(data)))

    def free(self, grammar):
        self.lib.tfm_grammar_free(ctypes.byref(grammar))


def texts(value):
    """The compact texts of a value, with its properties in each order."""
    if isinstance(value, float) and abs(value) < 1e15 and value == int(value):
        value = int(value)
    if isinstance(value, dict):
        parts = {key: list(itertools.islice(texts(one), 50)) for key, one in value.items()}
        for keys in itertools.islice(itertools.permutations(value), 130):
            for chosen in itertools.islice(itertools.product(*(parts[key] for key in keys)), 100):
                yield "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + v for k, v in zip(keys, chosen)) + "}"
    elif isinstance(value, list):
        parts = [list(itertools.islice(texts(one), 50)) for one in value]
        yield from ("[" + ",".join(chosen) + "]" for chosen in itertools.islice(itertools.product(*parts), 1000))
    else:
        yield json.dumps(value, ensure_ascii=False)


def suite(library, path):
    """The JSON-Schema-Test-Suite; `format.json` is about formats as annotations."""
    counts, rejected, accepted = collections.Counter(), collections.Counter(), 0
    archive = tarfile.open(path)
    for member in sorted(archive.getmembers(), key=lambda one: one.name):
        if DRAFT not in member.name or not member.name.endswith(".json") or member.name.endswith("12/format.json"):
            continue
        name = member.name.split(DRAFT)[1]
        for case in json.load(archive.extractfile(member)):
            grammar, why = library.compile(case["schema"])
            counts["refused" if why else "compiled"] += 1
            if why and (": " not in why or "\n" in why):
                print(f"{name}: no reason: {why}")
                accepted += 1
            for test in [] if why else case["tests"]:
                found = any(library.matches(grammar, text) for text in texts(test["data"]))
                counts["instances"] += 1
                if found and not test["valid"]:
                    accepted += 1
                    print(f"{name}: {case['description']}: accepts {json.dumps(test['data'])}")
                elif test["valid"] and not found:
                    rejected[name] += 1
                    if rejected[name] > KNOWN.get(name, 0):
                        print(f"{name}: {case['description']}: rejects {json.dumps(test['data'])}")
            if grammar:
                library.free(grammar)
    print(f"JSON-Schema-Test-Suite: {counts['compiled']} schemas, {counts['refused']} refused; {counts['instances']} "
          f"instances, {accepted} wrongly accepted, {sum(rejected.values())} wrongly rejected")
    return counts["compiled"] >= 150 and not accepted and all(n <= KNOWN.get(k, 0) for k, n in rejected.items())


# ---- Schemas written after those of APIs

TEXT, WHOLE, REAL, FLAG, NONE = ({"type": t} for t in ("string", "integer", "number", "boolean", "null"))


def obj(required="", closed=True, **properties):
    return {"type": "object", "properties": properties, "required": required.split(),
            **({"additionalProperties": False} if closed else {})}


def arr(items, **more):
    return {"type": "array", "items": items, **more}


def words(*values):
    return {"type": "string", "enum": list(values)}


def of(kind, **more):
    return {"type": kind, **more}


def maybe(schema):
    return {"anyOf": [schema, NONE]}


def ref(name):
    return {"$ref": "#/$defs/" + name}


DAY, TIME, ID = of("string", format="date"), of("string", format="date-time"), of("string", format="uuid")
MAIL, LINK = of("string", format="email"), of("string", format="uri")
MONEY = obj("amount currency", amount=of("integer", minimum=0), currency=of("string", pattern="^[A-Z]{3}$"))
APIS = {
    "weather tool": obj("location", location=TEXT, unit=words("celsius", "fahrenheit")),
    "tool call": obj("name arguments", name=words("search", "open"), arguments=obj("query", query=TEXT, top_k=WHOLE)),
    "math steps": obj("steps answer", steps=arr(obj("explanation output", explanation=TEXT, output=TEXT)), answer=TEXT),
    "calendar event": obj("name date participants", name=TEXT, date=DAY, participants=arr(TEXT)),
    "moderation": obj("violates category", violates=FLAG, category=maybe(words("violence", "self_harm"))),
    "ui tree": {"$defs": {"node": obj("type children", type=words("div", "button"), label=TEXT,
                                      children=arr(ref("node")))}, **ref("node")},
    "linked list": {**obj("node", node=maybe(ref("node"))),
                    "$defs": {"node": obj("value next", value=REAL, next=maybe(ref("node")))}},
    "issue": obj("title", title=of("string", minLength=1, maxLength=80), body=maybe(TEXT), labels=arr(TEXT, maxItems=5),
                 milestone=maybe(of("integer", minimum=1))),
    "pull request": obj("title head base", title=TEXT, head=of("string", pattern="^[\\w./-]+$"), base=TEXT, draft=FLAG),
    "commit status": obj("state", state=words("error", "failure", "pending", "success"), target_url=LINK),
    "webhook": obj("config events", config=obj("url", url=LINK, insecure_ssl=words("0", "1")), events=arr(TEXT, minItems=1)),
    "charge": obj("money source", money=MONEY, source=of("string", pattern="^tok_[a-z0-9]{4,8}$")),
    "refund": obj("charge", charge=TEXT, reason=words("duplicate", "fraudulent"), amount=of("integer", minimum=1)),
    "customer": obj("email", email=MAIL, name=TEXT, address=obj(line1=TEXT, city=TEXT, postal_code=TEXT)),
    "subscription": obj("items", items=arr(obj("price", price=TEXT, quantity=of("integer", minimum=1, maximum=99)),
                                           minItems=1, maxItems=3)),
    "invoice": obj("id lines total", id=ID, lines=arr(obj("text price", text=TEXT, price=MONEY)), total=MONEY),
    "chat message": obj("channel text", channel=of("string", pattern="^[CDG][A-Z0-9]{8}$"), text=TEXT, thread_ts=TEXT),
    "message blocks": arr({"oneOf": [obj("type text", type={"const": "section"}, text=TEXT),
                                     obj("type", type={"const": "divider"}),
                                     obj("type url", type={"const": "image"}, url=LINK)]}),
    "translation": obj("text target", text=arr(TEXT, minItems=1), target=words("DE", "EN-GB", "JA"), formality=TEXT),
    "geo point": obj("type coordinates", type={"const": "Point"},
                     coordinates={"type": "array", "prefixItems": [of("number", minimum=-180, maximum=180),
                                                                   of("number", minimum=-90, maximum=90)],
                                  "items": False, "minItems": 2}),
    "bounding box": arr(of("integer", minimum=0, maximum=1024), minItems=4, maxItems=4),
    "directions": obj("origin destination", origin=TEXT, destination=TEXT, mode=words("driving", "walking", "transit")),
    "place": obj("name rating", name=TEXT, rating=of("number", minimum=0, maximum=5), price=of("integer", minimum=0, maximum=4)),
    "flight": obj("from to on", **{"from": of("string", pattern="^[A-Z]{3}$")}, to=of("string", pattern="^[A-Z]{3}$"),
                  on=DAY, cabin=words("economy", "business")),
    "hotel": obj("guests check_in", guests=of("integer", minimum=1, maximum=8), check_in=DAY, nights=of("integer", exclusiveMinimum=0)),
    "log record": obj("time level", False, time=TIME, level=words("debug", "info", "warn"), message=TEXT),
    "metric": obj("name value", name=of("string", pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$"), value=REAL, tags=of("object", additionalProperties=TEXT)),
    "span": obj("trace_id name", trace_id=of("string", pattern="^[0-9a-f]{32}$"), name=TEXT, duration=of("number", exclusiveMinimum=0)),
    "deployment": obj("replicas image", replicas=of("integer", minimum=0, maximum=100), image=TEXT,
                      env=arr(obj("name value", name=TEXT, value=TEXT)), ports=arr(of("integer", minimum=1, maximum=65535))),
    "firewall": obj("cidr", cidr=of("string", format="ipv4"), v6=of("string", format="ipv6"), allow=FLAG),
    "dns": {"oneOf": [obj("type value", type={"const": "A"}, value=of("string", format="ipv4")),
                      obj("type value", type={"const": "AAAA"}, value=of("string", format="ipv6")),
                      obj("type value priority", type={"const": "MX"}, value=TEXT, priority=WHOLE)]},
    "patch": arr({"anyOf": [obj("op path value", op=words("add", "replace"), path=of("string", pattern="^/"), value={}),
                            obj("op path", op={"const": "remove"}, path=of("string", pattern="^/"))]}),
    "filter": {"$defs": {"f": {"anyOf": [obj("field equals", field=TEXT, equals=of(["string", "number", "boolean"])),
                                         obj("all", all=arr(ref("f"), minItems=1))]}}, **ref("f")},
    "sql": obj("sql", sql=TEXT, parameters=arr(of(["string", "number", "null"]))),
    "product": obj("sku price", sku=of("string", pattern="^\\d{3}-\\d{4}$"), price=of("number", minimum=0.01),
                   stock=of("integer", minimum=0), tags=arr(of("string", maxLength=12))),
    "review": obj("stars", stars={"type": "integer", "enum": [1, 2, 3, 4, 5]}, text=of("string", maxLength=200)),
    "order": obj("id status lines", id=ID, status=words("new", "paid"), lines=arr(obj("sku n", sku=TEXT, n=WHOLE), minItems=1)),
    "person": obj("name age", name=obj("first last", first=TEXT, last=TEXT), age=of("integer", minimum=0, maximum=150),
                  email=maybe(MAIL)),
    "entities": arr(obj("text label start", text=TEXT, label=words("PER", "LOC"), start=of("integer", minimum=0))),
    "sentiment": obj("label score", label=words("positive", "negative"), score=of("number", minimum=0, maximum=1)),
    "triples": obj("triples", triples=arr({"type": "array", "prefixItems": [TEXT, TEXT, TEXT], "items": False, "minItems": 3})),
    "recipe": obj("name steps", name=TEXT, steps=arr(TEXT, minItems=1), minutes=of("integer", exclusiveMinimum=0, maximum=600)),
    "quiz": obj("question options answer", question=TEXT, options=arr(TEXT, minItems=4, maxItems=4), answer=words(*"ABCD")),
    "plan": {"$defs": {"step": obj("do", do=TEXT, after=arr(WHOLE))}, "type": "array", "items": ref("step"), "minItems": 1},
    "robot": {"oneOf": [obj("kind x y", kind={"const": "move"}, x=REAL, y=REAL), obj("kind", kind={"const": "stop"})]},
    "settings": of("object", additionalProperties=of(["string", "boolean", "integer"])),
    "pydantic": {"allOf": [{"$ref": "#/$defs/Base"}, {"type": "object", "properties": {"extra": FLAG}, "required": ["extra"]}],
                 "$defs": {"Base": obj("id", False, id=of("integer", minimum=1), tag=TEXT)}},
    "discriminated": {"anyOf": [ref("cat"), ref("dog")], "$defs": {
        "cat": obj("pet lives", pet={"const": "cat"}, lives=of("integer", maximum=9, minimum=1)),
        "dog": obj("pet good", pet={"const": "dog"}, good={"const": True})}},
    "any object": of("object"),
    "schedule": obj("at every", at=of("string", format="time"), every=of("string", pattern="^P\\d+[DWM]$")),
    "phone": obj("number", number=of("string", pattern="^\\+[1-9]\\d{6,14}$", maxLength=12)),
    "color": of("string", pattern="^#([0-9a-f]{3}){1,2}$"),
}


class Walker:
    """The program grammar_walk on one vocabulary."""

    def __init__(self, program, vocabulary):
        self.process = subprocess.Popen([program, vocabulary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, command, more=b""):
        self.process.stdin.write(command.encode() + b"\n" + more)
        self.process.stdin.flush()
        return self.process.stdout.readline().decode("utf-8", "replace").rstrip("\n")

    def open(self, kind, text):
        data = text.encode()
        answer = self.ask(f"{kind} {len(data)}", data)
        if answer != "ok":
            raise ValueError(answer)

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def valid(schema, text):
    try:
        jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator,
                            format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        return None
    except RecursionError:  # a schema that refers to itself for the same value
        return None
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).split("\n")[0]


def random_texts(program, vocabulary):
    walker, wrong, count, endless, times = Walker(program, vocabulary), 0, 0, 0, []
    for name, schema in APIS.items():
        walker.open("schema", json.dumps(schema))
        for seed in range(WALKS):
            answer = walker.ask(f"walk {seed} {10 + seed}")
            text = bytes.fromhex(answer).decode("utf-8") if answer != "-" else None
            why = text is not None and valid(schema, text)
            endless += text is None
            count += 1
            if why:
                wrong += 1
                print(f"{name}: {text[:200]!r} is invalid: {why}")
    for text in ['{"a": "', '{"a": "some text', '{"a": [1', '{"a": {"b": ']:
        walker.open("schema", "{}")
        for _ in range(3):
            if walker.ask("accept " + text) == "ok":
                times.append(float(walker.ask("mask").split()[2]))
    ended = walker.close() == 0
    print(f"{os.path.basename(vocabulary)}: {count} random texts of {len(APIS)} schemas, {wrong} invalid, {endless} without "
          f"an end; masks of {', '.join(f'{1000 * t:.3f}' for t in times)} ms")
    return ended and not wrong and endless < count / 10


# ---- Random schemas

PATTERNS = ["^[a-c]*$", "b", "^(ab|c)+", "[^a]$", "^\\d{2,3}$", "a.c|^x", "^\\S+\\s?$", "^(?:[A-Z][a-z]*)( [a-z]{1,3})*$"]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "uri"]


def bounds(rng, low, high, least, most, exclusive=False):
    """A random choice of two keywords with values in order."""
    values = sorted(rng.randint(least, most) / (rng.choice([1, 1, 10]) if exclusive else 1) for _ in range(2))
    names = [low, high]
    if exclusive:
        names = [rng.choice([name, "exclusive" + name.capitalize()]) for name in names]
    return {name: value for name, value in zip(names, values) if rng.random() < 0.6}


def random_schema(rng, depth):
    kind = rng.choice(["string", "number", "integer", "enum", "object", "array", "object", "anyOf", "allOf", "ref", "any"]
                       [:11 if depth else 4])
    if kind == "string":
        schema = bounds(rng, "minLength", "maxLength", 0, 12)
        if rng.random() < 0.4:
            schema["pattern"] = rng.choice(PATTERNS)
        elif rng.random() < 0.2:
            schema["format"] = rng.choice(FORMATS)
        return {"type": "string", **schema}
    if kind in ("number", "integer"):
        return {"type": kind, **bounds(rng, "minimum", "maximum", -120, 120, True)}
    if kind == "enum":
        return {"enum": rng.sample([None, True, 1, 2.5, "a", "ab\n\"", [], [1, "x"], {"k": [None]}, "é", -3], 3)}
    if kind == "object":
        names = rng.sample(["a", "b", "ab", "a\"", "é", "k", ""], rng.randint(0, 4))
        more = rng.choice([None, False, random_schema(rng, depth - 1)])
        return {"type": "object", "properties": {name: random_schema(rng, depth - 1) for name in names},
                "required": rng.sample(names + ["z"], rng.randint(0, len(names))),
                **({} if more is None else {"additionalProperties": more})}
    if kind == "array":
        prefix = [random_schema(rng, depth - 1) for _ in range(rng.choice([0, 0, 1, 2]))]
        return {"type": "array", "items": random_schema(rng, depth - 1), **bounds(rng, "minItems", "maxItems", 0, 5),
                **({"prefixItems": prefix} if prefix else {})}
    if kind in ("anyOf", "allOf"):
        rest = random_schema(rng, 0) if rng.random() < 0.3 else {}
        return {**rest, kind: [random_schema(rng, depth - 1) for _ in range(rng.randint(1, 3 if kind == "anyOf" else 2))]}
    return {"$ref": "#/$defs/r"} if kind == "ref" else {}


def random_schemas(program, vocabulary, number):
    """Random texts of random schemas are valid; a schema without texts is refused."""
    walker, counts = Walker(program, vocabulary), collections.Counter()
    for seed in range(number):
        rng = random.Random(seed)
        schema = {**random_schema(rng, 3), "$defs": {"r": random_schema(rng, 2)}}
        try:
            walker.open("schema", json.dumps(schema))
        except ValueError as error:
            counts["empty" if "no text" in str(error) else "refused"] += 1
            continue
        for walk in range(4):
            answer = walker.ask(f"walk {walk} {10 + 5 * walk}")
            why = answer != "-" and valid(schema, bytes.fromhex(answer).decode("utf-8"))
            counts["texts"] += answer != "-"
            if why:
                counts["invalid"] += 1
                print(f"{json.dumps(schema)}: {bytes.fromhex(answer).decode()[:200]!r} is invalid: {why}")
    ended = walker.close() == 0
    print(f"{number} random schemas: {dict(counts)}")
    return ended and not counts["invalid"] and counts["texts"] > number


# ---- llguidance

# The same language as GBNF and as llguidance's Lark.
PAIRS = [('root ::= [a-z]+', 'start: /[a-z]+/'),
         ('root ::= "yes" | "no"', 'start: "yes" | "no"'),
         ('root ::= [0-9]{2,4} ("," [0-9]+)*', 'start: /[0-9]{2,4}(,[0-9]+)*/'),
         ('root ::= [^"\\\\]* "\\""', 'start: /[^"\\\\]*"/'),
         ('root ::= "(" root ")" | "x"', 'start: "(" start ")" | "x"'),
         ('root ::= [é日]+ .', 'start: /(?s:[é日]+.)/'),
         ('root ::= e ("+" e)*\ne ::= [0-9]+ | "(" root ")"', 'start: e ("+" e)*\ne: /[0-9]+/ | "(" start ")"')]
TEXTS = ["", "a", "ab", "12", "(", "((", "x", "1+", "1+2", "(1", "é", "日é", "abc def", "12,3", "y", "12,"]


def guidance_masks(program):
    """Masks of each grammar after the texts that it accepts, on llguidance's vocabulary."""
    import llguidance
    tokenizer = llguidance.LLTokenizer(open(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                         "golden/tokenizers/gpt2/tokenizer.json"), encoding="utf-8").read())
    tokens = [tokenizer.decode_bytes([i]) if not tokenizer.is_special_token(i) else b"" for i in range(tokenizer.vocab_size)]
    file = tempfile.NamedTemporaryFile(suffix=".tokens")
    file.write(b"".join(struct.pack("<I", len(one)) + one for one in tokens))
    file.flush()
    walker, wrong, count = Walker(program, file.name), 0, 0
    single = {one: i for i, one in reversed(list(enumerate(tokens))) if len(one) == 1}
    for gbnf, lark in PAIRS:
        walker.open("gbnf", gbnf)
        for text in TEXTS:
            matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
            theirs = all(matcher.consume_token(single[bytes([b])]) for b in text.encode())
            ours = walker.ask("accept " + text) == "ok"
            if ours != theirs:
                wrong += 1
                print(f"{gbnf!r}: {text!r} is {'accepted' if ours else 'rejected'} only here")
            if not ours or not theirs:
                continue
            mask = matcher.compute_bitmask() if not matcher.is_stopped() else b"\0" * ((len(tokens) + 31) // 32 * 4)
            bits = walker.ask("mask").split()[0]
            for i, one in enumerate(tokens):
                got = int(bits[i // 32 * 8:i // 32 * 8 + 8], 16) >> i % 32 & 1
                if one and i != tokenizer.eos_token and got != mask[i // 8] >> i % 8 & 1:
                    wrong += 1
                    print(f"{gbnf!r} after {text!r}: the token {one!r} is {'allowed' if got else 'refused'} only here")
            count += 1
    walker.close()
    print(f"llguidance: {count} masks of {len(tokens)} tokens, {wrong} differences")
    return count >= 20 and not wrong


def main():
    library, program, archive, vocabularies = Library(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    results, skipped = [suite(library, archive)], 0
    results += [random_texts(program, vocabulary) for vocabulary in vocabularies]
    results.append(random_schemas(program, vocabularies[0], 50 * WALKS))
    try:
        results.append(guidance_masks(program))
    except ImportError:
        print("skipped: llguidance is not installed")
        skipped = 1
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, {skipped} skipped")
    sys.exit(not all(results))


main()
