/* Texts of the megakernel's parts (megakernel.c). All are freed with free(); NULL without memory. */
#ifndef TFM_LIB_DEV_MEGAKERNEL_TEXT_H
#define TFM_LIB_DEV_MEGAKERNEL_TEXT_H

#include "dev/device/context_internal.h"

/* A program's text with its kernels and constants as static ones, since others have the same names, and
 * tfm_body_<number>, which calls `kernel`. */
char *tfm__megakernel_body_text(const char *source, const tfm__kernel *kernel, size_t number);

/* The arguments of a call, read from a record: ", (__global void *)tfm_arguments[0], ...". Also NULL if the driver does
 * not tell the type of a struct. */
char *tfm__megakernel_body_call(const tfm__kernel *kernel, size_t count, const tfm__arg *args);

/* The text of the megakernel itself for `count` bodies; NULL also after a failure of the context. */
char *tfm__megakernel_driver_text(tfm_context *ctx, size_t count);

#endif
