/* Beam search of one batch on the device: the state between steps, and its kernels (cl/decode/beam.cl). A beam of one
 * is greedy search or sampling. */
#ifndef TFM_LIB_BEAM_H
#define TFM_LIB_BEAM_H

#include "model/decode/shortlist_projection.h"
#include "ops/ops.h"

/* Prompts of the rows, already prefilled into the KV cache. */
typedef struct tfm__beam_past {
    int64_t slots;              /* cache slots they use */
    const int32_t *tokens;      /* [slots]: token of each slot; -1: padding */
    int64_t width;              /* columns of the block_table before a row's first input */
    const int32_t *block_table; /* [sentences * width] */
    const int32_t *last;        /* [sentences]: first input, the last token of the prompt */
} tfm__beam_past;

/* Sampling and logits processors. All zeros: none. */
typedef struct tfm__sampling_params {
    bool do_sample; /* a beam of one samples by `sample_options`, whose step is advanced */
    tfm_sample_options sample_options;
    const int32_t *streams;           /* [sentences]: random number streams of tfm__sample */
    float repetition_penalty;         /* 0: off */
    int64_t min_new_tokens;           /* tokens before any EOS */
    const int32_t *min_tokens;        /* [sentences]: per sentence, <= min_new_tokens; NULL: min_new_tokens for all */
    float encoder_repetition_penalty; /* penalty on tokens of the source; 0: off */
    int64_t encoder_no_repeat_ngram;  /* n-grams of the source of this length are not generated; 0: off */
    int64_t length_decay_from;        /* starts after this many tokens */
    double length_decay;              /* EOS scores grow by |score| (decay^n - 1), n tokens later; 0: off */
} tfm__sampling_params;

/* The directory's sampling parameters. */
tfm__sampling_params tfm__sampling_params_of(const tfm__generation_rules *rules);

typedef struct tfm__beam {
    tfm_context *ctx;
    int width;                                  /* K */
    int candidates;                             /* per row and step */
    int64_t vocabulary;                         /* V, or the size of the shortlist */
    const tfm__shortlist_projection *shortlist; /* NULL: the whole vocabulary */
    int64_t total;                              /* N: sentences of the batch */
    int64_t live;                               /* n: sentences that still have rows */
    int64_t rows;                               /* R: n K; if `ragged`, only rows that may still succeed */
    int64_t step;                               /* tokens generated so far */
    int64_t past_columns;                       /* the columns of tfm__beam_past */
    int64_t slot;                               /* first slot of this step's rows */
    int64_t slots;                              /* capacity of the slot arrays */

    tfm_tensor tokens;        /* (R): the decoder's next input */
    tfm_tensor chosen_tokens; /* the tokens of all rows of the last step, including rows that left the batch; with
                                 `hf_search` */
    tfm_tensor scores;        /* (R) */
    tfm_tensor
        block_table;      /* (R, past_columns + step + 1), or the longest row's columns: each row's past and own slot */
    tfm_tensor sources;   /* (R): sentence of each row */
    tfm_tensor sentences; /* (n): live sentences */
    tfm_tensor starts;    /* (n + 1): first row of each live sentence, and R; if `ragged` */
    tfm_tensor began;     /* (N): step at which each sentence was admitted; empty until one is */
    tfm_tensor lengths;   /* (R): valid columns of each row, with `began`; else all */
    tfm_tensor positions; /* (R, 1): position of each row's newest token, with `began` */
    tfm_tensor done;      /* (n): finished sentences, which ragged rows leave at once */
    tfm_tensor remaining; /* (1): number of unfinished sentences; unused for ragged rows */

    tfm_tensor slot_token, slot_parent; /* (slots) */
    tfm_tensor slot_score;              /* (slots): sum log p from the start to each slot */
    tfm_tensor limits, prefix_counts;   /* (N) */
    tfm_tensor prefixes;                /* (N, P) */
    int64_t prefix_width;
    const tfm__generation_rules *rules; /* the model's */
    bool certain;                       /* forced tokens have probability 1 */
    bool restore_mass; /* suppressed tokens keep their probability mass until the candidates are chosen */
    bool hf_search;    /* the search ends as transformers' generate does */
    bool ragged;       /* rows without a chance are pruned; the host learns the number of rows in each step */
    int32_t *present;  /* [N], the caller's: the n live sentences; NULL: unused, and no sentence may be admitted */
    bool skip_scores;  /* no scores: greedy hypotheses get 0 */
    tfm__argmax_int8_task
        greedy_int8; /* if active, steps return the input of the output projection instead of logits */
    int needed;      /* pruning: rows that cannot become one of this many best hypotheses are dropped; 0: off */
    tfm__sampling_params sampling;
    bool translates;                      /* sequences begin with the start token, not with prompts */
    tfm_tensor streams;                   /* (N) */
    tfm_tensor source_ids, source_counts; /* (N, S), (N): the source, if a logits processor uses it; or empty */
    tfm_tensor min_tokens;                /* (N), or empty: see tfm__sampling_params */
    int64_t first_words;                  /* number of tokens suppressed only at the first free step */
    int64_t words;                        /* number of bad words */
    tfm_tensor word_starts; /* (first words + words + ends + 1): start of each in word_ids, in this order */
    tfm_tensor word_ids;
    tfm_tensor sequence_bias_starts, sequence_bias_ids, bias; /* (words + 1), (ids), (words): sequence_bias; or empty */
    int64_t eos_count;
    tfm_tensor eos_ids;                                                        /* (eos_count) */
    tfm_tensor penalty;                                                        /* (longest + 1) */
    tfm_tensor finished_total, finished_token, finished_slot, finished_length; /* (N, K) */
    tfm_tensor finished_count;                                                 /* (N) */
} tfm__beam;

