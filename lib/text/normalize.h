/* The `normalizer` of a tokenizer.json: what is done to a text before it is cut. */
#ifndef TFM_LIB_NORMALIZE_H
#define TFM_LIB_NORMALIZE_H

#include "base/base.h"
#include "text/bytes.h"
#include "text/hf_json.h"
#include "text/regex.h"

typedef struct tfm__normalizer tfm__normalizer;

/* Reads a normalizer; null is one that changes nothing. */
tfm_status tfm__normalizer_read(tfm__normalizer **out, const json_t *value, const char *path);
void tfm__normalizer_free(tfm__normalizer **normalizer);

/* Whether it makes bytes characters (GPT-2's table). */
bool tfm__normalizer_is_byte_level(const tfm__normalizer *normalizer);

/* Normalises `text`, which holds well-formed UTF-8 before and afterwards. `spare` is memory to work in. *start becomes
 * false if the text's first characters were taken away, as far as `tokenizers` remembers that. */
tfm_status tfm__normalizer_run(const tfm__normalizer *normalizer, tfm__bytes *text, tfm__bytes *spare, bool *start,
                               tfm__regex_memory *memory);

/* Adds a text in one of Unicode's normal forms. */
typedef enum tfm__unicode_form { TFM__NFC, TFM__NFD, TFM__NFKC, TFM__NFKD } tfm__unicode_form;
tfm_status tfm__unicode_normalize(tfm__bytes *out, const char *text, size_t bytes, tfm__unicode_form form);

/* The characters by which a byte-level vocabulary writes bytes, and back: -1 for a character that is none of them. */
int32_t tfm__byte_to_char(unsigned char byte);
int tfm__char_to_byte(int32_t c);

#endif
