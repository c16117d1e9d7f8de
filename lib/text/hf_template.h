/* The `post_processor` of a tokenizer.json: what goes around one or two texts. */
#ifndef TFM_LIB_HF_TEMPLATE_H
#define TFM_LIB_HF_TEMPLATE_H

#include "text/hf_json.h"
#include "text/tokenizer_kind.h"

/* In the place of an id: the texts. */
enum { TFM__TEMPLATE_A = -1, TFM__TEMPLATE_B = -2 };

/* Ids, and where the texts go, for one text and for two. It starts as {0}. */
typedef struct tfm__template {
    tfm__id_buffer single, pair;
} tfm__template;

/* Reads a post-processor; null is one that puts one text after the other. */
tfm_status tfm__template_read(tfm__template *out, const json_t *value, const char *path);
/* The template of one text between ids, of which each may be -1 for none: first X last ending. A second text follows
 * the first. */
tfm_status tfm__template_from_ids(tfm__template *out, int32_t first, int32_t last, int32_t ending);
void tfm__template_free(tfm__template *value);

#endif
