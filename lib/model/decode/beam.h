/* One batch of beam search on the device: the state between steps, and the kernels that move it (cl/decode/beam.cl). A
 * beam of one is greedy search, or draws. */
#ifndef TFM_LIB_BEAM_H
#define TFM_LIB_BEAM_H

#include "model/decode/shortlist_projection.h"
#include "ops/ops.h"

/* What rows have read before they are searched with: prompts, whose keys and values are in the log already. */
typedef struct tfm__beam_past {
    int64_t slots;              /* places of the log that they take */
    const int32_t *tokens;      /* [slots]: the token at each place; -1: none that counts */
    int64_t width;              /* columns of the block_table before a row's first input */
    const int32_t *block_table; /* [sentences * width] */
    const int32_t *last;        /* [sentences]: the first input, the last token of the prompt */
} tfm__beam_past;

/* How tokens are chosen, where it is not by their probability alone. All zeros change nothing. */
typedef struct tfm__sampling_params {
    bool do_sample; /* a beam of one draws by `sample_options`, whose step counts along */
    tfm_sample_options sample_options;
    const int32_t *streams;    /* [sentences]: as tfm__sample takes them */
    float repetition_penalty;  /* what tokens of the past are made less likely by; 0: nothing */
    int64_t min_new_tokens;    /* tokens that come before any end */
    const int32_t *min_tokens; /* [sentences]: the same of each, min_new_tokens at most; NULL: it is that of all */
    float encoder_repetition_penalty; /* what tokens of the source are made less likely by; 0: nothing */
    int64_t encoder_no_repeat_ngram;  /* no sequence of so many of its tokens is written; 0: any may be */
    int64_t length_decay_from;        /* after so many tokens */
    double length_decay; /* an end's score grows by its size times decay^n - 1, n tokens later; 0: it does not */
} tfm__sampling_params;

/* What the directory says of it. */
tfm__sampling_params tfm__sampling_params_of(const tfm__generation_rules *rules);

typedef struct tfm__beam {
    tfm_context *ctx;
    int width;                                  /* K */
    int candidates;                             /* per row and step */
    int64_t vocabulary;                         /* V, or how many ids logits are of */
    const tfm__shortlist_projection *shortlist; /* those, or NULL: all */
    int64_t total;                              /* N: sentences of the batch */
    int64_t live;                               /* n: sentences that still have rows */
    int64_t rows;                               /* R: n K of them; where `ragged`, as many as there is hope for */
    int64_t step;                               /* tokens generated so far */
    int64_t past_columns;                       /* what each row's past has besides: the columns of tfm__beam_past */
    int64_t slot;                               /* first slot of this step's rows */
    int64_t slots;                              /* capacity of the slot log */

    tfm_tensor tokens; /* (R): the decoder's next input */
    tfm_tensor
        chosen_tokens; /* the same of all rows of the last step, those included that left the batch; with `hf_search` */
    tfm_tensor scores; /* (R) */
    tfm_tensor block_table; /* (R, past_columns + step + 1), or as many columns as the longest has: each row's past and
                               own slot */
    tfm_tensor sources;     /* (R): which of the N sentences each row translates */
    tfm_tensor sentences;   /* (n): the same for each sentence */
    tfm_tensor starts;      /* (n + 1): the first row of each, and R; where `ragged` */
    tfm_tensor began;       /* (N): the step at which each sentence joined the batch; empty until one does */
    tfm_tensor lengths;     /* (R): how many columns count of each row's line, where there is `began`; else all */
    tfm_tensor positions;   /* (R, 1): the position of each row's newest token, then, too */
    tfm_tensor done;        /* (n): those that are over, which ragged rows leave at once */
    tfm_tensor remaining;   /* (1): how many are not over; of ragged rows nobody reads it */

    tfm_tensor slot_token, slot_parent; /* (slots) */
    tfm_tensor slot_score;              /* (slots): sum log p from the start to each */
    tfm_tensor limits, prefix_counts;   /* (N) */
    tfm_tensor prefixes;                /* (N, P) */
    int64_t prefix_width;
    const tfm__generation_rules *rules; /* the model's */
    bool certain;                       /* what the rules force has the probability 1 */
    bool restore_mass;                  /* what they forbid keeps its own until the others are chosen */
    bool hf_search;                     /* the search ends as transformers' generate does */
    bool ragged;      /* sentences have no more rows than there is hope for, which the host learns step by step */
    int32_t *present; /* [N], the caller's: which sentences are live, n of them; NULL: nobody asks, and none may join */
    bool skip_scores; /* nobody asks for scores of a beam of one that does not draw: those of its hypotheses are 0 */
    tfm__argmax_int8_task
        greedy_int8; /* where it has a screen, steps give what the output projection reads, in place of logits */
    int needed;      /* a row is given up that cannot come to one of so many best hypotheses; 0: none is given up */
    tfm__sampling_params sampling;
    bool translates;                      /* texts begin with the start token, not with prompts */
    tfm_tensor streams;                   /* (N) */
    tfm_tensor source_ids, source_counts; /* (N, S), (N): where a rule looks at the source; or empty */
    tfm_tensor min_tokens;                /* (N), or empty: as in tfm__sampling_params */
    int64_t first_words;                  /* how many tokens are forbidden at the first free step alone */
    int64_t words;                        /* how many words are forbidden step by step */
    tfm_tensor word_starts; /* (first words + words + ends + 1): where in word_ids each begins, in this order */
    tfm_tensor word_ids;
    tfm_tensor sequence_bias_starts, sequence_bias_ids,
        bias; /* (words + 1), (ids), (words): those whose score is changed; or empty */
    int64_t eos_count;
    tfm_tensor eos_ids;                                                        /* (eos_count): what ends a text */
    tfm_tensor penalty;                                                        /* (longest + 1) */
    tfm_tensor finished_total, finished_token, finished_slot, finished_length; /* (N, K) */
    tfm_tensor finished_count;                                                 /* (N) */
} tfm__beam;

