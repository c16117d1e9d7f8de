"""Creates tests/golden/quant.txt, for tests/ops/quant/test_quant_format.c.

    pip install gguf numpy
    python make_quant.py

A line has an operation, a format, a 64-bit FNV-1a hash of all results, and the first results. Inputs come from a
linear congruential generator that the test repeats: random bytes, so that scales are infinite or NaN too.
"""

from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

BLOCKS = 200
NAMES = "F32 F16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS BF16".split()


def random_bytes(seed, count):
    out, state = bytearray(), seed
    while len(out) < count:
        state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out += (state >> 32).to_bytes(4, "little")
    return np.frombuffer(bytes(out[:count]), np.uint8)


def fnv(data):
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 & (2**64 - 1)
    return value


def unpacked(name):
    kind = Type[name]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = random_bytes(int(kind) + 1, BLOCKS * size).reshape(BLOCKS, size)
    bits = gguf.quants.dequantize(blocks, kind).astype("<f4").ravel().view("<u4").copy()
    bits[(bits & 0x7FFFFFFF) > 0x7F800000] = 0x7FC00000
    return f"unpack {name} {fnv(bits.tobytes()):016x} " + " ".join(f"{x:08x}" for x in bits[:4])


def packed(name):
    """Numbers from -1 to 1 times a power of two that differs between blocks; the first block is zeros."""
    kind = Type[name]
    raw = random_bytes(100 + int(kind), BLOCKS * 32 * 4).view("<u4").reshape(BLOCKS, 32)
    numbers = (raw.astype(np.int64) - 2**31).astype(np.float32) / np.float32(2**31)
    numbers *= np.exp2(np.arange(BLOCKS, dtype=np.float32) % 40 - 30).astype(np.float32)[:, None]
    numbers[0] = 0
    data = gguf.quants.quantize(numbers, kind).view(np.uint8).ravel()
    return f"pack {name} {fnv(data.tobytes()):016x} " + " ".join(f"{x:08x}" for x in data[:4])


np.seterr(all="ignore")
lines = [unpacked(name) for name in NAMES] + [packed(name) for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0")]
(Path(__file__).resolve().parent / "quant.txt").write_text("\n".join(lines) + "\n")
