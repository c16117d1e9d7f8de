/* Kernel validation: a kernel that uses instructions few devices have, or a library that is not ours, is compared with
 * a reference kernel before its first use. The verdict is kept in the disk cache beside the tuning database, under the
 * device, its driver and the kernel's text, so that this happens once. */
#ifndef TFM_LIB_KERNEL_VALIDATION_H
#define TFM_LIB_KERNEL_VALIDATION_H

#include "dev/dev.h"

/* What is known of a kernel. The numbers are those on disk. */
typedef enum tfm__verdict {
    TFM__UNTESTED,
    TFM__VALID,
    TFM__WRONG,
    TFM__NOT_BUILT,
    TFM__CRASHED_ONCE, /* a validation has begun, and its end is not known */
    TFM__CRASHED,      /* twice: there is no third time */
    TFM__BUSY,         /* another program validates for too long: of this context alone, and not stored */
    TFM__VERDICTS
} tfm__verdict;

typedef struct tfm__validation {
    const char
        *program;     /* whose text the verdict is of: its name without .cl. NULL: the verdict stays in the context */
    const char *what; /* the kernel's form, as it is stored and logged */
    const char *without; /* what the log says is gone on without: "it", "them" */
    /* The sentence of a verdict after TFM__VALID, NULL for the others. */
    const char *(*describe)(tfm__verdict v);
    /* Runs the kernel, in a scope of its own that no tape records. UNTESTED where its result says nothing. What the
     * driver refuses is seen by the context's status. */
    tfm__verdict (*compare)(tfm_context *ctx, const void *form);
    const void *form;
    bool optional; /* NOT_BUILT is nothing to warn of */
    /* Of a kernel that a driver may crash on: one program validates at a time, and leaves a mark where it ends there.
     * Set where this context has waited for another program in vain. NULL: the kernel is not of that kind. */
    bool *waited;
} tfm__validation;

/* The verdict, whose place in the context is *known. UNTESTED after a failure of the context, for want of memory or to
 * run again in smaller work-groups, and where the comparison has said nothing. */
tfm__verdict tfm__validate(tfm_context *ctx, unsigned char *known, const tfm__validation *v);

/* Removes the stored verdicts of this device, for contexts that ask from then on. The caller's failure. */
tfm_status tfm__validation_forget(tfm_context *ctx);

#endif
