"""The cases of each family for make_families.py; family_random.py adds random ones.

A case: `cls`, the class of transformers; `config`, the keys of its configuration; and how it is stored:

    dtype       weights in the file: "F32", "F16", "BF16", or "mixed" (matrices F16, vectors F32)
    files       "one" model.safetensors (the default), "shards" of it, "bin" (torch.save), "bin-shards"
    base        saved by the class without a head, with names that lack a prefix
    style       a function of family_styles that writes an older version of config.json
    generation  keys added to generation_config.json; None: no such file
    bias        final_logits_bias is not zero
    extra       a function of family_styles that adds or renames tensors as in older files
    unlike      the stored model computes something else than the created one, because of `extra`
    cached      False: without transformers' cache, which T5 has only for as many layers as its encoder's
    lengths     prompt lengths, instead of the default ones
    pads        True: texts contain padding, which has no position
    rules       True: searches apply all of generation_config.json, instead of the default rules
"""

import family_styles as old


def rope(theta=10000.0, kind="default", **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


def seq2seq(E, layers, heads, ffn, V, positions, activation, ids, **more):
    """The keys that BART's descendants share; pairs: encoder, decoder; ids: pad, eos, start."""
    pad, eos, start = ids
    return dict(d_model=E, encoder_layers=layers[0], decoder_layers=layers[1], encoder_attention_heads=heads[0],
                decoder_attention_heads=heads[1], encoder_ffn_dim=ffn[0], decoder_ffn_dim=ffn[1], vocab_size=V,
                max_position_embeddings=positions, activation_function=activation, pad_token_id=pad, eos_token_id=eos,
                decoder_start_token_id=start, **more)


def t5(E, d_kv, heads, layers, ffn, V, ff, buckets, distance, ids=(0, 1, 0), **more):
    return dict(d_model=E, d_kv=d_kv, num_heads=heads, num_layers=layers[0], num_decoder_layers=layers[1], d_ff=ffn,
                vocab_size=V, feed_forward_proj=ff, relative_attention_num_buckets=buckets,
                relative_attention_max_distance=distance, pad_token_id=ids[0], eos_token_id=ids[1],
                decoder_start_token_id=ids[2], **more)


def bert(E, layers, heads, ffn, V, positions, act, **more):
    return dict(hidden_size=E, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=ffn, vocab_size=V,
                max_position_embeddings=positions, hidden_act=act, **more)


def distilbert(E, layers, heads, ffn, V, positions, act, **more):
    return dict(dim=E, n_layers=layers, n_heads=heads, hidden_dim=ffn, vocab_size=V, max_position_embeddings=positions,
                activation=act, **more)


def modernbert(E, layers, heads, ffn, V, window, bases, every, **more):
    types = ["sliding_attention" if i % every else "full_attention" for i in range(layers)]
    ids = dict(pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2)
    return ids | dict(hidden_size=E, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=ffn,
                      vocab_size=V, max_position_embeddings=64, local_attention=window, layer_types=types,
                      rope_parameters={"full_attention": rope(bases[0]), "sliding_attention": rope(bases[1])}) | more


def opt(E, layers, heads, ffn, V, positions, act, ids, **more):
    return dict(hidden_size=E, num_hidden_layers=layers, num_attention_heads=heads, ffn_dim=ffn, vocab_size=V,
                max_position_embeddings=positions, activation_function=act, word_embed_proj_dim=E, pad_token_id=ids[0],
                bos_token_id=ids[1], eos_token_id=ids[1]) | more


def gpt2(E, layers, heads, V, positions, act, eos, **more):
    return dict(n_embd=E, n_layer=layers, n_head=heads, vocab_size=V, n_positions=positions, activation_function=act,
                bos_token_id=eos, eos_token_id=eos, **more)


def llama(E, layers, heads, ffn, V, eos, rope_parameters=None, positions=256, **more):
    """heads: query heads, KV heads."""
    return dict(hidden_size=E, num_hidden_layers=layers, num_attention_heads=heads[0], num_key_value_heads=heads[1],
                intermediate_size=ffn, vocab_size=V, max_position_embeddings=positions, bos_token_id=1, eos_token_id=eos,
                pad_token_id=None, rope_parameters=rope_parameters or rope()) | more


def gptj(E, layers, heads, V, eos, rotary_dim, **more):
    return dict(n_embd=E, n_layer=layers, n_head=heads, vocab_size=V, n_positions=256, rotary_dim=rotary_dim,
                bos_token_id=1, eos_token_id=eos) | more


def falcon(E, layers, heads, V, eos, theta=10000.0, **more):
    return dict(hidden_size=E, num_hidden_layers=layers, num_attention_heads=heads, vocab_size=V, bos_token_id=1,
                eos_token_id=eos, max_position_embeddings=256, rope_parameters=rope(theta)) | more


def bloom(E, layers, heads, V, eos, **more):
    return dict(hidden_size=E, n_layer=layers, n_head=heads, vocab_size=V, bos_token_id=1, eos_token_id=eos) | more


def mpt(E, layers, heads, V, eos, attention=None, **more):
    return dict(d_model=E, n_layers=layers, n_heads=heads, vocab_size=V, max_seq_len=256, bos_token_id=1,
                eos_token_id=eos, attn_config=attention or {}) | more


def neox(E, layers, heads, ffn, V, eos, rope_parameters, **more):
    return dict(hidden_size=E, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=ffn, vocab_size=V,
                max_position_embeddings=256, bos_token_id=1, eos_token_id=eos, rope_parameters=rope_parameters) | more


def gemma3(E, layers, heads, ffn, V, window, pattern, full, local, **more):
    """Each layer whose number (from 1) is a multiple of `pattern` has full attention and separate RoPE parameters."""
    types = ["sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(layers)]
    return llama(E, layers, heads, ffn, V, 1, {"full_attention": full, "sliding_attention": rope(local)},
                 sliding_window=window, layer_types=types, bos_token_id=2, pad_token_id=0) | more


def seen(kind, text, **more):
    """A vision-language model with a minimal vision tower."""
    vision = dict(model_type=kind, hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1,
                  image_size=4, patch_size=2)
    if kind != "siglip_vision_model":
        vision["head_dim" if kind == "pixtral" else "projection_dim"] = 4
    tied = {"tie_word_embeddings": text["tie_word_embeddings"]} if "tie_word_embeddings" in text else {}
    return dict(text_config=text, vision_config=vision, image_token_index=text["vocab_size"] - 1) | tied | more


def seen_qwen2(E, layers, heads, ffn, V, eos, rope_parameters, sections, **more):
    """M-RoPE: `sections` of each head's pairs rotate by time, height and width."""
    text = llama(E, layers, heads, ffn, V, eos, rope_parameters | {"mrope_section": sections}, **more)
    vision = dict(depth=1, embed_dim=8, hidden_size=E, out_hidden_size=E, intermediate_size=4, num_heads=1, patch_size=2,
                  mlp_ratio=1, fullatt_block_indexes=[0])
    tied = {"tie_word_embeddings": text.pop("tie_word_embeddings")} if "tie_word_embeddings" in text else {}
    ids = dict(image_token_id=V - 1, video_token_id=V - 2, vision_start_token_id=V - 3, vision_end_token_id=V - 4)
    return dict(text_config=text, vision_config=vision) | ids | tied


def seen_gemma3(*sizes, **more):
    tie = {"tie_word_embeddings": more.pop("tie")} if "tie" in more else {}
    text = gemma3(*sizes, **more)
    V = text["vocab_size"]
    return seen("siglip_vision_model", text, mm_tokens_per_image=4, boi_token_index=V - 2, eoi_token_index=V - 3, **tie)


BART, MBART, M2M = "BartForConditionalGeneration", "MBartForConditionalGeneration", "M2M100ForConditionalGeneration"
MARIAN, PEGASUS, T5, MT5 = "MarianMTModel", "PegasusForConditionalGeneration", "T5ForConditionalGeneration", "MT5ForConditionalGeneration"
UMT5 = "UMT5ForConditionalGeneration"
QWEN2_VL, QWEN2_5_VL = "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"
GEMMA3, MISTRAL3, LLAVA = (f"{name}ForConditionalGeneration" for name in ("Gemma3", "Mistral3", "Llava"))

CASES = {
    # ---- Encoder-decoders ---------------------------------------------------------------------------------
    "marian": {
        "scaled-f16": dict(
            cls=MARIAN, dtype="F16", generation={"bad_words_ids": [[61]], "num_beams": 6}, config=seq2seq(
                20, (2, 3), (4, 5), (30, 25), 62, 40, "swish", (61, 0, 61), scale_embedding=True,
                forced_eos_token_id=0)),
        "two-tables-bf16": dict(
            cls=MARIAN, dtype="BF16", bias=True, files="shards", generation={"bad_words_ids": [[3], [7, 9]]},
            config=seq2seq(18, (2, 2), (3, 2), (22, 27), 55, 44, "relu", (3, 5, 9), decoder_vocab_size=55,
                           share_encoder_decoder_embeddings=False, tie_word_embeddings=False, scale_embedding=False,
                           forced_eos_token_id=None)),
        "bin-2020": dict(
            cls=MARIAN, dtype="F32", files="bin", style=old.marian_2020, generation=None, config=seq2seq(
                16, (2, 2), (4, 2), (18, 20), 46, 36, "gelu", (45, 0, 45), scale_embedding=True,
                forced_eos_token_id=0)),
    },
    "bart": {
        "scaled-f16": dict(
            cls=BART, dtype="F16", bias=True, config=seq2seq(
                20, (2, 3), (4, 5), (33, 26), 67, 40, "gelu", (1, 2, 2), bos_token_id=0, scale_embedding=True,
                forced_eos_token_id=2)),
        "odd-ids-bf16": dict(
            cls=BART, dtype="BF16", files="shards", generation={"forced_bos_token_id": 11, "num_beams": 3},
            config=seq2seq(16, (2, 2), (2, 4), (24, 31), 53, 64, "relu", (52, 5, 9), bos_token_id=7,
                           scale_embedding=False, forced_eos_token_id=None)),
        "base-2020-bin": dict(
            cls=BART, dtype="F16", files="bin", base=True, style=old.seq2seq_2020, generation=None, config=seq2seq(
                18, (3, 2), (3, 6), (20, 29), 61, 48, "gelu_new", (1, 2, 2), bos_token_id=0, scale_embedding=False,
                forced_eos_token_id=2)),
        "untied-f32": dict(
            cls=BART, dtype="F32", config=seq2seq(
                16, (2, 2), (4, 2), (19, 17), 45, 40, "swish", (0, 44, 3), bos_token_id=1, scale_embedding=True,
                tie_word_embeddings=False, forced_eos_token_id=44)),
        "rules-f16": dict(
            cls=BART, dtype="F16", rules=True, lengths=[2, 5, 14, 60], config=seq2seq(
                15, (1, 2), (3, 5), (21, 17), 51, 90, "gelu", (1, 2, 2), bos_token_id=0, scale_embedding=False,
                forced_eos_token_id=2),
            generation={"repetition_penalty": 1.4, "suppress_tokens": [3, 6, 9, 22, 31, 40, 48], "early_stopping": "never",
                        "renormalize_logits": True, "no_repeat_ngram_size": 2, "min_length": 5, "eos_token_id": [2, 33],
                        "sequence_bias": [[[12], 1.5], [[20, 21], -3.0]], "forced_bos_token_id": 7}),
        "source-rules-f16": dict(
            cls=BART, dtype="F16", rules=True, lengths=[2, 5, 14, 30], config=seq2seq(
                15, (1, 2), (5, 3), (17, 21), 47, 60, "gelu", (1, 2, 2), bos_token_id=0, scale_embedding=True,
                forced_eos_token_id=None),
            generation={"encoder_repetition_penalty": 1.5, "encoder_no_repeat_ngram_size": 2, "repetition_penalty": 1.2,
                        "exponential_decay_length_penalty": [3, 1.2], "eos_token_id": [2, 33]}),
    },
    "mbart": {
        "languages-f16": dict(
            cls=MBART, dtype="F16", generation={"forced_bos_token_id": 61}, config=seq2seq(
                20, (2, 2), (4, 2), (34, 27), 66, 40, "gelu", (1, 2, 2), bos_token_id=0, scale_embedding=True,
                forced_eos_token_id=2)),
        "unscaled-bias-bf16": dict(
            cls=MBART, dtype="BF16", bias=True, files="shards", config=seq2seq(
                18, (3, 2), (2, 6), (25, 22), 58, 50, "relu", (57, 4, 8), bos_token_id=3, scale_embedding=False,
                forced_eos_token_id=None)),
        "bin-2020": dict(
            cls=MBART, dtype="F32", files="bin-shards", style=old.seq2seq_2020, generation=None, config=seq2seq(
                16, (2, 2), (2, 2), (16, 21), 50, 40, "gelu_new", (1, 2, 2), bos_token_id=0, scale_embedding=True,
                forced_eos_token_id=2)),
    },
    "m2m_100": {
        "nllb-f16": dict(
            cls=M2M, dtype="F16", generation={"forced_bos_token_id": 59, "max_length": 200}, style=old.nllb,
            config=seq2seq(20, (2, 3), (5, 4), (33, 28), 71, 40, "relu", (1, 2, 2), bos_token_id=0,
                           scale_embedding=True)),
        "pad-0-bf16": dict(
            cls=M2M, dtype="BF16", files="shards", config=seq2seq(
                18, (2, 2), (3, 2), (25, 30), 60, 36, "gelu", (0, 3, 5), bos_token_id=2, scale_embedding=False)),
        "pad-9-bin": dict(
            cls=M2M, dtype="F32", files="bin", config=seq2seq(
                16, (2, 2), (2, 4), (18, 17), 47, 33, "relu", (9, 2, 2), bos_token_id=0, scale_embedding=True)),
        "pads-within-f16": dict(
            cls=M2M, dtype="F16", rules=True, pads=True, config=seq2seq(
                15, (1, 2), (3, 5), (17, 16), 23, 50, "relu", (4, 2, 2), bos_token_id=0, scale_embedding=True)),
    },
    "t5": {
        "v1.0-f16": dict(
            cls=T5, dtype="F16", style=old.t5_2020, generation=None,
            config=t5(20, 6, 4, (2, 2), 37, 61, "relu", 32, 128, tie_word_embeddings=True, layer_norm_epsilon=1e-6)),
        "v1.1-bf16": dict(cls=T5, dtype="BF16", cached=False,
                          config=t5(18, 5, 3, (2, 3), 31, 57, "gated-gelu", 32, 128, tie_word_embeddings=False)),
        "few-buckets-shards": dict(
            cls=T5, dtype="F16", files="shards", config=t5(
                22, 4, 5, (3, 2), 26, 64, "gated-silu", 6, 9, (63, 2, 3), tie_word_embeddings=True,
                layer_norm_epsilon=1e-3)),
        "many-buckets-bin": dict(cls=T5, dtype="F16", files="bin",
                                 config=t5(16, 10, 2, (2, 2), 40, 50, "gelu", 48, 40, tie_word_embeddings=True)),
        "own-output-f16": dict(
            cls=T5, dtype="F16", style=old.dtype_2023, extra=old.own_output, unlike=True,
            config=t5(16, 5, 3, (2, 2), 23, 45, "gated-gelu", 16, 24, tie_word_embeddings=False)),
        "untied-relu-f32": dict(
            cls=T5, dtype="F32",
            config=t5(16, 4, 2, (2, 2), 21, 43, "relu", 10, 14, tie_word_embeddings=False, layer_norm_epsilon=1e-5)),
        "alone-bin": dict(cls="T5EncoderModel", dtype="F16", files="bin", extra=old.whole_t5,
                          config=t5(17, 4, 3, (2, 2), 21, 43, "relu", 10, 14)),
    },
    "mt5": {
        "gated-f16": dict(cls=MT5, dtype="F16",
                          config=t5(20, 6, 3, (2, 2), 30, 60, "gated-gelu", 32, 128, tie_word_embeddings=False)),
        "tied-bf16": dict(
            cls=MT5, dtype="BF16", files="shards",
            config=t5(18, 4, 5, (3, 2), 24, 52, "gated-gelu", 8, 12, tie_word_embeddings=True, layer_norm_epsilon=1e-4)),
        "relu-bin": dict(cls=MT5, dtype="F16", files="bin",
                         config=t5(16, 9, 2, (3, 2), 25, 48, "relu", 20, 30, tie_word_embeddings=False)),
    },
    "umt5": {
        "gated-f16": dict(cls=UMT5, dtype="F16",
                          config=t5(20, 6, 3, (2, 2), 30, 60, "gated-gelu", 32, 128, tie_word_embeddings=False)),
        "odd-buckets-shards": dict(
            cls=UMT5, dtype="BF16", files="shards",
            config=t5(18, 4, 5, (3, 2), 24, 52, "gated-silu", 9, 12, (51, 3, 6), layer_norm_epsilon=1e-4)),
        "relu-bin": dict(cls=UMT5, dtype="F32", files="bin", style=old.dtype_2023,
                         config=t5(15, 9, 2, (3, 2), 21, 48, "relu", 20, 30)),
        "alone-f16": dict(cls="UMT5EncoderModel", dtype="F16", config=t5(16, 5, 2, (2, 2), 19, 41, "gated-gelu", 12, 20)),
    },
    "pegasus": {
        "scaled-f16": dict(
            cls=PEGASUS, dtype="F16",
            config=seq2seq(20, (2, 2), (4, 5), (30, 25), 62, 40, "relu", (0, 1, 0), scale_embedding=True,
                           forced_eos_token_id=1)),
        "unscaled-bf16": dict(
            cls=PEGASUS, dtype="BF16", bias=True, files="shards",
            config=seq2seq(18, (3, 2), (3, 2), (22, 27), 55, 44, "gelu", (54, 3, 6), scale_embedding=False,
                           forced_eos_token_id=None)),
        "bin": dict(
            cls=PEGASUS, dtype="F32", files="bin", generation=None,
            config=seq2seq(16, (2, 2), (4, 2), (18, 20), 46, 36, "swish", (0, 1, 0), scale_embedding=True,
                           forced_eos_token_id=1)),
    },
    # ---- Encoders -----------------------------------------------------------------------------------------
    "bert": {
        "base-f16": dict(cls="BertModel", dtype="F16", extra=old.position_ids, config=bert(
            24, 3, 4, 37, 73, 30, "gelu", type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0)),
        "classifier-bf16": dict(
            cls="BertForSequenceClassification", dtype="BF16", style=old.bert_2019,
            config=bert(20, 2, 5, 46, 61, 24, "relu", type_vocab_size=3, layer_norm_eps=1e-3, pad_token_id=0,
                        num_labels=3)),
        "masked-shards": dict(cls="BertForMaskedLM", dtype="F16", files="shards", config=bert(
            28, 2, 2, 30, 58, 33, "gelu_new", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=57)),
        "gamma-beta-bin": dict(
            cls="BertForMaskedLM", dtype="F32", files="bin", style=old.bert_2019, extra=old.gamma_beta,
            config=bert(18, 2, 3, 25, 47, 24, "gelu", type_vocab_size=2, pad_token_id=0)),
    },
    "roberta": {
        "base-f16": dict(cls="RobertaModel", dtype="F16", config=bert(
            24, 2, 3, 41, 66, 34, "gelu", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)),
        "classifier-bf16": dict(
            cls="RobertaForSequenceClassification", dtype="BF16", files="shards",
            config=bert(20, 3, 4, 33, 59, 40, "gelu", type_vocab_size=1, layer_norm_eps=1e-4, pad_token_id=1,
                        num_labels=4)),
        "masked-bin": dict(
            cls="RobertaForMaskedLM", dtype="F16", files="bin", style=old.bert_2019, extra=old.position_ids,
            config=bert(22, 2, 2, 27, 52, 28, "relu", type_vocab_size=2, pad_token_id=3)),
    },
    "xlm-roberta": {
        "base-f16": dict(cls="XLMRobertaModel", dtype="F16", files="shards", config=bert(
            20, 3, 4, 29, 80, 34, "gelu", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)),
        "classifier-bf16": dict(
            cls="XLMRobertaForSequenceClassification", dtype="BF16",
            config=bert(26, 2, 2, 35, 63, 40, "gelu_new", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
                        num_labels=1)),
        "pads-within-bf16": dict(cls="XLMRobertaModel", dtype="BF16", pads=True, config=bert(
            18, 2, 3, 21, 11, 30, "gelu", type_vocab_size=1, pad_token_id=3)),
        "masked-f32": dict(cls="XLMRobertaForMaskedLM", dtype="F32", style=old.bert_2019, config=bert(
            16, 2, 4, 20, 56, 27, "gelu", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)),
    },
    "camembert": {
        "base-f16": dict(cls="CamembertModel", dtype="F16", config=bert(
            16, 2, 2, 27, 57, 30, "gelu", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)),
        "classifier-bf16": dict(
            cls="CamembertForSequenceClassification", dtype="BF16", files="bin",
            config=bert(18, 2, 3, 22, 49, 36, "gelu", type_vocab_size=2, pad_token_id=2, num_labels=3)),
        "masked-shards": dict(
            cls="CamembertForMaskedLM", dtype="F16", files="shards", style=old.bert_2019, extra=old.position_ids,
            config=bert(20, 2, 4, 25, 51, 29, "gelu", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)),
    },
    "electra": {
        "narrow-f16": dict(cls="ElectraModel", dtype="F16", config=bert(
            24, 2, 3, 29, 61, 30, "gelu", embedding_size=14, type_vocab_size=2, pad_token_id=0)),
        "classifier-bf16": dict(
            cls="ElectraForSequenceClassification", dtype="BF16", files="shards", style=old.bert_2019, config=bert(
                20, 2, 5, 26, 54, 26, "relu", embedding_size=20, layer_norm_eps=1e-3, pad_token_id=3, num_labels=3)),
        "masked-bin": dict(
            cls="ElectraForMaskedLM", dtype="F16", files="bin", extra=old.position_ids, config=bert(
                16, 3, 2, 22, 49, 24, "gelu_new", embedding_size=22, type_vocab_size=1, pad_token_id=0)),
        "mish-masked-f16": dict(cls="ElectraForMaskedLM", dtype="F16", config=bert(
            16, 2, 2, 21, 41, 30, "mish", embedding_size=12)),
    },
    "albert": {
        "base-f16": dict(cls="AlbertModel", dtype="F16", config=bert(
            24, 3, 3, 29, 61, 30, "gelu_new", embedding_size=12, type_vocab_size=2, pad_token_id=0)),
        "classifier-bf16": dict(
            cls="AlbertForSequenceClassification", dtype="BF16", files="bin", config=bert(
                20, 2, 5, 26, 54, 26, "gelu", embedding_size=20, layer_norm_eps=1e-3, pad_token_id=3, num_labels=4)),
        "masked-f32": dict(
            cls="AlbertForMaskedLM", dtype="F32", style=old.bert_2019, config=bert(
                16, 4, 2, 22, 49, 24, "relu", embedding_size=10, type_vocab_size=1, pad_token_id=0)),
        "groups-f32": dict(cls="AlbertForMaskedLM", dtype="F32", config=bert(
            16, 5, 2, 22, 45, 24, "gelu", embedding_size=12, pad_token_id=0, num_hidden_groups=2, inner_group_num=2)),
    },
    "mpnet": {
        "base-f16": dict(cls="MPNetModel", dtype="F16", extra=old.position_ids,
                         config=bert(24, 3, 4, 30, 70, 40, "gelu", layer_norm_eps=1e-5, pad_token_id=1)),
        "classifier-bf16": dict(
            cls="MPNetForSequenceClassification", dtype="BF16", files="bin",
            config=bert(20, 2, 5, 35, 64, 36, "relu", layer_norm_eps=1e-12, pad_token_id=1, num_labels=3)),
        "masked-f32": dict(cls="MPNetForMaskedLM", dtype="F32", files="shards",
                           config=bert(16, 2, 2, 26, 49, 30, "gelu_new", layer_norm_eps=1e-3, pad_token_id=1)),
        "pad-0-f16": dict(cls="MPNetModel", dtype="F16",
                          config=bert(16, 2, 2, 25, 20, 31, "gelu", layer_norm_eps=1e-5, pad_token_id=0)),
    },
    "distilbert": {
        "base-f16": dict(cls="DistilBertModel", dtype="F16", config=distilbert(24, 3, 4, 31, 69, 30, "gelu", pad_token_id=0)),
        "classifier-bf16": dict(
            cls="DistilBertForSequenceClassification", dtype="BF16", files="shards", style=old.common_names,
            config=distilbert(20, 2, 5, 45, 60, 26, "relu", pad_token_id=2, sinusoidal_pos_embds=True, num_labels=2)),
        "masked-bin": dict(cls="DistilBertForMaskedLM", dtype="F32", files="bin", style=old.bert_2019,
                           config=distilbert(18, 2, 2, 27, 53, 24, "gelu", pad_token_id=0)),
    },
    "modernbert": {
        "base-f16": dict(cls="ModernBertModel", dtype="F16",
                         config=modernbert(24, 4, 3, 20, 68, 8, (5000.0, 100.0), 3)),
        "masked-2024-bf16": dict(
            cls="ModernBertForMaskedLM", dtype="BF16", style=old.modernbert_2024,
            config=modernbert(20, 4, 2, 23, 57, 6, (160000.0, 10000.0), 2, attention_bias=True, mlp_bias=True,
                              norm_bias=True, norm_eps=1e-3, classifier_bias=True, pad_token_id=56)),
        "classifier-mean-bin": dict(
            cls="ModernBertForSequenceClassification", dtype="F16", files="bin",
            config=modernbert(24, 3, 6, 17, 52, 10, (300.0, 50.0), 3, hidden_activation="silu",
                              classifier_pooling="mean", classifier_activation="relu", num_labels=3)),
        "classifier-cls-f32": dict(
            cls="ModernBertForSequenceClassification", dtype="F32", files="shards",
            config=modernbert(16, 3, 2, 14, 49, 4, (1000.0, 1000.0), 2, classifier_pooling="cls", classifier_bias=True,
                              norm_bias=True, num_labels=2)),
    },
    "nomic_bert": {
        "base-f16": dict(cls="NomicBertModel", dtype="F16", config=bert(
            24, 3, 3, 29, 61, 40, "silu", type_vocab_size=2, pad_token_id=0, rope_parameters=rope(300.0))),
        "masked-bf16": dict(cls="NomicBertForMaskedLM", dtype="BF16", files="shards", config=bert(
            20, 2, 5, 27, 53, 36, "gelu", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=3,
            rope_parameters=rope(1000.0))),
        "classifier-2024-f16": dict(
            cls="NomicBertForSequenceClassification", dtype="F16", published=(old.nomic_2024, None), config=bert(
                16, 2, 2, 22, 48, 44, "silu", type_vocab_size=2, pad_token_id=0, num_labels=3,
                rope_parameters=rope(50.0))),
    },
    "gte": {
        "base-f16": dict(cls="GteModel", dtype="F16", config=bert(
            24, 3, 3, 29, 61, 40, "gelu", type_vocab_size=1, pad_token_id=1, rope_parameters=rope(300.0))),
        "masked-new-bf16": dict(
            cls="GteForMaskedLM", dtype="BF16", published=(old.gte_2024, old.new_prefix), config=bert(
                20, 2, 5, 27, 53, 36, "relu", type_vocab_size=0, layer_norm_eps=1e-5, pad_token_id=3,
                rope_parameters=rope(2000.0))),
        "classifier-bin": dict(
            cls="GteForSequenceClassification", dtype="F16", files="bin", config=bert(
                16, 2, 2, 22, 48, 44, "gelu", type_vocab_size=2, pad_token_id=0, num_labels=3,
                rope_parameters=rope(50.0))),
    },
    # ---- Decoders -----------------------------------------------------------------------------------------
    "gpt2": {
        "base-masks-f16": dict(cls="GPT2LMHeadModel", dtype="F16", base=True, style=old.gpt2_2019, extra=old.gpt2_masks,
                               config=gpt2(24, 3, 4, 71, 44, "gelu_new", 70)),
        "inner-untied-bf16": dict(
            cls="GPT2LMHeadModel", dtype="BF16", files="shards",
            config=gpt2(20, 2, 5, 63, 64, "relu", 3, n_inner=37, layer_norm_epsilon=1e-3, tie_word_embeddings=False,
                        pad_token_id=5)),
        "scales-bin": dict(
            cls="GPT2LMHeadModel", dtype="F16", files="bin", generation=None,
            config=gpt2(22, 3, 2, 55, 48, "gelu", 9, n_inner=40, scale_attn_by_inverse_layer_idx=True,
                        scale_attn_weights=False)),
        "inverse-layers-f32": dict(
            cls="GPT2LMHeadModel", dtype="F32",
            config=gpt2(16, 3, 2, 50, 45, "silu", 1, n_inner=21, scale_attn_by_inverse_layer_idx=True,
                        reorder_and_upcast_attn=True)),
    },
    "opt": {
        "before-base-f16": dict(cls="OPTForCausalLM", dtype="F16", base=True,
                                config=opt(24, 3, 4, 37, 71, 44, "relu", (1, 2))),
        "after-bf16": dict(
            cls="OPTForCausalLM", dtype="BF16", files="shards",
            config=opt(20, 2, 5, 33, 63, 50, "gelu", (5, 3), do_layer_norm_before=False, tie_word_embeddings=False)),
        "no-biases-bin": dict(
            cls="OPTForCausalLM", dtype="F16", files="bin", generation=None,
            config=opt(22, 3, 2, 40, 55, 48, "relu", (0, 9), enable_bias=False, _remove_final_layer_norm=True)),
        "quick-gelu-f16": dict(cls="OPTForCausalLM", dtype="F16", config=opt(18, 2, 3, 23, 47, 90, "quick_gelu", (1, 2))),
        "projected-after-f16": dict(cls="OPTForCausalLM", dtype="F16", config=opt(
            20, 2, 4, 30, 58, 46, "relu", (1, 2), do_layer_norm_before=False, word_embed_proj_dim=12)),
        "projected-before-bf16": dict(cls="OPTForCausalLM", dtype="BF16", files="shards", config=opt(
            18, 2, 3, 27, 51, 44, "gelu", (4, 7), word_embed_proj_dim=26, enable_bias=False, tie_word_embeddings=False)),
        "plain-norms-bin": dict(cls="OPTForCausalLM", dtype="F32", files="bin", config=opt(
            16, 2, 2, 21, 46, 44, "relu", (1, 2), layer_norm_elementwise_affine=False)),
    },
    "llama": {
        "plain-2023-f16": dict(cls="LlamaForCausalLM", dtype="F16", style=old.rope_2023, extra=old.inverse_frequencies,
                               config=llama(24, 3, (4, 4), 33, 67, 2, tie_word_embeddings=False, rms_norm_eps=1e-5)),
        "llama3-gqa-bf16": dict(
            cls="LlamaForCausalLM", dtype="BF16", files="shards", style=old.rope_2024, config=llama(
                32, 2, (4, 2), 41, 72, [2, 70, 71], rope(500000.0, "llama3", factor=8.0, low_freq_factor=1.0,
                                                         high_freq_factor=4.0, original_max_position_embeddings=16),
                tie_word_embeddings=True)),
        "llama3-new-f16": dict(
            cls="LlamaForCausalLM", dtype="F16", config=llama(
                24, 3, (6, 3), 29, 61, 4, rope(100.0, "llama3", factor=3.0, low_freq_factor=0.5, high_freq_factor=6.0,
                                               original_max_position_embeddings=60), tie_word_embeddings=True)),
        "linear-bias-bin": dict(
            cls="LlamaForCausalLM", dtype="F16", files="bin", style=old.rope_2023, generation=None, config=llama(
                20, 2, (5, 1), 34, 58, 0, rope(1000.0, "linear", factor=2.5), attention_bias=True, mlp_bias=True,
                tie_word_embeddings=False, pad_token_id=57, bos_token_id=3)),
        "wide-heads-f32": dict(
            cls="LlamaForCausalLM", dtype="F32", config=llama(
                16, 2, (2, 1), 19, 44, 43, rope(50.0), head_dim=12, hidden_act="gelu", rms_norm_eps=1e-3,
                tie_word_embeddings=True)),
        "base-narrow-f16": dict(
            cls="LlamaForCausalLM", dtype="mixed", base=True, config=llama(
                24, 3, (3, 3), 31, 60, 7, rope(10000.0, "linear", factor=4.0), head_dim=6, mlp_bias=True,
                tie_word_embeddings=True)),
        "relu2-f16": dict(cls="LlamaForCausalLM", dtype="F16", config=llama(
            20, 2, (5, 1), 23, 49, 5, rope(300.0), hidden_act="relu2", tie_word_embeddings=True)),
    },
    "mistral": {
        "window-f16": dict(cls="MistralForCausalLM", dtype="F16", config=llama(
            24, 3, (4, 2), 35, 66, 2, sliding_window=7, tie_word_embeddings=False)),
        "window-2023-bf16": dict(
            cls="MistralForCausalLM", dtype="BF16", files="shards", style=old.rope_2023, config=llama(
                20, 2, (5, 5), 28, 59, 2, rope(1000000.0), sliding_window=4, tie_word_embeddings=False,
                rms_norm_eps=1e-4)),
        "no-window-bin": dict(
            cls="MistralForCausalLM", dtype="F32", files="bin", config=llama(
                16, 2, (4, 1), 22, 47, 46, rope(200.0), sliding_window=None, head_dim=6, tie_word_embeddings=True)),
    },
    "ministral": {
        "windows-f16": dict(cls="MinistralForCausalLM", dtype="F16", config=llama(
            24, 4, (4, 2), 33, 61, 2, rope(1000000.0), sliding_window=6, head_dim=6, tie_word_embeddings=False,
            layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"])),
        "all-windows-bf16": dict(
            cls="MinistralForCausalLM", dtype="BF16", files="shards", config=llama(
                20, 2, (5, 5), 26, 57, 9, rope(5000.0), sliding_window=4, head_dim=4, tie_word_embeddings=True,
                rms_norm_eps=1e-4)),
        "no-windows-bin": dict(
            cls="MinistralForCausalLM", dtype="F32", files="bin", config=llama(
                16, 3, (4, 1), 22, 47, 46, rope(200.0), sliding_window=5, head_dim=6, tie_word_embeddings=False,
                layer_types=["full_attention", "full_attention", "full_attention"])),
    },
    "qwen2": {
        "windows-f16": dict(cls="Qwen2ForCausalLM", dtype="F16", config=llama(
            24, 4, (4, 2), 30, 68, 3, rope(1000000.0), use_sliding_window=True, sliding_window=6, max_window_layers=2,
            tie_word_embeddings=True)),
        "plain-2024-bf16": dict(
            cls="Qwen2ForCausalLM", dtype="BF16", files="shards", style=old.rope_2023, config=llama(
                20, 3, (5, 1), 27, 62, [61, 4], use_sliding_window=False, sliding_window=5, max_window_layers=1,
                tie_word_embeddings=False, pad_token_id=61)),
        "all-windows-bin": dict(
            cls="Qwen2ForCausalLM", dtype="F32", files="bin", style=old.dtype_2023, config=llama(
                16, 2, (2, 2), 23, 51, 5, rope(300.0, "linear", factor=2.0), use_sliding_window=True, sliding_window=3,
                max_window_layers=0, tie_word_embeddings=True, rms_norm_eps=1e-3)),
        "uneven-f16": dict(cls="Qwen2ForCausalLM", dtype="F16", config=llama(
            27, 2, (4, 2), 23, 52, 5, rope(300.0), tie_word_embeddings=True)),
    },
    "qwen3": {
        "wide-heads-f16": dict(cls="Qwen3ForCausalLM", dtype="F16", config=llama(
            24, 3, (4, 2), 29, 65, 3, rope(1000000.0), head_dim=8, tie_word_embeddings=True)),
        "bias-2025-bf16": dict(
            cls="Qwen3ForCausalLM", dtype="BF16", files="shards", style=old.rope_2024, config=llama(
                20, 2, (5, 1), 33, 60, [59, 2], rope(5000.0), head_dim=6, attention_bias=True, rms_norm_eps=1e-3,
                tie_word_embeddings=False)),
        "windows-bin": dict(
            cls="Qwen3ForCausalLM", dtype="F32", files="bin", config=llama(
                16, 3, (2, 2), 18, 48, 6, rope(400.0), head_dim=4, use_sliding_window=True, sliding_window=5,
                max_window_layers=1, tie_word_embeddings=True)),
        "rules-f16": dict(
            cls="Qwen3ForCausalLM", dtype="F16", rules=True, lengths=[1, 3, 9, 20, 70], config=llama(
                15, 2, (3, 1), 17, 45, [14, 25], rope(500.0), head_dim=6, pad_token_id=13, tie_word_embeddings=True),
            generation={"repetition_penalty": 1.6, "suppress_tokens": [2, 5, 8, 20, 25, 31, 40], "early_stopping": True,
                        "renormalize_logits": True, "no_repeat_ngram_size": 3, "min_new_tokens": 4,
                        "bad_words_ids": [[7], [9, 11]], "begin_suppress_tokens": [1, 17], "length_penalty": 0.6}),
        "source-rules-bf16": dict(
            cls="Qwen3ForCausalLM", dtype="BF16", rules=True, lengths=[1, 3, 9, 20], config=llama(
                15, 2, (3, 3), 18, 43, [14, 5, 25, 33, 8], rope(500.0), head_dim=4, pad_token_id=13),
            generation={"encoder_repetition_penalty": 0.8, "encoder_no_repeat_ngram_size": 3, "min_length": 14,
                        "exponential_decay_length_penalty": [5, 1.1], "forced_eos_token_id": [25, 14]}),
    },
    "gemma": {
        "wide-heads-f16": dict(cls="GemmaForCausalLM", dtype="F16", config=llama(
            20, 2, (4, 1), 31, 61, 1, head_dim=8, pad_token_id=0, bos_token_id=2)),
        "2024-gelu-bf16": dict(
            cls="GemmaForCausalLM", dtype="BF16", files="shards", style=old.rope_2023, config=llama(
                16, 2, (2, 2), 25, 54, [1, 53], rope(700.0), head_dim=6, hidden_act="gelu", rms_norm_eps=1e-3,
                pad_token_id=0, bos_token_id=2)),
        "bias-bin": dict(
            cls="GemmaForCausalLM", dtype="F16", files="bin", generation=None, config=llama(
                18, 2, (3, 3), 22, 47, 5, rope(50.0, "linear", factor=3.0), head_dim=4, attention_bias=True,
                pad_token_id=0, bos_token_id=2)),
    },
    "gemma2": {
        "caps-f16": dict(cls="Gemma2ForCausalLM", dtype="F16", config=llama(
            24, 4, (4, 2), 26, 67, 1, head_dim=8, sliding_window=6, query_pre_attn_scalar=20,
            attn_logit_softcapping=5.0, final_logit_softcapping=8.0, pad_token_id=0, bos_token_id=2)),
        "one-cap-2024-bf16": dict(
            cls="Gemma2ForCausalLM", dtype="BF16", files="shards", style=old.rope_2023, config=llama(
                20, 3, (5, 1), 31, 58, [1, 55], rope(500.0), head_dim=4, sliding_window=4, query_pre_attn_scalar=3,
                attn_logit_softcapping=2.0, final_logit_softcapping=None, pad_token_id=0, bos_token_id=2,
                rms_norm_eps=1e-3)),
        "no-caps-bin": dict(
            cls="Gemma2ForCausalLM", dtype="F32", files="bin", config=llama(
                16, 2, (2, 2), 18, 46, 3, head_dim=10, sliding_window=9, query_pre_attn_scalar=10,
                attn_logit_softcapping=None, final_logit_softcapping=3.0, hidden_activation="gelu", attention_bias=True,
                pad_token_id=0, bos_token_id=2)),
    },
    "gemma3_text": {
        "linear-f16": dict(cls="Gemma3ForCausalLM", dtype="F16", config=gemma3(
            24, 4, (4, 2), 25, 66, 6, 3, rope(1000000.0, "linear", factor=8.0), 10000.0, head_dim=8,
            query_pre_attn_scalar=8)),
        "2025-bf16": dict(
            cls="Gemma3ForCausalLM", dtype="BF16", files="shards", style=old.gemma3_2025, generation={"eos_token_id": [1, 50]},
            config=gemma3(20, 4, (2, 1), 27, 60, 4, 2, rope(5000.0), 100.0, head_dim=10, query_pre_attn_scalar=14,
                          rms_norm_eps=1e-4)),
        "2025-linear-bin": dict(
            cls="Gemma3ForCausalLM", dtype="F32", files="bin", style=old.gemma3_2025,
            config=gemma3(16, 3, (2, 2), 17, 47, 5, 3, rope(800.0, "linear", factor=2.0), 60.0, head_dim=6,
                          query_pre_attn_scalar=6, attention_bias=True, final_logit_softcapping=4.0)),
        "encoder-f16": dict(
            cls="Gemma3TextModel", dtype="F16", config=gemma3(
                24, 4, (4, 2), 25, 66, 7, 3, rope(5000.0), 100.0, head_dim=8, query_pre_attn_scalar=8,
                use_bidirectional_attention=True)),
    },
    # ---- Decoders within vision-language models -------------------------------------------------------------
    "gemma3": {
        "linear-f16": dict(cls=GEMMA3, dtype="F16", config=seen_gemma3(
            24, 4, (4, 2), 25, 66, 6, 3, rope(1000000.0, "linear", factor=8.0), 10000.0, head_dim=8,
            query_pre_attn_scalar=8)),
        "2025-bf16": dict(
            cls=GEMMA3, dtype="BF16", style=old.outer_token_ids, extra=old.outer_head, generation=None,
            config=seen_gemma3(20, 4, (2, 1), 27, 60, 4, 2, rope(5000.0, "linear", factor=3.0), 100.0, head_dim=10,
                               query_pre_attn_scalar=14, rms_norm_eps=1e-4, eos_token_id=[1, 50])),
        "untied-capped-bin": dict(
            cls=GEMMA3, dtype="F32", files="bin", generation=None, config=seen_gemma3(
                16, 3, (2, 2), 17, 47, 5, 3, rope(800.0), 60.0, head_dim=6, query_pre_attn_scalar=6, eos_token_id=7,
                attention_bias=True, final_logit_softcapping=1.0, tie=False)),
        "base-shards": dict(
            cls=GEMMA3, dtype="F16", files="shards", base=True, generation={"eos_token_id": [3, 9]}, config=seen_gemma3(
                20, 2, (5, 1), 22, 51, 7, 2, rope(500.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                  original_max_position_embeddings=16), 200.0, head_dim=4,
                query_pre_attn_scalar=9)),
    },
    "mistral3": {
        "untied-f16": dict(cls=MISTRAL3, dtype="F16", files="shards", config=seen("pixtral", llama(
            24, 2, (4, 2), 35, 66, 2, rope(1000000.0), sliding_window=None, head_dim=8, model_type="mistral",
            tie_word_embeddings=False))),
        "window-2025-bf16": dict(
            cls=MISTRAL3, dtype="BF16", extra=old.outer_head, style=old.in_text(old.rope_2023), generation=None,
            config=seen("pixtral", llama(20, 2, (5, 5), 28, 59, 9, rope(10000.0), sliding_window=4, model_type="mistral",
                                         rms_norm_eps=1e-4, tie_word_embeddings=False))),
        "tied-bin": dict(
            cls=MISTRAL3, dtype="F32", files="bin", config=seen("pixtral", llama(
                16, 2, (4, 1), 22, 47, 46, rope(200.0), sliding_window=6, head_dim=6, model_type="mistral"))),
    },
    "llava": {
        "llama-f16": dict(cls=LLAVA, dtype="F16", config=seen("clip_vision_model", llama(
            24, 3, (4, 4), 33, 67, 2, rope(), model_type="llama", rms_norm_eps=1e-5))),
        "mistral-2023-bf16": dict(
            cls=LLAVA, dtype="BF16", extra=old.outer_head, style=old.in_text(old.rope_2023), generation=None,
            config=seen("clip_vision_model", llama(20, 2, (2, 1), 26, 61, 5, rope(100.0), sliding_window=5,
                                                   model_type="mistral"))),
        "qwen2-tied-within-bin": dict(
            cls=LLAVA, dtype="F32", base=True, extra=old.no_head, files="bin", style=old.tied_within, config=seen("siglip_vision_model", llama(
                16, 3, (2, 1), 23, 51, 5, rope(300.0, "linear", factor=2.0), use_sliding_window=True, sliding_window=3,
                max_window_layers=1, model_type="qwen2", tie_word_embeddings=True))),
    },
    "qwen2_vl": {
        "new-f16": dict(cls=QWEN2_VL, dtype="F16", extra=old.outer_head, config=seen_qwen2(
            24, 3, (4, 2), 30, 68, 3, rope(1000000.0), [1, 1, 1])),
        "flat-2024-bf16": dict(
            cls=QWEN2_VL, dtype="BF16", files="shards", style=old.flat_2024, config=seen_qwen2(
                32, 2, (4, 1), 27, 62, [61, 4], rope(500.0), [2, 1, 1], tie_word_embeddings=True, pad_token_id=61)),
        "windows-bin": dict(
            cls=QWEN2_VL, dtype="F32", files="bin", config=seen_qwen2(
                20, 3, (2, 1), 23, 51, 5, rope(300.0, "yarn", factor=2.0, original_max_position_embeddings=128), [1, 2, 2],
                use_sliding_window=True, sliding_window=3, max_window_layers=1, rms_norm_eps=1e-3)),
    },
    "qwen2_5_vl": {
        "flat-2025-bf16": dict(
            cls=QWEN2_5_VL, dtype="BF16", files="shards", style=old.flat_2024, generation=None, config=seen_qwen2(
                24, 2, (3, 1), 25, 57, 8, rope(1000000.0), [1, 1, 2])),
        "tied-f16": dict(cls=QWEN2_5_VL, dtype="F16", extra=old.outer_head, config=seen_qwen2(
            20, 3, (5, 5), 27, 63, [2, 60], rope(40.0), [1, 0, 1], tie_word_embeddings=True)),
        "yarn-bin": dict(
            cls=QWEN2_5_VL, dtype="F32", files="bin", config=seen_qwen2(
                16, 2, (2, 1), 21, 49, 5, rope(5000.0, "yarn", factor=4.0, original_max_position_embeddings=64),
                [2, 1, 1], rms_norm_eps=1e-4)),
    },
    "phi3": {
        "partial-f16": dict(cls="Phi3ForCausalLM", dtype="F16", config=llama(
            32, 2, (4, 2), 30, 66, 2, rope(10000.0, partial_rotary_factor=0.5), sliding_window=6, pad_token_id=0,
            tie_word_embeddings=False, original_max_position_embeddings=256)),
        "longrope-short-2024-bf16": dict(
            cls="Phi3ForCausalLM", dtype="BF16", files="shards", style=old.phi3_2024, config=llama(
                24, 3, (3, 3), 28, 60, [2, 58, 59], rope(10000.0, "longrope", short_factor=[1.0, 1.2, 1.7, 3.0],
                                                         long_factor=[1.5, 2.5, 6.0, 11.0]),
                sliding_window=None, pad_token_id=59, tie_word_embeddings=True, original_max_position_embeddings=64)),
        "longrope-long-f16": dict(
            cls="Phi3ForCausalLM", dtype="F16", lengths=[17, 18, 20, 21, 22, 24], config=llama(
                24, 2, (4, 1), 31, 55, 3, rope(500.0, "longrope", short_factor=[1.0, 1.3, 2.0],
                                               long_factor=[1.4, 2.2, 5.0]),
                sliding_window=9, pad_token_id=0, tie_word_embeddings=True, original_max_position_embeddings=16)),
        "longrope-crossing-bin": dict(
            cls="Phi3ForCausalLM", dtype="F32", files="bin", config=llama(
                16, 2, (2, 2), 20, 46, 4, rope(1000.0, "longrope", short_factor=[1.0, 1.1], long_factor=[2.0, 4.0],
                                               partial_rotary_factor=0.5),
                sliding_window=None, pad_token_id=0, tie_word_embeddings=False, original_max_position_embeddings=20)),
        "uneven-f16": dict(cls="Phi3ForCausalLM", dtype="F16", config=llama(
            26, 2, (4, 2), 22, 51, 3, rope(200.0), sliding_window=None, pad_token_id=0, tie_word_embeddings=True)),
    },
    "smollm3": {
        "nope-f16": dict(cls="SmolLM3ForCausalLM", dtype="F16", config=llama(
            24, 4, (4, 2), 29, 63, 2, rope(2000000.0), no_rope_layer_interval=3, pad_token_id=0,
            tie_word_embeddings=True)),
        "list-bf16": dict(
            cls="SmolLM3ForCausalLM", dtype="BF16", files="shards", style=old.dtype_2023, config=llama(
                20, 3, (5, 5), 31, 57, 4, rope(900.0), no_rope_layers=[0, 1, 1], attention_bias=True, pad_token_id=0,
                tie_word_embeddings=False)),
        "windows-bin": dict(
            cls="SmolLM3ForCausalLM", dtype="F32", files="bin", config=llama(
                16, 3, (2, 1), 20, 48, 5, rope(70.0), no_rope_layer_interval=2, use_sliding_window=True,
                sliding_window=5, mlp_bias=True, pad_token_id=0, tie_word_embeddings=True, rms_norm_eps=1e-3)),
    },
    "gpt_neox": {
        "parallel-2022-f16": dict(
            cls="GPTNeoXForCausalLM", dtype="F16", style=old.neox_2022, extra=old.neox_masks,
            config=neox(24, 3, 3, 33, 65, 0, rope(10000.0, partial_rotary_factor=0.25))),
        "serial-tied-bf16": dict(
            cls="GPTNeoXForCausalLM", dtype="BF16", files="shards",
            config=neox(20, 2, 5, 29, 58, [57, 3], rope(500.0, partial_rotary_factor=1.0), use_parallel_residual=False,
                        hidden_act="relu", tie_word_embeddings=True, layer_norm_eps=1e-3)),
        "odd-part-bin": dict(
            cls="GPTNeoXForCausalLM", dtype="F16", files="bin", generation=None,
            config=neox(18, 2, 3, 24, 47, 5, rope(100.0, "linear", factor=2.0, partial_rotary_factor=0.5),
                        attention_bias=False, hidden_act="gelu_new")),
    },
    "phi": {
        "half-f16": dict(cls="PhiForCausalLM", dtype="F16", config=llama(
            24, 3, (3, 3), 31, 63, 2, rope(10000.0, partial_rotary_factor=0.5), pad_token_id=0)),
        "grouped-bf16": dict(
            cls="PhiForCausalLM", dtype="BF16", files="shards", style=old.rope_2023, config=llama(
                20, 2, (2, 1), 26, 55, 54, rope(300.0, partial_rotary_factor=0.4), hidden_act="relu", layer_norm_eps=1e-3)),
        "linear-bin": dict(
            cls="PhiForCausalLM", dtype="F16", files="bin", generation=None, config=llama(
                16, 2, (2, 2), 21, 46, 4, rope(50.0, "linear", factor=3.0, partial_rotary_factor=0.75), pad_token_id=0,
                tie_word_embeddings=True)),
        "head-norms-f16": dict(cls="PhiForCausalLM", dtype="F16", config=llama(
            20, 2, (5, 1), 23, 52, 2, rope(10000.0, partial_rotary_factor=0.5), qk_layernorm=True)),
    },
    "starcoder2": {
        "window-f16": dict(cls="Starcoder2ForCausalLM", dtype="F16", config=llama(
            24, 3, (4, 2), 35, 66, 2, sliding_window=6, norm_epsilon=1e-5)),
        "no-biases-bf16": dict(
            cls="Starcoder2ForCausalLM", dtype="BF16", files="shards", style=old.rope_2023, config=llama(
                20, 2, (5, 1), 28, 57, 3, rope(100000.0), use_bias=False, tie_word_embeddings=False, norm_epsilon=1e-3)),
        "yarn-bin": dict(
            cls="Starcoder2ForCausalLM", dtype="F16", files="bin", generation=None, config=llama(
                16, 2, (2, 2), 22, 47, 46, rope(200.0, "yarn", factor=4.0, original_max_position_embeddings=16),
                hidden_act="gelu")),
    },
    "stablelm": {
        "quarter-f16": dict(cls="StableLmForCausalLM", dtype="F16", config=llama(
            24, 3, (3, 3), 30, 64, 2, rope(10000.0, partial_rotary_factor=0.25), pad_token_id=0)),
        "biases-2024-bf16": dict(
            cls="StableLmForCausalLM", dtype="BF16", files="shards", style=old.rope_2023, config=llama(
                20, 2, (5, 1), 27, 56, 3, rope(700.0, partial_rotary_factor=0.5), use_qkv_bias=True, layer_norm_eps=1e-3)),
        "tied-bin": dict(
            cls="StableLmForCausalLM", dtype="F16", files="bin", generation=None, config=llama(
                16, 2, (4, 2), 23, 49, 5, rope(90.0, partial_rotary_factor=1.0), hidden_act="gelu",
                tie_word_embeddings=True)),
        "head-norms-f16": dict(cls="StableLmForCausalLM", dtype="F16", config=llama(
            24, 2, (3, 1), 26, 60, 2, rope(10000.0, partial_rotary_factor=0.25), qk_layernorm=True)),
        "parallel-bf16": dict(cls="StableLmForCausalLM", dtype="BF16", config=llama(
            20, 2, (5, 5), 27, 52, 3, rope(500.0, partial_rotary_factor=0.5), qk_layernorm=True,
            use_parallel_residual=True, layer_norm_eps=1e-3)),
        "parallel-bin": dict(
            cls="StableLmForCausalLM", dtype="F16", files="bin", generation=None, config=llama(
                16, 2, (4, 2), 21, 47, 5, rope(90.0, partial_rotary_factor=1.0), use_parallel_residual=True,
                use_qkv_bias=True)),
    },
    "granite": {
        "multipliers-f16": dict(cls="GraniteForCausalLM", dtype="F16", config=llama(
            24, 3, (4, 2), 30, 64, 0, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4,
            logits_scaling=2.5, tie_word_embeddings=True)),
        "one-multiplier-bf16": dict(
            cls="GraniteForCausalLM", dtype="BF16", files="shards", style=old.rope_2024, config=llama(
                20, 2, (5, 1), 27, 56, [3, 9], rope(600.0), residual_multiplier=0.7, rms_norm_eps=1e-3,
                tie_word_embeddings=False)),
        "biases-bin": dict(
            cls="GraniteForCausalLM", dtype="F16", files="bin", generation=None, config=llama(
                16, 2, (2, 2), 22, 48, 4, rope(80.0), attention_bias=True, mlp_bias=True, attention_multiplier=0.5,
                logits_scaling=0.5, tie_word_embeddings=True)),
    },
    "olmo2": {
        "grouped-f16": dict(cls="Olmo2ForCausalLM", dtype="F16", config=llama(
            24, 3, (4, 2), 30, 64, 2, rope(500000.0), pad_token_id=0)),
        "biases-bf16": dict(
            cls="Olmo2ForCausalLM", dtype="BF16", files="shards", style=old.rope_2024, config=llama(
                20, 2, (5, 1), 27, 57, 3, rope(400.0), attention_bias=True, rms_norm_eps=1e-3, pad_token_id=0)),
        "llama3-bin": dict(
            cls="Olmo2ForCausalLM", dtype="F16", files="bin", generation=None, config=llama(
                16, 2, (2, 2), 22, 48, 5, rope(900.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                               original_max_position_embeddings=16), pad_token_id=0,
                tie_word_embeddings=True)),
        "uneven-f16": dict(cls="Olmo2ForCausalLM", dtype="F16", config=llama(
            19, 2, (4, 2), 23, 50, 4, rope(500.0), pad_token_id=0, tie_word_embeddings=True)),
    },
    "gptj": {
        "part-f16": dict(cls="GPTJForCausalLM", dtype="F16", config=gptj(24, 3, 3, 65, 2, 4)),
        "whole-tied-bf16": dict(
            cls="GPTJForCausalLM", dtype="BF16", files="shards",
            config=gptj(20, 2, 5, 58, [57, 3], 4, n_inner=29, activation_function="relu", tie_word_embeddings=True,
                        layer_norm_epsilon=1e-3)),
        "inner-bin": dict(
            cls="GPTJForCausalLM", dtype="F32", files="bin", generation=None,
            config=gptj(24, 2, 2, 47, 5, 10, n_inner=33, activation_function="gelu")),
    },
    "codegen": {
        "three-heads-f16": dict(cls="CodeGenForCausalLM", dtype="F16", config=gptj(24, 3, 3, 65, 2, 4)),
        "tied-bf16": dict(
            cls="CodeGenForCausalLM", dtype="BF16", files="shards",
            config=gptj(20, 2, 5, 58, [57, 3], 4, n_inner=29, activation_function="relu", tie_word_embeddings=True,
                        layer_norm_epsilon=1e-3)),
        "masks-bin": dict(
            cls="CodeGenForCausalLM", dtype="F32", files="bin", generation=None, extra=old.codegen_masks,
            config=gptj(32, 2, 4, 47, 5, 6, n_inner=33, activation_function="gelu")),
    },
    "falcon": {
        "7b-f16": dict(cls="FalconForCausalLM", dtype="F16", config=falcon(24, 3, 3, 64, 2)),
        "40b-bf16": dict(
            cls="FalconForCausalLM", dtype="BF16", files="shards",
            config=falcon(24, 2, 6, 57, [56, 3], 500.0, new_decoder_architecture=True, num_kv_heads=2, bias=True,
                          layer_norm_epsilon=1e-3, ffn_hidden_size=31, tie_word_embeddings=False)),
        "11b-bin": dict(
            cls="FalconForCausalLM", dtype="F16", files="bin", generation=None,
            config=falcon(16, 2, 4, 48, 4, 90.0, new_decoder_architecture=True, num_kv_heads=2, activation="relu",
                          num_ln_in_parallel_attn=1)),
        "serial-f16": dict(
            cls="FalconForCausalLM", dtype="F16",
            config=falcon(20, 2, 5, 52, 3, multi_query=False, parallel_attn=False, bias=True, activation="gelu_new")),
    },
    "bloom": {
        "four-heads-f16": dict(cls="BloomForCausalLM", dtype="F16", config=bloom(24, 3, 4, 63, 2)),
        "three-heads-bf16": dict(
            cls="BloomForCausalLM", dtype="BF16", files="shards",
            config=bloom(24, 2, 3, 58, [57, 3], layer_norm_epsilon=1e-3, tie_word_embeddings=False)),
        "six-heads-bin": dict(
            cls="BloomForCausalLM", dtype="F16", files="bin", generation=None, config=bloom(18, 2, 6, 47, 5)),
    },
    "mpt": {
        "two-heads-f16": dict(cls="MptForCausalLM", dtype="F16", config=mpt(24, 3, 2, 64, 2)),
        "scaled-bf16": dict(
            cls="MptForCausalLM", dtype="BF16", files="shards",
            config=mpt(20, 2, 5, 57, [56, 3], {"softmax_scale": 0.4}, layer_norm_epsilon=1e-3)),
        "untied-bin": dict(
            cls="MptForCausalLM", dtype="F32", files="bin", generation=None,
            config=mpt(18, 2, 3, 48, 4, tie_word_embeddings=False)),
    },
    "cohere": {
        "grouped-f16": dict(cls="CohereForCausalLM", dtype="F16", config=llama(
            24, 3, (4, 2), 30, 64, 2, rope(10000.0), pad_token_id=0, logit_scale=0.25, tie_word_embeddings=True)),
        "head-norms-bf16": dict(
            cls="CohereForCausalLM", dtype="BF16", files="shards", style=old.rope_2024, config=llama(
                24, 2, (6, 2), 27, 57, 3, rope(400.0), use_qk_norm=True, layer_norm_eps=1e-3, pad_token_id=0,
                tie_word_embeddings=True)),
        "biases-bin": dict(
            cls="CohereForCausalLM", dtype="F16", files="bin", generation=None, config=llama(
                16, 2, (2, 2), 22, 48, 5, rope(90.0, "linear", factor=2.0), attention_bias=True, logit_scale=1.0,
                pad_token_id=0, tie_word_embeddings=False)),
    },
}
