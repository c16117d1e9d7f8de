"""tfm from Python, from installing to searching. Each part stands by itself, as a cell of a notebook does.

Install it, in a virtual environment, from a copy of the repository; README.md says which Debian packages it needs:

    pip install .

and run this file, which takes a minute, mostly for building kernels the first time:

    python apps/python/tutorial.py
"""
import pathlib
import tempfile

import numpy as np
import tfm

# %% Which devices are there? Any of them can be named by device="..."; without it the best one is taken.
for device in (each for each in tfm.devices() if not each.error):
    print(f"{device.index}: {device.name} ({device.type}){', taken by default' if device.chosen else ''}")

# %% Translate. The model in apps/demo is small and knows short everyday German; any folder of OPUS-MT does as well.
demo = pathlib.Path(__file__).parents[1] / "demo"
model = tfm.Translator(demo)
print(model.translate("Guten Morgen. Wo ist mein Auto?"))

# A translation is a str with a score. n_best gives several.
for translation in model.translate("Wo ist mein Auto?", beam_size=4, n_best=3):
    print(f"{translation.score:8.3f}  {translation}")

# %% Large files come as a stream: a translation is there as soon as it and all before it are done.
with open(demo / "test.de", encoding="utf-8") as file:
    for translation in model.stream(file, beam_size=1):
        print(translation.line + 1, translation)

# %% How likely is a translation that is given? The sum of log p, and how many tokens that is of.
good, bad = model.score(["Ich liebe dich."] * 2, ["I love you.", "I love him."])
print(f"{good.average:.3f} and {bad.average:.3f} a token")
assert good.average > bad.average

# %% Look inside: German puts the verb last, English second. Which source token did "sold" look at?
text = "Ich habe das Auto gestern verkauft."
translation = model.translate(text, return_alignments=True, split=False)
sold = next(i for i, token in enumerate(translation.tokens) if "sold" in token)
assert translation.alignment is not None
looked = translation.alignment[sold]
print(f"{translation.tokens[sold]} looked most at {translation.source_tokens[int(looked.argmax())]}")

# In a notebook the last line of a cell draws itself; here the same picture goes into a file.
maps = model.attention_maps(text, kind="cross")
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "attention.svg").write_text(maps._repr_svg_(), encoding="utf-8")
print(f"{len(maps)} maps, the first of shape {maps[0].weights.shape}: {folder / 'attention.svg'}")

# %% Fine-tune: the same model, taught to say "automobile". Every report of the run comes to the callbacks.
subjects = [("Ich", "I", "habe"), ("Wir", "We", "haben"), ("Sie", "They", "haben"), ("Tom und Maria", "Tom and Mary", "haben")]
things = [("verkauft", "sold"), ("gesehen", "seen"), ("gekauft", "bought"), ("gewaschen", "washed")]
pairs = [(f"{s} {h} das Auto {v}.", f"{e} {'have ' if w == 'seen' else ''}{w} the automobile.")
         for s, e, h in subjects for v, w in things] * 8
(folder / "train.de").write_text("".join(de + "\n" for de, _ in pairs), encoding="utf-8")
(folder / "train.en").write_text("".join(en + "\n" for _, en in pairs), encoding="utf-8")


def tell(report: dict[str, object]) -> None:
    if report["type"] == "train":
        print(f"update {report['update']}: loss {report['loss']:.3f}")


tfm.train(folder / "tuned", init_from=demo, src=folder / "train.de", tgt=folder / "train.en", max_steps=40, learning_rate=5e-4,
          warmup_steps=5, batch_tokens=512, logging_steps=10, hold_out=0, callbacks=[tell])
with tfm.Translator(folder / "tuned") as tuned:
    before, after = model.translate("Ich habe das Auto gekauft."), tuned.translate("Ich habe das Auto gekauft.")
    print(f"before: {before}\nafter:  {after}")
    assert "automobile" in after and "automobile" not in before
model.close()

# %% Embed and search. This encoder is tiny and untrained, so its neighbours mean little; all-MiniLM-L6-v2, or another
# folder of sentence-transformers, does in its place what one expects.
encoder = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "embedder"
lines = ["the cat sits in the garden", "a dog", "the river", "bread and water"]
with tfm.Embedder(encoder, normalize=True) as embedder:
    vectors = embedder.encode(lines)  # a NumPy array
    query = embedder.encode("the cat sits in the garden")
    near = np.argsort(-embedder.similarity(query, vectors)[0])
    print("nearest:", lines[near[0]])
    assert near[0] == 0

# %% Ops: attention by hand, on arrays, and the gradient of what comes out of it.
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for _ in range(3))
loss, (gradient,) = tfm.ops.value_and_gradients(lambda x: tfm.ops.sum(tfm.ops.attention(x, k, v, causal=True)), q)
print(f"the sum of attention is {loss.item():.3f}, its gradient {gradient.shape}")
