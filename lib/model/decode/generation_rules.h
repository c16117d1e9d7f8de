/* What a model's directory says of writing text: special ids, what is forced, what is forbidden, and defaults of
 * search. The keys are those of Hugging Face's GenerationConfig. */
#ifndef TFM_LIB_GENERATION_RULES_H
#define TFM_LIB_GENERATION_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TFM__MAX_EOS_IDS = 16,             /* The most ids that end a text. */
    TFM__MAX_SUPPRESS_IDS = 1024,      /* The most ids that are never written. */
    TFM__MAX_BEGIN_SUPPRESS_IDS = 128, /* The most that are not written first. */
    TFM__MAX_SEQUENCE_BIAS = 256,      /* The most sequences of ids whose scores are changed. */
    TFM__MAX_SEQUENCE_BIAS_IDS = 2048, /* The most ids of all these sequences. */
    TFM__MAX_BAD_WORDS = 1024,         /* The most sequences of two and more ids that are never written. */
    TFM__MAX_BAD_WORD_IDS = 8192,      /* The most ids of all these sequences. */
};

/* What a directory says of how long texts get and how they are chosen; 0 stands for what it does not say. Of these, a
 * translation goes by all but what concerns drawing. */
typedef struct tfm__sampling_defaults {
    int max_new_tokens, min_new_tokens; /* max_new_tokens; min_new_tokens, or what min_length comes to */
    int max_length;                     /* of prompt and text together; the start token of a translation counts */
    int min_length; /* the same of the fewest, of a text that goes on; 0 where min_new_tokens says it */
    int top_k;
    double temperature, top_p, min_p, repetition_penalty;
    double encoder_repetition_penalty; /* encoder_repetition_penalty: what tokens of the source, or of the prompt, are
                                          favoured by */
    int encoder_no_repeat_ngram; /* encoder_no_repeat_ngram_size: no sequence of so many tokens of it is written */
    int length_decay_from; /* exponential_decay_length_penalty: n tokens after so many, the score of an end grows by */
    double length_decay;   /* its size times decay^n - 1 */
    /* transformers' `early_stopping`: when a beam search is content. By default once no live beam is better than the
     * worst that has finished; or as soon as enough have finished; or when no live beam can become better. */
    enum { TFM__EARLY_DEFAULT, TFM__EARLY_TRUE, TFM__EARLY_NEVER } early_stopping;
} tfm__sampling_defaults;

typedef struct tfm__generation_rules {
    int pad_id, eos_id,
        start_id;      /* Each is below the sizes of both vocabularies; or, if `decoder_only`, -1 for none. */
    bool hf_search;    /* Padding may be written like any other id, and a search in Hugging Face's form ends as that
                                of transformers: so for all families but Marian, whose rules are the paper's. */
    bool decoder_only; /* The model has a decoder alone and goes on with a text: padding is a token as any other,
                      start_id is what a text begins with, and each of `eos_ids` ends it. */
    int eos_ids[TFM__MAX_EOS_IDS],
        eos_id_count; /* If `decoder_only`, or where there are several: all ends, eos_id first. */
    tfm__sampling_defaults sampling;
    int forced_bos_id;        /* The first token of every translation, or -1. */
    int forced_eos_id;        /* The last token of a translation that reaches the maximum length, or -1. */
    int num_beams;            /* num_beams, or 0 if the files do not say. */
    bool has_length_penalty;  /* Whether the files say length_penalty. */
    double length_penalty;    /* The exponent of the Hugging Face form. */
    bool renormalize_logits;  /* renormalize_logits: what is left after all that is forbidden adds up to 1 again. */
    int no_repeat_ngram;      /* no_repeat_ngram_size: no sequence of so many tokens is written twice; 0: any may be. */
    int begin_suppress_count; /* begin_suppress_tokens, which are not written as the first token that is not forced. */
    int begin_suppress_ids[TFM__MAX_BEGIN_SUPPRESS_IDS];
    int sequence_bias_count; /* sequence_bias: the last id of word i, sequence_bias_ids[sequence_bias_starts[i] ..
                         biased[i + 1]], is written with bias[i] added to its score, where it follows the others. */
    int sequence_bias_starts[TFM__MAX_SEQUENCE_BIAS + 1], sequence_bias_ids[TFM__MAX_SEQUENCE_BIAS_IDS];
    float bias[TFM__MAX_SEQUENCE_BIAS];
    int suppress_id_count; /* How many entries of bad_words_ids have one token, and of suppress_tokens. */
    int suppress_ids[TFM__MAX_SUPPRESS_IDS];
    int bad_word_count; /* How many have several: word i is bad_word_ids[bad_words[i] .. bad_words[i + 1]]. */
    int bad_words[TFM__MAX_BAD_WORDS + 1];
    int bad_word_ids[TFM__MAX_BAD_WORD_IDS];
} tfm__generation_rules;

/* Says whether this id ends a text. */
bool tfm__generation_is_eos(const tfm__generation_rules *rules, int32_t id);
/* Says whether this id is padding and nothing else. */
bool tfm__generation_is_pad(const tfm__generation_rules *rules, int32_t id);
/* Says whether the search must never write this id. */
bool tfm__generation_is_banned(const tfm__generation_rules *rules, int32_t id);
/* Says whether the last of the ids that a translation begins with completes one of the words of several tokens. The
 * start token and the forced first one come before these ids, and count. */
bool tfm__generation_completes_bad_word(const tfm__generation_rules *rules, const int32_t *ids, size_t count);

#endif
