"""A directory in Marian layout, run with stock classes of Hugging Face transformers, and tfm's search.

`MarianMTModel` ignores `normalize_before`, `normalize_embedding` and `add_final_layer_norm` since version 4 of
transformers, in which Marian was separated from BART's class. Other stock classes have these orders of operations, so
each combination is run with its class, with the weights inserted by hand:

    normalize_before  normalize_embedding  add_final_layer_norm   class
    false             false                false                  MarianMTModel
    false             true                 false                  BartForConditionalGeneration
    true              false                true                   PegasusForConditionalGeneration
    true              true                 true                   MBartForConditionalGeneration

Everything is computed in fp32 from the weights as stored.
"""

import json
import math
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PegasusConfig,
    PegasusForConditionalGeneration,
)
from transformers.models.bart.modeling_bart import BartScaledWordEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

FAMILIES = {  # (normalize_before, normalize_embedding, add_final_layer_norm)
    (False, False, False): (MarianConfig, MarianMTModel),
    (False, True, False): (BartConfig, BartForConditionalGeneration),
    (True, False, True): (PegasusConfig, PegasusForConditionalGeneration),
    (True, True, True): (MBartConfig, MBartForConditionalGeneration),
}
SIZES = (
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "max_position_embeddings",
    "activation_function",
    "pad_token_id",
    "eos_token_id",
    "decoder_start_token_id",
)


def family(config):
    key = tuple(
        bool(config.get(k, False))
        for k in ("normalize_before", "normalize_embedding", "add_final_layer_norm")
    )
    if key not in FAMILIES:
        raise SystemExit(f"no stock class has the combination {key}")
    return FAMILIES[key]


def vocabulary_sizes(config):
    shared = config.get("share_encoder_decoder_embeddings", True)
    source = config["vocab_size"]
    return source, source if shared else (config.get("decoder_vocab_size") or source)


def build(config):
    """The stock model of a Marian configuration, with three separate embeddings and untrained weights."""
    config_class, model_class = family(config)
    values = {k: config[k] for k in SIZES if k in config}
    values.setdefault("activation_function", "gelu")
    source, target = vocabulary_sizes(config)
    scale = bool(config.get("scale_embedding", False))
    model = model_class(
        config_class(
            vocab_size=max(source, target),
            scale_embedding=scale,
            dropout=0.0,
            tie_word_embeddings=False,
            attn_implementation="eager",
            **values,
        )
    )
    width = config["d_model"]
    pad = config["pad_token_id"]

    def embedding(rows):
        if model_class in (BartForConditionalGeneration, MBartForConditionalGeneration):
            return BartScaledWordEmbedding(rows, width, pad, embed_scale=math.sqrt(width) if scale else 1.0)
        return nn.Embedding(rows, width, pad)

    model.model.encoder.embed_tokens = embedding(source)
    model.model.decoder.embed_tokens = embedding(target)
    model.lm_head = nn.Linear(width, target, bias=False)
    model.final_logits_bias = torch.zeros(1, target)
    if hasattr(model.model, "shared"):
        model.model.shared = model.model.encoder.embed_tokens  # as large as the source's; not used directly
    for stack in (model.model.encoder, model.model.decoder):
        put_positions(stack.embed_positions, sinusoid(config["max_position_embeddings"], width))
    return model


def sinusoid(rows, width):
    return MarianSinusoidalPositionalEmbedding(rows, width).create_weight()


def put_positions(module, table):
    """BART's and mBART's learned positions start at row 2."""
    with torch.no_grad():
        offset = module.weight.shape[0] - table.shape[0]
        module.weight[offset:] = table
    module.weight.requires_grad_(False)


def open_model(directory):
    """-> (model in evaluation mode, configuration as a dict)."""
    directory = Path(directory)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    if family(config)[1] is MarianMTModel:
        model = MarianMTModel.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
        return model.eval(), config
    stored = {k: v.float() for k, v in load_file(directory / "model.safetensors").items()}
    model = build(config)
    shared = config.get("share_encoder_decoder_embeddings", True)
    decoder = ["model.decoder.embed_tokens.weight", "model.shared.weight"]
    encoder = ["model.encoder.embed_tokens.weight", "model.shared.weight"]
    roles = {
        "model.encoder.embed_tokens.weight": encoder + (decoder + ["lm_head.weight"] if shared else []),
        "model.decoder.embed_tokens.weight": decoder + (encoder + ["lm_head.weight"] if shared else []),
        "lm_head.weight": ["lm_head.weight"] + decoder + (encoder if shared else []),
    }
    used = set()
    state = {}
    for name, value in model.state_dict().items():
        if "embed_positions" in name:
            if name in stored:
                offset = value.shape[0] - stored[name].shape[0]
                value = torch.cat([value[:offset], stored[name]])
                used.add(name)
            state[name] = value
            continue
        found = next((n for n in roles.get(name, [name]) if n in stored), None)
        if name == "model.shared.weight":
            found = next(n for n in roles["model.encoder.embed_tokens.weight"] if n in stored)
        if found is None and name != "final_logits_bias":
            raise SystemExit(f"{directory}: no tensor {name}")
        state[name] = stored[found] if found else value
        used.add(found)
    model.load_state_dict(state, strict=True)
    if "final_logits_bias" in stored:
        model.final_logits_bias = stored["final_logits_bias"]
        used.add("final_logits_bias")
    unused = set(stored) - used
    if unused:
        raise SystemExit(f"{directory}: nothing uses {sorted(unused)}")
    return model.eval(), config


