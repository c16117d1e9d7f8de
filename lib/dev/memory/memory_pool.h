/* Blocks of a context's device memory, for tensors. */
#ifndef TFM_DEV_MEMORY_POOL_H
#define TFM_DEV_MEMORY_POOL_H

#include "dev/dev.h"

/* A block of at least `bytes` in the open scope; NULL if the context has failed. */
tfm_buffer *tfm__pool_alloc(tfm_context *ctx, size_t bytes);
/* A buffer struct for memory that is not the pool's; NULL if the context has failed. */
tfm_buffer *tfm__pool_new_buffer(tfm_context *ctx);
/* Removes it from its scope and returns it to the pool, or to the pinned list if it is pinned. */
void tfm__pool_release(tfm_buffer *buffer);
/* Adds to a scope; removes from its scope or list. */
void tfm__pool_scope_add(tfm_context *ctx, int depth, tfm_buffer *buffer);
void tfm__pool_list_remove(tfm_buffer *buffer);

#endif
