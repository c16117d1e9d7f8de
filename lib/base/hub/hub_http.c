/* HTTP by libcurl: one thread, many transfers. Redirects are followed here, so that the token goes to the hub only. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/hub/hub.h"
#include "base/hub/hub_http.h"

enum { ATTEMPTS = 5, REDIRECTS = 10, LONGEST_WAIT = 300 };

/* "NAME" or "FILE of NAME". */
static const char *object_of(char *text, size_t room, const tfm__hub_session *s, const tfm__hub_request *r) {
    snprintf(text, room, "%.400s%s%s", *r->what ? r->what : s->name, *r->what ? " of " : "", *r->what ? s->name : "");
    return text;
}

/* ---- One attempt ---------------------------------------------------------------------------------------- */

static size_t on_header(char *line, size_t size, size_t count, void *user) {
    tfm__hub_request *r = user;
    tfm__hub_header(&r->headers, line, size * count);
    return size * count;
}

/* The status of the first bytes of a body decides what becomes of it. */
static tfm_status take(tfm__hub_request *r, const char *bytes, size_t count) {
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &r->code);
    if (r->code != 200 && r->code != 206)
        return TFM_OK; /* a page about an error or a redirect */
    if (r->received == 0 && r->offset > 0 && r->code == 200) {
        r->offset = 0;
        const tfm_status status = r->rewind(r);
        if (status != TFM_OK)
            return status;
    }
    if (r->code == 206 && (!r->headers.ranged || r->headers.range_start != r->offset))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "cannot download %s: the server sends another part of it than the requested "
                         "one; remove the file's .incomplete in the cache, and try again",
                         r->what);
    r->received += count;
    return r->data(r, bytes, count);
}

static size_t on_data(char *bytes, size_t size, size_t count, void *user) {
    tfm__hub_request *r = user;
    r->status = take(r, bytes, size * count);
    return r->status == TFM_OK ? size * count : 0;
}

static bool add_line(tfm__hub_request *r, const char *name, const char *value) {
    char *line = tfm__format("%s: %s", name, value);
    struct curl_slist *more = line ? curl_slist_append(r->lines, line) : NULL;
    if (line)
        memset(line, 0, strlen(line));
    free(line);
    if (more)
        r->lines = more;
    return more != NULL;
}

static void stop(const tfm__hub_session *s, tfm__hub_request *r) {
    if (r->easy) {
        curl_multi_remove_handle(s->multi, r->easy);
        curl_easy_cleanup(r->easy);
    }
    curl_slist_free_all(r->lines);
    r->easy = NULL;
    r->lines = NULL;
}

/* URLs of redirects and pages come from the server: no file://, and https is never left. */
static bool may_use(const tfm__hub_session *s, const char *url) {
    const bool secure = strncasecmp(s->endpoint, "https:", 6) == 0;
    return tfm__hub_is_http(url) && (!secure || strncasecmp(url, "https:", 6) == 0);
}

