#!/usr/bin/env python3
"""Gradients of a whole 2+2-layer model, by PyTorch: what tests/test_trainer.c compares with.

    pip install torch==2.13.0 transformers safetensors
    python3 make_gradients.py gradients
    python3 make_gradients.py gradients-bart bart
    python3 make_gradients.py gradients-m2m100 m2m_100
    python3 make_gradients.py gradients-t5 t5
    python3 make_gradients.py gradients-umt5 umt5

Writes config.json, model.safetensors (the parameters), gradients.safetensors (of the mean smoothed cross-entropy, by the
same names) and batch.json (ids, lengths, loss) into the folder.
"""
import json, pathlib, sys
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (BartConfig, BartForConditionalGeneration, M2M100Config, M2M100ForConditionalGeneration,
                          MarianConfig, MarianMTModel, T5Config, T5ForConditionalGeneration, UMT5Config,
                          UMT5ForConditionalGeneration)

out = pathlib.Path(sys.argv[1])
kind = sys.argv[2] if len(sys.argv) > 2 else "marian"
out.mkdir(exist_ok=True)
torch.manual_seed(5)
V = 23
PAD, EOS, START = {"marian": (22, 0, 22), "t5": (0, 1, 0), "umt5": (0, 1, 0)}.get(kind, (1, 2, 2))
fairseq = dict(
    vocab_size=V, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, activation_function="relu", scale_embedding=True,
    max_position_embeddings=32, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=START, dropout=0.0,
    attention_dropout=0.0, activation_dropout=0.0, forced_eos_token_id=EOS)
if kind == "marian":
    config = MarianConfig(decoder_vocab_size=V, **fairseq)
    model = MarianMTModel(config)
elif kind == "bart":
    config = BartConfig(**fairseq | {"activation_function": "gelu"})
    model = BartForConditionalGeneration(config)
elif kind == "m2m_100":
    config = M2M100Config(encoder_layerdrop=0.0, decoder_layerdrop=0.0, **fairseq)
    model = M2M100ForConditionalGeneration(config)
else:
    config = (T5Config if kind == "t5" else UMT5Config)(
        vocab_size=V, d_model=16, d_kv=6, d_ff=20, num_layers=2, num_decoder_layers=2, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=6, feed_forward_proj="gated-gelu",
        dropout_rate=0.0, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=START)
    model = (T5ForConditionalGeneration if kind == "t5" else UMT5ForConditionalGeneration)(config)
model.train()
computed = lambda name: "embed_positions" in name and kind != "bart"  # sinusoids are no parameters
for module in model.modules():  # the decoder's start is <pad>: its row is learned like any other
    if isinstance(module, torch.nn.Embedding):
        module.padding_idx = None
for name, p in model.named_parameters():  # larger than their defaults, so that every path carries something
    if not computed(name):
        torch.nn.init.normal_(p, 1.0 if "norm" in name and "weight" in name else 0.0, 0.3)

lengths, target_lengths = [7, 3, 5], [4, 6, 1]
ids = lambda ns: [[int(torch.randint(1, V - 1, ())) for _ in range(n - 1)] + [EOS] for n in ns]
if kind != "marian":  # which has its padding at the end
    ids = lambda ns: [[int(torch.randint(3, V, ())) for _ in range(n - 1)] + [EOS] for n in ns]
sources, targets = ids(lengths), ids(target_lengths)
pad = lambda rows, with_: torch.tensor([r + [with_] * (max(map(len, rows)) - len(r)) for r in rows])
source, labels = pad(sources, PAD), pad(targets, -100)
inputs = pad([[START] + t[:-1] for t in targets], PAD)
mask = (torch.arange(source.shape[1])[None] < torch.tensor(lengths)[:, None]).long()
logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=inputs).logits
loss = F.cross_entropy(logits.reshape(-1, V), labels.reshape(-1), ignore_index=-100, label_smoothing=0.1)
nll = F.cross_entropy(logits.reshape(-1, V), labels.reshape(-1), ignore_index=-100)
loss.backward()

named = {n: p for n, p in model.named_parameters() if not computed(n)}
keep = lambda t: t.detach().float().contiguous().clone()
biases = {"final_logits_bias": keep(model.final_logits_bias)} if hasattr(model, "final_logits_bias") else {}
save_file({n: keep(p) for n, p in named.items()} | biases, out / "model.safetensors")
save_file({n: keep(p.grad) for n, p in named.items()}, out / "gradients.safetensors")
config.to_json_file(out / "config.json", use_diff=False)
(out / "batch.json").write_text(json.dumps({
    "sources": source.tolist(), "targets": pad(targets, PAD).tolist(), "source_lengths": lengths,
    "target_lengths": target_lengths, "loss": loss.item(), "nll": nll.item()}) + "\n")