class Tokenizer:
    """Pieces from SentencePiece, ids from vocab.json, a leading `>>code<<` as one token, like MarianTokenizer."""

    def __init__(self, directory):
        directory = Path(directory)
        self.source_spm = sentencepiece.SentencePieceProcessor(model_file=str(directory / "source.spm"))
        self.target_spm = sentencepiece.SentencePieceProcessor(model_file=str(directory / "target.spm"))
        self.source_ids = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
        target = directory / "target_vocab.json"
        self.target_ids = (
            json.loads(target.read_text(encoding="utf-8")) if target.exists() else self.source_ids
        )
        self.pieces = {i: p for p, i in self.target_ids.items()}

    def encode(self, text):
        pieces = []
        if text.startswith(">>") and "<<" in text:
            end = text.index("<<") + 2
            pieces, text = [text[:end]], text[end:]
        return self._ids(pieces + self.source_spm.encode(text, out_type=str), self.source_ids)

    def encode_target(self, text):
        return self._ids(self.target_spm.encode(text, out_type=str), self.target_ids)

    def decode(self, ids):
        pieces = [self.pieces[i] for i in ids]
        return self.target_spm.decode_pieces([p for p in pieces if p not in ("</s>", "<pad>")]).strip()

    @staticmethod
    def _ids(pieces, vocabulary):
        return [vocabulary.get(p, vocabulary["<unk>"]) for p in pieces] + [vocabulary["</s>"]]


class Decoder:
    """One source sentence; `log_probabilities(prefixes)`: (prefixes, V), double, of each prefix's next token."""

    def __init__(self, model, config, source_ids):
        self.model, self.pad, self.start = model, config["pad_token_id"], config["decoder_start_token_id"]
        self.eos = config["eos_token_id"]
        self.source = torch.tensor([source_ids])
        with torch.no_grad():
            self.encoded = model.get_encoder()(input_ids=self.source).last_hidden_state

    def logits(self, decoder_ids):
        """decoder_ids: rows of equal length. -> (rows, T, V)"""
        rows = torch.tensor(decoder_ids)
        encoded = self.encoded.expand(rows.shape[0], -1, -1)
        with torch.no_grad():
            return self.model(encoder_outputs=(encoded,), decoder_input_ids=rows, use_cache=False).logits

    def log_probabilities(self, prefixes):
        return self._log_softmax(self.logits([[self.start] + p for p in prefixes])[:, -1])

    def teacher_forced(self, target_ids):
        """log p of each target token, including EOS."""
        rows = self._log_softmax(self.logits([[self.start] + target_ids[:-1]])[0])
        return [rows[t, token] for t, token in enumerate(target_ids)]

    def _log_softmax(self, logits):
        logits = logits.double()
        logits[..., self.pad] = -math.inf
        return torch.log_softmax(logits, -1).numpy()


def shaken(decoder, seed, noise=2e-3):
    """The same decoder with noise on its logits, far above rounding: results that it changes are no goldens."""
    generator = torch.Generator().manual_seed(seed)

    class Shaken(Decoder):
        def logits(self, ids):
            exact = super().logits(ids)
            return exact + noise * torch.randn(exact.shape, generator=generator)

    other = object.__new__(Shaken)
    other.__dict__.update(decoder.__dict__)
    return other


def paper_penalty(alpha):
    return lambda n: ((5 + n) / 6) ** alpha


def hf_penalty(penalty):
    return lambda n: n**penalty


def greedy(decoder, maximum):
    ids = []
    margin = math.inf
    while len(ids) < maximum and (not ids or ids[-1] != decoder.eos):
        row = decoder.log_probabilities([ids])[0]
        second, first = np.sort(row)[-2:]
        margin = min(margin, first - second)
        ids.append(int(row.argmax()))
    return ids, margin


def beam_steps(width, maximum, penalty, eos):
    """A search as a coroutine: yields prefixes of equal length, and receives `log_probabilities` of their next tokens.
    Returns [(score, ids)], best first. Definition: take the best 2K candidates by sum, ties to the lower beam*V +
    token, in order: EOS is finished, any other is live until K are live; keep the best K finished; stop when the worst
    of K finished is at least the best live sum / penalty(maximum), or at the maximum length."""
    live = [(0.0, [])]
    finished = []
    for _ in range(maximum):
        steps = yield [ids for _, ids in live]
        sums = (np.array([s for s, _ in live])[:, None] + steps).ravel()
        best = np.argsort(-sums, kind="stable")[: 2 * width]
        size = steps.shape[1]
        parents, live = live, []
        for candidate in best:
            beam, token = divmod(int(candidate), size)
            if sums[candidate] == -math.inf:
                continue
            ids = parents[beam][1] + [token]
            if token in eos:
                finished.append((sums[candidate] / penalty(len(ids)), ids))
            else:
                live.append((sums[candidate], ids))
                if len(live) == width:
                    break
        finished = sorted(finished, key=lambda f: -f[0])[:width]
        if not live or (len(finished) == width and finished[-1][0] >= live[0][0] / penalty(maximum)):
            break
    return finished or [(live[0][0] / penalty(maximum), live[0][1])]


def beam_search(decoder, width, maximum, penalty):
    """-> [(score, ids)], best first."""
    search = beam_steps(width, maximum, penalty, [decoder.eos])
    prefixes = next(search)
    while True:
        try:
            prefixes = search.send(decoder.log_probabilities(prefixes))
        except StopIteration as end:
            return end.value


def maximum_length(source_ids):
    return len(source_ids) + 50
