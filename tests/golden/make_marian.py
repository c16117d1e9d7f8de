"""Creates the small models in Marian layout of this folder: tokenizers, a short training, files, goldens.

    python make_marian.py [NAME ...]                 everything
    python make_marian.py --goldens-only [NAME ...]  the goldens of the existing models

Versions and a description of each model: README.md; the recipes: marian_recipes.py. Seeded, on one thread. Another
version of PyTorch or another processor may give other weights: the committed files are the reference."""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import nn

from marian_recipes import MODELS
from marian_reference import (
    Decoder,
    Tokenizer,
    beam_search,
    build,
    greedy,
    hf_penalty,
    maximum_length,
    open_model,
    paper_penalty,
    put_positions,
    shaken,
    sinusoid,
    vocabulary_sizes,
)

HERE = Path(__file__).resolve().parent
TEST_LINES = 20
TENSOR_LINES = 2
CUT = 9  # --max-length of goldens with hypotheses that are cut off


def train_spm(path, lines, pieces, recipe):
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = dict(normalization_rule_name="identity")
        if recipe.get("lowercase") and path.name == "source.spm":
            rules = Path(folder) / "rules.tsv"
            rules.write_text(
                "".join(f"{ord(c):X}\t{ord(c.lower()):X}\n" for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            )
            options = dict(normalization_rule_tsv=str(rules))
        sentencepiece.SentencePieceTrainer.train(
            input=str(text),
            model_prefix=str(Path(folder) / "spm"),
            vocab_size=pieces,
            model_type=recipe["spm"],
            character_coverage=1.0,
            bos_id=-1,
            eos_id=0,
            unk_id=1,
            num_threads=1,
            minloglevel=2,
            **options,
        )
        path.write_bytes((Path(folder) / "spm.model").read_bytes())


def make_vocabulary(rng, pieces, codes, size, special):
    """Ids in a separate order, because Marian's are not SentencePiece's."""
    words = sorted(set(pieces) - {"</s>", "<unk>"}) + codes
    rng.shuffle(words)
    size = size or len(words) + 3
    eos, unk, pad = (size + i if i < 0 else i for i in special)
    words += [f">>x{i}<<" for i in range(size - 3 - len(words))]
    fixed = {eos: "</s>", unk: "<unk>", pad: "<pad>"}
    rest = iter(words)
    return {fixed.get(i) or next(rest): i for i in range(size)}


def make_tokenizer(folder, recipe, pairs):
    for i, side in enumerate(("source", "target")):
        lines = [p[i].split("<< ")[-1] for p in pairs]
        train_spm(folder / f"{side}.spm", lines, recipe["pieces"][i], recipe)
    spms = [
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{s}.spm"))
        for s in ("source", "target")
    ]
    pieces = [[s.id_to_piece(i) for i in range(s.get_piece_size())] for s in spms]
    rng = random.Random(recipe["seed"])
    special = recipe.get("special", (0, 1, -1))
    if recipe.get("separate"):
        source = make_vocabulary(rng, pieces[0], [], None, special)
        target = make_vocabulary(rng, pieces[1], [], None, special[:2] + (source["<pad>"],))
        vocabularies = {"vocab.json": source, "target_vocab.json": target}
    else:
        source = target = make_vocabulary(rng, pieces[0] + pieces[1], recipe["codes"], None, special)
        vocabularies = {"vocab.json": source}
    for name, vocabulary in vocabularies.items():
        (folder / name).write_text(
            json.dumps(vocabulary, ensure_ascii=False, indent=0) + "\n", encoding="utf-8"
        )
    config = {
        "source_lang": "xx",
        "target_lang": "yy",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "separate_vocabs": bool(recipe.get("separate")),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    return source, target


def make_config(folder, recipe, source, target):
    config = dict(
        recipe["config"],
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        pad_token_id=source["<pad>"],
        eos_token_id=source["</s>"],
        decoder_start_token_id=source["<pad>"],
    )
    if recipe.get("bias"):
        config["decoder_start_token_id"] = source["</s>"]
    config = recipe["style"](config)
    generation = {
        "bad_words_ids": [[config["pad_token_id"]]],
        "decoder_start_token_id": config["decoder_start_token_id"],
        "eos_token_id": config["eos_token_id"],
        "pad_token_id": config["pad_token_id"],
        "num_beams": 4,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")
    return config


def initialize(model, config, recipe):
    for name, p in model.named_parameters():
        if "embed_positions" in name:
            continue
        if "embed_tokens" in name or name == "lm_head.weight":
            nn.init.normal_(p, std=config["d_model"] ** -0.5)
        elif p.dim() > 1:
            nn.init.xavier_uniform_(p)
        elif "norm" in name:  # not only ones and zeros, so that an ignored one is detected
            nn.init.normal_(p, mean=1.0 if name.endswith("weight") else 0.0, std=0.1)
        else:
            nn.init.normal_(p, std=0.05)
    if not config.get("share_encoder_decoder_embeddings", True):
        with torch.no_grad():
            for stack in (model.model.encoder, model.model.decoder):
                stack.embed_tokens.weight[config["pad_token_id"]] = 0
    else:
        model.model.decoder.embed_tokens.weight = model.model.encoder.embed_tokens.weight
        model.lm_head.weight = model.model.encoder.embed_tokens.weight
    if recipe.get("positions"):  # close to the sinusoid, not equal: detects a reader that ignores the file
        for stack in (model.model.encoder, model.model.decoder):
            table = sinusoid(config["max_position_embeddings"], config["d_model"])
            put_positions(
                stack.embed_positions, (table + 0.1 * torch.randn_like(table)).to(recipe["dtype"]).float()
            )
    if recipe.get("bias"):
        model.final_logits_bias = torch.randn(1, vocabulary_sizes(config)[1])
        model.final_logits_bias[0, config["pad_token_id"]] = 4.0


def batch_of(rows, pad):
    out = torch.full((len(rows), max(map(len, rows))), pad)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row)
    return out


def train(folder, recipe, config, rng):
    torch.manual_seed(recipe["seed"])
    model = build(config)
    initialize(model, config, recipe)
    tokenizer = Tokenizer(folder)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    peak, warm, steps = 4e-3, 100, recipe["steps"]
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda t: peak * min((t + 1) / warm, max(1e-3, (steps - t) / (steps - warm)))
    )
    loss_of = nn.CrossEntropyLoss(ignore_index=-100, label_smoothing=0.0)
    pad, start = config["pad_token_id"], config["decoder_start_token_id"]
    model.train()
    for step in range(steps):
        pairs = [recipe["task"](rng) for _ in range(48)]
        source = [tokenizer.encode(s) for s, _ in pairs]
        target = [tokenizer.encode_target(t) for _, t in pairs]
        mask = batch_of([[1] * len(s) for s in source], 0)
        logits = model(
            input_ids=batch_of(source, pad),
            attention_mask=mask,
            use_cache=False,
            decoder_input_ids=batch_of([[start] + t[:-1] for t in target], pad),
        ).logits
        logits = logits.index_fill(-1, torch.tensor([pad]), -1e4)  # PAD is never generated
        loss = loss_of(logits.flatten(0, 1), batch_of(target, -100).flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0 or step == steps - 1:
            print(f"{folder.name}: step {step}, loss {loss.item():.4f}", file=sys.stderr)
    return model


def save(folder, recipe, config, model):
    state = model.state_dict()
    embedding = state["model.encoder.embed_tokens.weight"]
    tensors = {
        n: v
        for n, v in state.items()
        if not any(s in n for s in ("embed_tokens", "shared", "lm_head", "embed_positions"))
    }
    tensors["final_logits_bias"] = model.final_logits_bias
    if recipe["names"] == "shared":
        tensors["model.shared.weight"] = embedding
    else:  # "decoder": the only name left after a tool drops the others of a tied tensor
        tensors["model.decoder.embed_tokens.weight"] = state["model.decoder.embed_tokens.weight"]
    if recipe["names"] == "separate":
        tensors["model.encoder.embed_tokens.weight"] = embedding
        tensors["lm_head.weight"] = state["lm_head.weight"]
    if recipe.get("positions"):
        for stack in ("encoder", "decoder"):
            name = f"model.{stack}.embed_positions.weight"
            tensors[name] = state[name][-config["max_position_embeddings"] :]
    for name, value in tensors.items():  # "mixed": biases and norms stay F32, as with some tools
        keep = recipe.get("mixed") and (value.dim() == 1 or name == "final_logits_bias")
        tensors[name] = value.detach().to(torch.float32 if keep else recipe["dtype"]).clone()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def goldens_of(decoder, maximum):
    ids, margin = greedy(decoder, maximum)
    return dict(
        greedy=ids,
        margin=margin,
        beam=beam_search(decoder, 4, maximum, paper_penalty(0.6)),
        hf=beam_search(decoder, 4, maximum, hf_penalty(1.0)),
        cut=beam_search(decoder, 4, CUT, paper_penalty(0.6)),
    )


def stable(decoder, maximum, golden):
    for seed in range(3):
        other = goldens_of(shaken(decoder, seed), maximum)
        same = [golden["greedy"] == other["greedy"]]
        same += [[i for _, i in golden[k]] == [i for _, i in other[k]] for k in ("beam", "hf", "cut")]
        if not all(same):
            return False
    return golden["margin"] > 0.02


def make_goldens(folder, recipe):
    """Test lines whose four best translations do not change with noise of 2e-3 on the logits."""
    model, config = open_model(folder)
    tokenizer = Tokenizer(folder)
    rng = random.Random(recipe["seed"] + 1000)
    kept, seen, dropped = [], set(), 0
    while len(kept) < TEST_LINES:
        source, target = recipe["task"](rng)
        if len(kept) == 5:  # one line with a character outside of every vocabulary
            source = "é".join(source.rsplit("e", 1))
        ids = tokenizer.encode(source)
        maximum = maximum_length(ids)
        if source in seen or maximum > config["max_position_embeddings"]:
            continue
        seen.add(source)
        decoder = Decoder(model, config, ids)
        golden = goldens_of(decoder, maximum)
        if not stable(decoder, maximum, golden):
            dropped += 1
            continue
        forced = tokenizer.encode_target(target)
        kept.append(
            dict(
                golden,
                source=source,
                target=target,
                ids=ids,
                decoder=decoder,
                target_ids=forced,
                forced=decoder.teacher_forced(forced),
            )
        )
    write_texts(folder, tokenizer, kept)
    write_tensors(folder, config, kept)
    right = sum(tokenizer.decode(k["greedy"]) == k["target"] for k in kept)
    ended = sum(k["greedy"][-1] == config["eos_token_id"] for k in kept)
    differ = sum(k["greedy"] != k["beam"][0][1] for k in kept)
    print(
        f"{folder.name}: {len(kept)} lines kept, {dropped} dropped; greedy = target on {right}, "
        f"ends with </s> on {ended}; beam differs from greedy on {differ}; "
        f"least margin {min(k['margin'] for k in kept):.3f}"
    )


def write_texts(folder, tokenizer, kept):
    def put(name, lines):
        (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    put("test.src", [k["source"] for k in kept])
    put("test.tgt", [k["target"] for k in kept])
    put("greedy.txt", [tokenizer.decode(k["greedy"]) for k in kept])
    for name, key in (("beam4", "beam"), ("beam4-hf", "hf"), (f"beam4-max{CUT}", "cut")):
        best = [k[key] for k in kept]
        put(f"{name}.txt", [tokenizer.decode(b[0][1]) for b in best])
        put(f"{name}.scores", [f"{b[0][0]:.6f}\t{len(b[0][1])}" for b in best])
    put(
        "beam4.nbest",
        [
            f"{line} ||| {tokenizer.decode(ids)} ||| {score:.6f}"
            for line, k in enumerate(kept)
            for score, ids in k["beam"]
        ],
    )
    sums = [(sum(k["forced"]), len(k["forced"])) for k in kept]
    put("score.txt", [f"{total:.6f}\t{n}\t{total / n:.6f}" for total, n in sums])


def write_tensors(folder, config, kept):
    tensors = {}
    shortest = sorted(range(len(kept)), key=lambda i: (len(kept[i]["target_ids"]), i))
    for i in sorted(shortest[:TENSOR_LINES]):
        k = kept[i]
        inputs = [config["decoder_start_token_id"]] + k["target_ids"][:-1]
        tensors[f"{i}.source_ids"] = torch.tensor(k["ids"], dtype=torch.int32)
        tensors[f"{i}.decoder_input_ids"] = torch.tensor(inputs, dtype=torch.int32)
        tensors[f"{i}.encoder_output"] = k["decoder"].encoded[0].clone()
        tensors[f"{i}.logits"] = k["decoder"].logits([inputs])[0].clone()
    for i, k in enumerate(kept):
        tensors[f"{i}.source_ids"] = torch.tensor(k["ids"], dtype=torch.int32)
        tensors[f"{i}.greedy_ids"] = torch.tensor(k["greedy"], dtype=torch.int32)
        tensors[f"{i}.beam4_ids"] = torch.tensor(k["beam"][0][1], dtype=torch.int32)
    save_file(tensors, folder / "golden.safetensors")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--goldens-only", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names or MODELS:
        recipe = MODELS[name]
        folder = HERE / name
        if not options.goldens_only:
            folder.mkdir(exist_ok=True)
            rng = random.Random(recipe["seed"])
            vocabularies = make_tokenizer(folder, recipe, [recipe["task"](rng) for _ in range(2000)])
            config = make_config(folder, recipe, *vocabularies)
            save(folder, recipe, config, train(folder, recipe, config, rng))
        make_goldens(folder, recipe)


if __name__ == "__main__":
    main()
