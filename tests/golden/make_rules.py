"""Writes rules.json: results of transformers' beam search for directories with forced or banned tokens.

Two golden models, some of their lines, and for each case the keys added to generation_config.json, the maximum number
of tokens, and for each line the best hypothesis: its token ids, its score (Σ log p / n), and each token's part of Σ log
p, from transformers' `sequences_scores` and `compute_transition_scores`. "greedy" has the four best tokens and a forced
EOS, with log p from teacher forcing. PAD has probability 0, as in all goldens here; the search continues while a better
hypothesis is possible (`early_stopping` "never"), like tfm's."""

import json
import math
from pathlib import Path

import torch
from safetensors.numpy import load_file
from transformers import GenerationConfig

from marian_reference import Decoder, open_model

HERE = Path(__file__).resolve().parent
MODELS = ["postnorm-relu-bias", "prenorm-silu-f16"]
LINES, BEAM = 3, 4


def search(model, base, keys, source, most):
    options = GenerationConfig(**base, **keys, num_beams=BEAM, max_length=most + 1, length_penalty=1.0,
                               early_stopping="never", do_sample=False, return_dict_in_generate=True, output_scores=True)
    # The model's own configuration must not add keys.
    model.generation_config = options
    out = model.generate(torch.tensor([source]), generation_config=options)
    own = model.compute_transition_scores(out.sequences, out.scores, out.beam_indices, normalize_logits=False)[0]
    return {"ids": out.sequences[0, 1:].tolist(), "score": out.sequences_scores[0].item(), "log_probs": own.tolist()}


def cases(base, plain):
    """Takes words from the unconstrained output, so that each rule has an effect."""
    eos, start = base["eos_token_id"], base["decoder_start_token_id"]
    one, two, three = (found["ids"] for found in plain)
    pairs = [one[1:3], two[0:3], three[2:4]]
    yield "nothing", {}, 40
    yield "first", {"forced_bos_token_id": one[1]}, 40
    yield "last at 3", {"forced_eos_token_id": eos}, 3
    yield "last at 6", {"forced_eos_token_id": eos}, 6
    yield "words", {"bad_words_ids": pairs}, 40
    yield "one token, end", {"bad_words_ids": [[one[1]], [eos], [two[-2], eos]]}, 40
    yield "after the start", {"bad_words_ids": [[start, one[0]], [start, two[0], two[1]]]}, 40
    yield "all", {"forced_bos_token_id": two[1], "forced_eos_token_id": eos, "bad_words_ids": pairs + [[three[0]]]}, 5
    yield "first and last", {"forced_bos_token_id": one[1], "forced_eos_token_id": eos}, 1


def main():
    result = []
    for name in MODELS:
        model, config = open_model(HERE / name)
        pad, eos = config["pad_token_id"], config["eos_token_id"]
        base = {k: config[k] for k in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
        goldens = load_file(HERE / name / "golden.safetensors")
        sources = [goldens[f"{line}.source_ids"].tolist() for line in range(LINES)]
        ends = []
        for source in sources:
            decoder = Decoder(model, config, source)
            ids = []
            while len(ids) < 4:
                ids.append(int(decoder.log_probabilities([ids])[0].argmax()))
            ends.append({"ids": ids + [eos], "log_probs": [float(p) for p in decoder.teacher_forced(ids + [eos])]})
        model.final_logits_bias = model.final_logits_bias.clone()
        model.final_logits_bias[0, pad] = -math.inf
        plain = [search(model, base, {}, source, 40) for source in sources]
        result.append({"model": name, "sources": sources, "greedy": ends, "cases": [
            {"name": case, "keys": {**base, **keys}, "most": most,
             "found": [search(model, base, keys, source, most) for source in sources]}
            for case, keys, most in cases(base, plain)]})
    (HERE / "rules.json").write_text(json.dumps(result, separators=(",", ":")) + "\n", encoding="utf-8")


main()
