"""Older versions of config.json and tensor names, for the cases of family_recipes.py.

A style converts config.json from transformers 5 to an older version; transformers 5 reads both.
"""

import torch


MEANT = ("final_logit_softcapping", "attn_logit_softcapping", "sliding_window")


def dtype_2023(config):
    """`dtype` was `torch_dtype`, and keys were null only if that is not the default."""
    config = {k: v for k, v in config.items() if v is not None or k in MEANT}
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.41.2"
    return config


def seq2seq_2020(config):
    """Additional keys, many without meaning, and search defaults in the same file."""
    config = dtype_2023(config)
    config.update(num_hidden_layers=config["encoder_layers"], normalize_embedding=True, extra_pos_embeddings=2,
                  static_position_embeddings=False, num_beams=4, length_penalty=1.0, max_length=62, min_length=0,
                  gradient_checkpointing=False, id2label={"0": "LABEL_0", "1": "LABEL_1"})
    config.pop("transformers_version")
    return config


def marian_2020(config):
    """Marian's also banned PAD."""
    return seq2seq_2020(config) | {"bad_words_ids": [[config["pad_token_id"]]], "normalize_embedding": False,
                                   "normalize_before": False, "add_final_layer_norm": False,
                                   "static_position_embeddings": True}


def nllb(config):
    return dtype_2023(config) | {"tokenizer_class": "NllbTokenizer", "max_length": 200}


def t5_2020(config):
    """T5's first version: no keys for the feed-forward layers, because there was one kind, and
    `task_specific_params`."""
    config = dtype_2023(config)
    for key in ("feed_forward_proj", "dense_act_fn", "is_gated_act", "relative_attention_max_distance"):
        config.pop(key, None)
    config.update(n_positions=512, output_past=True, task_specific_params={
        "summarization": {"early_stopping": True, "length_penalty": 2.0, "num_beams": 4, "prefix": "summarize: "}})
    return config


def bert_2019(config):
    config = dtype_2023(config)
    for key in ("classifier_dropout", "use_cache", "tie_word_embeddings", "is_decoder", "add_cross_attention"):
        config.pop(key, None)
    config.update(position_embedding_type="absolute", gradient_checkpointing=False)
    return config


def gpt2_2019(config):
    config = dtype_2023(config)
    config.update(n_ctx=config["n_positions"], summary_type="cls_index", task_specific_params={
        "text-generation": {"do_sample": True, "max_length": 50}})
    return config


def rope_2023(config):
    """`rope_parameters` were `rope_theta` and `rope_scaling`, with its kind in `type`."""
    config = dtype_2023(config)
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    if "partial_rotary_factor" in scaling:
        config["partial_rotary_factor"] = scaling.pop("partial_rotary_factor")
    kind = scaling.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **scaling}
    config.pop("layer_types", None)
    return config


def rope_2024(config):
    """The same with `rope_type`, as in the first llama3 scaling."""
    config = rope_2023(config)
    if config["rope_scaling"]:
        config["rope_scaling"]["rope_type"] = config["rope_scaling"].pop("type")
    return config


def neox_2022(config):
    """GPT-NeoX's key names."""
    config = dtype_2023(config)
    scaling = config.pop("rope_parameters")
    return config | {"rotary_emb_base": scaling["rope_theta"], "rotary_pct": scaling["partial_rotary_factor"]}


def common_names(config):
    """DistilBERT's sizes under the names of other families."""
    names = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"}
    return {names.get(k, k): v for k, v in config.items()}


def phi3_2024(config):
    """The original maximum length was outside of the scaling."""
    config = rope_2023(config)
    original = (config["rope_scaling"] or {}).pop("original_max_position_embeddings", None)
    config["original_max_position_embeddings"] = original or config["max_position_embeddings"]
    return config


def gemma3_2025(config):
    """Two bases and a pattern instead of two kinds of `rope_parameters` and `layer_types`."""
    config = dtype_2023(config)
    kinds = config.pop("rope_parameters")
    config["rope_theta"] = kinds["full_attention"].pop("rope_theta")
    config["rope_local_base_freq"] = kinds["sliding_attention"]["rope_theta"]
    scaled = kinds["full_attention"]["rope_type"] != "default"
    config["rope_scaling"] = kinds["full_attention"] if scaled else None
    config["sliding_window_pattern"] = config.pop("layer_types").index("full_attention") + 1
    config.pop("_sliding_window_pattern", None)
    return config


def in_text(style):
    """Applies a style to the text configuration of a multimodal model."""
    return lambda config: config | {"text_config": style(config["text_config"])}


def outer_token_ids(config):
    """As in google/gemma-3-4b-it: only the token ids are outside of `text_config`, whose keys have the style of
    2025."""
    text = gemma3_2025(config["text_config"])
    return config | {"eos_token_id": text.pop("eos_token_id"), "text_config": text}


def flat_2024(config):
    """As in the first Qwen 2 VL: the text's keys at the top level, and `mrope`."""
    text = config.pop("text_config")
    sections = text["rope_parameters"]["mrope_section"]
    text = rope_2023(text) | {"rope_scaling": {"type": "mrope", "mrope_section": sections}}
    text.pop("model_type")
    return text | config


def tied_within(config):
    """As in LLaVA with Qwen 2: only the text configuration says that the output is tied."""
    config.pop("tie_word_embeddings", None)
    config["text_config"]["tie_word_embeddings"] = True
    return config


