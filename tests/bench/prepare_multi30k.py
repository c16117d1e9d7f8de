#!/usr/bin/env python3
"""Multi30k as in its published baselines: lower-cased, punctuation normalized, tokenized as in Moses.

    pip install sacremoses
    python3 tests/bench/prepare_multi30k.py ../shared/data/multi30k OUT

Writes OUT/{train,val,test_2016_flickr}.{en,de}. val and test must equal the corpus's own tok/ files, except one or two
lines (versions of Moses order a last quotation mark differently), else it fails."""
import os
import sys

from sacremoses import MosesPunctNormalizer, MosesTokenizer


def main():
    data, out = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    different = 0
    for language in ("en", "de"):
        normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
        for split in ("train", "val", "test_2016_flickr"):
            with open(f"{data}/{split}.{language}", encoding="utf8") as file:
                lines = file.read().split("\n")[:-1]
            lines = [tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True) for line in lines]
            with open(f"{out}/{split}.{language}", "w", encoding="utf8") as file:
                file.writelines(line + "\n" for line in lines)
            given = f"{data}/tok/{split}.lc.norm.tok.{language}"
            if os.path.exists(given):
                with open(given, encoding="utf8") as file:
                    wanted = file.read().split("\n")[:-1]
                wrong = [i + 1 for i, (a, b) in enumerate(zip(lines, wanted)) if a != b]
                wrong += [0] if len(lines) != len(wanted) else []
                print(f"{split}.{language}: {len(lines)} lines, {len(wrong)} differ from {given}", wrong[:5])
                different += len(wrong)
    return 1 if different > 2 else 0


if __name__ == "__main__":
    sys.exit(main())