static tfm_status start(const tfm__hub_session *s, tfm__hub_request *r) {
    char range[1024];
    const char *url = r->at ? r->at : r->url;
    if (!may_use(s, url))
        return tfm__fail(TFM_ERROR_IO,
                         "cannot download %s: the server names %.200s, and only %s URLs are allowed; check "
                         "HF_ENDPOINT",
                         object_of(range, sizeof(range), s, r), url,
                         tfm__hub_is_http(url) ? "https" : "http and https");
    r->easy = curl_easy_init();
    r->received = 0;
    r->error[0] = '\0';
    r->headers = (tfm__hub_headers){0};
    r->foreign |= !tfm__hub_same_origin(url, s->endpoint);
    bool good = r->easy && add_line(r, "Accept-Encoding", "identity");
    if (good && s->token && !r->foreign) {
        char *bearer = tfm__format("Bearer %s", s->token);
        good = bearer && add_line(r, "Authorization", bearer);
        free(bearer);
    }
    if (good && r->offset > 0) {
        snprintf(range, sizeof(range), "%llu-", (unsigned long long)r->offset);
        good = curl_easy_setopt(r->easy, CURLOPT_RANGE, range) == CURLE_OK;
    }
    good = good && curl_easy_setopt(r->easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->lines) == CURLE_OK &&
           curl_easy_setopt(r->easy, CURLOPT_USERAGENT, "tfm/" TFM_VERSION_STRING) == CURLE_OK;
    if (!good)
        return tfm__fail(TFM_ERROR_MEMORY, "cannot download %s: out of memory", s->name);
    curl_easy_setopt(r->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(r->easy, CURLOPT_NOBODY, r->head ? 1L : 0L);
    curl_easy_setopt(r->easy, CURLOPT_CONNECTTIMEOUT, s->timeout);
    curl_easy_setopt(r->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(r->easy, CURLOPT_LOW_SPEED_TIME, s->timeout);
    curl_easy_setopt(r->easy, CURLOPT_BUFFERSIZE, 262144L);
    curl_easy_setopt(r->easy, CURLOPT_ERRORBUFFER, r->error);
    curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
    curl_easy_setopt(r->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(r->easy, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
    return curl_multi_add_handle(s->multi, r->easy) == CURLM_OK
               ? TFM_OK
               : tfm__fail(TFM_ERROR_MEMORY, "cannot download %s: libcurl refuses the transfer", s->name);
}

/* ---- After an attempt ----------------------------------------------------------------------------------- */

static tfm_status fail_http(const tfm__hub_session *s, const tfm__hub_request *r) {
    char what[1024];
    const char *key = r->headers.error, *repo = s->name;
    object_of(what, sizeof(what), s, r);
    if (strcmp(key, "RevisionNotFound") == 0)
        return tfm__fail(TFM_ERROR_IO,
                         "cannot download %s: the hub has the model, but no such revision; give another "
                         "branch, tag or commit",
                         what);
    if (strcmp(key, "GatedRepo") == 0 || r->code == 403)
        return tfm__fail(TFM_ERROR_IO,
                         "cannot download %s: access to it is restricted (HTTP %ld); request it on %s, and "
                         "set HF_TOKEN to an access token of your account",
                         what, r->code, s->endpoint);
    if (r->code == 401 && s->token)
        return tfm__fail(TFM_ERROR_IO,
                         "cannot download %s: the hub has no such model, or refuses your token (HTTP 401); "
                         "check the name and HF_TOKEN",
                         what);
    if (r->code == 401)
        return tfm__fail(TFM_ERROR_IO,
                         "cannot download %s: the hub has no such model, or it is private or gated (HTTP "
                         "401); check the name, or set HF_TOKEN to an access token",
                         what);
    if (r->code == 404 && *r->what)
        return tfm__fail(TFM_ERROR_IO, "cannot download %s: the hub has no such file (HTTP 404); try again", what);
    if (r->code == 404)
        return tfm__fail(TFM_ERROR_IO, "cannot download %s: %s has no such model (HTTP 404); check the name", repo,
                         s->endpoint);
    return tfm__fail(TFM_ERROR_IO, "cannot download %s: the server answers HTTP %ld%s; try again later", what, r->code,
                     r->code == 429 ? " (too many requests)" : "");
}

/* Repeats a request after a wait, or fails if there have been too many attempts. */
static tfm_status retry(const tfm__hub_session *s, tfm__hub_request *r, const char *why, double wait) {
    char what[1024];
    if (r->offset + r->received > r->most) {
        r->most = r->offset + r->received;
        r->attempts = 0;
    }
    if (++r->attempts >= ATTEMPTS || wait > LONGEST_WAIT) {
        if (!why)
            return fail_http(s, r);
        return tfm__fail(TFM_ERROR_IO, "cannot download %s: %s; check the network, and try again: it resumes",
                         object_of(what, sizeof(what), s, r), why);
    }
    if (wait <= 0)
        wait = 0.25 * (double)(1 << r->attempts);
    tfm__log(r->code == 429 ? TFM_LOG_WARNING : TFM_LOG_INFO, "%s: %s; trying again in %.1f s",
             object_of(what, sizeof(what), s, r),
             why              ? why
             : r->code == 429 ? "the server limits requests (HTTP 429)"
                              : "the server fails",
             wait);
    r->not_before = tfm__seconds() + wait;
    free(r->at); /* signed URLs expire: begin at the hub again */
    r->at = NULL;
    r->foreign = false;
    r->redirects = 0;
    r->started = false;
    return TFM_OK;
}

static tfm_status redirect(const tfm__hub_session *s, tfm__hub_request *r, const char *to) {
    char what[1024];
    char *next = tfm__strdup(to);
    if (!next)
        return TFM_ERROR_MEMORY;
    free(r->at);
    r->at = next;
    if (++r->redirects > REDIRECTS)
        return tfm__fail(TFM_ERROR_IO, "cannot download %s: the server redirects more than %d times; check HF_ENDPOINT",
                         object_of(what, sizeof(what), s, r), REDIRECTS);
    return start(s, r);
}

/* Judges a whole answer. */
static tfm_status judge(const tfm__hub_session *s, tfm__hub_request *r, const char *to, curl_off_t wait) {
    if (r->head && r->headers.linked && r->code < 400) {
        r->done = true;
        return TFM_OK;
    }
    if (r->code >= 300 && r->code < 400 && to)
        return redirect(s, r, to);
    if (r->code == 200 || r->code == 206) {
        const tfm_status status = r->end ? r->end(r) : TFM_OK;
        if (status == TFM_ERROR_AGAIN)
            return retry(s, r, tfm_error_message(), 0);
        r->done = status == TFM_OK;
        return status;
    }
    if (r->code == 416 && r->offset > 0) { /* it is longer than the file: begin again */
        const tfm_status status = r->rewind(r);
        return status == TFM_OK ? retry(s, r, "the server has fewer bytes than the cache", 0) : status;
    }
    if (r->code == 408 || r->code == 429 || r->code >= 500)
        return retry(s, r, NULL, (double)wait);
    return fail_http(s, r);
}

static bool is_transient(CURLcode code) {
    return code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL &&
           code != CURLE_PEER_FAILED_VERIFICATION && code != CURLE_SSL_CACERT_BADFILE && code != CURLE_OUT_OF_MEMORY &&
           code != CURLE_COULDNT_RESOLVE_PROXY;
}

static tfm_status settle(const tfm__hub_session *s, tfm__hub_request *r, CURLcode result) {
    char *to = NULL, *copy = NULL, what[1024], why[CURL_ERROR_SIZE];
    curl_off_t wait = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &r->code);
    curl_easy_getinfo(r->easy, CURLINFO_REDIRECT_URL, &to);
    curl_easy_getinfo(r->easy, CURLINFO_RETRY_AFTER, &wait);
    if (to && !(copy = tfm__strdup(to)))
        return TFM_ERROR_MEMORY;
    stop(s, r);
    snprintf(why, sizeof(why), "%s", r->error[0] ? r->error : curl_easy_strerror(result));
    tfm_status status;
    if (r->status != TFM_OK)
        status = r->status;
    else if (result == CURLE_OK)
        status = judge(s, r, copy, wait);
    else if (is_transient(result))
        status = retry(s, r, why, 0);
    else
        status =
            tfm__fail(TFM_ERROR_IO, "cannot download %s: %s; check HF_ENDPOINT and the certificates of this machine",
                      object_of(what, sizeof(what), s, r), why);
    free(copy);
    return status;
}

/* ---- All of them ---------------------------------------------------------------------------------------- */

/* Starts requests that may start; *running and *open count those in transfer and those not done. */
static tfm_status start_some(const tfm__hub_session *s, tfm__hub_request *const *requests, size_t count,
                             size_t parallel, size_t *open) {
    size_t running = 0;
    *open = 0;
    for (size_t i = 0; i < count; i++)
        running += requests[i]->easy != NULL;
    for (size_t i = 0; i < count; i++) {
        tfm__hub_request *r = requests[i];
        if (r->done)
            continue;
        ++*open;
        if (r->started || running >= parallel || tfm__seconds() < r->not_before)
            continue;
        tfm_status status = r->begin ? r->begin(r) : TFM_OK;
        if (status == TFM_ERROR_AGAIN)
            continue; /* another process downloads it */
        if (status == TFM_OK && r->complete) {
            r->done = true;
            continue;
        }
        r->started = true;
        running++;
        if (status == TFM_OK)
            status = start(s, r);
        if (status != TFM_OK)
            return status;
    }
    return TFM_OK;
}

static tfm_status settle_some(const tfm__hub_session *s) {
    int left;
    tfm_status status = TFM_OK;
    for (CURLMsg *message; status == TFM_OK && (message = curl_multi_info_read(s->multi, &left));) {
        tfm__hub_request *r = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&r);
        status = settle(s, r, message->data.result);
    }
    return status;
}

tfm_status tfm__hub_run(tfm__hub_session *s, tfm__hub_request *const *requests, size_t count, size_t parallel) {
    enum { TURN = 100 }; /* milliseconds */
    tfm_status status = TFM_OK;
    for (size_t open = 1; status == TFM_OK && open > 0;) {
        int running;
        status = start_some(s, requests, count, parallel, &open);
        if (status != TFM_OK || open == 0)
            break;
        if (curl_multi_perform(s->multi, &running) != CURLM_OK ||
            curl_multi_poll(s->multi, NULL, 0, TURN, NULL) != CURLM_OK)
            status = tfm__fail(TFM_ERROR_IO, "cannot download %s: libcurl fails; try again", s->name);
        if (status == TFM_OK)
            status = settle_some(s);
        if (status == TFM_OK && !s->keep_going(s->user))
            status =
                tfm__fail(TFM_ERROR_CANCELLED, "the download of %s was stopped: start it again to resume", s->name);
    }
    for (size_t i = 0; i < count; i++) {
        stop(s, requests[i]);
        free(requests[i]->at);
        requests[i]->at = NULL;
    }
    return status;
}