typedef struct tfm__beam_setup {
    int width;
    int64_t vocabulary, sentences;
    const tfm__shortlist_projection *shortlist; /* the ids that logits are of, if not of all; outlives the beam. Where
                              something is forced, they are all, each at its own place */
    const tfm__generation_rules *rules;         /* outlive the beam */
    bool certain;            /* as in tfm__beam; what is forbidden keeps its probability then, unless rules say else */
    bool hf_search;          /* as in tfm__beam */
    bool skip_scores;        /* nobody asks for scores */
    bool ragged;             /* as in tfm__beam, but where the search ends as transformers' do */
    int64_t first;           /* sentences that are there from the beginning; 0: all */
    int32_t *present;        /* as in tfm__beam; with `ragged` alone. Outlives the beam */
    int n_best;              /* hypotheses that are asked for of each sentence; 0: all */
    const int32_t *limits;   /* [first]: most tokens to generate */
    const int32_t *prefixes; /* [first * prefix_width] */
    const int32_t *prefix_counts; /* [first] */
    int64_t prefix_width;         /* at least 1 */
    const float *penalty;         /* [longest limit + 1] */
    int64_t longest;
    const int32_t *source_ids;    /* [first * source_width]: what texts are about, or go on with; needed where */
    const int32_t *source_counts; /* [first]: the sampling has a rule of it, and no sentence joins then */
    int64_t source_width;
    const tfm__beam_past *past;           /* NULL: rows begin with the start token */
    const tfm__sampling_params *sampling; /* NULL: nothing besides; always with `shortlist` */
} tfm__beam_setup;

/* Everything lives in the current scope. */
tfm_status tfm__beam_begin(tfm_context *ctx, tfm__beam *beam, const tfm__beam_setup *setup);

/* Chooses continuations by logits (R, V), in which it forbids words, or where there is a screen, by what the projection
 * has read, `greedy_int8.x`. Makes them the next step's rows, those of `keep` sentences: `live` for all, fewer to drop
 * sentences that are over. Where rows are ragged, it waits for the device and drops all that are over, whatever `keep`
 * says; after the last one `live` and `rows` are 0, and no step may follow. */
tfm_status tfm__beam_advance(tfm__beam *beam, tfm_tensor logits, int64_t keep);

/* A kernel of beam.cl for this beam; `more` are further build options, each after a space. */
tfm__kernel *tfm__beam_kernel(const tfm__beam *beam, const char *name, const char *more);

/* Ends those sentences, of a beam of one, for which `stops` (N) is not 0: what they have is their hypothesis. */
tfm_status tfm__beam_stop(tfm__beam *beam, const int32_t *stops);

/* ---- Sentences that join (join.c) ---- */

/* Whether sentences may join these: rows are ragged, and no rule counts the steps of all alike. */
bool tfm__beam_joins(const tfm__beam_setup *setup);

/* Sentences that begin now, at places of the batch where none is live. */
typedef struct tfm__beam_arrivals {
    int64_t count;
    const int32_t *places;                 /* [count] */
    const int32_t *limits, *prefix_counts; /* [count] */
    const int32_t *prefixes;               /* [count * prefix_width], as wide as the others' */
    const float *penalty;                  /* [longest + 1] */
    int64_t longest;                       /* the largest limit of all that have been in the batch */
} tfm__beam_arrivals;

