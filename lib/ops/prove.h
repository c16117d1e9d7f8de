/* Kernels of instructions that few devices have, and that nobody here may have run: each form is tried once for a
 * device, its driver and the kernel's text, beside a kernel that is known to be right, before it is used. */
#ifndef TFM_LIB_PROVE_H
#define TFM_LIB_PROVE_H

#include "dev/dev.h"

/* What is known of a form. */
typedef enum tfm__verdict {
    TFM__UNTRIED,
    TFM__GOOD,
    TFM__WRONG,
    TFM__NOT_BUILT,
    TFM__CUT_ONCE,  /* a trial has begun, and nobody has heard of its end */
    TFM__CUT_AGAIN, /* so it was twice: no third time */
    TFM__BUSY,      /* another program is at a trial for too long: of this context alone, and not kept */
    TFM__VERDICTS
} tfm__verdict;

/* A form to try. `compare` runs it, in a scope of its own, and says GOOD, WRONG or NOT_BUILT; what the driver refuses
 * is seen by the context's status. */
typedef struct tfm__proof {
    const char *program; /* whose text the verdict is of: its name without .cl */
    const char *what;    /* the form, as it is kept and told */
    const char *without; /* what is gone on without: "it", "them" */
    const char *(*trouble)(tfm__verdict v);
    tfm__verdict (*compare)(tfm_context *ctx, const void *form);
    const void *form;
    bool kept;     /* on disk; what is not is tried in each context */
    bool may_lack; /* NOT_BUILT is nothing to warn of */
    bool *waited;  /* of the context: it has waited for another program, in vain */
} tfm__proof;

/* What is known by now of the form, whose place in the context is *known. UNTRIED where it could not be tried, and the
 * context has failed: for want of memory, or to begin anew in smaller groups. */
tfm__verdict tfm__prove(tfm_context *ctx, unsigned char *known, const tfm__proof *p);

#endif
