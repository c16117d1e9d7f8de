#!/usr/bin/env python3
"""Gradients of a whole 2+2-layer model, by PyTorch: what tests/test_trainer.c compares with.

    pip install torch==2.13.0 transformers safetensors
    python3 make_gradients.py gradients

Writes config.json, model.safetensors (the parameters), gradients.safetensors (of the mean smoothed cross-entropy, by the
same names) and batch.json (ids, lengths, loss) into the folder.
"""
import json, pathlib, sys
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import MarianConfig, MarianMTModel

out = pathlib.Path(sys.argv[1])
out.mkdir(exist_ok=True)
torch.manual_seed(5)
V, PAD, EOS = 23, 22, 0
config = MarianConfig(
    vocab_size=V, decoder_vocab_size=V, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, activation_function="relu", scale_embedding=True,
    max_position_embeddings=32, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD, dropout=0.0,
    attention_dropout=0.0, activation_dropout=0.0, forced_eos_token_id=EOS)
model = MarianMTModel(config).train()
for module in model.modules():  # the decoder's start is <pad>: its row is learned like any other
    if isinstance(module, torch.nn.Embedding):
        module.padding_idx = None
for name, p in model.named_parameters():  # larger than their defaults, so that every path carries something
    if "embed_positions" not in name:
        torch.nn.init.normal_(p, 1.0 if "norm.weight" in name else 0.0, 0.3)

lengths, target_lengths = [7, 3, 5], [4, 6, 1]
ids = lambda ns: [[int(torch.randint(1, PAD, ())) for _ in range(n - 1)] + [EOS] for n in ns]
sources, targets = ids(lengths), ids(target_lengths)
pad = lambda rows, with_: torch.tensor([r + [with_] * (max(map(len, rows)) - len(r)) for r in rows])
source, labels = pad(sources, PAD), pad(targets, -100)
inputs = pad([[PAD] + t[:-1] for t in targets], PAD)
mask = (torch.arange(source.shape[1])[None] < torch.tensor(lengths)[:, None]).long()
logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=inputs).logits
loss = F.cross_entropy(logits.reshape(-1, V), labels.reshape(-1), ignore_index=-100, label_smoothing=0.1)
nll = F.cross_entropy(logits.reshape(-1, V), labels.reshape(-1), ignore_index=-100)
loss.backward()

named = {n: p for n, p in model.named_parameters() if "embed_positions" not in n}
keep = lambda t: t.detach().float().contiguous().clone()
save_file({n: keep(p) for n, p in named.items()} | {"final_logits_bias": keep(model.final_logits_bias)},
          out / "model.safetensors")
save_file({n: keep(p.grad) for n, p in named.items()}, out / "gradients.safetensors")
config.to_json_file(out / "config.json", use_diff=False)
(out / "batch.json").write_text(json.dumps({
    "sources": source.tolist(), "targets": pad(targets, PAD).tolist(), "source_lengths": lengths,
    "target_lengths": target_lengths, "loss": loss.item(), "nll": nll.item()}) + "\n")
