/* The `post_processor` of a tokenizer.json: templates of one or two texts. */
#ifndef TFM_LIB_HF_TEMPLATE_H
#define TFM_LIB_HF_TEMPLATE_H

#include "text/hf_json.h"
#include "text/tokenizer_kind.h"

/* Placeholders of the texts, instead of an id. */
enum { TFM__TEMPLATE_A = -1, TFM__TEMPLATE_B = -2 };

/* Ids and placeholders, for one text and for two. Initially {0}. */
typedef struct tfm__template {
    tfm__id_buffer single, pair;
} tfm__template;

/* Reads a post-processor; null concatenates the texts. */
tfm_status tfm__template_read(tfm__template *out, const json_t *value, const char *path);
/* The template `first X last ending` of one text, where each id may be -1 for none. A second text follows the first. */
tfm_status tfm__template_from_ids(tfm__template *out, int32_t first, int32_t last, int32_t ending);
void tfm__template_free(tfm__template *value);

#endif
