/* API keys and their limits. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "serve/request.h"
#include "serve/server.h"

/* Bytes of a key, with NUL. */
enum { LEAST_KEY = 8, KEY = 256 };

/* ---- The file -------------------------------------------------------------------------------------------------- */

static int add(serve_keys *keys, serve_key key) {
    const size_t length = strlen(key.text);
    if (length < LEAST_KEY || length >= KEY)
        return cli_fail("key %zu has %zu characters: give %d to %d, as from `openssl rand -hex 16`", keys->count + 1,
                        length, LEAST_KEY, KEY - 1);
    if (!cli_grow(&keys->items, &keys->room, keys->count + 1, sizeof(*keys->items)))
        return cli_fail("out of memory for the keys");
    keys->items[keys->count++] = key;
    return CLI_OK;
}

/* A limit of a key; a missing one is 0. */
static bool read_limit(int *out, const char *word) {
    char *end;
    errno = 0;
    const long value = word ? strtol(word, &end, 10) : 0;
    *out = (int)value;
    return !word || (*word >= '0' && *word <= '9' && *end == 0 && errno == 0 && value > 0 && value <= INT_MAX);
}

/* Parses a line in place. */
static int read_line(serve_keys *keys, char *line, size_t number, const char *file) {
    char *rest = line;
    const char *word = strtok_r(rest, " \t\r", &rest), *requests = word ? strtok_r(rest, " \t\r", &rest) : NULL,
               *chars = requests ? strtok_r(rest, " \t\r", &rest) : NULL;
    serve_key key = {.text = word};
    if (!word || *word == '#') /* a comment */
        return CLI_OK;
    if (!read_limit(&key.requests, requests) || !read_limit(&key.chars, chars) ||
        (chars && strtok_r(rest, " \t\r", &rest)))
        return cli_fail("%s, line %zu: the limits of a key are numbers from 1 on: write KEY [REQUESTS [CHARACTERS]]",
                        file, number);
    return add(keys, key);
}

int serve_keys_read(serve_keys *keys, const cli_strings *given, const char *file) {
    keys->lines.fd = -1;
    int code = CLI_OK;
    for (size_t i = 0; code == CLI_OK && i < given->count; i++)
        code = add(keys, (serve_key){.text = given->items[i]});
    if (code != CLI_OK || !file)
        return code;
    code = cli_lines_read_all(&keys->lines, "--api-keys", file);
    for (size_t i = 0; code == CLI_OK && i < keys->lines.count; i++)
        code = read_line(keys, (char *)(uintptr_t)keys->lines.text[i], i + 1, file); /* in its own buffer */
    return code == CLI_OK && keys->count == 0 ? cli_fail("%s has no key: put one on each line", file) : code;
}

void serve_keys_free(serve_keys *keys) {
    cli_lines_close(&keys->lines);
    free(keys->items);
}

/* ---- Requests -------------------------------------------------------------------------------------------------- */

/* Whether two keys are equal, in constant time. */
static bool same_key(const char *a, const char *b) {
    unsigned char left[KEY] = {0}, right[KEY] = {0};
    volatile unsigned char differs = 0;
    memcpy(left, a, strnlen(a, KEY - 1));
    memcpy(right, b, strnlen(b, KEY - 1));
    for (size_t i = 0; i < KEY; i++)
        differs = (unsigned char)(differs | (left[i] ^ right[i]));
    return differs == 0;
}

/* Takes one of the requests of a key, which come back evenly over a minute. Called by the HTTP thread alone. */
static bool take_request(const serve_request *r, serve_key *key, serve_reply *refusal) {
    const double now = cli_seconds(), rate = key->requests / 60.0;
    const double left = key->since > 0 ? key->left + rate * (now - key->since) : key->requests;
    key->left = left < key->requests ? left : key->requests;
    key->since = now;
    if (key->requests == 0 || key->left >= 1) {
        key->left -= key->requests > 0;
        return true;
    }
    const int wait = (int)ceil((1 - key->left) / rate);
    *refusal = serve_reply_error(r, MHD_HTTP_TOO_MANY_REQUESTS,
                                 "Slowdown: this key has %d requests a minute: try again in %d s", key->requests, wait);
    refusal->retry_after = wait;
    atomic_fetch_add(&r->server->counters.refused, 1);
    return false;
}

bool serve_request_allowed(serve_request *r, serve_reply *refusal) {
    serve_keys *keys = &r->server->options->keys;
    const char *header = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *key = header && strncasecmp(header, "Bearer ", 7) == 0 ? header + 7 : serve_request_text(r, "api_key");
    size_t found = keys->count;
    if (keys->count == 0)
        return true;
    for (size_t i = 0; i < keys->count && key; i++) /* all of them, in constant time */
        if (same_key(keys->items[i].text, key) && strlen(key) < KEY)
            found = i;
    if (found < keys->count) {
        serve_key *of = &keys->items[found];
        snprintf(r->client, sizeof(r->client), "key %zu", found + 1);
        r->chars = of->chars > 0 && of->chars < r->chars ? of->chars : r->chars;
        return strcmp(r->method, "POST") != 0 || take_request(r, of, refusal);
    }
    const int code = strncmp(r->url, "/v1/", 4) == 0 || strcmp(r->url, "/metrics") == 0 ? MHD_HTTP_UNAUTHORIZED
                     : key                                                              ? MHD_HTTP_FORBIDDEN
                                                                                        : MHD_HTTP_BAD_REQUEST;
    *refusal = key ? serve_reply_error(r, code, "Invalid API key")
                   : serve_reply_error(r, code, "Please contact the server operator to get an API key");
    return false;
}