typedef struct tfm__beam_setup {
    int width;
    int64_t vocabulary, sentences;
    const tfm__shortlist_projection *shortlist; /* shortlist, or NULL; outlives the beam. If tokens are forced, it has
                                                   the whole vocabulary in order */
    const tfm__generation_rules *rules;         /* outlive the beam */
    bool certain;   /* see tfm__beam; suppressed tokens then keep their probability mass, unless rules say otherwise */
    bool hf_search; /* see tfm__beam */
    bool skip_scores;             /* no scores */
    bool ragged;                  /* see tfm__beam; ignored with hf_search */
    int64_t first;                /* sentences of the initial batch; 0: all */
    int32_t *present;             /* see tfm__beam; only with `ragged`. Outlives the beam */
    int n_best;                   /* hypotheses per sentence; 0: all */
    const int32_t *limits;        /* [first]: maximum numbers of new tokens */
    const int32_t *prefixes;      /* [first * prefix_width] */
    const int32_t *prefix_counts; /* [first] */
    int64_t prefix_width;         /* >= 1 */
    const float *penalty;         /* [longest limit + 1] */
    int64_t longest;
    const int32_t *source_ids;    /* [first * source_width]: sources or prompts; required if */
    const int32_t *source_counts; /* [first]: a logits processor uses them; no sentence is admitted then */
    int64_t source_width;
    const tfm__beam_past *past;           /* NULL: rows begin with the start token */
    const tfm__sampling_params *sampling; /* NULL: none; required with `shortlist` */
} tfm__beam_setup;

/* Allocates in the current scope. */
tfm_status tfm__beam_begin(tfm_context *ctx, tfm__beam *beam, const tfm__beam_setup *setup);

/* Chooses continuations by logits (R, V), after suppressing tokens, or with the int8 argmax by `greedy_int8.x`. Makes
 * them the next rows, of `keep` sentences: `live` for all, fewer to drop finished ones. For ragged rows, it waits for
 * the device and drops all finished sentences regardless of `keep`; after the last one `live` and `rows` are 0, and no
 * step may follow. */
tfm_status tfm__beam_advance(tfm__beam *beam, tfm_tensor logits, int64_t keep);

/* A kernel of beam.cl for this beam; `more`: further build options, each after a space. */
tfm__kernel *tfm__beam_kernel(const tfm__beam *beam, const char *name, const char *more);

/* Ends the sentences (beam of one) with nonzero `stops` (N): their tokens so far are the hypothesis. */
tfm_status tfm__beam_stop(tfm__beam *beam, const int32_t *stops);

/* ---- Admission (join.c) ---- */

/* Whether sentences may be admitted: rows are ragged, and no logits processor counts steps of the whole batch. */
bool tfm__beam_joins(const tfm__beam_setup *setup);

/* Sentences to admit into free batch places. */
typedef struct tfm__beam_arrivals {
    int64_t count;
    const int32_t *places;                 /* [count] */
    const int32_t *limits, *prefix_counts; /* [count] */
    const int32_t *prefixes;               /* [count * prefix_width], as wide as the others' */
    const float *penalty;                  /* [longest + 1] */
    int64_t longest;                       /* largest limit of all sentences of the batch so far */
} tfm__beam_arrivals;

