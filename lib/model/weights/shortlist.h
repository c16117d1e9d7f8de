/* Lexical shortlists of Bergamot's models (lex.50.50.deen.s2t.bin): possible target words of each source word. A search
 * with a shortlist computes only a small part of the output projection. https://github.com/browsermt/marian-dev:
 * src/data/shortlist.h. */
#ifndef TFM_LIB_SHORTLIST_H
#define TFM_LIB_SHORTLIST_H

#include <stdbool.h>
#include "base/base.h"

/* Read-only; thread-safe. */
typedef struct tfm__shortlist tfm__shortlist;

/* Opens a file for the given vocabulary sizes. `shared`: with one vocabulary for both sides, a source word may always
 * be copied. TFM_ERROR_IO if missing, TFM_ERROR_FORMAT if damaged or for another model. */
tfm_status tfm__shortlist_open(tfm__shortlist **out, const char *path, int source_size, int target_size, bool shared);
/* Frees the list and sets the pointer to NULL; NULL is ignored. */
void tfm__shortlist_free(tfm__shortlist **list);

/* The target ids allowed for `count` source ids; source ids outside the vocabulary are ignored. Ascending, newly
 * allocated, padded to a multiple of 8 if the vocabulary allows. */
tfm_status tfm__shortlist_find(const tfm__shortlist *list, int32_t **out, size_t *out_count, const int32_t *ids,
                               size_t count);

#endif
