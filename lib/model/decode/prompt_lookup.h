/* Prompt lookup: drafts of the next tokens from the sequence itself (github.com/apoorvumang/prompt-lookup-decoding,
 * 2023).
 */
#ifndef TFM_LIB_PROMPT_LOOKUP_H
#define TFM_LIB_PROMPT_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

/* Writes `count` drafts of the tokens after ids [length], behind them: what followed the last earlier occurrence of the
 * newest 3 tokens, or else of the newest 2. False if there is none. */
bool tfm__prompt_lookup(int32_t *ids, int64_t length, int64_t count);

#endif
