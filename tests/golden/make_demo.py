"""Writes the goldens of the demo model: PyTorch's results for its test lines, in fp32 from the weights as stored.

    python make_demo.py [DIR]    default: apps/demo

Reads the first test.* in DIR and writes greedy.en, beam4.en and beam4.scores (`score<TAB>tokens with </s>`), beam 4
with the paper's length penalty of 0.6. Exit code 1, and a message, for each line that is no golden: noise of 1e-4 on
all logits, three times, changes its text, or a tokenizer splits its translation into other pieces than the model
generated."""

import sys
from pathlib import Path

import torch
from transformers import MarianTokenizer

from marian_reference import (
    Decoder,
    Tokenizer,
    beam_search,
    greedy,
    maximum_length,
    open_model,
    paper_penalty,
    shaken,
)

BEAM, ALPHA, NOISE = 4, 0.6, 1e-4


def goldens_of(decoder, maximum):
    """-> (greedy ids, beam ids, the beam's score)"""
    score, best = beam_search(decoder, BEAM, maximum, paper_penalty(ALPHA))[0]
    return greedy(decoder, maximum)[0], best, score


def doubts(decoder, maximum, golden, tokenizer, tokens_agree):
    if not tokens_agree:
        yield "MarianTokenizer has other tokens for it"
    others = [goldens_of(shaken(decoder, seed, NOISE), maximum) for seed in range(3)]
    if any(other[:2] != golden[:2] for other in others):
        yield f"noise of {NOISE} translates it otherwise"
    if tokenizer.encode_target(tokenizer.decode(golden[1])) != golden[1]:
        yield "its translation reads as other pieces than were written"


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "apps/demo"
    torch.set_num_threads(1)
    model, config = open_model(folder)
    tokenizer, other = Tokenizer(folder), MarianTokenizer.from_pretrained(folder)
    sources = sorted(folder.glob("test.*"))[0].read_text(encoding="utf-8").split("\n")[:-1]
    goldens, good = [], True
    for number, line in enumerate(sources, 1):
        ids = tokenizer.encode(line)
        decoder, maximum = Decoder(model, config, ids), maximum_length(ids)
        goldens.append(goldens_of(decoder, maximum))
        for doubt in doubts(decoder, maximum, goldens[-1], tokenizer, ids == other(line).input_ids):
            print(f"line {number}, {line!r}: {doubt}", file=sys.stderr)
            good = False
    texts = {
        "greedy.en": [tokenizer.decode(g) for g, _, _ in goldens],
        "beam4.en": [tokenizer.decode(b) for _, b, _ in goldens],
        "beam4.scores": [f"{score:.6f}\t{len(b)}" for _, b, score in goldens],
    }
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
