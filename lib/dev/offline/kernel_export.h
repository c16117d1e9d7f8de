/* What contexts ask for while tfm_kernels_begin is in force (kernel_export.c), and the folder that it becomes. */
#ifndef TFM_LIB_DEV_KERNEL_EXPORT_H
#define TFM_LIB_DEV_KERNEL_EXPORT_H

#include <jansson.h>
#include "dev/device/context_internal.h"

/* For a context that is being opened, whose device is known: if programs are collected, it takes what tuning and limits
 * follow from, from the device that they are for. */
tfm_status tfm__kernel_export_begin(tfm_context *ctx);
/* Takes the programs of a context that goes. A failure is told by tfm_kernels_end. */
void tfm__kernel_export_add(tfm_context *ctx);

/* The manifest of an exported folder, checked: "programs" is an array of objects with the strings "name" and "options".
 * Given back with json_decref. */
tfm_status tfm__kernel_manifest_load(json_t **out, const char *dir);

#endif
