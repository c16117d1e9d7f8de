"""Times tfm and transformers in turns on decoders with random weights: a prompt of 512 tokens and 64 new ones, greedy,
fp32, all cores. Both must generate the same tokens, else the number of differences is printed. On a GPU use --device
cuda for transformers, and TFM_DEVICE for tfm; --precision fp16 or bf16 is for both.

    python3 bench_generate.py BENCH_PROMPT FOLDER [--models gpt2,llama] [--rounds 5] [--prompt 512] [--new 64] [--threads N]
                              [--device cpu|cuda] [--precision fp32|fp16|bf16] [--keep FILE]

The models are created in FOLDER once: GPT-2 with 124 million parameters (500 MB), and a Llama of 16 layers with 1.2
billion (5 GB); --rounds 0 only does that. BENCH_PROMPT is the program of this name in the folder `tests` of a build.
Both are persistent processes; loading is not timed. tfm packs weights at the first prompt, so it gets the prompt twice:
`tfm_first_s` is the first time, `tfm_s` the second, like all further prompts. transformers' time is that of generate(),
after a short warm-up text. If a machine is only free for short times, run it repeatedly with few rounds and --keep
FILE: medians are over all rounds in FILE. Needs torch, transformers and numpy."""
import argparse
import json
import os
import statistics
import subprocess
import time

import numpy
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig
from transformers.generation.streamers import BaseStreamer

CONFIGS = {
    'gpt2': lambda: GPT2Config(eos_token_id=None, bos_token_id=None),
    'llama': lambda: LlamaConfig(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                                 num_attention_heads=32, num_key_value_heads=8, head_dim=64, rms_norm_eps=1e-5,
                                 max_position_embeddings=8192, tie_word_embeddings=True, eos_token_id=None,
                                 bos_token_id=None),
}

DTYPES = {'fp32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}
KIND = ('model', 'prompt', 'new', 'threads', 'precision')


def make(name, folder):
    path = os.path.join(folder, name)
    if not os.path.exists(os.path.join(path, 'config.json')):
        torch.manual_seed(1)
        AutoModelForCausalLM.from_config(CONFIGS[name]()).float().save_pretrained(path)
    return path


def run_tfm(program, path, prompt, new, precision):
    """The program's numbers for the prompt, first and second time."""
    lines = ''.join('%d %s\n' % (count, ' '.join(map(str, ids))) for count, ids in ((2, prompt[:9]), (new, prompt), (new, prompt)))
    result = subprocess.run([program, path, precision], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()][1:]


def run_transformers(model, prompt, new):
    """Seconds until the first new token, as seen by a streamer, and in total; and the tokens."""
    ids = torch.tensor([prompt], device=model.device)
    times = []

    class Watch(BaseStreamer):
        def put(self, value):
            times.append(time.perf_counter())

        def end(self):
            pass

    with torch.inference_mode():
        start = time.perf_counter()
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False,
                             pad_token_id=0, streamer=Watch())
        end = time.perf_counter()
    return times[1] - start, end - start, out[0, len(prompt):].tolist()


def bench(args, name, path):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=DTYPES[args.precision]).to(args.device).eval()
    prompt = numpy.random.default_rng(3).integers(10, model.config.vocab_size, args.prompt).tolist()
    run_transformers(model, prompt[:9], 2)
    for _ in range(args.rounds):
        first, again = run_tfm(args.tfm, path, prompt, args.new, args.precision)
        their_prefill, total, want = run_transformers(model, prompt, args.new)
        yield {'model': name, 'prompt': args.prompt, 'new': args.new, 'threads': args.threads,
               'precision': args.precision, 'tfm_s': again['prefill_s'] + again['decode_s'],
               'tfm_prefill_s': again['prefill_s'],
               'tfm_first_s': first['prefill_s'] + first['decode_s'], 'transformers_s': total,
               'transformers_prefill_s': their_prefill,
               'differ': sum(a != b for one in (first, again) for a, b in zip(one['ids'], want, strict=True))}


def report(rounds):
    """Prints the medians of the rounds of each kind."""
    for kind in sorted({tuple(r[k] for k in KIND) for r in rounds}):
        same = [r for r in rounds if tuple(r[k] for k in KIND) == kind]
        ratios = [r['transformers_s'] / r['tfm_s'] for r in same]
        line = dict(zip(KIND, kind, strict=True), rounds=len(same))
        for key in ('tfm_s', 'tfm_prefill_s', 'tfm_first_s', 'transformers_s', 'transformers_prefill_s'):
            line[key] = round(statistics.median(r[key] for r in same), 3)
        line |= {'ratio': round(statistics.median(ratios), 3), 'ratios': [round(r, 3) for r in (min(ratios), max(ratios))],
                 'differ': max(r['differ'] for r in same)}
        print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('tfm')
    parser.add_argument('folder')
    parser.add_argument('--models', default='gpt2,llama')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--prompt', type=int, default=512)
    parser.add_argument('--new', type=int, default=64)
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--precision', choices=DTYPES, default='fp32')
    parser.add_argument('--keep')
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rounds = []
    if args.keep and os.path.exists(args.keep):
        with open(args.keep, encoding='utf-8') as file:
            rounds = [json.loads(line) for line in file]
    for name in args.models.split(','):
        path = make(name, args.folder)
        for one in bench(args, name, path) if args.rounds else ():
            rounds.append(one)
            if args.keep:
                with open(args.keep, 'a', encoding='utf-8') as file:
                    print(json.dumps(one), file=file)
    report(rounds)


main()
