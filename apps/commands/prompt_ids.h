/* Prompts of token ids (prompt_ids.c). */
#ifndef TFM_COMMANDS_PROMPT_IDS_H
#define TFM_COMMANDS_PROMPT_IDS_H

#include <tfm/tfm.h>
#include "cli/cli.h"

/* The ids of all prompts; the caller frees `items`. */
typedef struct prompt_ids {
    int32_t *items;
    size_t count, room;
} prompt_ids;

/* Parses prompts, which are whole numbers separated by blanks; `list` receives the ids of each, which stay valid until
 * the next call. `source` and `first`, a number, name a bad one. CLI_OK, or CLI_FAILED after a message. */
int prompt_ids_read(prompt_ids *ids, tfm_prompt *list, const char *const *texts, size_t count, const char *source,
                    size_t first);

#endif
