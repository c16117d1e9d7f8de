"""Writes layers.safetensors: results of torch.nn's Transformer layers for small inputs, for test_torch_layers.c.

    python make_layers.py [layers.safetensors]

Needs torch and safetensors (made with torch 2.13.0 on a CPU, in double precision, stored as F32). Three sets:

    one, two   width 4, 2 heads, feed-forward width 16, parameters cos(0, 1, 2, ...) and integer inputs, one or two
               positions: like PyTorch's own tests of the layers
    random     width 24, 3 heads, feed-forward width 40, 3 sequences of 7 source and 5 target positions

A set has `SET.source` and `SET.memory` (B, S, E), for the encoder and for the decoder, `SET.target` (B, T, E),
`SET.source_lengths`, `SET.target_lengths` (B), the parameters `SET.encoder.NAME` and `SET.decoder.NAME` under PyTorch's
names, and the outputs

    SET.encoder.NORM.ACTIVATION.plain     no mask
    SET.encoder.NORM.ACTIVATION.masked    src_key_padding_mask
    SET.decoder.NORM.ACTIVATION.plain     no mask: the target sees its future
    SET.decoder.NORM.ACTIVATION.masked    causal tgt_mask, tgt_key_padding_mask and memory_key_padding_mask

with NORM post or pre (norm_first) and ACTIVATION relu or gelu. Padding rows have arbitrary values.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

RANDOM = dict(batch=3, source=7, target=5, width=24)


def inputs(name):
    if name == "one":
        source = torch.tensor([[[20.0, 30, 40, 50]]])
        return source, torch.tensor([[[60.0, 70, 80, 90]]]), source, [1], [1]
    if name == "two":
        source = torch.tensor([[[1.0, 2, 3, 4], [5, 6, 7, 8]]])
        target = torch.tensor([[[9.0, 10, 11, 12], [11, 12, 13, 14]]])
        source = torch.cat([source, -source])
        return source, source, torch.cat([target, target.flip(1)]), [2, 1], [2, 1]
    n = RANDOM
    source = torch.randn(n["batch"], n["source"], n["width"])
    target = torch.randn(n["batch"], n["target"], n["width"])
    return source, source.flip(1), target, [7, 4, 1], [5, 3, 1]


def parameters(layer, name):
    for parameter in layer.parameters():
        if name == "random":
            scale = 0.25 if parameter.dim() == 2 else 0.5
            parameter.data = scale * torch.randn(parameter.shape).float().double()
        else:
            parameter.data = torch.cos(torch.arange(parameter.numel()).double()).float().double().view(parameter.shape)
    return {key: value.float() for key, value in layer.state_dict().items()}


def hidden(lengths, positions):
    return torch.arange(positions)[None, :] >= torch.tensor(lengths)[:, None]


def make(name, out):
    source, memory, target, source_lengths, target_lengths = inputs(name)
    source, memory, target = source.double(), memory.double(), target.double()
    width, heads, feed_forward = (24, 3, 40) if name == "random" else (4, 2, 16)
    out.update({f"{name}.source": source.float(), f"{name}.memory": memory.float(), f"{name}.target": target.float()})
    out[f"{name}.source_lengths"] = torch.tensor(source_lengths, dtype=torch.int32)
    out[f"{name}.target_lengths"] = torch.tensor(target_lengths, dtype=torch.int32)
    source_hidden = hidden(source_lengths, source.shape[1])
    target_hidden = hidden(target_lengths, target.shape[1])
    future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    stored = {}
    for norm_first in (False, True):
        for activation in ("relu", "gelu"):
            options = dict(dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first)
            encoder = torch.nn.TransformerEncoderLayer(width, heads, feed_forward, **options).double()
            decoder = torch.nn.TransformerDecoderLayer(width, heads, feed_forward, **options).double()
            for kind, layer in (("encoder", encoder), ("decoder", decoder)):
                if kind not in stored:
                    stored[kind] = parameters(layer, name)
                    out.update({f"{name}.{kind}.{key}": value for key, value in stored[kind].items()})
                layer.load_state_dict({key: value.double() for key, value in stored[kind].items()})
            at = f"{'pre' if norm_first else 'post'}.{activation}"
            out[f"{name}.encoder.{at}.plain"] = encoder(source).float()
            out[f"{name}.encoder.{at}.masked"] = encoder(source, src_key_padding_mask=source_hidden).float()
            out[f"{name}.decoder.{at}.plain"] = decoder(target, memory).float()
            out[f"{name}.decoder.{at}.masked"] = decoder(
                target,
                memory,
                tgt_mask=future,
                tgt_key_padding_mask=target_hidden,
                memory_key_padding_mask=source_hidden,
            ).float()


def main():
    torch.manual_seed(2017)
    out = {}
    with torch.no_grad():
        for name in ("one", "two", "random"):
            make(name, out)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("layers.safetensors")
    save_file({key: value.detach().contiguous() for key, value in out.items()}, path)


if __name__ == "__main__":
    main()
