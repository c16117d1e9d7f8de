"""GEMM and attention in PyTorch and NumPy's OpenBLAS, for run.py, which sends a line of JSON for each:

    {"op": "linear", "by": "pytorch" | "openblas", "dtype": "fp32" | "bf16" | "int8", "shape": [M, N, K]}
    {"op": "attention", "shape": [heads, n, d], "causal": true, "backward": true}
    {"op": "read", "megabytes": N}

The answer is a line with the seconds of a run: the median of some, after two warm-up runs.
"""
import json
import os
import statistics
import sys
import time
import warnings

import numpy
import torch

DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16}


def timed(run):
    run()
    start = time.perf_counter()
    run()
    once = time.perf_counter() - start
    seconds = []
    for _ in range(min(200, max(3, int(0.1 / once)))):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def linear(by, dtype, shape):
    m, n, k = shape
    if by == 'openblas':
        generator = numpy.random.default_rng(1)
        a, b = (generator.standard_normal(dims, dtype=numpy.float32) for dims in ((m, k), (k, n)))
        c = numpy.empty((m, n), numpy.float32)
        return timed(lambda: numpy.matmul(a, b, out=c))
    if dtype == 'int8':  # int8 weights, dynamically quantized rows
        x, layers = torch.randn(m, k), torch.nn.Sequential(torch.nn.Linear(k, n, bias=False)).eval()
        small = torch.ao.quantization.quantize_dynamic(layers, {torch.nn.Linear}, dtype=torch.qint8)
        with torch.inference_mode():
            return timed(lambda: small(x))
    x, w = torch.randn(m, k).to(DTYPES[dtype]), torch.randn(n, k).to(DTYPES[dtype])
    with torch.inference_mode():
        return timed(lambda: torch.nn.functional.linear(x, w))


def attention(shape, causal, backward):
    q, k, v = (torch.randn(1, *shape, requires_grad=backward) for _ in range(3))
    g = torch.randn(1, *shape)

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    if backward:
        return timed(lambda: forward().backward(g))
    with torch.inference_mode():
        return timed(forward)


def read(megabytes):
    """A sum, which takes as long as reading the memory."""
    x = torch.ones(megabytes * 1000000 // 4)
    return timed(x.sum)


def main():
    warnings.simplefilter('ignore')
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    for line in sys.stdin:
        asked = json.loads(line)
        run = {'linear': linear, 'attention': attention, 'read': read}[asked.pop('op')]
        print(json.dumps({'seconds': run(**asked)}), flush=True)


main()
