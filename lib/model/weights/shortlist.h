/* Lexical shortlists, which Bergamot's models have beside them (lex.50.50.deen.s2t.bin): for each word of the source
 * those of the target that may translate it. A search that asks for these alone does without most of the output
 * projection.
 * https://github.com/browsermt/marian-dev: src/data/shortlist.h. */
#ifndef TFM_LIB_SHORTLIST_H
#define TFM_LIB_SHORTLIST_H

#include <stdbool.h>
#include "base/base.h"

/* Any number of threads may read one. */
typedef struct tfm__shortlist tfm__shortlist;

/* Opens a file for vocabularies of these sizes. `shared`: both sides have one vocabulary, and a word of the source may
 * always be written as it is. TFM_ERROR_IO for a missing file, TFM_ERROR_FORMAT for one that is damaged or of another
 * model. */
tfm_status tfm__shortlist_open(tfm__shortlist **out, const char *path, int source_size, int target_size, bool shared);
/* Frees the list and sets the pointer to NULL. Does nothing for NULL. */
void tfm__shortlist_free(tfm__shortlist **list);

/* The target's ids that may be written for `count` ids of the source, those outside its vocabulary aside: ascending, in
 * fresh memory, a multiple of 8 of them where there are as many. */
tfm_status tfm__shortlist_find(const tfm__shortlist *list, int32_t **out, size_t *out_count, const int32_t *ids,
                               size_t count);

#endif
