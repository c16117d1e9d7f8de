#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/hub/hub.h"
#include "base/hub/hub_headers.h"

bool tfm__hub_is_sha256(const char *etag) {
    return strlen(etag) == 64 && strspn(etag, "0123456789abcdef") == 64;
}

/* Removes the mark of weak etags and the quotes. */
static void set_etag(char out[256], const char *value) {
    value += strncmp(value, "W/", 2) == 0 ? 2 : 0;
    value += *value == '"';
    const size_t length = strcspn(value, "\"");
    out[0] = '\0';
    if (length == 0 || length >= 256)
        return;
    memcpy(out, value, length);
    out[length] = '\0';
    if (!tfm__hub_word_is_safe(out))
        out[0] = '\0';
}

/* Decimal digits only; no sign and no overflow. */
static bool read_number(uint64_t *out, const char *text) {
    uint64_t value = 0;
    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text); text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX / 2 - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

/* Link: <URL>; rel="next", <URL>; rel="last" */
static void set_next(tfm__hub_headers *h, const char *value) {
    for (const char *open = strchr(value, '<'); open; open = strchr(open + 1, '<')) {
        const char *close = strchr(open, '>'), *end = close ? strchr(close, '<') : NULL, *rel;
        if (!close)
            return;
        rel = strstr(close, "rel=\"next\"");
        if (!rel || (end && rel > end) || (size_t)(close - open) >= sizeof(h->next))
            continue;
        memcpy(h->next, open + 1, (size_t)(close - open - 1));
        h->next[close - open - 1] = '\0';
        return;
    }
}

void tfm__hub_header(tfm__hub_headers *h, const char *line, size_t bytes) {
    char text[4096], *value;
    if (bytes >= sizeof(text))
        return;
    memcpy(text, line, bytes);
    text[bytes] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (strncmp(text, "HTTP/", 5) == 0) {
        *h = (tfm__hub_headers){0};
        return;
    }
    value = strchr(text, ':');
    if (!value)
        return;
    *value++ = '\0';
    value += strspn(value, " \t");
    if (strcasecmp(text, "x-repo-commit") == 0 && tfm__hub_word_is_safe(value))
        snprintf(h->commit, sizeof(h->commit), "%.255s", value);
    else if (strcasecmp(text, "x-error-code") == 0)
        snprintf(h->error, sizeof(h->error), "%.63s", value);
    else if (strcasecmp(text, "link") == 0)
        set_next(h, value);
    else if (strcasecmp(text, "x-linked-etag") == 0) {
        set_etag(h->etag, value);
        h->linked = true;
    } else if (strcasecmp(text, "etag") == 0 && !h->linked)
        set_etag(h->etag, value);
    else if (strcasecmp(text, "x-linked-size") == 0 || (strcasecmp(text, "content-length") == 0 && !h->sized))
        h->sized = read_number(&h->size, value);
    else if (strcasecmp(text, "content-range") == 0 && strncasecmp(value, "bytes ", 6) == 0)
        h->ranged = read_number(&h->range_start, value + 6);
}
