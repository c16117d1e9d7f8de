/* HTTP requests to the hub: redirects, retries, parallel transfers, cancellation. */
#ifndef TFM_LIB_HUB_HTTP_H
#define TFM_LIB_HUB_HTTP_H

#include <curl/curl.h>
#include <stdbool.h>
#include "base/base.h"
#include "base/hub/hub_headers.h"

typedef struct tfm__hub_session {
    CURLM *multi;
    char *endpoint, *token; /* token: NULL without one */
    const char *name;       /* the model, for messages; borrowed */
    /* Called about ten times a second during transfers, on the calling thread. False cancels. */
    bool (*keep_going)(void *user);
    void *user;
    long timeout; /* seconds without any data after which a transfer is broken */
} tfm__hub_session;

typedef struct tfm__hub_request tfm__hub_request;

struct tfm__hub_request {
    /* Set by the caller. */
    const char *url;  /* borrowed */
    const char *what; /* the file, for messages; "" for the model; borrowed */
    bool head;        /* HEAD: its answer is the first with X-Linked-Etag, or else the last */
    /* Called before each attempt; sets `offset`, or `complete` if no transfer is needed. TFM_ERROR_AGAIN: not yet. May
     * be NULL. */
    tfm_status (*begin)(tfm__hub_request *request);
    /* The server sends the file from its beginning although `offset` is not 0. NULL if it never is. */
    tfm_status (*rewind)(tfm__hub_request *request);
    tfm_status (*data)(tfm__hub_request *request, const char *bytes, size_t count);
    /* Called after a whole answer. TFM_ERROR_AGAIN: fetch it again. May be NULL. */
    tfm_status (*end)(tfm__hub_request *request);
    void *user;
    uint64_t offset;
    bool complete;

    /* The answer. */
    long code;
    tfm__hub_headers headers;

    /* State of tfm__hub_run. */
    CURL *easy;
    struct curl_slist *lines;
    char *at;                    /* the current URL after redirects, or NULL */
    bool started, done, foreign; /* foreign: redirected to another server, which gets no token */
    int attempts, redirects;
    uint64_t received, most; /* bytes of this attempt; the largest offset + received so far */
    double not_before;
    tfm_status status; /* a failure in a callback */
    char error[CURL_ERROR_SIZE];
};

/* Reads endpoint, token and timeouts from the environment. TFM_ERROR_IO if HF_HUB_OFFLINE is set. */
tfm_status tfm__hub_session_open(tfm__hub_session *session, const char *name);
void tfm__hub_session_close(tfm__hub_session *session);

/* Runs all requests, at most `parallel` at a time, until all are done or one has failed for good. Broken transfers and
 * the statuses 408, 429 and 5xx are repeated with increasing waits, or as Retry-After says. */
tfm_status tfm__hub_run(tfm__hub_session *session, tfm__hub_request *const *requests, size_t count, size_t parallel);

/* Percent-encoded text. '/' stays if `slashes`. For free(). */
char *tfm__hub_escape(const char *text, bool slashes);
/* Whether a URL is of http or https, and whether two have the same scheme, host and port. */
bool tfm__hub_is_http(const char *url);
bool tfm__hub_same_origin(const char *a, const char *b);

#endif
