/* Shared by the selftest's checks: inputs that are the same in every run, and comparison. A check fills its inputs,
 * computes the reference next to the op's call, and compares. */
#ifndef TFM_LIB_SELFTEST_H
#define TFM_LIB_SELFTEST_H

#include "ops/ops.h"

enum { TFM__CHECK_ALLOCATIONS = 24 };

typedef struct tfm__check {
    tfm_context *ctx;
    const char *form;        /* name of the check after the op's: for GEMM, the provider */
    int number;              /* selects the case of an op: an activation, a dtype, a table row */
    double error;            /* the largest error so far */
    const char *skip_reason; /* not NULL: not available here */
    uint64_t random;
    void *allocations[TFM__CHECK_ALLOCATIONS]; /* host memory, freed after the check */
    size_t allocation_count;
} tfm__check;

/* Zeroed host memory that is freed after the check, or NULL and a failed context. */
void *tfm__check_alloc(tfm__check *c, size_t count, size_t size);
#define EXPECTED(count) tfm__check_alloc(c, (size_t)(count), sizeof(double))

/* A tensor, and its host copy in *host_out: floats in [-2, 2), or ints below `below`. */
tfm_tensor tfm__check_random(tfm__check *c, void *host_out, tfm_dtype dtype, int rank, const int64_t *dims, int below);
#define RANK(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define RANDOM_FLOATS(host, ...) tfm__check_random(c, &(host), TFM_F32, RANK(__VA_ARGS__), (int64_t[]){__VA_ARGS__}, 0)
#define RANDOM_INTS(host, below, ...)                                                                                  \
    tfm__check_random(c, &(host), TFM_I32, RANK(__VA_ARGS__), (int64_t[]){__VA_ARGS__}, below)

/* Compares a result with the reference; infinities must match. */
void tfm__check_compare(tfm__check *c, tfm_tensor got, const double *want);
void tfm__check_compare_ints(tfm__check *c, tfm_tensor got, const int32_t *want);

/* Whether the inputs were created. */
bool tfm__check_ready(const tfm__check *c);

/* The activation of a value, for ops with one in their epilogue. */
double tfm__check_activation(double x, tfm_activation activation);

/* Dropout's random numbers by the host's Philox4x32-10: word `word` of the block (block, row, stream). */
uint32_t tfm__check_philox(const tfm_dropout_options *d, uint32_t block, uint32_t row, int word);

typedef struct tfm__check_entry {
    const char *op, *form;
    void (*run)(tfm__check *c);
    int number;
} tfm__check_entry;

/* Each op of meson.build's list `ops` ends with its checks, found by the op's name:
 *
 *     const tfm__check_entry tfm__selftest_scale[] = {
 *         {"scale", "", check, 0},
 *         {0},
 *     }; */

#endif
