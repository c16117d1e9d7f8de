/* Options that several commands have. Included by cli.h. */
#ifndef TFM_CLI_OPTIONS_H
#define TFM_CLI_OPTIONS_H

#define CLI_DEVICE(value)                                                                                              \
    {                                                                                                                  \
        'd', "device", CLI_STRING, (value), "DEVICE",                                                                  \
            "gpu, cpu, accel, an index of `tfm devices`, platform:device, or part of a name", NULL                     \
    }

/* The same for commands that use several devices. */
#define CLI_DEVICES(value)                                                                                             \
    {                                                                                                                  \
        'd', "device", CLI_STRING, (value), "DEVICE",                                                                  \
            "gpu, cpu, accel, an index of `tfm devices`, platform:device, or part of a name; all, or several "         \
            "separated by commas, share the work",                                                                     \
            NULL                                                                                                       \
    }

/* A cli_keep_options. */
#define CLI_KEEP(keep)                                                                                                 \
    {0,                                                                                                                \
     "keep",                                                                                                           \
     CLI_LIST,                                                                                                         \
     &(keep)->patterns,                                                                                                \
     "REGEX",                                                                                                          \
     "PCRE2 pattern of text to keep untranslated, besides placeholders (%1$s, {0}, {{name}}, ${city}), tags, "         \
     "URLs, e-mail addresses and emoji; repeatable",                                                                   \
     NULL},                                                                                                            \
        {0, "keep-file", CLI_STRING, &(keep)->file, "FILE", "a file of such patterns, one per line", NULL}, {          \
        0, "no-keep", CLI_FLAG, &(keep)->none, NULL, "translate placeholders, tags, URLs and emoji like other text",   \
            NULL                                                                                                       \
    }

/* An int `value` for cli_open_fleet. */
#define CLI_WORKERS(value)                                                                                             \
    {                                                                                                                  \
        0, "workers", CLI_POSITIVE, (value), "N",                                                                      \
            "batches in flight on each device, 1 to 16 (default: 2 for a small model on a large CPU, else 1)", NULL    \
    }

/* A cli_precisions `value`. */
#define CLI_PRECISION(value)                                                                                           \
    {0,                                                                                                                \
     "precision",                                                                                                      \
     CLI_CHOICE,                                                                                                       \
     &(value).weights,                                                                                                 \
     "auto|fp32|fp16|bf16|int8",                                                                                       \
     "dtype of the weights: fp32; fp16 or bf16, half the memory; int8, a quarter, with slightly different "            \
     "results (default auto: int8 if the model is stored as int8, else fp32)",                                         \
     NULL},                                                                                                            \
        CLI_ACTIVATION_PRECISION((value).activations)
#define CLI_ACTIVATION_PRECISION(value)                                                                                \
    {                                                                                                                  \
        0, "activation-precision", CLI_CHOICE, &(value), "auto|fp32",                                                  \
            "fp32: layer inputs are not rounded, which is slower (default auto: int16 with quantized weights on "      \
            "CPUs, "                                                                                                   \
            "int8 in int8 translation models, and fp16 or bf16 on matrix cores)",                                      \
            NULL                                                                                                       \
    }

/* The KV cache: an int `value` for cli_precision, and the int `size`. */
#define CLI_KV_PRECISION(value)                                                                                        \
    {                                                                                                                  \
        0, "kv-precision", CLI_CHOICE, &(value), "auto|fp32|fp16|bf16|int8",                                           \
            "dtype of the KV cache: fp32; fp16 or bf16, half the memory; int8, about a quarter, with slightly "        \
            "different results (default auto: fp32, or on a GPU the dtype of fp16 or bf16 weights)",                   \
            NULL                                                                                                       \
    }
#define CLI_CTX_SIZE(size)                                                                                             \
    {                                                                                                                  \
        0, "ctx-size", CLI_POSITIVE, &(size), "N",                                                                     \
            "maximum tokens of a prompt and its text, which bounds the KV cache (default: the model's positions)",     \
            NULL                                                                                                       \
    }

