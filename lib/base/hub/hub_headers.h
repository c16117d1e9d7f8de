/* Headers of the hub's answers. Needs no libcurl. */
#ifndef TFM_LIB_HUB_HEADERS_H
#define TFM_LIB_HUB_HEADERS_H

#include <stdbool.h>
#include "base/base.h"

typedef struct tfm__hub_headers {
    char commit[256]; /* X-Repo-Commit */
    char etag[256];   /* X-Linked-Etag, or else ETag, without quotes; "" if it cannot be a file name */
    char error[64];   /* X-Error-Code */
    char next[2048];  /* the URL of Link with rel="next" */
    bool linked, sized, ranged;
    uint64_t size;        /* X-Linked-Size, or Content-Length of an answer without it */
    uint64_t range_start; /* of Content-Range */
} tfm__hub_headers;

/* Reads one header line, with or without its line end. A status line clears the others, because it begins the answer
 * after a redirect or an interim answer. */
void tfm__hub_header(tfm__hub_headers *headers, const char *line, size_t bytes);

/* Whether an etag is the SHA-256 of an LFS file. */
bool tfm__hub_is_sha256(const char *etag);

#endif
