"""Compares tfm's tokenizer with the library `tokenizers`, or with transformers, on lines of text.

    python compare_tokenizers.py BUILD/tests/tokenize DIRECTORY FILE...

DIRECTORY has a tokenizer.json, or older files, which are read by transformers. Prints the number of different lines,
the first few of them, and the lines per second of both on one core."""

import os
import subprocess
import sys
import time
from pathlib import Path


def reference(directory):
    if (directory / "tokenizer.json").exists():
        from tokenizers import Tokenizer

        library = Tokenizer.from_file(str(directory / "tokenizer.json"))
        return lambda line: library.encode(line).ids, lambda ids: library.decode(ids)
    from transformers import AutoTokenizer

    library = AutoTokenizer.from_pretrained(str(directory))
    return lambda line: library(line).input_ids, lambda ids: library.decode(ids, skip_special_tokens=True)


def main():
    program, directory, *files = sys.argv[1:]
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    lines = [line for file in files for line in Path(file).read_text(encoding="utf-8").split("\n") if "\0" not in line]
    texts = "".join(line + "\0" for line in lines).encode()
    done = subprocess.run([program, directory], input=texts, capture_output=True, check=True).stdout.decode().split("\0")
    speed = subprocess.run([program, directory], input=texts, capture_output=True, check=True,
                           env=os.environ | {"TOKENIZE_TIMES": "1"}).stdout.decode().split()[0]
    encode, decode = reference(Path(directory))
    start = time.time()
    wanted = [encode(line) for line in lines]
    theirs = len(lines) / (time.time() - start)
    wrong = 0
    for line, ids, result in zip(lines, wanted, done):
        mine, _, text = result.split("\n", 2)
        if [int(i) for i in mine.split()] != ids or text != decode(ids):
            wrong += 1
            if wrong <= 5:
                print(f"{line!r}\n  {mine}\n  {ids}\n  {text!r}\n  {decode(ids)!r}")
    print(f"{len(lines)} lines, {wrong} differ; {speed} lines/s, the library {theirs:.0f}")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
