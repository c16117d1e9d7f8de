/* Backward passes against the oracle: an op's recorded forward, its gradients, and central differences of the
 * oracle in double precision. */
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
    bool fixed; /* no gradient is asked for */
} gradient_input;

typedef struct gradient_case gradient_case;
struct gradient_case {
    const char *name;
    gradient_input inputs[GRADIENT_INPUTS];
    /* y from the inputs, in double precision; `count` elements. */
    void (*oracle)(const gradient_case *c, double *y, double *const *inputs);
    /* The op: makes *y, an empty tensor, from the tensors. */
    tfm_status (*run)(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs);
    const void *user;
    size_t count;      /* elements of y */
    double tolerance;  /* as harness_close takes it */
    bool ones;         /* the gradient of y is 1 everywhere, as a loss has it, not random */
    int repeats;       /* passes after the first that must give its bits; 0 means 1 */
    bool watched_only; /* the op takes no inputs but watched ones */
};

/* Checks that the recorded forward gives the bits of the unrecorded one, that each gradient is what was there
 * plus the oracle's, that further passes give the same bits, that the op may be given what other ops made, and that
 * nothing around any tensor is touched.
 * Gradients are compared at up to 400 elements of each input. Under the sanitizers, which look at the host's memory
 * and make the oracle ten times slower, at up to 40, unless the environment has TFM_GRADIENT_ALL=1. */
void gradient_check(const gradient_case *c);

#endif
