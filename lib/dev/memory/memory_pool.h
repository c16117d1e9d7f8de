/* Blocks of device memory of a context, as tensors get them. */
#ifndef TFM_DEV_MEMORY_POOL_H
#define TFM_DEV_MEMORY_POOL_H

#include "dev/dev.h"

/* A block of at least so many bytes, in the scope that is open, or NULL; then the context has failed. */
tfm_buffer *tfm__pool_alloc(tfm_context *ctx, size_t bytes);
/* A buffer without memory, for memory that is not the pool's; or NULL, and the context has failed. */
tfm_buffer *tfm__pool_new_buffer(tfm_context *ctx);
/* Out of its scope, and back to the pool; to what only pins hold, where it is pinned. */
void tfm__pool_release(tfm_buffer *buffer);
/* Into a scope; and out of the scope, or of the list, that it is in. */
void tfm__pool_scope_add(tfm_context *ctx, int depth, tfm_buffer *buffer);
void tfm__pool_list_remove(tfm_buffer *buffer);

#endif
