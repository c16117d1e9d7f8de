"""A tutorial of tfm for Python: translation, scoring, attention, fine-tuning, embeddings, ops. Each part is a cell.

Install the package in a virtual environment from a copy of the repository (README.md lists the Debian packages):

    pip install .

Run this file; it takes a minute, mostly to build kernels the first time:

    python apps/python/tutorial.py
"""
import pathlib
import tempfile

import numpy as np
import tfm

# %% Devices: select one with device="..."; the default is the best one.
for device in (each for each in tfm.devices() if not each.error):
    print(f"{device.index}: {device.name} ({device.type}){', the default' if device.chosen else ''}")

# %% Translation: the small model in apps/demo translates short everyday German; any OPUS-MT directory works.
demo = pathlib.Path(__file__).parents[1] / "demo"
model = tfm.Translator(demo)
print(model.translate("Guten Morgen. Wo ist mein Auto?"))

# A translation is a str with a score. n_best returns several.
for translation in model.translate("Wo ist mein Auto?", beam_size=4, n_best=3):
    print(f"{translation.score:8.3f}  {translation}")

# %% Streaming large files: each translation is yielded as soon as it and all earlier ones are done.
with open(demo / "test.de", encoding="utf-8") as file:
    for translation in model.stream(file, beam_size=1):
        print(translation.line + 1, translation)

# %% Scoring given translations: the sum of log p, and the number of tokens.
good, bad = model.score(["Ich liebe dich."] * 2, ["I love you.", "I love him."])
print(f"{good.average:.3f} and {bad.average:.3f} a token")
assert good.average > bad.average

# %% Alignments: the German verb is last, the English one second. Which source token did "sold" attend to?
text = "Ich habe das Auto gestern verkauft."
translation = model.translate(text, return_alignments=True, split=False)
sold = next(i for i, token in enumerate(translation.tokens) if "sold" in token)
assert translation.alignment is not None
weights = translation.alignment[sold]
print(f"{translation.tokens[sold]} attended most to {translation.source_tokens[int(weights.argmax())]}")

# Attention maps render in a notebook; here the same picture is written to a file.
maps = model.attention_maps(text, kind="cross")
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "attention.svg").write_text(maps._repr_svg_(), encoding="utf-8")
print(f"{len(maps)} maps, the first of shape {maps[0].weights.shape}: {folder / 'attention.svg'}")

# %% Fine-tuning: the same model learns the word "automobile". Callbacks receive every report of the run.
subjects = [("Ich", "I", "habe"), ("Wir", "We", "haben"), ("Sie", "They", "haben"), ("Tom und Maria", "Tom and Mary", "haben")]
things = [("verkauft", "sold"), ("gesehen", "seen"), ("gekauft", "bought"), ("gewaschen", "washed")]
pairs = [(f"{s} {h} das Auto {v}.", f"{e} {'have ' if w == 'seen' else ''}{w} the automobile.")
         for s, e, h in subjects for v, w in things] * 8
(folder / "train.de").write_text("".join(de + "\n" for de, _ in pairs), encoding="utf-8")
(folder / "train.en").write_text("".join(en + "\n" for _, en in pairs), encoding="utf-8")


def on_report(report: dict[str, object]) -> None:
    if report["type"] == "train":
        print(f"update {report['update']}: loss {report['loss']:.3f}")


tfm.train(folder / "tuned", init_from=demo, src=folder / "train.de", tgt=folder / "train.en", max_steps=40, learning_rate=5e-4,
          warmup_steps=5, batch_tokens=512, logging_steps=10, hold_out=0, callbacks=[on_report])
with tfm.Translator(folder / "tuned") as tuned:
    before, after = model.translate("Ich habe das Auto gekauft."), tuned.translate("Ich habe das Auto gekauft.")
    print(f"before: {before}\nafter:  {after}")
    assert "automobile" in after and "automobile" not in before
model.close()

# %% Embeddings and semantic search. This encoder is tiny and untrained; use all-MiniLM-L6-v2 or another
# sentence-transformers directory for meaningful neighbors.
encoder = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "embedder"
lines = ["the cat sits in the garden", "a dog", "the river", "bread and water"]
with tfm.Embedder(encoder, normalize=True) as embedder:
    vectors = embedder.encode(lines)  # a NumPy array
    query = embedder.encode("the cat sits in the garden")
    near = np.argsort(-embedder.similarity(query, vectors)[0])
    print("nearest:", lines[near[0]])
    assert near[0] == 0

# %% Ops: attention on arrays, and its gradient.
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for _ in range(3))
loss, (gradient,) = tfm.ops.value_and_gradients(lambda x: tfm.ops.sum(tfm.ops.attention(x, k, v, causal=True)), q)
print(f"the sum of attention is {loss.item():.3f}, its gradient {gradient.shape}")
