"""Random cases: `random_case(family, rng)` returns one in the format of family_recipes.py."""

import family_styles as old
from family_recipes import (CASES, bert, bloom, distilbert, falcon, gemma3, gpt2, gptj, llama, modernbert, mpt, neox, opt, rope, seen,
                            seen_qwen2, seq2seq, t5)

# transformers' names; the first four are twice as likely.
ACTIVATIONS = ["relu", "gelu", "gelu_new", "silu"] * 2 + ["swish", "gelu_python", "gelu_fast", "gelu_accurate",
                                                          "gelu_pytorch_tanh", "gelu_python_tanh", "linear", "quick_gelu",
                                                          "relu2", "relu6", "leaky_relu", "sigmoid", "tanh", "mish",
                                                          "laplace", "gelu_10", "hardswish"]


def heads_of(r, width, even=False):
    """A number of heads that divides the width; `even`: with an even head size."""
    return r.choice([h for h in range(1, 9) if width % h == 0 and (not even or width // h % 2 == 0)])


def sizes(r):
    """E, layers, V."""
    return r.randrange(16, 33, 2), r.randint(2, 4), r.randint(41, 90)


def coin(r):
    return r.random() < 0.5


def maybe(r, value):
    """A random function of family_styles, or none."""
    return value if coin(r) else None


def epsilon(r):
    return r.choice([1e-12, 1e-6, 1e-5, 1e-3])


def draw_seq2seq(family, r):
    E, _, V = sizes(r)
    pad, eos, start, bos = r.sample(range(V), 4)
    if family == "m2m_100":
        pad = r.choice([0, 1, 2, 7])
        eos, start = r.sample([i for i in range(V) if i != pad], 2)
    config = seq2seq(E, (r.randint(1, 3), r.randint(1, 3)), (heads_of(r, E), heads_of(r, E)),
                     (r.randint(17, 40), r.randint(17, 40)), V, r.randint(32, 70), r.choice(ACTIVATIONS),
                     (pad, eos, r.choice([eos, start])), bos_token_id=bos, scale_embedding=coin(r))
    if family != "m2m_100":
        config["forced_eos_token_id"] = r.choice([None, eos])
    if family in ("mbart", "pegasus", "m2m_100"):
        config["tie_word_embeddings"] = r.random() < 0.8
    case = {"config": config, "generation": r.choice([{}, {"forced_bos_token_id": start}])}
    if family == "m2m_100" and coin(r):  # positions begin after config.json's padding index
        case["generation"] = case["generation"] | {"pad_token_id": r.choice([i for i in range(V) if i not in (eos, start)])}
    if family == "marian":
        draw_marian(r, config, case)
    if family == "bart":
        config["tie_word_embeddings"] = r.random() < 0.8
        case["base"] = config["tie_word_embeddings"] and r.random() < 0.3
    case["bias"] = family != "m2m_100" and not case.get("base") and coin(r)
    style = {"m2m_100": old.nllb, "bart": old.seq2seq_2020}.get(family, old.dtype_2023)
    case["style"] = maybe(r, style)
    return case


def draw_marian(r, config, case):
    """Half of the models have separate embeddings, with another target vocabulary size."""
    V = config["vocab_size"]
    if coin(r):
        config.update(share_encoder_decoder_embeddings=False, tie_word_embeddings=coin(r),
                      decoder_vocab_size=V + r.choice([0, r.randint(1, 30)]))
    case["generation"] = case["generation"] | {"bad_words_ids": [[config["pad_token_id"]]]}


def draw_t5(family, r):
    E, _, V = sizes(r)
    buckets, layers = 2 * r.randint(2, 20), (r.randint(1, 3), r.randint(1, 3))
    config = t5(E, r.randint(3, 9), r.randint(1, 5), layers, r.randint(17, 40), V,
                r.choice(["", "gated-"]) + r.choice(ACTIVATIONS[:8] + ["swish", "gelu_pytorch_tanh"]), buckets,
                buckets // 2 + r.randint(2, 90),
                tuple(r.choice([(0, 1, 0), r.sample(range(V), 3)])), tie_word_embeddings=coin(r), layer_norm_epsilon=epsilon(r))
    return {"config": config, "style": maybe(r, old.dtype_2023), "cached": layers[1] <= layers[0]}


def draw_encoder(family, r):
    E, layers, V = sizes(r)
    head = r.choice(["Model", "ForSequenceClassification", "ForMaskedLM"])
    positions, act, ffn = r.randint(26, 60), r.choice(ACTIVATIONS), r.randint(17, 50)
    if family == "modernbert":
        every, layers = r.randint(2, 3), 4
        config = modernbert(E, layers, heads_of(r, E, True), ffn // 2 + 8, V, r.randint(1, 13),
                            (r.uniform(50, 200000), r.uniform(50, 20000)), every, hidden_activation=act,
                            norm_eps=epsilon(r), norm_bias=coin(r), attention_bias=coin(r), mlp_bias=coin(r),
                            classifier_pooling=r.choice(["cls", "mean"]), classifier_bias=coin(r),
                            classifier_activation=r.choice(ACTIVATIONS), pad_token_id=r.choice([0, V - 1]),
                            decoder_bias=coin(r))
        style = old.modernbert_2024
        if coin(r):  # the older keys cannot express it
            config["layer_types"], style = draw_types(r, layers), old.dtype_2023
    elif family == "distilbert":
        config = distilbert(E, layers, heads_of(r, E), ffn, V, positions, act,
                            pad_token_id=r.choice([0, 1, V - 1]), sinusoidal_pos_embds=coin(r))
        style = old.bert_2019
    else:
        config = bert(E, layers, heads_of(r, E), ffn, V, positions, act, layer_norm_eps=epsilon(r),
                      pad_token_id=r.choice([0, 1, 3]))
        style = old.bert_2019
        if family in ("nomic_bert", "gte"):
            config |= {"num_attention_heads": heads_of(r, E, True), "rope_parameters": rope(r.uniform(50, 200000))}
            style = old.dtype_2023
        if family in ("electra", "albert"):
            config["embedding_size"] = r.choice([E, r.randint(8, 30)])
        if family == "mpnet":
            config["relative_attention_num_buckets"] = r.choice([32, r.randint(32, 50)])
        else:
            config["type_vocab_size"] = r.randint(1, 3)
    if head == "ForMaskedLM":
        config["tie_word_embeddings"] = coin(r)
    if head == "ForSequenceClassification":
        config["num_labels"] = r.randint(1, 5)
    stem = next(iter(CASES[family].values()))["cls"].removesuffix("Model")
    if style == old.bert_2019 and not config.get("tie_word_embeddings", True):
        style = old.dtype_2023  # the other style removes the key
    return {"cls": stem + head, "config": config, "style": maybe(r, style)}


def draw_gpt2(family, r):
    E, layers, V = sizes(r)
    config = gpt2(E, layers, heads_of(r, E), V, r.randint(44, 90), r.choice(ACTIVATIONS), r.randrange(V),
                  n_inner=r.choice([None, r.randint(17, 50)]), layer_norm_epsilon=epsilon(r),
                  scale_attn_weights=coin(r), scale_attn_by_inverse_layer_idx=coin(r), tie_word_embeddings=coin(r),
                  reorder_and_upcast_attn=coin(r), pad_token_id=r.choice([None, r.randrange(V)]))
    return {"config": config, "base": config["tie_word_embeddings"] and coin(r), "style": maybe(r, old.gpt2_2019),
            "extra": maybe(r, old.gpt2_masks)}


def draw_opt(family, r):
    E, layers, V = sizes(r)
    before = coin(r)
    config = opt(E, layers, heads_of(r, E), r.randint(17, 50), V, r.randint(44, 90), r.choice(ACTIVATIONS),
                 r.sample(range(V), 2), do_layer_norm_before=before, enable_bias=coin(r), tie_word_embeddings=coin(r),
                 _remove_final_layer_norm=before and coin(r), layer_norm_elementwise_affine=coin(r),
                 word_embed_proj_dim=r.choice([E, r.randint(5, 40)]))
    return {"config": config, "base": config["tie_word_embeddings"] and coin(r)}


def draw_longrope(r, theta, pairs, more):
    """Without the original maximum length, which Phi-3 stores outside of the scaling."""
    factors = [[round(r.uniform(1, 4), 2) for _ in range(pairs)] for _ in range(2)]
    if coin(r):
        more = more | {"factor": round(r.uniform(1, 9), 1)}
    if coin(r):
        more = more | {"attention_factor": round(r.uniform(0.8, 1.6), 2)}
    return rope(theta, "longrope", short_factor=factors[0], long_factor=factors[1], **more)


def draw_yarn(r, theta):
    more = {"original_max_position_embeddings": r.choice([8, 24, 64]), "factor": round(r.uniform(1, 9), 1)}
    optional = {"attention_factor": round(r.uniform(0.8, 1.6), 2), "beta_fast": r.choice([4.0, 32.0]),
                "beta_slow": r.choice([0.5, 2.0]), "truncate": coin(r)}
    more |= {key: value for key, value in optional.items() if r.random() < 0.3}
    if coin(r):
        more |= {"mscale": round(r.uniform(0.5, 2), 1), "mscale_all_dim": round(r.uniform(0.5, 2), 1)}
    return rope(theta, "yarn", **more)


def draw_rope(family, r, head_width):
    """A random kind of RoPE scaling."""
    theta = r.choice([50.0, 10000.0, 500000.0])
    if family == "phi3":
        part = r.choice([1.0, 0.5]) if head_width % 4 == 0 else 1.0
        more = {"partial_rotary_factor": part} if part != 1 else {}
        return rope(theta, **more) if coin(r) else draw_longrope(r, theta, int(head_width * part) // 2, more)
    kinds = ["default", "default", "linear", "yarn", "llama3", "longrope"] + ["dynamic"] * (head_width >= 4)
    kind = r.choice(kinds)
    if kind == "yarn":
        return draw_yarn(r, theta)
    if kind == "longrope":
        return draw_longrope(r, theta, head_width // 2, {"original_max_position_embeddings": r.choice([16, 64])})
    if kind in ("linear", "dynamic"):
        return rope(theta, kind, factor=round(r.uniform(1.5, 9), 2))
    if kind == "llama3":
        return rope(theta, "llama3", factor=round(r.uniform(2, 9), 1), low_freq_factor=1.0,
                    high_freq_factor=round(r.uniform(2, 6), 1), original_max_position_embeddings=r.choice([8, 30, 100]))
    return rope(theta)


def draw_types(r, layers):
    """The attention type of each layer."""
    return [r.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]


def draw_windows(family, r, layers, config):
    """The sliding window, if the family has one."""
    window = r.randint(2, 12)
    if family in ("mistral", "phi3"):
        config["sliding_window"] = r.choice([None, window])
    elif family == "ministral":
        config.update(sliding_window=window, layer_types=draw_types(r, layers))
    elif family in ("qwen2", "qwen3"):
        config.update(use_sliding_window=coin(r), sliding_window=window, max_window_layers=r.randint(0, layers))
        if config["use_sliding_window"] and coin(r):
            config["layer_types"] = draw_types(r, layers)
    elif family == "gemma2":
        if coin(r):
            config["layer_types"] = draw_types(r, layers)
        config.update(sliding_window=window, attn_logit_softcapping=r.choice([None, 2.0, 50.0]),
                      final_logit_softcapping=r.choice([None, 3.0, 30.0]))
    elif family == "smollm3":
        config.update(use_sliding_window=coin(r), sliding_window=window, no_rope_layer_interval=r.randint(2, 4))
        if coin(r):
            config["no_rope_layers"] = [r.randint(0, 1) for _ in range(layers)]
        if coin(r):
            config["layer_types"] = draw_types(r, layers)


def draw_llama(family, r):
    E, layers, V = sizes(r)
    heads, pad = heads_of(r, E, True), r.randrange(V)
    kv = r.choice([k for k in range(1, heads + 1) if heads % k == 0])
    width = E // heads
    own_width = family not in ("phi3", "phi", "stablelm")
    if own_width and coin(r):
        width = r.choice([4, 6, 8, 10])
    rest = [i for i in range(V) if i != pad]
    eos = r.choice([r.choice(rest), r.sample(rest, 2)])
    more = dict(rms_norm_eps=epsilon(r), tie_word_embeddings=coin(r), pad_token_id=pad, bos_token_id=r.choice(rest),
                hidden_act=r.choice(ACTIVATIONS))
    if own_width and (width != E // heads or family in ("ministral", "qwen3", "gemma", "gemma2", "gemma3_text")):
        more["head_dim"] = width
    if "gemma" in family:
        more.update(attention_bias=coin(r), tie_word_embeddings=True)
    if family in ("gemma2", "gemma3_text"):
        more.pop("hidden_act")
        more.update(query_pre_attn_scalar=r.randint(2, 30), hidden_activation=r.choice(["gelu_pytorch_tanh", "gelu"]))
    if family in ("llama", "qwen3", "smollm3", "granite", "olmo2"):
        more["attention_bias"] = coin(r)
    if family in ("llama", "smollm3", "granite"):
        more["mlp_bias"] = coin(r)
    draw_windows(family, r, layers, more)
    if family == "gemma3_text":
        pattern = r.randint(2, layers)
        config = gemma3(E, layers, (heads, kv), r.randint(17, 40), V, r.randint(2, 12), pattern,
                        draw_rope(family, r, width), r.choice([100.0, 10000.0]), **more, eos_token_id=eos,
                        final_logit_softcapping=r.choice([None, 4.0]))
        style = old.gemma3_2025
        if coin(r):  # the older keys cannot express it
            config["layer_types"], style = draw_types(r, layers), old.dtype_2023
    else:
        config = llama(E, layers, (heads, kv), r.randint(17, 40), V, eos, draw_rope(family, r, width), **more)
        style = {"phi3": old.phi3_2024, "smollm3": old.dtype_2023}.get(family, old.rope_2024)
        if "layer_types" in config:  # the other style removes it
            style = old.dtype_2023
    draw_kin(family, r, config, width)
    case = {"config": config, "style": maybe(r, style)}
    kind = config["rope_parameters"].get("rope_type")
    if kind == "dynamic":
        config["max_position_embeddings"] = r.choice([8, 20, 256])
    if kind == "longrope" and family == "phi3":
        config["original_max_position_embeddings"] = r.choice([16, 64])
    case["base"] = family == "llama" and config["tie_word_embeddings"] and coin(r)
    return case


WRAPPED = {"gemma3": ["gemma3_text"], "mistral3": ["mistral"], "llava": ["llama", "mistral", "qwen2"]}


def draw_wrapper(family, r):
    """A vision-language model with a random text model."""
    text = r.choice(WRAPPED[family])
    case = draw_llama(text, r)
    tied = coin(r)
    inner = case["config"] | {"model_type": text, "tie_word_embeddings": tied}
    sizes = dict(mm_tokens_per_image=4, boi_token_index=0, eoi_token_index=1) if family == "gemma3" else {}
    kind = {"gemma3": "siglip_vision_model", "mistral3": "pixtral", "llava": "clip_vision_model"}[family]
    base = tied and coin(r)
    return {"config": seen(kind, inner, **sizes), "style": case["style"] and old.in_text(case["style"]), "base": base,
            "extra": maybe(r, old.no_head if base else old.outer_head), "generation": r.choice([None, {}])}


def draw_qwen2_vl(family, r):
    E, layers, V = sizes(r)
    heads = heads_of(r, E, True)
    pairs, theta = E // heads // 2, r.choice([50.0, 10000.0, 1e6])
    cuts = sorted(r.randint(0, pairs) for _ in range(2))
    rotation = rope(theta) if coin(r) else draw_yarn(r, theta)
    eos = r.choice([V - 5, [V - 5, V - 6]])
    config = seen_qwen2(E, layers, (heads, r.choice([k for k in range(1, heads + 1) if heads % k == 0])), r.randint(17, 40),
                        V, eos, rotation, [cuts[0], cuts[1] - cuts[0], pairs - cuts[1]], tie_word_embeddings=coin(r),
                        rms_norm_eps=epsilon(r), hidden_act=r.choice(ACTIVATIONS), use_sliding_window=coin(r),
                        sliding_window=r.randint(2, 12), max_window_layers=r.randint(0, layers))
    plain = rotation["rope_type"] == "default" and not config["text_config"]["use_sliding_window"]
    return {"config": config, "style": maybe(r, old.flat_2024) if plain else None, "extra": maybe(r, old.outer_head),
            "generation": r.choice([None, {}])}


def draw_neox(family, r):
    E, layers, V = sizes(r)
    heads = heads_of(r, E, True)
    rotation = rope(r.choice([50.0, 10000.0]), partial_rotary_factor=r.choice([0.5, 0.75, 1.0]))
    if coin(r):
        rotation |= {"rope_type": "linear", "factor": round(r.uniform(1.5, 9), 2)}
    config = neox(E, layers, heads, r.randint(17, 40), V, r.randrange(V), rotation, layer_norm_eps=epsilon(r),
                  hidden_act=r.choice(ACTIVATIONS), use_parallel_residual=coin(r), attention_bias=coin(r),
                  tie_word_embeddings=coin(r))
    plain = rotation["rope_type"] == "default"
    return {"config": config, "style": maybe(r, old.neox_2022) if plain else None, "extra": maybe(r, old.neox_masks)}


def draw_other(family, r):
    """Decoders with other config keys than LLaMA's."""
    E, layers, V = sizes(r)
    heads, eos = heads_of(r, E, True), r.randrange(V)
    if family == "codegen":  # transformers splits the heads into four groups
        E, heads = max(8, E - E % 8), 4
    more = dict(layer_norm_epsilon=epsilon(r), tie_word_embeddings=coin(r))
    if family in ("gptj", "codegen"):
        config = gptj(E, layers, heads, V, eos, 2 * r.randint(1, E // heads // 2), n_inner=r.choice([None, 29]),
                      activation_function=r.choice(ACTIVATIONS), **more)
    elif family == "bloom":
        config = bloom(E, layers, heads, V, eos, **more)
    elif family == "mpt":
        config = mpt(E, layers, heads, V, eos, {"softmax_scale": r.choice([None, 0.3])}, **more)
    else:
        newer = coin(r)
        kv = r.choice([k for k in range(1, heads + 1) if heads % k == 0]) if newer else None
        config = falcon(E, layers, heads, V, eos, r.choice([50.0, 10000.0]), new_decoder_architecture=newer,
                        num_kv_heads=kv, multi_query=coin(r), parallel_attn=newer or coin(r), bias=coin(r),
                        num_ln_in_parallel_attn=r.choice([1, 2]) if newer else None, activation=r.choice(ACTIVATIONS),
                        ffn_hidden_size=r.choice([None, 31]), **more)
    return {"config": config}


def draw_kin(family, r, config, width):
    """Special keys of LLaMA-like families."""
    small = {"phi": "layer_norm_eps", "stablelm": "layer_norm_eps", "starcoder2": "norm_epsilon", "cohere": "layer_norm_eps"}
    if family in small:
        config[small[family]] = config.pop("rms_norm_eps")
    if family in ("phi", "stablelm"):  # RoPE needs an even number of columns
        parts = [p for p in (0.5, 0.75, 1.0) if int(width * p) % 2 == 0]
        config["rope_parameters"] = rope(r.choice([50.0, 10000.0]), partial_rotary_factor=r.choice(parts))
    if family == "phi":
        config["qk_layernorm"] = coin(r)
    if family == "stablelm":
        config.update({k: coin(r) for k in ("use_qkv_bias", "qk_layernorm", "use_parallel_residual")})
    if family == "cohere":
        config.update(use_qk_norm=coin(r), attention_bias=coin(r), logit_scale=r.choice([0.25, 1.0, 2.0]))
    if family == "starcoder2":
        config.update(use_bias=coin(r), sliding_window=r.choice([None, r.randint(2, 12)]))
    if family == "granite":
        config.update({k: round(r.uniform(0.3, 3), 2) for k in ("embedding_multiplier", "attention_multiplier",
                                                                "residual_multiplier", "logits_scaling") if coin(r)})


def random_case(family, r):
    """A random case of the family."""
    first = next(iter(CASES[family].values()))["cls"]
    if family in ("qwen2_vl", "qwen2_5_vl"):
        case = draw_qwen2_vl(family, r)
    elif family in WRAPPED:
        case = draw_wrapper(family, r)
    elif family in ("t5", "mt5", "umt5"):
        case = draw_t5(family, r)
    elif family == "marian" or "ConditionalGeneration" in first:
        case = draw_seq2seq(family, r)
    elif family in ("opt", "gpt_neox"):
        case = draw_opt(family, r) if family == "opt" else draw_neox(family, r)
    elif family in ("gptj", "codegen", "falcon", "bloom", "mpt"):
        case = draw_other(family, r)
    elif "CausalLM" in first:
        case = draw_llama(family, r)
    elif family == "gpt2":
        case = draw_gpt2(family, r)
    else:
        case = draw_encoder(family, r)
    return {"cls": first, **case, "dtype": r.choice(["F32", "F16", "BF16", "mixed"]),
            "files": r.choice(["one", "shards", "bin", "bin-shards"])}