/* Options of sampling: a cli_sampling. */
#define CLI_SAMPLING(s)                                                                                                \
    {0, "sample", CLI_FLAG, &(s).sample, NULL, "sample tokens; implied by each of the next four options", NULL},       \
        {'t',                                                                                                          \
         "temperature",                                                                                                \
         CLI_DOUBLE,                                                                                                   \
         &(s).temperature,                                                                                             \
         "T",                                                                                                          \
         "divide logits by T; 0 is greedy (default: the model's own, else 1)",                                         \
         &(s).has_temperature},                                                                                        \
        {0,          "top-k", CLI_POSITIVE,                                                                            \
         &(s).top_k, "K",     "sample from the K most likely tokens (default: the model's own, else all)",             \
         NULL},                                                                                                        \
        {0,                                                                                                            \
         "top-p",                                                                                                      \
         CLI_DOUBLE,                                                                                                   \
         &(s).top_p,                                                                                                   \
         "P",                                                                                                          \
         "sample from the most likely tokens of total probability P (default: the model's own, else 1)",               \
         &(s).has_top_p},                                                                                              \
        {0,                                                                                                            \
         "min-p",                                                                                                      \
         CLI_DOUBLE,                                                                                                   \
         &(s).min_p,                                                                                                   \
         "P",                                                                                                          \
         "sample from tokens at least P times as likely as the most likely one (default: the model's own, else 0)",    \
         NULL},                                                                                                        \
        {0,                                                                                                            \
         "repetition-penalty",                                                                                         \
         CLI_DOUBLE,                                                                                                   \
         &(s).repetition_penalty,                                                                                      \
         "X",                                                                                                          \
         "penalty of tokens in prompt and text, from 1 (default: the model's own, else 1)",                            \
         &(s).has_penalty},                                                                                            \
    {                                                                                                                  \
        0, "seed", CLI_NONNEGATIVE, &(s).seed, "N", "random seed of sampling (default 0)", NULL                        \
    }

/* Options of decoding and batching: tfm_search_options `search`, tfm_text_options `text`, the penalty's formula as an
 * int `penalty`, and a cli_precisions `precision`. */
#define CLI_SEARCH(search, text, penalty, precision)                                                                   \
    {0,                                                                                                                \
     "beam-size",                                                                                                      \
     CLI_POSITIVE,                                                                                                     \
     &(search).beam_size,                                                                                              \
     "K",                                                                                                              \
     "the beam width, at most 32; 1 is greedy search (default: the model's own, else 4)",                              \
     NULL},                                                                                                            \
        {0,                                                                                                            \
         "length-penalty",                                                                                             \
         CLI_DOUBLE,                                                                                                   \
         &(search).length_penalty,                                                                                     \
         "A",                                                                                                          \
         "the exponent of the length penalty (default 0.6)",                                                           \
         &(search).has_length_penalty},                                                                                \
        {0,                                                                                                            \
         "length-norm",                                                                                                \
         CLI_CHOICE,                                                                                                   \
         &(penalty),                                                                                                   \
         "paper|hf",                                                                                                   \
         "score formula; paper: sum log p / ((5 + n) / 6)^A; hf: sum log p / n^A as in Hugging Face, with the "        \
         "model's "                                                                                                    \
         "own A unless --length-penalty is given (default paper)",                                                     \
         NULL},                                                                                                        \
        {0,                                                                                                            \
         "max-length",                                                                                                 \
         CLI_POSITIVE,                                                                                                 \
         &(search).max_length,                                                                                         \
         "N",                                                                                                          \
         "maximum tokens of a translation (default: source tokens + 50, or the model's own limit if less)",            \
         NULL},                                                                                                        \
        {0,                                                                                                            \
         "batch-tokens",                                                                                               \
         CLI_POSITIVE,                                                                                                 \
         &(text).batch_tokens,                                                                                         \
         "N",                                                                                                          \
         "maximum source tokens in a batch, with padding (default 4096)",                                              \
         NULL},                                                                                                        \
        {0,                                                                                                            \
         "truncate",                                                                                                   \
         CLI_FLAG,                                                                                                     \
         &(text).truncate,                                                                                             \
         NULL,                                                                                                         \
         "truncate lines longer than the model's "                                                                     \
         "positions",                                                                                                  \
         NULL},                                                                                                        \
        CLI_PRECISION(precision)

/* The languages of a multilingual model, and the prefix of each source text. */
#define CLI_LANGUAGES(text)                                                                                            \
    {0,                                                                                                                \
     "source-lang",                                                                                                    \
     CLI_STRING,                                                                                                       \
     &(text).source_language,                                                                                          \
     "CODE",                                                                                                           \
     "the source language by the tokenizer's code, such as de, de_DE or deu_Latn (default: from "                      \
     "tokenizer_config.json)",                                                                                         \
     NULL},                                                                                                            \
        {0,          "target-lang",                                                                                    \
         CLI_STRING, &(text).target_language,                                                                          \
         "CODE",     "the target language of a multilingual model, such as fr, fr_XX, fra_Latn or fra",                \
         NULL},                                                                                                        \
    {                                                                                                                  \
        0, "source-prefix", CLI_STRING, &(text).source_prefix, "TEXT",                                                 \
            "prefix of each source text, such as T5's \"translate English to German: \"", NULL                         \
    }

#endif
