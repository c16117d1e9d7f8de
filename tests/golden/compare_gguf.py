"""Tokenizers of GGUF files: TFM's ids against llama.cpp's cases, and against the libraries `sentencepiece` and
`tokenizers` with the same vocabulary.
    python compare_gguf.py BUILD/tests/tokenize FILE.gguf... [--texts FILE]
FILE.gguf.inp and FILE.gguf.out next to a file are llama.cpp's cases: ids without special tokens. With --texts its lines
are compared for vocabularies of the kinds llama, t5 and bert, and gpt2 with one of PRES."""

import argparse
import os
import struct
import subprocess
import sys

KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BLANK = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def metadata(path):
    data = open(path, "rb").read()
    at = 24

    def number(kind, count=1):
        nonlocal at
        values = struct.unpack_from(f"<{count}{KINDS[kind]}", data, at)
        at += struct.calcsize(f"<{count}{KINDS[kind]}")
        return values

    def value(kind):
        nonlocal at
        if kind == 8:
            (size,) = number(10)
            at += size
            return data[at - size : at].decode()
        if kind == 9:
            (kind,), (count,) = number(4), number(10)
            return [value(8) for _ in range(count)] if kind == 8 else list(number(kind, count))
        return number(kind)[0]

    (count,) = struct.unpack_from("<Q", data, 16)
    return {value(8): value(number(4)[0]) for _ in range(count)}


def encode(program, path, texts):
    given = b"".join(text.encode() + b"\0" for text in texts)
    done = subprocess.run([program, path], input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr.decode()}")
    results = []
    for result in done.stdout.split(b"\0")[:-1]:
        _, ids, text = result.split(b"\n", 2)
        results.append(([int(id) for id in ids.split()], text.decode()))
    return results


def field(number, value):
    """A field of a protobuf message: an integer, a float or bytes."""

    def varint(value):
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(int(value))


def sentencepiece_of(values):
    """A SentencePiece model with the vocabulary."""
    from sentencepiece import SentencePieceProcessor

    unigram = values["tokenizer.ggml.model"] == "t5"
    unknown = values.get("tokenizer.ggml.unknown_token_id", 0)
    types = values["tokenizer.ggml.token_type"]
    pieces = []
    for id, text in enumerate(values["tokenizer.ggml.tokens"]):
        kind = UNKNOWN if id == unknown else CONTROL if types[id] == UNKNOWN else types[id]
        text = text.replace(" ", BLANK) if kind == USER_DEFINED else text
        score = values["tokenizer.ggml.scores"][id]
        pieces.append(field(1, field(1, text.encode()) + field(2, score) + field(3, kind)))
    trainer = field(3, 1 if unigram else 2) + field(4, len(types)) + field(35, BYTE in types) + field(40, unknown)
    table = bytes(byte & 255 for byte in values.get("tokenizer.ggml.precompiled_charsmap", []))
    normalizer = field(2, table) + field(3, values.get("tokenizer.ggml.add_space_prefix", not unigram))
    normalizer += field(4, values.get("tokenizer.ggml.remove_extra_whitespaces", False))
    model = SentencePieceProcessor(model_proto=b"".join(pieces) + field(2, trainer) + field(3, normalizer))
    return lambda text: model.encode(text)


PRES = ("gpt-2", "smollm", "starcoder", "refact", "mpt", "command-r")


def byte_level_of(values):
    import tokenizers
    from tokenizers import models, pre_tokenizers

    tokens = values["tokenizer.ggml.tokens"]
    merges = [tuple(line.split(" ")) for line in values["tokenizer.ggml.merges"]]
    model = tokenizers.Tokenizer(models.BPE({text: id for id, text in enumerate(tokens)}, merges))
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if values["tokenizer.ggml.pre"] not in ("gpt-2", "mpt"):
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    model.pre_tokenizer = pre_tokenizers.Sequence(steps)
    types = values["tokenizer.ggml.token_type"]
    for id, text in enumerate(tokens):
        if types[id] in (CONTROL, USER_DEFINED):
            model.add_tokens([tokenizers.AddedToken(text, normalized=False)])
    return lambda text: model.encode(text).ids


def wordpiece_of(values):
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers

    def plain(text):
        name = text.startswith("[") and text.endswith("]")
        return text[1:] if text.startswith(BLANK) else text if name else "##" + text

    vocab = {plain(text): id for id, text in enumerate(values["tokenizer.ggml.tokens"])}
    model = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    model.normalizer = normalizers.BertNormalizer()
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return lambda text: model.encode(text).ids


def reference(values):
    kind = values["tokenizer.ggml.model"]
    if kind in ("llama", "t5"):
        return sentencepiece_of(values)
    if kind == "bert":
        return wordpiece_of(values)
    return byte_level_of(values) if values.get("tokenizer.ggml.pre") in PRES else None


def first_difference(wanted, found):
    at = next((i for i, pair in enumerate(zip(wanted, found)) if pair[0] != pair[1]), min(len(wanted), len(found)))
    return f"from token {at} on {wanted[at:at + 6]} expected, {found[at:at + 6]} found"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--texts")
    options = parser.parse_args()
    failed = 0
    for path in options.files:
        values = metadata(path)
        lossy = values["tokenizer.ggml.model"] in ("bert", "t5")  # normalizes
        lines, wanted, notes = [], [], []
        if os.path.exists(path + ".inp"):
            lines = open(path + ".inp", newline="", encoding="utf-8").read().split("\n__ggml_vocab_test__\n")
            wanted = [[int(id) for id in line.split()] for line in open(path + ".out").read().split("\n")]
            wanted = wanted[: len(lines)]
            notes.append(f"{len(lines)} cases of llama.cpp")
        compare = reference(values) if options.texts else None
        if compare:
            texts = open(options.texts, encoding="utf-8").read().splitlines()
            lines += texts
            wanted += [compare(text) for text in texts]
            notes.append(f"{len(texts)} lines with another library")
        if not lines:
            lines, notes = ["Hello world, it's 1234 \u4f60\u597d\n"], ["no cases: text and back"]
        wrong = 0
        for i, (ids, text) in enumerate(encode(options.program, path, lines)):
            if wanted and ids != wanted[i]:
                wrong += 1
                if wrong <= 3:
                    print(f"  {lines[i][:100]!r}: {first_difference(wanted[i], ids)}")
            elif not lossy and text != lines[i]:
                wrong += 1
                if wrong <= 3:
                    print(f"  {lines[i][:100]!r} becomes {text[:100]!r}")
        print(f"{os.path.basename(path)}: {', '.join(notes)}: {wrong or 'none'} differ")
        failed += wrong > 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
