/* What all requests of a download share, and URLs. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/hub/hub.h"
#include "base/hub/hub_http.h"

bool tfm__hub_can_download(void) {
    return true;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global;

static void start_curl(void) {
    global = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Seconds of HF_HUB_DOWNLOAD_TIMEOUT; huggingface_hub's default else. */
static long read_timeout(void) {
    const char *set = getenv("HF_HUB_DOWNLOAD_TIMEOUT");
    const long seconds = set ? strtol(set, NULL, 10) : 0;
    return seconds > 0 && seconds <= 86400 ? seconds : 10;
}

bool tfm__hub_is_http(const char *url) {
    return strncasecmp(url, "https://", 8) == 0 || strncasecmp(url, "http://", 7) == 0;
}

tfm_status tfm__hub_session_open(tfm__hub_session *session, const char *name) {
    *session = (tfm__hub_session){.name = name, .timeout = read_timeout()};
    if (tfm__hub_is_offline())
        return tfm__fail(TFM_ERROR_IO,
                         "cannot download %s: HF_HUB_OFFLINE is set; unset it, or copy the model's "
                         "directory from another machine",
                         name);
    pthread_once(&once, start_curl);
    session->endpoint = tfm__hub_endpoint();
    tfm_status status = session->endpoint ? tfm__hub_token(&session->token) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && !tfm__hub_is_http(session->endpoint))
        status = tfm__fail(TFM_ERROR_ARGUMENT, "HF_ENDPOINT is %s: give a URL such as https://huggingface.co",
                           session->endpoint);
    if (status == TFM_OK && (global != CURLE_OK || !(session->multi = curl_multi_init())))
        status = tfm__fail(TFM_ERROR_MEMORY, "cannot download %s: libcurl does not start", name);
    if (status != TFM_OK)
        tfm__hub_session_close(session);
    return status;
}

void tfm__hub_session_close(tfm__hub_session *session) {
    curl_multi_cleanup(session->multi);
    free(session->endpoint);
    if (session->token)
        memset(session->token, 0, strlen(session->token));
    free(session->token);
    *session = (tfm__hub_session){0};
}

char *tfm__hub_escape(const char *text, bool slashes) {
    static const char plain[] = "-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char *out = tfm__alloc(strlen(text) + 1, 3), *end = out;
    for (; out && *text; text++)
        if (strchr(plain, *text) || (slashes && *text == '/'))
            *end++ = *text;
        else
            end += snprintf(end, 4, "%%%02X", (unsigned)(unsigned char)*text);
    return out;
}

bool tfm__hub_same_origin(const char *a, const char *b) {
    static const CURLUPart PARTS[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    CURLU *left = curl_url(), *right = curl_url();
    bool same = left && right && curl_url_set(left, CURLUPART_URL, a, 0) == CURLUE_OK &&
                curl_url_set(right, CURLUPART_URL, b, 0) == CURLUE_OK;
    for (size_t i = 0; i < TFM__COUNT(PARTS) && same; i++) {
        char *x = NULL, *y = NULL;
        same = curl_url_get(left, PARTS[i], &x, CURLU_DEFAULT_PORT) == CURLUE_OK &&
               curl_url_get(right, PARTS[i], &y, CURLU_DEFAULT_PORT) == CURLUE_OK && strcasecmp(x, y) == 0;
        curl_free(x);
        curl_free(y);
    }
    curl_url_cleanup(left);
    curl_url_cleanup(right);
    return same;
}
