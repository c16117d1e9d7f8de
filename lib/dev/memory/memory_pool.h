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

/* The memory of a tensor whose old content is not needed, for the host to write in, if device and host share it and
 * the device is of CPU style; else NULL, and tfm_tensor_write serves. Several threads may write. */
void *tfm__tensor_map(tfm_context *ctx, tfm_tensor x);
tfm_status tfm__tensor_unmap(tfm_context *ctx, tfm_tensor x, void *memory);
/* Hints for such memory, all of which will be written soon: large pages; or, with `now`, its pages at once, which costs
 * less than a page fault for each. */
void tfm__memory_prepare(void *at, size_t bytes, bool now);

#endif
