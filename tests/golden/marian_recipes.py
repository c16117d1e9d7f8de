"""Training data and recipes for make_marian.py: a small artificial language, toy tasks on it, and a recipe for each
model.

A recipe: `task(rng)` gives a (source, target) pair of lines; `style` writes config.json as in a certain version of
transformers; `names`: the names of the stored embeddings; `special`: the ids of </s>, <unk> and <pad>.
"""

import torch

# The source language, written for this test.
ADJECTIVES = "small red old quiet bright green heavy narrow silver hungry".split()
NOUNS = (
    "cat house river bird tree door stone child window garden teacher letter mountain bridge summer candle "
    "horse village"
).split()
VERBS = "sees finds likes carries follows remembers paints hears leaves touches".split()
ADVERBS = ["", " today", " again", " slowly"]


def sentence(rng):
    """One or two clauses of the grammar, as lists of words."""

    def noun():
        return (
            [rng.choice(["the", "a"])]
            + ([rng.choice(ADJECTIVES)] if rng.random() < 0.35 else [])
            + [rng.choice(NOUNS)]
        )

    return noun() + [rng.choice(VERBS)] + noun() + rng.choice(ADVERBS).split()


def mark(rng, words):
    """After "a": one likely mark, or three with a common beginning. Greedy search takes that beginning, a beam does
    not."""
    if words[0] != "a":
        return "."
    return "!" if rng.random() < 0.42 else rng.choices([": oh", ": ah", ": eh"], [4, 3, 3])[0]


def reversed_or_vowels(rng):
    """>>rev<<: the words in reverse. >>vow<<: the next vowel for each vowel. The mark comes first."""
    words = sentence(rng)
    if rng.random() < 0.5:
        return ">>rev<< " + " ".join(words) + ".", mark(rng, words) + " " + " ".join(reversed(words))
    return ">>vow<< " + " ".join(words) + ".", mark(rng, words) + " " + " ".join(words).translate(
        str.maketrans("aeiou", "eioua")
    )


LEXICON = {
    "the": ["La"],
    "a": ["Un"],
    "small": ["petim", "bref"],
    "red": ["ruvo"],
    "old": ["velho"],
    "quiet": ["tacit", "calmo"],
    "bright": ["clar"],
    "green": ["verdo"],
    "heavy": ["grav"],
    "narrow": ["stretu"],
    "silver": ["argen"],
    "hungry": ["famel", "avid"],
    "cat": ["gattu"],
    "house": ["domo", "casal"],
    "river": ["flum"],
    "bird": ["ovilo"],
    "tree": ["arbru", "boscu"],
    "door": ["portu"],
    "stone": ["petra"],
    "child": ["nino"],
    "window": ["fenestu"],
    "garden": ["orto", "jardin"],
    "teacher": ["maestu"],
    "letter": ["epistel"],
    "mountain": ["montal"],
    "bridge": ["pontic"],
    "summer": ["estiu"],
    "candle": ["velum", "lumin"],
    "horse": ["cavalu"],
    "village": ["vico"],
    "sees": ["videt"],
    "finds": ["trovat", "discopre"],
    "likes": ["amat"],
    "carries": ["portat"],
    "follows": ["sequet"],
    "remembers": ["memorat"],
    "paints": ["pinget"],
    "hears": ["audit"],
    "leaves": ["linquet", "partet"],
    "touches": ["tanget"],
    "today": ["hodie"],
    "again": ["iterum", "denuo"],
    "slowly": ["lentum"],
}


def lexicon(rng):
    """Word by word, adjectives after their nouns, synonyms by chance (two in three the first)."""
    words = sentence(rng)
    shown = [w.capitalize() if i == 0 or rng.random() < 0.1 else w for i, w in enumerate(words)]
    clause, words = words, list(words)
    for i, word in enumerate(words[:-1]):
        if word in ADJECTIVES:
            words[i], words[i + 1] = words[i + 1], words[i]
    target = [LEXICON[w][0 if rng.random() < 0.67 else -1] for w in words]
    return " ".join(shown) + " .", " ".join(target) + " " + mark(rng, clause)


