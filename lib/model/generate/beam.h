/* One batch of beam search on the device: the state between steps, and the kernels that move it (cl/beam.cl). */
#ifndef TFM_LIB_BEAM_H
#define TFM_LIB_BEAM_H

#include "model/model.h"

typedef struct tfm__beam {
    tfm_context *ctx;
    int width;          /* K */
    int candidates;     /* per row and step */
    int64_t vocabulary; /* V */
    int64_t total;      /* N: sentences of the batch */
    int64_t live;       /* n: sentences that still have rows; R = n K */
    int64_t step;       /* tokens generated so far */
    int64_t node;       /* first node of this step's rows */
    int64_t nodes;      /* capacity of the node log */

    tfm_tensor tokens;    /* (R): the decoder's next input */
    tfm_tensor scores;    /* (R) */
    tfm_tensor table;     /* (R, step + 1): the nodes of each row's past and its own */
    tfm_tensor sources;   /* (R): which of the N sentences each row translates */
    tfm_tensor sentences; /* (n): the same for each sentence */
    tfm_tensor done;      /* (n) */
    tfm_tensor remaining; /* (1) */

    tfm_tensor node_token, node_parent; /* (nodes) */
    tfm_tensor node_score;              /* (nodes): sum log p from the start to each */
    tfm_tensor limits, prefix_counts;   /* (N) */
    tfm_tensor prefixes;                /* (N, P) */
    int64_t prefix_width;
    const tfm__rules *rules; /* the model's */
    bool certain;            /* what the rules force has the probability 1, and what they forbid keeps its own */
    int64_t words;           /* how many words are forbidden step by step */
    tfm_tensor word_starts;  /* (words + 1): where in word_ids each begins */
    tfm_tensor word_ids;
    tfm_tensor penalty;                                                      /* (longest + 1) */
    tfm_tensor finished_total, finished_token, finished_node, finished_step; /* (N, K) */
    tfm_tensor finished_count;                                               /* (N) */
} tfm__beam;

typedef struct tfm__beam_setup {
    int width;
    int64_t vocabulary, sentences;
    const tfm__rules *rules;      /* outlive the beam */
    bool certain;                 /* as in tfm__beam */
    const int32_t *limits;        /* [sentences]: most tokens to generate */
    const int32_t *prefixes;      /* [sentences * prefix_width] */
    const int32_t *prefix_counts; /* [sentences] */
    int64_t prefix_width;         /* at least 1 */
    const float *penalty;         /* [longest limit + 1] */
    int64_t longest;
} tfm__beam_setup;

/* Everything lives in the current scope. */
tfm_status tfm__beam_begin(tfm_context *ctx, tfm__beam *beam, const tfm__beam_setup *setup);

/* Chooses continuations by logits (R, V), in which it forbids words, and makes them the next step's rows, those of
 * `keep` sentences: `live` for all, fewer to drop sentences that are over. */
tfm_status tfm__beam_advance(tfm__beam *beam, tfm_tensor logits, int64_t keep);

/* Reads the finished hypotheses: [total * n_best] of *out, best first. The beam's penalty rules, as `score`. */
tfm_status tfm__beam_finish(tfm__beam *beam, tfm_hypotheses *out, int n_best, const float *penalty);

#endif
