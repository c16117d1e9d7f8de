/* Rejects requests with ambiguous body length (request smuggling). */
#include <string.h>
#include <strings.h>
#include "serve/request.h"

/* The headers that define the end of the body. libmicrohttpd uses the first length, and reads an unknown coding until
 * the connection closes; a proxy may decide otherwise, and see other requests in the same bytes. */
typedef struct framing {
    const char *length;
    int codings, hosts;
    bool differs, unknown, damaged;
} framing;

/* Whether a name has this prefix: libmicrohttpd gives "Transfer-Encodingchunked" if the value is on a separate line
 * after the name. */
static bool is_joined(const char *name, const char *header) {
    return strncasecmp(name, header, strlen(header)) == 0 && name[strlen(header)];
}

static enum MHD_Result on_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value) {
    framing *f = user;
    const size_t bytes = strlen(name);
    (void)kind;
    f->damaged = f->damaged || bytes == 0 || strcspn(name, " \t") < bytes ||
                 is_joined(name, MHD_HTTP_HEADER_CONTENT_LENGTH) || is_joined(name, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    f->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        value = value ? value : "";
        f->damaged = f->damaged || !*value || value[strspn(value, "0123456789")] != 0;
        f->differs = f->differs || (f->length && strcmp(f->length, value) != 0);
        f->length = value;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        f->codings++;
        f->unknown = f->unknown || !value || strcasecmp(value, "chunked") != 0;
    }
    return MHD_YES;
}

bool serve_framing_error(serve_request *r, const char *version, serve_reply *reply) {
    framing f = {0};
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, on_header, &f);
    const char *why = f.differs                   ? "it has two Content-Lengths that differ"
                      : f.damaged                 ? "a name or Content-Length is malformed"
                      : f.codings > 0 && f.length ? "it has Content-Length and Transfer-Encoding"
                      : f.hosts > 1               ? "it has two Hosts"
                      : f.codings > 1             ? "it has two Transfer-Encodings"
                      : f.codings > 0 && strcmp(version, "HTTP/1.0") == 0 ? "HTTP/1.0 has no Transfer-Encoding"
                                                                          : NULL;
    if (why)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: the header of HTTP: %s", why);
    else if (f.unknown)
        *reply = serve_reply_error(r, MHD_HTTP_NOT_IMPLEMENTED,
                                   "Invalid request: Transfer-Encoding is not chunked, the only one that is known");
    else
        return false;
    reply->close = true;
    return true;
}
