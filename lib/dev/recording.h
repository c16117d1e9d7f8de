/* What the other files of lib/dev do with a recording that is under way. */
#ifndef TFM_LIB_DEV_RECORDING_H
#define TFM_LIB_DEV_RECORDING_H

#include "dev/cl.h"

/* A launch that was enqueued while ctx->recording is under way. */
void tfm__recording_add(tfm_context *ctx, const tfm__kernel *kernel, const tfm__grid *grid, size_t count,
                        const tfm__arg *args);

/* Its free blocks by size class: what is given back while it is under way, and taken again before others. */
tfm_buffer **tfm__recording_blocks(tfm__recording *recording);

/* Puts others among the free blocks of the context's pool. */
void tfm__pool_join(tfm_context *ctx, tfm_buffer **others);

#endif
