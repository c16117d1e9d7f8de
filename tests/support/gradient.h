/* Gradient checks: an op's forward and backward pass against central differences of an oracle in double precision. */
#ifndef TFM_TESTS_GRADIENT_H
#define TFM_TESTS_GRADIENT_H

#include "support/harness.h"
#include "tfm/tape.h"

enum { GRADIENT_INPUTS = 8 };

/* An input of the op under test. */
typedef struct gradient_input {
    int rank; /* 0 ends the list */
    int64_t dims[TFM_MAX_RANK];
    const float *host;
    bool fixed; /* requires no gradient */
} gradient_input;

typedef struct gradient_case gradient_case;
struct gradient_case {
    const char *name;
    gradient_input inputs[GRADIENT_INPUTS];
    /* y from the inputs, in double precision; `count` elements. */
    void (*oracle)(const gradient_case *c, double *y, double *const *inputs);
    /* The op: creates *y, an empty tensor, from the tensors. */
    tfm_status (*run)(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs);
    const void *user;
    size_t count;      /* elements of y */
    double tolerance;  /* as harness_close takes it */
    bool ones;         /* the gradient of y is 1 everywhere, as for a loss, instead of random */
    int repeats;       /* further passes that must be bit-identical; 0 means 1 */
    bool watched_only; /* the op only accepts watched inputs */
};

/* Checks: recorded and unrecorded forward are bit-identical; each gradient is the previous one plus the oracle's;
 * further passes are bit-identical; inputs may be outputs of other ops; no write outside any tensor.
 * Compares up to 400 gradient elements of each input; under sanitizers, where the oracle is ten times slower, up to 40,
 * unless TFM_GRADIENT_ALL=1. */
void gradient_check(const gradient_case *c);

#endif
