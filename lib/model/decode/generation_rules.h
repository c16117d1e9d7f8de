/* Generation rules of a model directory: special ids, forced and suppressed tokens, search defaults. Keys are those of
 * Hugging Face's GenerationConfig. */
#ifndef TFM_LIB_GENERATION_RULES_H
#define TFM_LIB_GENERATION_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TFM__MAX_EOS_IDS = 16,             /* EOS ids */
    TFM__MAX_SUPPRESS_IDS = 1024,      /* suppressed ids */
    TFM__MAX_BEGIN_SUPPRESS_IDS = 128, /* ids suppressed at the first step */
    TFM__MAX_SEQUENCE_BIAS = 256,      /* sequences with a bias */
    TFM__MAX_SEQUENCE_BIAS_IDS = 2048, /* their ids */
    TFM__MAX_BAD_WORDS = 1024,         /* bad words of two or more ids */
    TFM__MAX_BAD_WORD_IDS = 8192,      /* their ids */
};

/* Length and sampling defaults of a directory; 0: not given. Translation uses all except the sampling parameters. */
typedef struct tfm__sampling_defaults {
    int max_new_tokens, min_new_tokens; /* max_new_tokens; min_new_tokens, or derived from min_length */
    int max_length;                     /* prompt and text, including the start token of a translation */
    int min_length;                     /* the same for the minimum, in text generation; 0 if min_new_tokens is given */
    int top_k;
    double temperature, top_p, min_p, repetition_penalty;
    double encoder_repetition_penalty; /* encoder_repetition_penalty: for tokens of the source or prompt */
    int encoder_no_repeat_ngram; /* encoder_no_repeat_ngram_size: n-grams of the source or prompt that are not generated
                                  */
    int length_decay_from;       /* exponential_decay_length_penalty: from this many tokens on, EOS scores grow by */
    double length_decay;         /* |score| (decay^n - 1), n tokens later */
    /* transformers' `early_stopping` of beam search. Default: stop when no live beam is better than the worst finished
     * one; true: when enough have finished; never: when no live beam can become better. */
    enum { TFM__EARLY_DEFAULT, TFM__EARLY_TRUE, TFM__EARLY_NEVER } early_stopping;
} tfm__sampling_defaults;

typedef struct tfm__generation_rules {
    int pad_id, eos_id, start_id; /* below both vocabulary sizes; or, if `decoder_only`, -1 for none */
    bool hf_search; /* Padding may be generated, and a search with transformers' length penalty ends as in transformers.
                       All families except Marian, which follows the paper. */
    bool decoder_only; /* Decoder-only model: padding is an ordinary token, start_id is BOS, and each of `eos_ids` ends
                          a text. */
    int eos_ids[TFM__MAX_EOS_IDS],
        eos_id_count; /* all EOS ids, eos_id first; used if `decoder_only` or if there are several */
    tfm__sampling_defaults sampling;
    int forced_bos_id;        /* first token of every translation, or -1 */
    int forced_eos_id;        /* last token of a translation of maximum length, or -1 */
    int num_beams;            /* num_beams, or 0 if not given */
    bool has_length_penalty;  /* whether length_penalty is given */
    double length_penalty;    /* exponent of transformers' form */
    bool renormalize_logits;  /* renormalize_logits: renormalize after suppressing tokens */
    int no_repeat_ngram;      /* no_repeat_ngram_size: n-grams that are not repeated; 0: off */
    int begin_suppress_count; /* begin_suppress_tokens: suppressed at the first step that is not forced */
    int begin_suppress_ids[TFM__MAX_BEGIN_SUPPRESS_IDS];
    int sequence_bias_count; /* sequence_bias: bias[i] is added to the score of the last id of sequence i,
                                sequence_bias_ids[sequence_bias_starts[i] .. sequence_bias_starts[i + 1]], if it follows
                                the others */
    int sequence_bias_starts[TFM__MAX_SEQUENCE_BIAS + 1], sequence_bias_ids[TFM__MAX_SEQUENCE_BIAS_IDS];
    float bias[TFM__MAX_SEQUENCE_BIAS];
    int suppress_id_count; /* ids of suppress_tokens, and of bad_words_ids with a single id */
    int suppress_ids[TFM__MAX_SUPPRESS_IDS];
    int bad_word_count; /* bad words with several ids: word i is bad_word_ids[bad_words[i] .. bad_words[i + 1]] */
    int bad_words[TFM__MAX_BAD_WORDS + 1];
    int bad_word_ids[TFM__MAX_BAD_WORD_IDS];
} tfm__generation_rules;

/* Whether the id is an EOS id. */
bool tfm__generation_is_eos(const tfm__generation_rules *rules, int32_t id);
/* Whether the id is only padding. */
bool tfm__generation_is_pad(const tfm__generation_rules *rules, int32_t id);
/* Whether the id is never generated. */
bool tfm__generation_is_banned(const tfm__generation_rules *rules, int32_t id);
/* Whether the last of a translation's first ids completes a bad word of several ids. The start token and the forced BOS
 * precede these ids and count. */
bool tfm__generation_completes_bad_word(const tfm__generation_rules *rules, const int32_t *ids, size_t count);

#endif
