/* API keys and their limits (keys.c). */
#ifndef TFM_SERVE_KEYS_H
#define TFM_SERVE_KEYS_H

#include "cli/cli.h"

typedef struct serve_key {
    const char *text;
    int requests, chars; /* per minute, and of a request; 0: the limits of the server */
    double left, since;  /* requests that may be sent at this time; `since` is 0 at first */
} serve_key;

typedef struct serve_keys {
    serve_key *items;
    size_t count, room;
    cli_lines lines; /* of the file, which own its keys */
} serve_keys;

/* Takes the keys of --api-key, and reads those of the file, which may be NULL: a line is KEY [REQUESTS [CHARACTERS]].
 * CLI_OK, or CLI_FAILED after a message; freed in any case. */
int serve_keys_read(serve_keys *keys, const cli_strings *given, const char *file);
void serve_keys_free(serve_keys *keys);

#endif
