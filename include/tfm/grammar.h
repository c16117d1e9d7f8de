/* Grammars for constrained decoding: the text of a model is one that a grammar or a JSON schema describes.
 *
 *     tfm_grammar *grammar = NULL;
 *     if (tfm_grammar_from_json_schema(&grammar, "{\"type\": \"object\", \"properties\": {\"age\": {\"type\": "
 *                                                "\"integer\"}}, \"required\": [\"age\"]}") == TFM_OK)
 *         printf("%d\n", tfm_grammar_matches(grammar, "{\"age\": 7}", 10));
 *     tfm_grammar_free(&grammar);
 *
 * Grammars are untrusted: their size, nesting and repetitions are limited. */
#ifndef TFM_GRAMMAR_H
#define TFM_GRAMMAR_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A grammar. Immutable, so any number of threads may use it. It keeps masks of vocabularies it was used with, so use
 * one object for several texts. */
typedef struct tfm_grammar tfm_grammar;

/* Compiles a grammar in llama.cpp's GBNF; it begins with the rule `root`:
 *
 *   root ::= item ("," item)* "\n"?       rules; a group, and a rule after `::=` and `|`, may have line breaks
 *   item ::= [a-z_] [^"\x00-\x1f]{0,8} .  classes, repetition * + ? {m} {m,} {m,n}, any character
 *
 * Texts and classes have the escapes \n \r \t \\ \" \[ \] \xNN \uNNNN \UNNNNNNNN; `#` begins a comment. Names have
 * letters, digits, - and _. On failure *out is NULL: TFM_ERROR_FORMAT with line and column for an invalid grammar;
 * TFM_ERROR_UNSUPPORTED for a left-recursive rule, and for a grammar of more than 1 MiB, 65,536 rules, 262,144 nodes
 * after repetitions are expanded, or 128 nested groups. */
TFM_API tfm_status tfm_grammar_from_gbnf(tfm_grammar **out, const char *text);

/* Compiles a JSON schema (draft 2020-12), as text, to the JSON that is valid for it. NULL or "" is any JSON object.
 *
 *   - `type`, `enum`, `const`, `anyOf`, `allOf`, `oneOf`, `$ref` to "#/...", `$defs`, `definitions`, true, false
 *   - objects: `properties`, `required`, `additionalProperties`
 *   - arrays: `items`, `prefixItems`, `minItems`, `maxItems`
 *   - strings: `minLength`, `maxLength`, `pattern`, and `format`: date, time, date-time, uuid, email, ipv4, ipv6, uri
 *   - numbers: `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`
 *   - annotations: `title`, `description`, `default`, `examples`, `deprecated`, `readOnly`, `writeOnly`, `$schema`,
 *     `$comment`, and at the top `$id`
 *
 * Properties have the order of the schema; others follow if `additionalProperties` allows them, as it does by default.
 * After { [ , : and before } ] there may be a blank, or a line break and up to 32 blanks. An integer has no fraction
 * and no exponent. A number with bounds has no exponent and about 15 digits, so that rounding does not cross a bound.
 * `pattern` is a regular expression of ECMA-262 without assertions other than ^ and $, back references and \p; it may
 * match a part of the string. The alternatives of `oneOf` must differ by type, by constants, or by a required property
 * with constants. TFM_ERROR_FORMAT for an invalid schema; TFM_ERROR_UNSUPPORTED, with its JSON pointer, for any other
 * keyword, and beyond the limits of tfm_grammar_from_gbnf. On failure *out is NULL. */
TFM_API tfm_status tfm_grammar_from_json_schema(tfm_grammar **out, const char *schema);

/* Whether the grammar describes the whole text, of any bytes. False too if memory runs out, or if the text needs more
 * states than decoding allows. */
TFM_API bool tfm_grammar_matches(const tfm_grammar *grammar, const char *text, size_t bytes);

/* Releases it and sets the pointer to NULL. Sequences that are decoded with it keep what they need. */
TFM_API void tfm_grammar_free(tfm_grammar **grammar);

#ifdef __cplusplus
}
#endif
#endif
