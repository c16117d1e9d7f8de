/* LibreTranslate's /translate_file and /download_file. */
#include <stdlib.h>
#include <string.h>
#include "serve/libretranslate.h"

static const char PATH[] = "/download_file/";
static const char ORDER[] = "\xEF\xBB\xBF"; /* byte order mark */

/* The address of a stored file: absolute, as LibreTranslate's, if the request names the host. */
static json_t *url_of(const serve_request *r, const char *name) {
    const char *host = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    json_t *url =
        host ? json_sprintf("%s://%s%s%s", r->server->options->certificate ? "https" : "http", host, PATH, name) : NULL;
    return url ? url : json_sprintf("%s%s", PATH, name);
}

static serve_reply answer(serve_request *r) {
    const serve_job *job = r->job;
    const bool marked = strncmp(json_string_value(job->source), ORDER, strlen(ORDER)) == 0;
    char *text = job->document ? serve_job_document(job) : serve_segments_join(job, 0, 0);
    char name[SERVE_FILE_NAME];
    if (!text || !serve_files_add(r->server, name, serve_file_format_of(r->file)->end, marked ? ORDER : "", text)) {
        free(text);
        return serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the file");
    }
    free(text);
    json_t *object = json_pack("{s:o}", "translatedFileUrl", url_of(r, name));
    serve_answer_languages(r, object);
    return serve_reply_json(MHD_HTTP_OK, object);
}

/* Reads the file, which becomes the text q. */
static bool read_file(serve_request *r, serve_ask *a, serve_reply *reply) {
    json_t *file = json_object_get(r->fields, "file");
    const char *text = serve_request_text(r, "file");
    const serve_file_format *format = serve_file_format_of(r->file);
    if (!file || !*r->file)
        return serve_ask_missing(r, "file", reply);
    if (!format) {
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: file format not supported");
        return false;
    }
    text += text && strncmp(text, ORDER, strlen(ORDER)) == 0 ? strlen(ORDER) : 0;
    if (!text || !*text) {
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: %s",
                                   text ? "empty file" : "the file has a NUL byte");
        return false;
    }
    a->kind = format->kind;
    a->texts = calloc(1, sizeof(*a->texts));
    if (!a->texts || json_object_set(r->fields, "q", file) != 0) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
        return false;
    }
    a->texts[0] = text;
    a->count = 1;
    return true;
}

bool serve_translate_file(serve_request *r, serve_reply *reply) {
    serve_ask a = {0};
    const bool queued =
        serve_ask_languages(r, &a, reply) && read_file(r, &a, reply) && serve_ask_queue(r, &a, answer, reply);
    serve_ask_free(&a);
    return queued;
}

bool serve_download_file(serve_request *r, serve_reply *reply) {
    const char *name = r->url + strlen(PATH);
    serve_reply file = {.code = MHD_HTTP_OK, .attachment = true};
    const serve_files_result found = serve_files_copy(r->server, name, &file.body, &file.bytes);
    if (found == SERVE_FILE_ABSENT) {
        *reply = serve_reply_error(r, MHD_HTTP_NOT_FOUND, "There is no such file, or it has expired");
    } else if (found == SERVE_FILE_NO_MEMORY) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the file");
    } else {
        file.type = serve_file_format_of(name)->type;
        *reply = file;
    }
    return false;
}
