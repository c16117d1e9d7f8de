/* Attention in double precision, and calls of tfm_attention on guarded tensors to compare with it. Elements that no
 * query sees (padding, later keys, unused pool rows, masked keys) are NaN. */
#ifndef TFM_TESTS_ATTENTION_ORACLE_H
#define TFM_TESTS_ATTENTION_ORACLE_H

#include "support/harness.h"
#include "tfm/ops.h"

/* A test case; zero means the op's default. */
typedef struct attention_case {
    int64_t batch, targets, length, heads, kv_heads, key_width, value_width;
    bool heads_first, causal, padded, paged, causal_bottom_right, window;
    bool holes; /* paged: some rows are outside the pool; not with `scored` */
    int64_t past, before, after;
    int64_t beams; /* consecutive query sequences that share one key sequence (kv_batch); 0: no kv_batch */
    float scale, soft_cap;
    bool masked;    /* with a mask of shape mask_dims, which broadcasts or is shorter */
    tfm_dtype mask; /* F32, F16, BF16 or U8 */
    int mask_rank;
    int64_t mask_dims[4];
    tfm_dtype numbers;   /* dtype of q, k and v; I8: of k and v, whose heads have scales, with q in F32 */
    bool narrow;         /* y has that dtype too */
    bool wide_q;         /* q and y are F32 nevertheless */
    bool scored, summed; /* returns scores of `stage`, log-sum-exp */
    tfm_attention_stage stage;
    tfm_dropout_options dropout;
    float spread;     /* of q, 0 means 1 */
    double tolerance; /* 0 means 3e-6, or the rounding of a narrow y */
} attention_case;

/* All tensors on the host, in the op's layouts. */
typedef struct attention_problem {
    attention_case c;
    int64_t sequences, pool; /* N; rows of the pool */
    float *q, *k, *v;
    char *int8_k, *int8_v; /* of I8 */
    float *mask;           /* additive; 0 and -inf for U8 */
    int32_t *lengths, *sources, *rows;
} attention_problem;

attention_problem attention_make(const attention_case *c);
void attention_drop(attention_problem *p);

/* Index of query (b, t, h); index of the dk or dv wide vector in k and v for key j of key head h, query sequence b. */
int64_t attention_query_index(const attention_case *c, int64_t b, int64_t t, int64_t h);
int64_t attention_key_index(const attention_problem *p, int64_t b, int64_t j, int64_t h);

/* The dropout factor of a weight: 0 or 1 / (1 - rate). */
double attention_factor(const tfm_dropout_options *dropout, int64_t heads, int64_t kv_heads, int64_t targets, int64_t b,
                        int64_t h, int64_t t, int64_t j);

/* y (in q's layout), scores (B, H, T, S) and lse (B, H, T); the last two are NULL unless enabled. */
typedef struct attention_wanted {
    double *y, *scores, *lse;
} attention_wanted;
typedef struct attention_got {
    float *y, *scores, *lse;
} attention_got;
attention_wanted attention_oracle(const attention_problem *p);
attention_got attention_run(const attention_problem *p);
/* Number of elements of y. */
size_t attention_count(const attention_case *c);

/* Runs a case; fails the test unless the op's results match the oracle. */
void attention_check(attention_case c);

/* Zeroed host memory; fails the test if there is none. */
void *attention_take(int64_t count, size_t size);

#endif