/* Has them join, each with one row. There must be live ones. Tensors live in the scope that the beam's do. */
tfm_status tfm__beam_join(tfm__beam *beam, const tfm__beam_arrivals *arrivals);

/* Forgets the slots that no live sentence needs, in the log of keys and values too, of which it moves the others to the
 * front. It must not be called between a step and its tfm__beam_advance. */
tfm_status tfm__beam_tidy(tfm__beam *beam, tfm_kv_cache *cache);

/* ---- Candidates (beam_candidates.c) ---- */

/* Puts the words that are forbidden, and the eos_ids, where the steps look for them. */
tfm_status tfm__beam_upload_bad_words(tfm__beam *beam);
/* What each row may go on with, best first: the logits (R, k), tokens (R, k), and lse (R), the normaliser of the
 * row: the logarithm of the sum of e to all of its logits. Changes the logits. Returns 1; or a number of parts, where
 * the device has cut the vocabulary into such, and the three are what tfm__topk_split makes. Where there is a
 * screen, the logits are empty before, lse is no normaliser, and *logits becomes what tells whether a forced token
 * is possible: (R, V), or (V) for all rows, with -inf for those that are not. */
int64_t tfm__beam_candidates(const tfm__beam *beam, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *lse,
                             tfm_tensor *logits, int k);

/* ---- Screens (greedy_int8.c) ---- */

/* Has the beam's steps find their tokens by a screen of the model's output projection, with the bias that their logits
 * would have, where all that is asked of a step is the largest logit, and the device is faster so. */
tfm_status tfm__greedy_int8_begin(tfm__beam *beam, tfm_model *model, tfm_tensor bias);
/* Before and after tfm__beam_advance: frees what the step's projection has read, and looks now and then whether the
 * screen helps; where it does not, the next steps make logits, as do later searches of the model. */
void tfm__greedy_int8_before_step(tfm__beam *beam);
tfm_status tfm__greedy_int8_after_step(tfm__beam *beam, tfm_model *model, int64_t rows);

/* ---- Rules of the source and of lengths (logits_processors.c) ---- */

/* Whether the sampling has a rule of the source. */
bool tfm__sampling_uses_source(const tfm__sampling_params *sampling);
/* Puts what these rules look at where the steps find it. */
void tfm__beam_upload_source(tfm__beam *beam, const tfm__beam_setup *setup);
/* *out = logits, but for the tokens of each row's source, which its penalty changes. */
void tfm__beam_apply_encoder_repetition_penalty(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits,
                                                tfm_tensor lse);
/* Whether ends are likelier in this step; and *out = logits, but for them. */
bool tfm__beam_has_length_decay(const tfm__beam *beam);
void tfm__beam_apply_length_decay(const tfm__beam *beam, tfm_tensor *out, tfm_tensor logits, tfm_tensor lse);
/* *unforced (R): 0 where the row's next token is forced, which no rule of sequences forbids then. Of translations. */
void tfm__beam_unforced_rows(const tfm__beam *beam, tfm_tensor *unforced);
/* Whether they forbid any token in this step, and make -inf of those; removed (R) counts what they weighed. unforced
 * may be empty: then all may. */
bool tfm__beam_suppresses(const tfm__beam *beam);
void tfm__beam_suppress(const tfm__beam *beam, tfm_tensor logits, tfm_tensor removed, tfm_tensor unforced);

/* ---- Results (hypotheses.c) ---- */

/* Reads the finished hypotheses: [total * n_best] of *out, best first. The beam's penalty rules, as `score`. */
tfm_status tfm__beam_finish(tfm__beam *beam, tfm_hypotheses *out, int n_best, const float *penalty);
/* The same of `count` sentences that are over, at these places: [count * n_best] of *out. */
tfm_status tfm__beam_found(tfm__beam *beam, tfm_hypothesis *out, const int32_t *places, int64_t count, int n_best,
                           const float *penalty);

/* ---- What the files share ---- */

/* A grid of an item for each of `count`. */
tfm__grid tfm__beam_items(const tfm_context *ctx, int64_t count);
/* Room in the log of slots for so many in all. */
tfm_status tfm__beam_grow(tfm__beam *beam, int64_t needed);
/* Makes the rows that a search begins with (beam_init.c). */
tfm_status tfm__beam_init_rows(tfm__beam *beam, const tfm__beam_past *past);
tfm_tensor tfm__beam_ints(tfm_context *ctx, int64_t count);
tfm_tensor tfm__beam_floats(tfm_context *ctx, int64_t count);
tfm_tensor tfm__beam_ints_of(tfm_context *ctx, const int32_t *host, int64_t count);

#endif
