/* Hooks of contexts while tfm_kernels_begin is active (kernel_export.c), and the exported folder. */
#ifndef TFM_LIB_DEV_KERNEL_EXPORT_H
#define TFM_LIB_DEV_KERNEL_EXPORT_H

#include <jansson.h>
#include "dev/device/context_internal.h"

/* Call while opening a context, once its device is known: during an export, the context takes tuning and limits from
 * the target device. */
tfm_status tfm__kernel_export_begin(tfm_context *ctx);
/* Records the programs of a closing context. tfm_kernels_end reports a failure. */
void tfm__kernel_export_add(tfm_context *ctx);

/* The validated manifest of an exported folder: "programs" is an array of objects with the strings "name" and
 * "options". Released with json_decref. */
tfm_status tfm__kernel_manifest_load(json_t **out, const char *dir);

#endif
