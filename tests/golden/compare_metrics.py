"""Compares `tfm eval` with sacreBLEU on files of translations: every tokenizer, cased and lower-cased.

    python compare_metrics.py PROGRAM HYPOTHESES REFERENCES

Prints a line for each setting, and fails if a score differs by 0.01 or any count differs.
"""
import json
import subprocess
import sys

from sacrebleu.metrics import BLEU, CHRF


def read(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        return [line.rstrip() for line in file]


def main():
    program, hypothesis_file, reference_file = sys.argv[1:]
    hypotheses, references = read(hypothesis_file), read(reference_file)
    good = True
    for tokenizer in ["13a", "none", "char"]:
        for lowercase in (False, True):
            command = [program, "eval", "--hyp", hypothesis_file, "--ref", reference_file, "--tokenize", tokenizer, "--json"]
            got = json.loads(subprocess.run(command + ["--lowercase"] * lowercase, check=True, capture_output=True).stdout)
            bleu = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True).corpus_score(hypotheses, [references])
            chrf = CHRF(lowercase=lowercase).corpus_score(hypotheses, [references])
            same = (abs(got["bleu"] - bleu.score) < 0.01 and abs(got["chrf2"] - chrf.score) < 0.01
                    and (got["hyp_len"], got["ref_len"], got["lines"]) == (bleu.sys_len, bleu.ref_len, len(references)))
            good = good and same
            print(f"{tokenizer:5}{'lower' if lowercase else 'mixed'}  BLEU {got['bleu']:.6f} sacreBLEU {bleu.score:.6f}"
                  f"  chrF2 {got['chrf2']:.6f} sacreBLEU {chrf.score:.6f}  {'same' if same else 'DIFFERENT'}")
    sys.exit(not good)


main()
