/* The `normalizer` of a tokenizer.json. */
#ifndef TFM_LIB_NORMALIZE_H
#define TFM_LIB_NORMALIZE_H

#include "base/base.h"
#include "text/bytes.h"
#include "text/hf_json.h"
#include "text/regex.h"

typedef struct tfm__normalizer tfm__normalizer;

/* Reads a normalizer; null changes nothing. */
tfm_status tfm__normalizer_read(tfm__normalizer **out, const json_t *value, const char *path);
void tfm__normalizer_free(tfm__normalizer **normalizer);

/* Whether it maps bytes to characters (GPT-2's table). */
bool tfm__normalizer_is_byte_level(const tfm__normalizer *normalizer);

/* Normalizes `text`, well-formed UTF-8 before and after. `spare` is working memory. *start becomes false if the first
 * characters were removed, as far as `tokenizers` tracks that. */
tfm_status tfm__normalizer_run(const tfm__normalizer *normalizer, tfm__bytes *text, tfm__bytes *spare, bool *start,
                               tfm__regex_memory *memory);

/* Adds a text in a Unicode normal form. */
typedef enum tfm__unicode_form { TFM__NFC, TFM__NFD, TFM__NFKC, TFM__NFKD } tfm__unicode_form;
tfm_status tfm__unicode_normalize(tfm__bytes *out, const char *text, size_t bytes, tfm__unicode_form form);

/* The characters of bytes in a byte-level vocabulary, and back: -1 for other characters. */
int32_t tfm__byte_to_char(unsigned char byte);
int tfm__char_to_byte(int32_t c);

#endif