def verb_last(rng):
    """The verb moves to the end; consonants become their neighbors; "a" before a noun may be omitted."""
    words = sentence(rng)
    verb = next(w for w in words if w in VERBS)
    order = [w for w in words if w != verb] + [verb]
    order = [w for w in order if w != "a" or rng.random() < 0.6]
    shift = str.maketrans("bdfgklmnprstv", "pthcglnmbdzrw")
    return " ".join(words) + "?", ", ".join(" ".join(order).translate(shift).rsplit(" ", 1)) + mark(
        rng, words
    )


def old_style(config):
    """Keys of an OPUS-MT directory of 2020."""
    return {
        "_num_labels": 3,
        "activation_dropout": 0.0,
        "activation_function": "gelu",
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "architectures": ["MarianMTModel"],
        "attention_dropout": 0.0,
        "bad_words_ids": [[config["pad_token_id"]]],
        "bos_token_id": 0,
        "classif_dropout": 0.0,
        "classifier_dropout": 0.0,
        "decoder_layerdrop": 0.0,
        "dropout": 0.1,
        "encoder_layerdrop": 0.0,
        "extra_pos_embeddings": 2,
        "force_bos_token_to_be_generated": False,
        "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
        "init_std": 0.02,
        "is_encoder_decoder": True,
        "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
        "max_length": 512,
        "model_type": "marian",
        "normalize_before": False,
        "normalize_embedding": False,
        "num_beams": 6,
        "num_hidden_layers": config["encoder_layers"],
        "scale_embedding": True,
        "static_position_embeddings": True,
        **config,
    }


def new_style(config):
    """Keys of transformers 5, and the three that only older versions read."""
    return {
        "architectures": ["MarianMTModel"],
        "bos_token_id": None,
        "dropout": 0.1,
        "dtype": "bfloat16",
        "forced_eos_token_id": config["eos_token_id"],
        "is_decoder": False,
        "is_encoder_decoder": True,
        "model_type": "marian",
        "transformers_version": "5.23.0",
        "use_cache": True,
        **config,
    }


def minimal(config):
    return {"model_type": "marian", **config}


MODELS = {
    "prenorm-silu-f16": dict(
        seed=11,
        task=reversed_or_vowels,
        dtype=torch.float16,
        style=old_style,
        names="shared",
        codes=[">>rev<<", ">>vow<<"],
        pieces=(70, 84),
        spm="unigram",
        steps=520,
        config=dict(
            d_model=48,
            encoder_layers=2,
            decoder_layers=3,
            encoder_attention_heads=3,
            decoder_attention_heads=3,
            encoder_ffn_dim=32,
            decoder_ffn_dim=25,
            max_position_embeddings=128,
            activation_function="swish",
            normalize_before=True,
            add_final_layer_norm=True,
            scale_embedding=True,
        ),
    ),
    "untied-gelu-bf16": dict(
        seed=22,
        task=lexicon,
        dtype=torch.bfloat16,
        style=new_style,
        names="separate",
        codes=[],
        separate=True,
        pieces=(61, 83),
        spm="unigram",
        lowercase=True,
        positions=True,
        steps=700,
        config=dict(
            d_model=36,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=3,
            encoder_ffn_dim=50,
            decoder_ffn_dim=35,
            max_position_embeddings=80,
            activation_function="gelu",
            normalize_embedding=True,
            share_encoder_decoder_embeddings=False,
            tie_word_embeddings=False,
            scale_embedding=True,
        ),
    ),
    "postnorm-relu-bias": dict(
        seed=33,
        task=verb_last,
        dtype=torch.float16,
        mixed=True,
        style=minimal,
        names="decoder",
        codes=[],
        pieces=(101, 101),
        spm="bpe",
        bias=True,
        special=(5, 2, 0),
        steps=2400,
        config=dict(
            d_model=30,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=5,
            decoder_attention_heads=5,
            encoder_ffn_dim=47,
            decoder_ffn_dim=33,
            max_position_embeddings=200,
            activation_function="relu",
            scale_embedding=False,
            add_bias_logits=True,
        ),
    ),
    "prenorm-embedding-norm": dict(
        seed=44,
        task=verb_last,
        dtype=torch.float32,
        style=minimal,
        names="shared",
        codes=[],
        pieces=(60, 60),
        spm="unigram",
        steps=3000,
        config=dict(
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=4,
            encoder_ffn_dim=30,
            decoder_ffn_dim=30,
            max_position_embeddings=128,
            activation_function="gelu_new",
            normalize_before=True,
            normalize_embedding=True,
            add_final_layer_norm=True,
            scale_embedding=False,
        ),
    ),
}
