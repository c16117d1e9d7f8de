/* What the selftest's checks share: inputs that are the same in every run, and a judge. A check fills its
 * inputs, computes what is wanted beside the op's call, and lets the judge compare. */
#ifndef TFM_LIB_SELFTEST_H
#define TFM_LIB_SELFTEST_H

#include "ops/ops.h"

enum { TFM__CHECK_ALLOCATIONS = 24 };

typedef struct tfm__check {
    tfm_context *ctx;
    const char *form;        /* the check's name beside the op's: of a product, the provider's */
    int number;              /* which of an op's checks: an activation, a dtype, a row of a table */
    double error;            /* the worst so far */
    const char *skip_reason; /* not NULL: not available here */
    uint64_t random;
    void *allocations[TFM__CHECK_ALLOCATIONS]; /* host memory, freed after the check */
    size_t allocation_count;
} tfm__check;

/* Zeroed host memory that lives as long as the check, or NULL and a failed context. */
void *tfm__check_alloc(tfm__check *c, size_t count, size_t size);
#define EXPECTED(count) tfm__check_alloc(c, (size_t)(count), sizeof(double))

/* A tensor, and its host copy in *host_out: floats in [-2, 2), or ints below `below`. */
tfm_tensor tfm__check_random(tfm__check *c, void *host_out, tfm_dtype dtype, int rank, const int64_t *dims, int below);
#define RANK(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define RANDOM_FLOATS(host, ...) tfm__check_random(c, &(host), TFM_F32, RANK(__VA_ARGS__), (int64_t[]){__VA_ARGS__}, 0)
#define RANDOM_INTS(host, below, ...)                                                                                  \
    tfm__check_random(c, &(host), TFM_I32, RANK(__VA_ARGS__), (int64_t[]){__VA_ARGS__}, below)

/* Compares a result with what is wanted; infinities must be met. */
void tfm__check_compare(tfm__check *c, tfm_tensor got, const double *want);
void tfm__check_compare_ints(tfm__check *c, tfm_tensor got, const int32_t *want);

/* Whether the inputs are there. */
bool tfm__check_ready(const tfm__check *c);

/* The activation of a value, for ops that have one at their end. */
double tfm__check_activation(double x, tfm_activation activation);

/* Dropout's numbers by the host's own Philox4x32-10: word `word` of the block (block, row, stream). */
uint32_t tfm__check_philox(const tfm_dropout_options *d, uint32_t block, uint32_t row, int word);

typedef struct tfm__check_entry {
    const char *op, *form;
    void (*run)(tfm__check *c);
    int number;
} tfm__check_entry;

/* Each op of meson.build's list `ops` ends with its checks, which are found by the op's name:
 *
 *     const tfm__check_entry tfm__selftest_scale[] = {
 *         {"scale", "", check, 0},
 *         {0},
 *     }; */

#endif