def modernbert_2024(config):
    config = dtype_2023(config)
    kinds = config.pop("rope_parameters")
    config["global_rope_theta"] = kinds["full_attention"]["rope_theta"]
    config["local_rope_theta"] = kinds["sliding_attention"]["rope_theta"]
    types = config.pop("layer_types")
    config["global_attn_every_n_layers"] = types.index("full_attention", 1)
    return config


def nomic_2024(config):
    """The keys of GPT-2, as published with its own code."""
    config = dtype_2023(config)
    names = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
             "intermediate_size": "n_inner", "max_position_embeddings": "n_positions",
             "layer_norm_eps": "layer_norm_epsilon"}
    config = {names.get(key, key): value for key, value in config.items()}
    config["rotary_emb_base"] = config.pop("rope_parameters")["rope_theta"]
    config.pop("hidden_act")
    return config | {"activation_function": "swiglu", "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
                     "prenorm": False, "use_rms_norm": False, "qkv_proj_bias": False}


def gte_2024(config):
    """As published with its own code, under the name "new"."""
    config = dtype_2023(config)
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["architectures"] = [name.replace("Gte", "New") for name in config["architectures"]]
    return config | {"model_type": "new", "position_embedding_type": "rope", "layer_norm_type": "layer_norm",
                     "rope_scaling": None, "logn_attention_scale": False, "pack_qkv": True}


# ---- Tensors ----------------------------------------------------------------------------------------------


def position_ids(tensors, config):
    """A buffer that older versions stored: integers 0, 1, 2, ..."""
    stem = next(n for n in tensors if n.endswith("embeddings.position_embeddings.weight")).rsplit("position_emb", 1)[0]
    tensors[stem + "position_ids"] = torch.arange(config.max_position_embeddings)[None]
    return tensors


def new_prefix(tensors, config):
    return {name.replace("gte.", "new.", 1) if name.startswith("gte.") else name: value
            for name, value in tensors.items()}


def gamma_beta(tensors, config):
    """The first names of BERT's norms."""
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    return {name.replace(end, old[end]) if (end := next((k for k in old if name.endswith(k)), None)) else name: value
            for name, value in tensors.items()}


def own_output(tensors, config):
    """As in MADLAD: a separate output projection, and the embedding only under the decoder's name."""
    table = tensors.pop("shared.weight")
    tensors["decoder.embed_tokens.weight"] = table
    signs = torch.where(torch.arange(table.numel()).view(table.shape) % 3 == 0, 1.1, 0.9)
    tensors["lm_head.weight"] = (table * signs).to(table.dtype)
    return tensors


def whole_t5(tensors, config):
    """The encoder with the files of the whole model; the decoder and the output are ignored."""
    for name in list(tensors):
        if name.startswith("encoder."):
            tensors["de" + name[2:]] = -tensors[name]
    tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"].clone()
    tensors["lm_head.weight"] = -tensors["shared.weight"]
    return tensors


def gpt2_masks(tensors, config):
    """The causal mask of each layer, which is not a parameter."""
    stem = "transformer." if any(n.startswith("transformer.") for n in tensors) else ""
    triangle = torch.ones(config.n_positions, config.n_positions, dtype=torch.uint8).tril()[None, None]
    for i in range(config.n_layer):
        tensors[f"{stem}h.{i}.attn.bias"] = triangle.clone()
        tensors[f"{stem}h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return tensors


def neox_masks(tensors, config):
    """The causal mask of each layer, and the RoPE frequencies."""
    for i in range(config.num_hidden_layers):
        stem = f"gpt_neox.layers.{i}.attention."
        tensors[stem + "bias"] = torch.ones(1, 1, 8, 8, dtype=torch.bool).tril()
        tensors[stem + "masked_bias"] = torch.tensor(-1e9)
        tensors[stem + "rotary_emb.inv_freq"] = torch.ones(1)
    return tensors


def codegen_masks(tensors, config):
    """The causal mask of each layer."""
    for i in range(config.n_layer):
        tensors[f"transformer.h.{i}.attn.causal_mask"] = torch.ones(1, 1, 8, 8, dtype=torch.bool).tril()
    return tensors


def outer_head(tensors, config):
    """A multimodal model's tensors as named in 2025: the head at the top level, the other parts with a common prefix.
    transformers itself still writes the older names, of a text model with its head."""
    names = {"language_model.model.": "model.language_model.", "language_model.lm_head.": "lm_head.",
             "vision_tower.": "model.vision_tower.", "multi_modal_projector.": "model.multi_modal_projector."}
    if "qwen2" in config.model_type:
        names = {"model.": "model.language_model.", "lm_head.": "lm_head.", "visual.": "model.visual."}
    return {new + name.removeprefix(old): value for name, value in tensors.items()
            for old, new in names.items() if name.startswith(old)}


def no_head(tensors, config):
    """The same for a multimodal model saved without its head."""
    return {name.removeprefix("model."): value for name, value in outer_head(tensors, config).items()}


def inverse_frequencies(tensors, config):
    """The RoPE frequencies, which are computed."""
    half = config.hidden_size // config.num_attention_heads // 2
    for i in range(config.num_hidden_layers):
        tensors[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = 10000.0 ** (-torch.arange(half) / half)
    return tensors
