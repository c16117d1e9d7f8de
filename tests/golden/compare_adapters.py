"""Compares `tfm merge` with peft's merge_and_unload on random models and LoRA adapters.

    python compare_adapters.py PROGRAM

Prints for each model the largest difference of a weight, relative to the largest weight of its tensor; fails above 1e-6.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

LLAMA = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=61, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
BERT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=61,
            max_position_embeddings=64)
GPT2 = dict(n_embd=32, n_layer=2, n_head=4, vocab_size=61, n_positions=64, bos_token_id=1, eos_token_id=2)
T5 = dict(d_model=32, d_ff=48, d_kv=8, num_layers=2, num_heads=4, vocab_size=61, decoder_start_token_id=0,
          feed_forward_proj="gated-gelu", tie_word_embeddings=False)

# name: class, configuration, LoraConfig
CASES = {
    "llama, patterns and rsLoRA": ("LlamaForCausalLM", LLAMA, dict(
        target_modules="all-linear", r=4, lora_alpha=7, use_rslora=True,
        rank_pattern={"q_proj": 2, r"^model\.layers\.1\.mlp\..*": 6}, alpha_pattern={"layers.0.self_attn.k_proj": 3})),
    "llama, embeddings and a saved norm": ("LlamaForCausalLM", LLAMA | {"tie_word_embeddings": False}, dict(
        target_modules=["embed_tokens", "lm_head", "v_proj"], r=4, lora_alpha=8, modules_to_save=["norm"])),
    "qwen3": ("Qwen3ForCausalLM", LLAMA | {"head_dim": 8}, dict(
        target_modules=["q_proj", "v_proj", "down_proj"], r=3, lora_alpha=16)),
    "gemma3": ("Gemma3ForCausalLM", LLAMA | {"head_dim": 8, "sliding_window": 8}, dict(
        target_modules=r".*\.(q_proj|up_proj)", r=8, lora_alpha=8)),
    "gpt2, biases": ("GPT2LMHeadModel", GPT2, dict(
        target_modules=["c_attn", "c_proj", "c_fc"], r=4, lora_alpha=9, fan_in_fan_out=True, bias="lora_only")),
    "t5": ("T5ForConditionalGeneration", T5, dict(target_modules=["q", "v", "wo", "wi_0"], r=4, lora_alpha=9)),
    "bert, biases": ("BertModel", BERT, dict(
        target_modules=["query", "key", "output.dense"], r=4, lora_alpha=9, bias="lora_only")),
}


def shake(parameters, std):
    with torch.no_grad():
        for p in parameters:
            p.add_(torch.randn_like(p) * std)


def merged(folder, program, kind, sizes, how):
    """The tensors of peft's merged model, and of tfm's."""
    cls = getattr(transformers, kind)
    model = cls(cls.config_class(**sizes)).eval()
    shake(model.parameters(), 0.05)
    model.save_pretrained(folder / "base")
    adapted = get_peft_model(model, LoraConfig(lora_dropout=0.0, **how)).eval()
    shake((p for p in adapted.parameters() if p.requires_grad), 0.1)
    adapted.save_pretrained(folder / "adapter")
    adapted.merge_and_unload().save_pretrained(folder / "want")
    subprocess.run([program, "merge", "-m", folder / "base", "--adapter", folder / "adapter", "-o", folder / "got"],
                   check=True, stdout=subprocess.DEVNULL)
    return [load_file(folder / name / "model.safetensors") for name in ("want", "got")]


def main():
    failed = False
    transformers.logging.disable_progress_bar()
    for number, (name, case) in enumerate(CASES.items()):
        torch.manual_seed(number)
        with tempfile.TemporaryDirectory() as folder:
            want, got = merged(Path(folder), sys.argv[1], *case)
            base = load_file(Path(folder) / "base/model.safetensors")
        changed = sum(not torch.equal(base[key], want[key]) for key in base)
        worst = max(float((got[key] - want[key]).abs().max() / want[key].abs().max()) for key in want)
        print(f"{name}: {changed} of {len(want)} tensors changed, within {worst:.1e}")
        failed |= worst > 1e-6 or changed == 0 or want.keys() != got.keys()
    return failed


if __name__ == "__main__":
    sys.exit(main())
