"""Training data of generating models: chains of tokens, learned in a second or two, so that output is not a single
repeated token.

Each token has a likely follower, which may be EOS. In texts, the first token selects one of two follower tables; in
translations, tokens of the source are mixed in.
"""

import math

import torch

LEAST, MOST, ROWS, LENGTH, RATE = 100, 400, 16, 16, 5e-3


class Chains:
    def __init__(self, config, rng, first):
        self.rng, self.first = rng, first
        ends = config.eos_token_id
        self.ends = ends if isinstance(ends, list) else [ends]
        self.tokens = [i for i in range(config.vocab_size) if i != config.pad_token_id]
        self.inner = [i for i in self.tokens if i not in self.ends]
        self.follower = [dict(zip(self.tokens, rng.sample(self.tokens, len(self.tokens)), strict=True)) for _ in range(2)]
        for follower in self.follower:  # one token in twenty ends the text
            for token in rng.sample(self.tokens, len(self.tokens) // 20 + 1):
                follower[token] = rng.choice(self.ends)

    def chain(self, token, kind, others, likely):
        ids = []
        while len(ids) < LENGTH and (not ids or ids[-1] not in self.ends):
            token = self.follower[kind][token] if self.rng.random() < likely else self.rng.choice(others)
            if token in self.ends and len(ids) < 3:
                token = self.rng.choice(self.inner)
            ids.append(token)
        return ids

    def pair(self):
        """A source and its target."""
        source = [self.rng.choice(self.tokens) for _ in range(self.rng.randint(2, 9))]
        written = self.chain(source[0], 0, source, 0.5)
        return source, ([self.first] if self.first is not None else []) + written

    def text(self):
        token = self.rng.choice(self.tokens)
        return [token] + self.chain(token, token % 2, self.tokens, 0.8)


def padded(rows, filler):
    width = max(map(len, rows))
    return torch.tensor([row + [filler] * (width - len(row)) for row in rows])


def batch_of(chains, config):
    """-> (model inputs, labels)"""
    if not config.is_encoder_decoder:
        rows = [chains.text() for _ in range(ROWS)]
        return {"input_ids": padded([r[:-1] for r in rows], 0)}, padded([r[1:] for r in rows], -100)
    pairs = [chains.pair() for _ in range(ROWS)]
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    inputs = {"input_ids": padded(sources, config.pad_token_id),
              "attention_mask": padded([[1] * len(s) for s in sources], 0),
              "decoder_input_ids": padded([[config.decoder_start_token_id] + t[:-1] for t in targets], 0)}
    return inputs, padded(targets, -100)


def teach(model, rng, first):
    config = model.config.get_text_config()
    chains = Chains(config, rng, first)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=RATE)
    mean, enough = None, 0.7 * math.log(config.vocab_size)
    for step in range(MOST):
        inputs, labels = batch_of(chains, config)
        logits = model(**inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        mean = loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()
        if step >= LEAST and mean < enough:
            break
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.requires_grad_(False)
    model.lesson = f"{step} steps to {mean / math.log(config.vocab_size):.2f} of ignorance"
