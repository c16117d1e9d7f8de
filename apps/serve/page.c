/* Static content: the web page, and the description of the API. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "serve/request.h"
#include "serve/server.h"

extern const char serve_text_page[], serve_text_openapi[]; /* of the build, from page.html and openapi.json */

/* The placeholder of the CSP nonce, a random number per reply. */
static const char MARK[] = "@NONCE@";

bool serve_random_hex(char out[SERVE_RANDOM]) {
    unsigned char bytes[SERVE_RANDOM / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

bool serve_page(serve_request *r, serve_reply *reply) {
    static char policy[512]; /* used by one thread; copied into the reply's headers at once */
    char nonce[SERVE_RANDOM];
    serve_reply page = {.code = MHD_HTTP_OK, .type = "text/html; charset=utf-8", .policy = policy};
    FILE *out = serve_random_hex(nonce) ? open_memstream(&page.body, &page.bytes) : NULL;
    for (const char *at = serve_text_page; out && *at;) {
        const char *mark = strstr(at, MARK);
        fwrite(at, 1, mark ? (size_t)(mark - at) : strlen(at), out);
        at = mark ? mark + sizeof(MARK) - 1 : "";
        if (mark)
            fputs(nonce, out);
    }
    if (out)
        fclose(out);
    snprintf(policy, sizeof(policy),
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; base-uri 'none'; "
             "form-action 'none'; frame-ancestors 'none'",
             nonce, nonce);
    *reply = page.body ? page : serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the page");
    return false;
}

bool serve_openapi(serve_request *r, serve_reply *reply) {
    *reply = (serve_reply){.code = MHD_HTTP_OK, .type = "application/json; charset=utf-8"};
    reply->body = strdup(serve_text_openapi);
    reply->bytes = strlen(serve_text_openapi);
    if (!reply->body)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the answer");
    return false;
}
