"""Adds long texts, odd sizes and generation rules to a case of family_random.py: `lengthen(case, family, rng)`."""

DECODER_LENGTHS = [1, 3, 33, 70, 130, 201]
SOURCE_LENGTHS = [2, 5, 18, 60, 120, 190]
ENCODER_LENGTHS = [180, 1, 5, 90, 33, 150]
LONGEST = 330
IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
ROPE_KEYS = ("rope_parameters", "rotary_pct", "rotary_dim", "rope_theta", "rope_scaling")


def coin(r, chance=0.35):
    return r.random() < chance


def draw_rules(r, config, prompted):
    """Keys of generation_config.json that transformers applies."""
    V, pad = config["vocab_size"], config.get("pad_token_id")
    ends = config["eos_token_id"] if isinstance(config["eos_token_id"], list) else [config["eos_token_id"]]
    free = [i for i in range(V) if i not in (pad, *ends, config.get("decoder_start_token_id"))]
    some = {
        "eos_token_id": ends + r.sample(free, 2),
        "no_repeat_ngram_size": r.randint(2, 4),
        "repetition_penalty": r.choice([0.8, 1.1, 1.3, 1.8]),
        "min_new_tokens": r.randint(2, 9),
        "bad_words_ids": [r.sample(free, n) for n in (1, 1, 2, 3)],
        "suppress_tokens": r.sample(free, 2),
        "begin_suppress_tokens": r.sample(free, 3),
        "sequence_bias": [[r.sample(free, n), round(r.uniform(-3, 3), 2)] for n in (1, 2, 2)],
        "length_penalty": r.choice([0.0, 0.6, 2.0, -0.5]),
        "early_stopping": r.choice([True, "never"]),
        "renormalize_logits": True,
        "encoder_repetition_penalty": r.choice([0.8, 1.2, 1.5]),
        "encoder_no_repeat_ngram_size": r.randint(2, 4),
        "exponential_decay_length_penalty": [r.randint(0, 9), r.choice([0.9, 1.05, 1.3])],
        "min_length": r.randint(2, 40 if prompted else 9),
        "forced_eos_token_id": ends[0],
    }
    if not prompted:
        some |= {"forced_bos_token_id": r.choice(free)}
    return {key: value for key, value in some.items() if coin(r)}


def draw_sizes(r, config):
    """An odd width, without RoPE; one head, or heads of size 1; a single layer."""
    heads = [k for k in ("encoder_attention_heads", "decoder_attention_heads", "num_attention_heads", "n_head", "n_heads")
             if k in config]
    width = next((k for k in ("d_model", "n_embd", "hidden_size", "dim") if k in config), None)
    if coin(r, 0.5) and heads and "d_kv" not in config and not any(k in config for k in ROPE_KEYS):
        config[width] = r.choice([15, 21, 25, 27, 33])
        for key in heads:
            config[key] = r.choice([h for h in range(1, config[width] + 1) if config[width] % h == 0])
        if "word_embed_proj_dim" in config:
            config["word_embed_proj_dim"] = config[width]
    for key in ("num_hidden_layers", "n_layer", "n_layers"):
        if key in config and "layer_types" not in config and "no_rope_layers" not in config and coin(r, 0.2):
            config[key] = 1


def lengthen(case, family, r):
    config, wraps = case["config"].get("text_config", case["config"]), "text_config" in case["config"]
    encodes = not ("CausalLM" in case["cls"] or "LMHead" in case["cls"] or wraps)
    translates = "ConditionalGeneration" in case["cls"] and not wraps or case["cls"].endswith("MTModel")
    rotation = config.get("rope_parameters") or {}
    for key in ("max_position_embeddings", "n_positions"):
        if key in config and rotation.get("rope_type") != "dynamic":
            config[key] = LONGEST + r.randint(0, 9)
    if family != "distilbert" or not config.get("sinusoidal_pos_embds"):
        draw_sizes(r, config)
    case["lengths"] = ENCODER_LENGTHS if encodes and not translates else SOURCE_LENGTHS if translates else DECODER_LENGTHS
    if translates or not encodes:
        rules = (case.get("generation") or {}) | draw_rules(r, config, not translates)
        if case.get("base"):  # it has no token ids in generation_config.json
            rules = {k: config[k] for k in IDS if config.get(k) is not None} | rules
        case["generation"] = rules
        case["rules"] = True
    return case
