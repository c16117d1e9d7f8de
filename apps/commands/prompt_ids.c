/* Prompts of token ids. */
#include "commands/prompt_ids.h"
#include <stdlib.h>
#include <string.h>

/* Parses one prompt. Leaves the number of its ids, or -1 for anything else than whole numbers. */
static int read_ids(prompt_ids *ids, const char *text, size_t *count) {
    const char *at = text + strspn(text, " \t\r\n");
    for (*count = 0; *at; ++*count, at += strspn(at, " \t\r\n")) {
        char *end;
        const long id = strtol(at, &end, 10);
        if (end == at || (*end && !strchr(" \t\r\n", *end)) || id < 0 || id > INT32_MAX)
            return -1;
        if (!cli_grow(&ids->items, &ids->room, ids->count + 1, sizeof(*ids->items)))
            return cli_fail("out of memory for the ids of prompts");
        ids->items[ids->count++] = (int32_t)id;
        at = end;
    }
    return CLI_OK;
}

int prompt_ids_read(prompt_ids *ids, tfm_prompt *list, const char *const *texts, size_t count, const char *source,
                    size_t first) {
    ids->count = 0;
    for (size_t i = 0; i < count; i++) {
        const int code = read_ids(ids, texts[i], &list[i].count);
        if (code == CLI_FAILED)
            return code;
        if (code != CLI_OK)
            return cli_fail("%s %zu: with --token-ids a prompt is whole numbers from 0, separated by blanks", source,
                            first + i + 1);
    }
    for (size_t i = 0, at = 0; i < count; at += list[i++].count) /* the items stay where they are now */
        list[i].ids = ids->items ? ids->items + at : NULL;
    return CLI_OK;
}
