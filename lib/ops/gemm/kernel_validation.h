/* Kernel validation: a kernel with instructions that few devices have, or an external library, is compared with a
 * reference kernel before its first use. A kernel's verdict is stored in the disk cache, next to the tuning database,
 * by device, driver and kernel text; a library's is kept by the context only. */
#ifndef TFM_LIB_KERNEL_VALIDATION_H
#define TFM_LIB_KERNEL_VALIDATION_H

#include "dev/dev.h"

/* Verdicts; the numbers are stored on disk. */
typedef enum tfm__verdict {
    TFM__UNTESTED,
    TFM__VALID,
    TFM__WRONG,
    TFM__NOT_BUILT,
    TFM__CRASHED_ONCE, /* a validation has begun, and its end is unknown */
    TFM__CRASHED,      /* twice: it is not tried a third time */
    TFM__BUSY,         /* another program validates for too long: for this context only, not stored */
    TFM__VERDICTS
} tfm__verdict;

typedef struct tfm__validation {
    const char *program; /* its text is part of the key: name without .cl. NULL: the verdict is not stored */
    const char *what;    /* the kernel's form, as stored and logged */
    const char *without; /* the skipped thing in log messages: "it", "them" */
    /* The message of a verdict after TFM__VALID, NULL for others. */
    const char *(*describe)(tfm__verdict v);
    /* Runs the kernel in a separate scope without tape. UNTESTED if the result proves nothing. A driver's refusal shows
     * in the context's status. */
    tfm__verdict (*compare)(tfm_context *ctx, const void *form);
    const void *form;
    bool optional; /* do not warn about NOT_BUILT */
    /* For a kernel that may crash the driver: one program validates at a time, and a mark stays if it ends there. Set
     * if this context has waited for another program in vain. NULL: the kernel cannot crash. */
    bool *waited;
} tfm__validation;

/* The verdict, cached in *known. UNTESTED after a failure of the context (out of memory, or a retry with smaller
 * work-groups), and if the comparison proved nothing. */
tfm__verdict tfm__validate(tfm_context *ctx, unsigned char *known, const tfm__validation *v);

/* Removes the stored verdicts of this device, for later contexts. Failures are the caller's to handle. */
tfm_status tfm__validation_forget(tfm_context *ctx);

#endif
