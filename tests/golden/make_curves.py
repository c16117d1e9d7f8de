#!/usr/bin/env python3
"""Loss curves of PyTorch, update by update, for tests/train/test_loss_curves.c.

    pip install torch==2.13.0 transformers safetensors
    python3 make_curves.py curves                                    # the committed files: 20 updates
    python3 make_curves.py build/curves --updates 200 --width 64     # as in nightly.sh

Creates folders for models like T5, GPT-2 and Llama, with initial parameters from transformers, and curve.json: the
recipe, the batches, and the losses of PyTorch's AdamW. The recipe is a typical one: warm-up and cosine, weight decay of
matrices and embeddings, gradient clipping; no dropout, because its random masks would differ."""
import argparse, json, math, pathlib
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

PAD, EOS = 0, 1
RECIPE = dict(rate=3e-3, beta1=0.9, beta2=0.98, epsilon=1e-8, decay=0.01, clip=1.0)


def make(kind, width, words):
    torch.manual_seed(11)
    heads, inner = 4, 2 * width
    if kind == "t5":
        return T5ForConditionalGeneration(T5Config(
            vocab_size=words, d_model=width, d_kv=width // heads, d_ff=inner, num_layers=2, num_heads=heads,
            relative_attention_num_buckets=8, relative_attention_max_distance=16, feed_forward_proj="gated-gelu",
            dropout_rate=0.0, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD))
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(
            vocab_size=words, n_positions=32, n_embd=width, n_layer=2, n_head=heads, n_inner=inner, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=EOS, eos_token_id=EOS))
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=words, hidden_size=width, intermediate_size=inner, num_hidden_layers=2, num_attention_heads=heads,
        num_key_value_heads=heads // 2, max_position_embeddings=32, pad_token_id=None, bos_token_id=EOS,
        eos_token_id=EOS, tie_word_embeddings=True))


def random_batch(kind, random, words):
    """A learnable batch: texts that count up with their own step, or lines and their reversals."""
    number = lambda low, high: int(torch.randint(low, high, (), generator=random))
    texts = []
    for _ in range(8):
        step, at, n = number(1, 4), number(0, words - 2), number(6, 17)
        texts.append([2 + (at + i * step) % (words - 2) for i in range(n)] + [EOS])
    if kind != "t5":
        return [], texts
    return texts, [t[-2::-1] + [EOS] for t in texts]


def pad(rows, with_):
    width = max(map(len, rows))
    return torch.tensor([r + [with_] * (width - len(r)) for r in rows])


def loss_of(model, kind, sources, targets):
    if kind == "t5":
        source = pad(sources, PAD)
        mask = (torch.arange(source.shape[1])[None] < torch.tensor([len(s) for s in sources])[:, None]).long()
        inputs = pad([[PAD] + t[:-1] for t in targets], PAD)
        logits, labels = model(input_ids=source, attention_mask=mask, decoder_input_ids=inputs).logits, pad(targets, -100)
    else:
        logits, labels = model(input_ids=pad([t[:-1] for t in targets], PAD)).logits, pad([t[1:] for t in targets], -100)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-100)


def rate_of(update, updates, warmup):
    if update < warmup:
        return RECIPE["rate"] * update / warmup
    return RECIPE["rate"] * 0.5 * (1 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


def run(kind, out, updates, width, words):
    model = make(kind, width, words)
    for module in model.modules():  # padding rows are trained too
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    model.save_pretrained(out)
    model.train()
    named = list(model.named_parameters())
    vectors = [p for n, p in named if p.dim() < 2]
    adam = torch.optim.AdamW(
        [{"params": [p for n, p in named if p.dim() > 1], "weight_decay": RECIPE["decay"]},
         {"params": vectors, "weight_decay": 0.0}],
        betas=(RECIPE["beta1"], RECIPE["beta2"]), eps=RECIPE["epsilon"])
    random, warmup, batches = torch.Generator().manual_seed(5), updates // 5, []
    for update in range(1, updates + 1):
        sources, targets = random_batch(kind, random, words)
        for group in adam.param_groups:
            group["lr"] = rate_of(update, updates, warmup)
        loss = loss_of(model, kind, sources, targets)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE["clip"])
        adam.step()
        batches.append({"sources": sources, "targets": targets, "loss": loss.item()})
    curve = {"recipe": RECIPE | {"warmup": warmup, "updates": updates}, "batches": batches}
    (out / "curve.json").write_text(json.dumps(curve, separators=(",", ":")) + "\n")
    print(f"{kind}: {batches[0]['loss']:.3f} to {batches[-1]['loss']:.3f}")


parser = argparse.ArgumentParser()
parser.add_argument("out", type=pathlib.Path)
parser.add_argument("--updates", type=int, default=20)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--words", type=int, default=40)
given = parser.parse_args()
for kind in ("t5", "gpt2", "llama"):
    folder = given.out / kind
    folder.mkdir(parents=True, exist_ok=True)
    run(kind, folder, given.updates, given.width, given.words)
    for extra in folder.iterdir():  # files about generation are irrelevant for training
        if extra.name not in ("config.json", "model.safetensors", "curve.json"):
            extra.unlink()
