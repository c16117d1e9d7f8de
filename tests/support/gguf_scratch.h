/* GGUF files in the scratch folder. */
#ifndef TFM_TESTS_GGUF_SCRATCH_H
#define TFM_TESTS_GGUF_SCRATCH_H

#include "support/gguf_builder.h"
#include "support/scratch.h"

/* Writes the file to the scratch folder. */
static inline void gguf_write(gguf_builder *b, const char *name) {
    gguf_bytes all = gguf_finish(b);
    scratch_write(name, all.data, all.size);
    free(all.data);
}

#endif
