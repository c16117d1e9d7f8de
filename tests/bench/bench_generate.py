"""Times `tfm generate` beside transformers, in turns, on decoders of random weights: a prompt of 512 tokens and 64 new
ones, greedily, in fp32 on all cores. Both write the same tokens, or it says how many differ.

    python3 bench_generate.py TFM FOLDER [--models gpt2,llama] [--rounds 5] [--prompt 512] [--new 64] [--threads N]

The directories are made in FOLDER once: GPT-2 with 124 million parameters (500 MB), and a Llama of 16 layers with 1.2
billion (5 GB). tfm's time is what its --stats say of prompt and text, without loading and building; the first run is not
counted. transformers' is that of generate(). Needs torch, transformers and numpy.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import numpy
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

CONFIGS = {
    'gpt2': lambda: GPT2Config(eos_token_id=None, bos_token_id=None),
    'llama': lambda: LlamaConfig(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                                 num_attention_heads=32, num_key_value_heads=8, head_dim=64, rms_norm_eps=1e-5,
                                 max_position_embeddings=8192, tie_word_embeddings=True, eos_token_id=None,
                                 bos_token_id=None),
}


def make(name, folder):
    path = os.path.join(folder, name)
    if not os.path.exists(os.path.join(path, 'config.json')):
        torch.manual_seed(1)
        AutoModelForCausalLM.from_config(CONFIGS[name]()).float().save_pretrained(path)
    return path


def run_tfm(program, path, prompt, new):
    result = subprocess.run([program, 'generate', '-m', path, '--ids', '--json', '--stats', '--max-new', str(new),
                             ' '.join(map(str, prompt))], capture_output=True, text=True, check=True)
    stats = json.loads(result.stderr.splitlines()[-1].removeprefix('stats '))
    ids = [token['id'] for token in json.loads(result.stdout)['tokens']]
    return stats['prefill_seconds'], stats['decode_seconds'], ids


def run_transformers(model, prompt, new):
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        start = time.perf_counter()
        model(ids, use_cache=True, logits_to_keep=1)
        middle = time.perf_counter()
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False,
                             pad_token_id=0)
        end = time.perf_counter()
    return middle - start, end - middle, out[0, len(prompt):].tolist()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('tfm')
    parser.add_argument('folder')
    parser.add_argument('--models', default='gpt2,llama')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--prompt', type=int, default=512)
    parser.add_argument('--new', type=int, default=64)
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.models.split(','):
        path = make(name, args.folder)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        vocabulary = model.config.vocab_size
        prompt = numpy.random.default_rng(3).integers(10, vocabulary, args.prompt).tolist()
        ours, theirs, differ = [], [], 0
        for number in range(args.rounds + 1):
            prefill, decode, ids = run_tfm(args.tfm, path, prompt, args.new)
            their_prefill, total, want = run_transformers(model, prompt, args.new)
            if number > 0: # the first builds kernels, and warms both up
                ours.append((prefill + decode, prefill))
                theirs.append((total, their_prefill))
            differ = sum(a != b for a, b in zip(ids, want))
        seconds, prefill = (statistics.median(column) for column in zip(*ours))
        their_seconds, their_prefill = (statistics.median(column) for column in zip(*theirs))
        print(json.dumps({'model': name, 'prompt': args.prompt, 'new': args.new, 'threads': args.threads,
                          'tfm_s': round(seconds, 3), 'tfm_prefill_s': round(prefill, 3),
                          'transformers_s': round(their_seconds, 3), 'transformers_prefill_s': round(their_prefill, 3),
                          'ratio': round(their_seconds / seconds, 3), 'differ': differ}), flush=True)
        del model


main()
