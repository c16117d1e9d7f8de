"""Creates the golden cases of model families: tiny random models saved by transformers, and its results for them.

    python make_families.py [--only FAMILY ...] [--case NAME ...]   the cases of family_recipes.py, into families/
    python make_families.py --random 2 --seed 7 -o DIR              two random ones of each family, from a seed
    python make_families.py --random 2 --long --seed 7 -o DIR       with long texts, odd sizes and generation rules

Versions and folder contents: README.md. Seeded, on one thread: the same script gives the same bytes.
"""

import argparse
import os
import random
import shutil
import sys
import zlib
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from transformers import AutoConfig

from family_chains import teach
from family_random import random_case
from family_goldens import make_goldens
from family_long import lengthen
from family_recipes import CASES
from family_store import open_case, publish, store_case

HERE = Path(__file__).resolve().parent


def fill(p, generator, std, mean=0.0):
    with torch.no_grad():
        p.copy_(torch.randn(p.shape, generator=generator) * std + mean)


DOWN = ("fc2", "fc_out", "down_proj", "dense_4h_to_h", ".wo.", "mlp.c_proj", "mlp.Wo.", "output.dense", "lin2")


def matrix_gain(name, config):
    """Scale of a matrix. Feed-forward layers outweigh the embedding, so that a token rarely follows itself;
    cross-attention has little weight, so that the output is not always the source's most likely answer."""
    t5 = config.model_type in ("t5", "mt5", "umt5")
    if any(f".{end}." in name for end in ("q", "q_proj", "query", "k_proj", "key")) and not t5:
        return 1.6
    if t5 and ".q." in name:
        return 2.0 * config.d_kv**-0.5  # its scores are not scaled
    if "encoder_attn.out_proj" in name or "EncDecAttention.o." in name:
        return 2.0
    if any(end in name for end in DOWN):
        return 2.5
    return 1.3


def table_std(name, config):
    width = config.get_text_config().hidden_size
    if "relative_attention_bias" in name:
        return 1.0
    if config.model_type in ("t5", "mt5", "umt5"):
        return 2.0 if config.tie_word_embeddings or "lm_head" not in name else 2.0 * width**-0.5
    scaled = getattr(config, "scale_embedding", False) or "gemma" in config.model_type
    if any(part in name for part in ("position", "wpe", "token_type")):
        return 2.0 if scaled else 2.0 * width**-0.5
    return 2.0 * width**-0.5


def initialize(model, generator):
    """Everything is random, nothing is trivial: norm gammas are not 1, biases not 0."""
    config = model.config
    calm = 0.6 if model.can_generate() else 1.0  # trained afterwards
    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    for name, p in model.named_parameters():
        if "Sinusoidal" in type(model.get_submodule(name.rpartition(".")[0])).__name__:
            continue
        if p.dim() == 1 and name.endswith("bias"):
            fill(p, generator, 0.3 * calm)
        elif p.dim() == 1 or "_norm." in name:
            fill(p, generator, 0.25, 0.0 if "gemma" in config.model_type else 1.0)
        elif id(p) in tables or name.startswith("lm_head"):
            fill(p, generator, table_std(name, config) * calm)
        else:
            inputs = 0 if type(model.get_submodule(name.rpartition(".")[0])).__name__ == "Conv1D" else 1
            fill(p, generator, matrix_gain(name, config) * calm * p.shape[inputs] ** -0.5)
            if any(end in name for end in DOWN):  # a common part of activations would always favor the same token
                p.data -= p.data.mean(inputs, keepdim=True)


def build(family, case, seed):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **case["config"])
    config.pad_token_id = getattr(config, "pad_token_id", None)  # some classes have no such attribute
    config._attn_implementation = "eager"
    model = getattr(transformers, case["cls"])(config).eval()
    initialize(model, generator)
    if case.get("bias"):
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator))
    if model.can_generate():
        teach(model, random.Random(seed), (case.get("generation") or {}).get("forced_bos_token_id"))
    return model


def make(folder, family, name, case):
    seed = zlib.crc32(f"{family}-{name}".encode())
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    model = build(family, case, seed)
    store_case(folder, model, case)
    opened = open_case(folder, case)
    torch.manual_seed(seed)
    make_goldens(folder, family, case, opened, random.Random(seed), model)
    if case.get("published"):
        publish(folder, case, model.config)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="FAMILY", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--case", nargs="+", metavar="NAME", help="only these cases of the families")
    parser.add_argument("--random", type=int, metavar="N", help="create so many random configurations of each family")
    parser.add_argument("--long", action="store_true", help="with --random: long texts, odd sizes, generation rules")
    parser.add_argument("--seed", default="0")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "families")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for family in options.only:
        if family not in CASES:
            sys.exit(f"unknown family {family}: use {', '.join(CASES)}")
        cases = CASES[family]
        if options.random:
            rng = random.Random(f"{family} {options.seed}")
            cases = [random_case(family, rng) for _ in range(options.random)]
            if options.long:
                cases = [lengthen(case, family, rng) for case in cases]
            cases = {f"random-{options.seed}-{i}": case for i, case in enumerate(cases)}
        for name, case in cases.items():
            if not options.case or name in options.case:
                make(options.output / f"{family}-{name}", family, name, case)


if __name__ == "__main__":
    main()
