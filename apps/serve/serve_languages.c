/* LibreTranslate's /languages and /frontend/settings. */
#include <string.h>
#include <unicode/uloc.h>
#include <unicode/ustring.h>
#include "serve/detect.h"
#include "serve/server.h"

void serve_language_name(char *out, size_t bytes, const char *code) {
    UChar name[64];
    UErrorCode status = U_ZERO_ERROR;
    int32_t length = uloc_getDisplayName(code, "en", name, (int32_t)CLI_COUNT(name), &status);
    snprintf(out, bytes, "%s", code);
    if (U_FAILURE(status) || length <= 0)
        return;
    status = U_ZERO_ERROR;
    u_strToUTF8(out, (int32_t)bytes, &length, name, length, &status);
    if (U_FAILURE(status) || (size_t)length >= bytes)
        snprintf(out, bytes, "%s", code);
}

static json_t *language_json(const char *code) {
    char name[64];
    serve_language_name(name, sizeof(name), code);
    return json_pack("{s:s, s:s, s:[]}", "code", code, "name", name, "targets");
}

/* The entry of a language, created if missing. */
static json_t *row_of(json_t *list, const char *code) {
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) {
        if (strcmp(json_string_value(json_object_get(row, "code")), code) == 0)
            return row;
    }
    json_array_append_new(list, language_json(code));
    return json_array_get(list, json_array_size(list) - 1);
}

bool serve_languages(serve_request *r, serve_reply *reply) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->server->models.count; i++) {
        const serve_model *m = r->server->models.items[i];
        if (m->task != SERVE_TRANSLATE)
            continue;
        json_array_append_new(json_object_get(row_of(list, m->source), "targets"), json_string(m->target));
        row_of(list, m->target);
    }
    *reply = serve_reply_json(MHD_HTTP_OK, list);
    return false;
}

bool serve_settings(serve_request *r, serve_reply *reply) {
    const serve_options *o = r->server->options;
    const serve_model *first = NULL;
    char name[64] = "";
    for (size_t i = 0; i < r->server->models.count && !first; i++)
        if (r->server->models.items[i]->task == SERVE_TRANSLATE)
            first = r->server->models.items[i];
    if (first)
        serve_language_name(name, sizeof(name), first->target);
    json_t *source = json_pack("{s:s, s:s}", "code", "auto", "name", "Auto Detect");
    *reply = serve_reply_json(
        MHD_HTTP_OK, json_pack("{s:b, s:b, s:i, s:i, s:b, s:o, s:{s:o, s:{s:s, s:s}}}", "apiKeys", o->keys.count > 0,
                               "keyRequired", o->keys.count > 0, "charLimit", o->limits.chars, "frontendTimeout", 500,
                               "suggestions", 0, "supportedFilesFormat", serve_file_formats(), "language", "source",
                               source, "target", "code", first ? first->target : "", "name", name));
    return false;
}
