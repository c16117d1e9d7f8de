/* Documents in translation requests, and the formats of files. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "serve/libretranslate.h"

static const serve_file_format FORMATS[] = {
    {".txt", "text/plain; charset=utf-8", NULL},
    {".html", "text/html; charset=utf-8", &document_html},
    {".htm", "text/html; charset=utf-8", &document_html},
    {".md", "text/markdown; charset=utf-8", &document_markdown},
    {".po", "text/x-gettext-translation; charset=utf-8", &document_po},
    {".srt", "application/x-subrip; charset=utf-8", &document_srt},
    {".vtt", "text/vtt; charset=utf-8", &document_vtt},
};

const serve_file_format *serve_file_format_of(const char *name) {
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && i < CLI_COUNT(FORMATS); i++)
        if (strcasecmp(end, FORMATS[i].end) == 0)
            return &FORMATS[i];
    return NULL;
}

json_t *serve_file_formats(void) {
    json_t *list = json_array();
    for (size_t i = 0; i < CLI_COUNT(FORMATS); i++)
        json_array_append_new(list, json_string(FORMATS[i].end));
    return list;
}

bool serve_ask_document(serve_request *r, serve_ask *a, serve_reply *reply) {
    char message[DOCUMENT_MESSAGE] = "";
    a->document = a->kind->read("the file", a->texts[0], strlen(a->texts[0]), message);
    const size_t count = a->document ? a->kind->count(a->document) : 0;
    const char **texts = calloc(count ? count : 1, sizeof(*texts));
    if (!a->document && *message) {
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: %s", message);
    } else if (!a->document || !texts) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    } else {
        for (size_t i = 0; i < count; i++)
            texts[i] = a->kind->text(a->document, i);
        free(a->texts);
        a->texts = texts;
        a->count = count;
        r->warnings = *message ? json_pack("[s]", message) : NULL;
        return true;
    }
    free(texts);
    return false;
}

/* The weights of the segments of a text; NULL if some have none, because of their limit. */
static json_t *text_details(const serve_job *job, size_t text) {
    json_t *list = json_array();
    for (size_t i = 0; i < job->count; i++) {
        const serve_result *result = &job->results[i];
        if (job->segments[i].of != text)
            continue;
        if (result->detail)
            json_array_append(list, result->detail);
        else if (result->target_tokens > 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

char *serve_job_document(const serve_job *job) {
    bool good = true;
    for (size_t i = 0; i < job->texts && good; i++) {
        json_t *details = text_details(job, i);
        char *text = serve_segments_join(job, i, 0);
        good = text && job->kind->put(job->document, i, text, details);
        free(text);
        json_decref(details);
    }
    return good ? job->kind->write(job->document) : NULL;
}
