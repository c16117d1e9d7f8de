/* Options that several commands have. Included by cli.h. */
#ifndef TFM_CLI_OPTIONS_H
#define TFM_CLI_OPTIONS_H

#define CLI_DEVICE(value)                                                                                              \
    {                                                                                                                  \
        'd', "device", CLI_STRING, (value), "DEVICE",                                                                  \
            "gpu, cpu, accel, an index of `tfm devices`, platform:device, or part of a name", NULL                     \
    }

/* The same where a command works on several. */
#define CLI_DEVICES(value)                                                                                             \
    {                                                                                                                  \
        'd', "device", CLI_STRING, (value), "DEVICE",                                                                  \
            "gpu, cpu, accel, an index of `tfm devices`, platform:device, or part of a name; several with commas "     \
            "between them, or all, share the work",                                                                    \
            NULL                                                                                                       \
    }

/* What a translation keeps of its source: a cli_strings of patterns, and a bool. */
#define CLI_KEEP(patterns, none)                                                                                       \
    {0,                                                                                                                \
     "keep",                                                                                                           \
     CLI_LIST,                                                                                                         \
     (patterns),                                                                                                       \
     "REGEX",                                                                                                          \
     "what else stays as it is, in PCRE2's syntax, besides placeholders (%1$s, {0}, {{name}}, ${city}), tags, "        \
     "addresses of the web and of mail, and emoji; may be given several times",                                        \
     NULL},                                                                                                            \
    {                                                                                                                  \
        0, "no-keep", CLI_FLAG, (none), NULL, "give placeholders and the like to the model as any other text", NULL    \
    }

/* Of an int `value` for cli_open_fleet. */
#define CLI_WORKERS(value)                                                                                             \
    {                                                                                                                  \
        0, "workers", CLI_POSITIVE, (value), "N",                                                                      \
            "how many batches each device works on at the same time, 1 to 16 (default: 2 where a CPU has much to do "  \
            "for a small model, else 1)",                                                                              \
            NULL                                                                                                       \
    }

/* Of an int `value` for cli_precision. */
#define CLI_PRECISION(value)                                                                                           \
    {                                                                                                                  \
        0, "precision", CLI_CHOICE, &(value), "auto|fp32|fp16|bf16|int8",                                              \
            "what the model's matrices are kept as: fp32; fp16 or bf16, in half the memory; or int8, in a quarter of " \
            "it, which changes results a little (default auto: int8 where the model is stored so, else fp32)",         \
            NULL                                                                                                       \
    }

/* How to search and take lines, of a tfm_search_options `search`, a tfm_text_options `text`, the penalty as an int
 * `penalty` until it is parsed, and an int `precision` for cli_precision. */
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
         "paper: the score is sum log p / ((5 + n) / 6)^A; hf: sum log p / n^A as in Hugging Face, where A is the "    \
         "model's own unless --length-penalty gives it (default paper)",                                               \
         NULL},                                                                                                        \
        {0,                                                                                                            \
         "max-length",                                                                                                 \
         CLI_POSITIVE,                                                                                                 \
         &(search).max_length,                                                                                         \
         "N",                                                                                                          \
         "the most tokens of a translation (default: those of its source + 50, or what the model says if less)",       \
         NULL},                                                                                                        \
        {0,                                                                                                            \
         "batch-tokens",                                                                                               \
         CLI_POSITIVE,                                                                                                 \
         &(text).batch_tokens,                                                                                         \
         "N",                                                                                                          \
         "the most source tokens in a batch, with padding (default 4096)",                                             \
         NULL},                                                                                                        \
        {0,                                                                                                            \
         "truncate",                                                                                                   \
         CLI_FLAG,                                                                                                     \
         &(text).truncate,                                                                                             \
         NULL,                                                                                                         \
         "cut lines that are longer than the model's "                                                                 \
         "positions",                                                                                                  \
         NULL},                                                                                                        \
        CLI_PRECISION(precision)

/* The languages of a model that has several, and what stands before each source text. */
#define CLI_LANGUAGES(text)                                                                                            \
    {0,                                                                                                                \
     "source-lang",                                                                                                    \
     CLI_STRING,                                                                                                       \
     &(text).source_language,                                                                                          \
     "CODE",                                                                                                           \
     "the language of the source, as the model's tokenizer calls it, such as de, de_DE or deu_Latn "                   \
     "(default: what tokenizer_config.json says)",                                                                     \
     NULL},                                                                                                            \
        {0,          "target-lang",                                                                                    \
         CLI_STRING, &(text).target_language,                                                                          \
         "CODE",     "the language to write, for a model that has several, such as fr, fr_XX, fra_Latn or fra",        \
         NULL},                                                                                                        \
    {                                                                                                                  \
        0, "source-prefix", CLI_STRING, &(text).source_prefix, "TEXT",                                                 \
            "put this before each source text, as T5 wants \"translate English to German: \"", NULL                    \
    }

#endif
