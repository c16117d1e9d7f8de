/* Shared by the reader of GGUF files (gguf.c) and of their metadata (gguf_values.c). */
#ifndef TFM_LIB_GGUF_READ_H
#define TFM_LIB_GGUF_READ_H

#include "base/gguf.h"

/* The rest of a file. */
typedef struct tfm__gguf_cursor {
    const unsigned char *at, *end;
    const char *path;
} tfm__gguf_cursor;

/* "PATH is damaged: WHAT; copy or download it again". */
tfm_status tfm__gguf_damaged(const char *path, const char *what);
tfm_status tfm__gguf_truncated(const tfm__gguf_cursor *c);

/* Copies the next bytes; false if there are fewer. */
bool tfm__gguf_take(tfm__gguf_cursor *c, void *out, size_t bytes);
/* A key or a tensor's name, which messages print: 1 to `limit` bytes without control characters. `what` is in the error
 * message. */
tfm_status tfm__gguf_take_name(tfm__gguf_cursor *c, tfm__gguf_text *out, size_t limit, const char *what);

typedef struct tfm__gguf_metadata {
    tfm__gguf_value *items; /* sorted by key */
    size_t count, room;
} tfm__gguf_metadata;

/* Reads `count` values; *out is empty before, and after a failure. */
tfm_status tfm__gguf_metadata_read(tfm__gguf_cursor *c, tfm__gguf_metadata *out, uint64_t count);
const tfm__gguf_value *tfm__gguf_metadata_find(const tfm__gguf_metadata *all, const char *key);
void tfm__gguf_metadata_free(tfm__gguf_metadata *all);

#endif
