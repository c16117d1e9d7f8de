/* Attention in double precision, and calls of tfm_attention between guards to compare with it. What no query
 * sees (padding, later keys, unused pool rows, what a mask hides) is NaN. */
#ifndef TFM_TESTS_ATTENTION_ORACLE_H
#define TFM_TESTS_ATTENTION_ORACLE_H

#include "support/harness.h"
#include "tfm/ops.h"

/* What is asked for; zero where the op's options are. */
typedef struct attention_case {
    int64_t batch, targets, length, heads, kv_heads, key_width, value_width;
    bool heads_first, causal, padded, paged, causal_bottom_right, window;
    bool holes; /* where paged, some rows are none of the pool; without `scored` */
    int64_t past, before, after;
    int64_t beams; /* so many query sequences in a row read one of keys, by `sources`; 0: none given */
    float scale, soft_cap;
    bool masked;    /* with a mask of these dims, which repeat or end early */
    tfm_dtype mask; /* F32, F16, BF16 or U8 */
    int mask_rank;
    int64_t mask_dims[4];
    tfm_dtype numbers;   /* of q, k and v */
    bool narrow;         /* y is of that dtype, too */
    bool wide_q;         /* q is F32 all the same; y as well */
    bool scored, summed; /* scores of `stage`, log sums */
    tfm_attention_stage stage;
    tfm_dropout_options dropout;
    float spread;     /* of q, 0 means 1 */
    double tolerance; /* 0 means 3e-6, and what a narrow y needs */
} attention_case;

/* Everything on the host, in the layouts that the op takes. */
typedef struct attention_problem {
    attention_case c;
    int64_t sequences, pool; /* N; rows of the pool */
    float *q, *k, *v;
    float *mask; /* what is added: 0 and -inf for U8 */
    int32_t *lengths, *sources, *rows;
} attention_problem;

attention_problem attention_make(const attention_case *c);
void attention_drop(attention_problem *p);

/* Where query (b, t, h) lies among all; which dk or dv wide vector of k and v is key j of key head h for
 * query sequence b. */
int64_t attention_query_index(const attention_case *c, int64_t b, int64_t t, int64_t h);
int64_t attention_key_index(const attention_problem *p, int64_t b, int64_t j, int64_t h);

/* What dropout makes of a weight: its factor, 0 or 1 / (1 - rate). */
double attention_factor(const tfm_dropout_options *dropout, int64_t heads, int64_t kv_heads, int64_t targets, int64_t b,
                        int64_t h, int64_t t, int64_t j);

/* y (in q's layout), scores (B, H, T, S) and log sums (B, H, T); the latter two NULL unless asked for. */
typedef struct attention_wanted {
    double *y, *scores, *lse;
} attention_wanted;
typedef struct attention_got {
    float *y, *scores, *lse;
} attention_got;
attention_wanted attention_oracle(const attention_problem *p);
attention_got attention_run(const attention_problem *p);
/* Elements of y. */
size_t attention_count(const attention_case *c);

/* All of it: fails the test unless the op's results are the oracle's. */
void attention_check(attention_case c);

/* Zeroed host memory that must be there. */
void *attention_take(int64_t count, size_t size);

#endif