/* Admits them with one row each; some sentence must be live. Allocates in the beam's scope. */
tfm_status tfm__beam_join(tfm__beam *beam, const tfm__beam_arrivals *arrivals);

/* Compacts the slots and the KV cache: slots not used by a live sentence are freed. Must not be called between a step
 * and its tfm__beam_advance. */
tfm_status tfm__beam_tidy(tfm__beam *beam, tfm_kv_cache *cache);

/* ---- Candidates (beam_candidates.c) ---- */

/* Uploads bad words and EOS ids. */
tfm_status tfm__beam_upload_bad_words(tfm__beam *beam);
/* The candidates of each row, best first: values (R, k), tokens (R, k), and lse (R), the log-sum-exp of the row.
 * Changes the logits. Returns 1; or the number of parts if the device splits the vocabulary, with the outputs of
 * tfm__topk_split. With the int8 argmax, the logits are empty before, lse is not valid, and *logits only tells whether
 * a forced token is possible: (R, V), or (V) for all rows, -inf if not. */
int64_t tfm__beam_candidates(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *lse,
                             tfm_tensor *logits, int k);

/* ---- int8-screened argmax (greedy_int8.c) ---- */

/* Enables the int8-screened argmax of the model's output projection with this logit bias, if a step only needs the
 * largest logit and the device is faster with it. */
tfm_status tfm__greedy_int8_begin(tfm__beam *beam, tfm_model *model, tfm_tensor bias);
/* Call before and after tfm__beam_advance: frees the projection's input, and checks periodically whether screening is
 * faster; if not, later steps and searches of the model compute logits. */
void tfm__greedy_int8_before_step(tfm__beam *beam);
tfm_status tfm__greedy_int8_after_step(tfm__beam *beam, tfm_model *model, int64_t rows);

/* ---- Processors of the source and of lengths (logits_processors.c) ---- */

/* Whether a logits processor uses the source. */
bool tfm__sampling_uses_source(const tfm__sampling_params *sampling);
/* Uploads the source. */
void tfm__beam_upload_source(tfm__beam *beam, const tfm__beam_setup *setup);
/* *out = logits, with the penalty on tokens of each row's source. */
void tfm__beam_apply_encoder_repetition_penalty(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits,
                                                tfm_tensor lse);
/* Whether EOS scores grow in this step; and *out = logits with that change. */
bool tfm__beam_has_length_decay(const tfm__beam *beam);
void tfm__beam_apply_length_decay(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits, tfm_tensor lse);
/* *unforced (R): 0 if the row's next token is forced; n-gram processors then suppress nothing. Translation only. */
void tfm__beam_unforced_rows(const tfm__beam *beam, tfm_tensor *unforced);
/* Whether they suppress tokens in this step; and sets those to -inf; removed (R) is their probability mass. `unforced`
 * may be empty: no row is forced. */
bool tfm__beam_suppresses(const tfm__beam *beam);
void tfm__beam_suppress(const tfm__beam *beam, tfm_tensor logits, tfm_tensor removed, tfm_tensor unforced);

/* ---- Results (hypotheses.c) ---- */

/* Reads the finished hypotheses: [total * n_best] of *out, best first by `penalty`. */
tfm_status tfm__beam_finish(tfm__beam *beam, tfm_hypotheses *out, int n_best, const float *penalty);
/* The same for `count` finished sentences at these places: [count * n_best] of *out. */
tfm_status tfm__beam_found(tfm__beam *beam, tfm_hypothesis *out, const int32_t *places, int64_t count, int n_best,
                           const float *penalty);

/* ---- Shared by the files ---- */

/* A grid of `count` work-items. */
tfm__grid tfm__beam_items(const tfm_context *ctx, int64_t count);
/* Grows the slot arrays to `needed`. */
tfm_status tfm__beam_grow(tfm__beam *beam, int64_t needed);
/* Makes the first rows (beam_init.c). */
tfm_status tfm__beam_init_rows(tfm__beam *beam, const tfm__beam_past *past);
tfm_tensor tfm__beam_ints(tfm_context *ctx, int64_t count);
tfm_tensor tfm__beam_floats(tfm_context *ctx, int64_t count);
tfm_tensor tfm__beam_ints_of(tfm_context *ctx, const int32_t *host, int64_t count);

#endif
