"""Compares a directory in Marian layout, run by transformers in fp32, with goldens or with any output.

    python compare_marian.py DIR                                  with the goldens in DIR
    python compare_marian.py DIR --src test.src --beam4 out.txt   with another program's output
    python compare_marian.py DIR --src test.src --show            prints source, greedy, beam 4 and score

Reads golden.safetensors (`i.source_ids`, `i.decoder_input_ids`, `i.encoder_output`, `i.logits`), texts with one line
per source line, and scores as `score<TAB>tokens`. Also checks that MarianTokenizer and marian_reference.py give the
same token ids. Exit code 1 if anything differs."""

import argparse
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import MarianTokenizer

from marian_reference import (
    Decoder,
    Tokenizer,
    beam_search,
    greedy,
    hf_penalty,
    maximum_length,
    open_model,
    paper_penalty,
)


def lines_of(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path and path.exists() else None


def first(folder, pattern):
    return next(iter(sorted(folder.glob(pattern))), None)


def relative(mine, golden):
    return ((mine - golden).norm() / golden.norm()).item()


def compare_tensors(model, config, path, tolerance):
    golden = load_file(path)
    worst = 0.0
    for i in sorted({k.split(".")[0] for k in golden if k.endswith(".logits")}, key=int):
        decoder = Decoder(model, config, golden[f"{i}.source_ids"].tolist())
        logits = decoder.logits([golden[f"{i}.decoder_input_ids"].tolist()])[0]
        encoder = relative(decoder.encoded[0], golden[f"{i}.encoder_output"])
        output = relative(logits, golden[f"{i}.logits"])
        print(f"tensors {i}: relative difference of encoder output {encoder:.2e}, of logits {output:.2e}")
        worst = max(worst, encoder, output)
    return worst < tolerance


def compare_texts(name, mine, other):
    if other is None:
        return True
    if len(mine) > len(other):
        print(f"{name}: {len(other)} lines, expected {len(mine)}")
        return False
    wrong = [i for i, line in enumerate(mine) if line != other[i]]
    for i in wrong:
        print(f"{name} line {i + 1}:\n  transformers {mine[i]!r}\n  compared     {other[i]!r}")
    print(f"{name}: {len(mine) - len(wrong)} of {len(mine)} lines equal")
    return not wrong


def compare_scores(name, mine, other, tolerance):
    if other is None:
        return True
    worst = max(abs(score - float(line.split("\t")[0])) for (score, _), line in zip(mine, other))
    print(f"{name}: largest difference {worst:.2e}")
    return worst < tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", type=Path)
    for name in ("golden", "src", "greedy", "beam4", "scores"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--lines", type=int, help="only the first N lines")
    parser.add_argument("--alpha", type=float, default=0.6)
    parser.add_argument("--hf", action="store_true", help="scores divided by n^alpha, as in Hugging Face transformers")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    folder = options.directory
    if not options.src:  # all files from the directory
        options.src = first(folder, "test.src") or first(folder, "test.*")
        options.golden = options.golden or folder / "golden.safetensors"
        options.greedy = options.greedy or first(folder, "greedy.*")
        options.beam4 = options.beam4 or first(folder, "beam4.txt") or first(folder, "beam4.[a-r]*")
        options.scores = options.scores or first(folder, "beam4.scores")
    model, config = open_model(folder)
    tokenizer, other = Tokenizer(folder), MarianTokenizer.from_pretrained(folder)
    print(f"{folder}: {type(model).__name__}, PyTorch {torch.__version__}")
    good = True
    if options.golden and options.golden.exists():
        good &= compare_tensors(model, config, options.golden, options.tolerance)
    ids_equal, greedy_lines, beam_lines, scores = 0, [], [], []
    sources = (lines_of(options.src) or [])[: options.lines]
    for line in sources:
        ids = tokenizer.encode(line)
        ids_equal += ids == other(line).input_ids
        decoder, maximum = Decoder(model, config, ids), maximum_length(ids)
        greedy_lines.append(tokenizer.decode(greedy(decoder, maximum)[0]))
        penalty = (hf_penalty if options.hf else paper_penalty)(options.alpha)
        score, best = beam_search(decoder, 4, maximum, penalty)[0]
        beam_lines.append(tokenizer.decode(best))
        scores.append((score, len(best)))
        if options.show:
            print(
                f"{line}\n  greedy {greedy_lines[-1]}\n"
                f"  beam 4 {beam_lines[-1]}\n  score  {score:.6f}\t{len(best)}"
            )
    print(f"source ids: {ids_equal} of {len(sources)} lines as MarianTokenizer's")
    good &= ids_equal == len(sources)
    good &= compare_texts("greedy", greedy_lines, lines_of(options.greedy))
    good &= compare_texts("beam 4", beam_lines, lines_of(options.beam4))
    good &= compare_scores("beam 4 scores", scores, lines_of(options.scores), options.tolerance)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
