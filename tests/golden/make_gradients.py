#!/usr/bin/env python3
"""Gradients of a whole 2+2-layer model from PyTorch, for tests/train/test_trainer.c.

    pip install torch==2.13.0 transformers safetensors
    python3 make_gradients.py gradients
    python3 make_gradients.py gradients-bart bart
    python3 make_gradients.py gradients-m2m100 m2m_100
    python3 make_gradients.py gradients-t5 t5
    for kind in umt5 mbart pegasus mt5 gpt2 opt llama qwen3 gemma2; do python3 make_gradients.py gradients-$kind $kind; done

The last five are decoder-only models: their batch is of texts, which are targets without sources.
Writes config.json, model.safetensors (the parameters), gradients.safetensors (of the mean label-smoothed cross-entropy,
same names) and batch.json (ids, lengths, loss) to the folder.
"""
import json, pathlib, sys
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (BartConfig, BartForConditionalGeneration, Gemma2Config, Gemma2ForCausalLM, GPT2Config,
                          GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, M2M100Config, M2M100ForConditionalGeneration,
                          MarianConfig, MarianMTModel, MBartConfig, MBartForConditionalGeneration, MT5Config,
                          MT5ForConditionalGeneration, OPTConfig, OPTForCausalLM, PegasusConfig,
                          PegasusForConditionalGeneration, Qwen3Config, Qwen3ForCausalLM, T5Config, T5ForConditionalGeneration, UMT5Config,
                          UMT5ForConditionalGeneration)

out = pathlib.Path(sys.argv[1])
kind = sys.argv[2] if len(sys.argv) > 2 else "marian"
out.mkdir(exist_ok=True)
torch.manual_seed(5)
V = 23
PAD, EOS, START = {"marian": (22, 0, 22), "t5": (0, 1, 0), "mt5": (0, 1, 0), "umt5": (0, 1, 0),
                   "pegasus": (0, 1, 0)}.get(kind, (1, 2, 2))
alone = kind in ("gpt2", "opt", "llama", "qwen3", "gemma2")  # decoder-only
first = ("marian", "bart", "m2m_100", "t5")  # created in single precision
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
elif kind == "mbart":
    config = MBartConfig(**fairseq | {"activation_function": "gelu"})
    model = MBartForConditionalGeneration(config)
elif kind == "pegasus":
    config = PegasusConfig(**fairseq)
    model = PegasusForConditionalGeneration(config)
elif kind == "gpt2":
    config = GPT2Config(
        vocab_size=V, n_positions=16, n_embd=16, n_layer=2, n_head=2, n_inner=24, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, scale_attn_by_inverse_layer_idx=True, bos_token_id=EOS, eos_token_id=EOS)
    model = GPT2LMHeadModel(config)
elif kind == "opt":  # projections after the embedding and before the output, and norms without parameters
    config = OPTConfig(
        vocab_size=V, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=20, word_embed_proj_dim=10,
        max_position_embeddings=16, layer_norm_elementwise_affine=False, dropout=0.0, attention_dropout=0.0,
        pad_token_id=PAD, bos_token_id=EOS, eos_token_id=EOS)
    model = OPTForCausalLM(config)
elif alone:
    shared = dict(
        vocab_size=V, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=16, pad_token_id=None, bos_token_id=EOS, eos_token_id=EOS,
        attn_implementation="eager")
    if kind == "llama":  # untied, with biases and RoPE scaling
        config = LlamaConfig(
            attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
            rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}, **shared)
        model = LlamaForCausalLM(config)
    elif kind == "qwen3":  # QK norms, heads wider than width / heads, and a sliding window in the second layer
        config = Qwen3Config(
            head_dim=6, tie_word_embeddings=True, use_sliding_window=True, sliding_window=3, max_window_layers=1, **shared)
        model = Qwen3ForCausalLM(config)
    else:  # both soft caps low enough to have an effect
        config = Gemma2Config(
            head_dim=6, query_pre_attn_scalar=9, sliding_window=3, attn_logit_softcapping=2.0,
            final_logit_softcapping=3.0, **shared)
        model = Gemma2ForCausalLM(config)
else:
    kinds = {"t5": (T5Config, T5ForConditionalGeneration), "mt5": (MT5Config, MT5ForConditionalGeneration),
             "umt5": (UMT5Config, UMT5ForConditionalGeneration)}
    config = kinds[kind][0](
        vocab_size=V, d_model=16, d_kv=6, d_ff=20, num_layers=2, num_decoder_layers=2, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=6, feed_forward_proj="gated-gelu",
        dropout_rate=0.0, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=START)
    model = kinds[kind][1](config)
model.train()
if kind not in first:
    model.double()
computed = lambda name: "embed_positions" in name and kind not in ("bart", "mbart", "opt")  # sinusoids are not parameters
for module in model.modules():  # the decoder starts with <pad>: its row is trained too
    if isinstance(module, torch.nn.Embedding):
        module.padding_idx = None
for name, p in model.named_parameters():  # larger than the defaults, so that every path matters
    if not computed(name):
        gamma = ("norm" in name or ".ln_" in name) and "weight" in name and kind != "gemma2"
        torch.nn.init.normal_(p, 1.0 if gamma else 0.0, 0.3)

lengths, target_lengths = ([], [8, 3, 11]) if alone else ([7, 3, 5], [4, 6, 1])
ids = lambda ns: [[int(torch.randint(1, V - 1, ())) for _ in range(n - 1)] + [EOS] for n in ns]
if kind != "marian":  # its padding is at the end
    ids = lambda ns: [[int(torch.randint(3, V, ())) for _ in range(n - 1)] + [EOS] for n in ns]
sources, targets = ids(lengths), ids(target_lengths)
pad = lambda rows, with_: torch.tensor([r + [with_] * (max(map(len, rows)) - len(r)) for r in rows])
if alone:
    source, labels = torch.zeros(0, 0), pad([t[1:] for t in targets], -100)
    logits = model(input_ids=pad([t[:-1] for t in targets], PAD)).logits
else:
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
config.architectures = [type(model).__name__]
config.to_json_file(out / "config.json", use_diff=False)
(out / "batch.json").write_text(json.dumps({
    "sources": source.tolist(), "targets": pad(targets, PAD).tolist(), "source_lengths": lengths,
    "target_lengths": target_lengths, "loss": loss.item(), "nll": nll.item()}) + "\n")
