/* Documents in text files: lines, texts between separators, or JSON lines. */
#include "text/documents.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>

tfm_status tfm__document_check(const char *call, const tfm_document_options *o) {
    if (o->json_lines && o->separator)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: separator and json_lines exclude each other", call);
    if (o->separator && strpbrk(o->separator, "\r\n"))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: the separator has a line end in it; use one within a line, or \"\" for blank lines",
                         call);
    return TFM_OK;
}

const char *tfm__document_name(const tfm_document_options *o) {
    return o->separator ? "document" : "line";
}

/* Makes this the text of *lines. */
static tfm_status take(tfm__line_reader *lines, const char *text, size_t bytes) {
    if (bytes + 1 > lines->capacity) {
        char *larger = tfm__alloc(bytes + 1, 1);
        if (!larger)
            return TFM_ERROR_MEMORY;
        free(lines->text);
        lines->text = larger;
        lines->capacity = bytes + 1;
    }
    memcpy(lines->text, text, bytes);
    lines->text[bytes] = 0;
    lines->bytes = bytes;
    return TFM_OK;
}

static bool is_blank(const char *text, size_t bytes) {
    size_t i = 0;
    while (i < bytes && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n'))
        i++;
    return i == bytes;
}

/* The "text" of an object; a blank line is an empty document. Integers of other keys may have any size. */
static tfm_status next_json(tfm__line_reader *lines, bool *more) {
    json_error_t error;
    tfm_status status = tfm__line_reader_next(lines, more);
    if (status != TFM_OK || !*more || is_blank(lines->text, lines->bytes))
        return status;
    json_t *object = json_loadb(lines->text, lines->bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    const json_t *text = json_object_get(object, "text");
    if (!object)
        status = tfm__fail(TFM_ERROR_INPUT, "it is not JSON: %s", error.text);
    else if (!json_is_string(text))
        status = tfm__fail(TFM_ERROR_INPUT, "it is not a JSON object with a string \"text\"");
    else
        status = take(lines, json_string_value(text), json_string_length(text));
    json_decref(object);
    return status;
}

/* A document being assembled. */
typedef struct parts {
    char *text;
    size_t bytes, capacity;
} parts;

/* Adds a line; skips blank space before the first one. */
static tfm_status add(parts *p, const char *text, size_t bytes) {
    if (p->bytes == 0 && is_blank(text, bytes))
        return TFM_OK;
    const tfm_status status = tfm__grow(&p->text, &p->capacity, p->bytes + bytes + 1, 1);
    if (status != TFM_OK)
        return status;
    if (p->bytes > 0)
        p->text[p->bytes++] = '\n';
    memcpy(p->text + p->bytes, text, bytes);
    p->bytes += bytes;
    return TFM_OK;
}

/* The separator's position in the current line, or NULL. An empty separator matches blank lines. */
static const char *find(const tfm__line_reader *lines, const char *separator) {
    if (!*separator)
        return is_blank(lines->text, lines->bytes) ? lines->text : NULL;
    return memmem(lines->text, lines->bytes, separator, strlen(separator));
}

/* Makes the next read begin at byte `from` of the current line, unless only its end follows. */
static tfm_status give_back(tfm__line_reader *lines, size_t from) {
    if (from >= lines->bytes)
        return TFM_OK;
    return fseeko(lines->file, -(off_t)(lines->bytes - from + lines->ending), SEEK_CUR) == 0
               ? TFM_OK
               : tfm__fail(TFM_ERROR_IO, "%s: %s", lines->name, strerror(errno));
}

/* Lines up to the separator or the end of the file, without surrounding blank lines. Adjacent separators yield no
 * document. */
static tfm_status next_between(tfm__line_reader *lines, const char *separator, bool *more) {
    parts p = {0};
    bool over = false;
    tfm_status status = TFM_OK;
    for (bool there = true; status == TFM_OK && !over && there;) {
        status = tfm__line_reader_next(lines, &there);
        if (status != TFM_OK || !there)
            break;
        const char *at = find(lines, separator);
        const size_t before = at ? (size_t)(at - lines->text) : lines->bytes;
        status = add(&p, lines->text, before);
        over = at && p.bytes > 0;
        if (at && *separator && status == TFM_OK)
            status = give_back(lines, before + strlen(separator));
    }
    while (p.bytes > 0 && p.text[p.bytes - 1] == '\n')
        p.bytes--;
    *more = p.bytes > 0;
    if (status == TFM_OK && *more)
        status = take(lines, p.text, p.bytes);
    free(p.text);
    return status;
}

tfm_status tfm__document_next(tfm__line_reader *lines, const tfm_document_options *o, bool *more) {
    if (o->json_lines)
        return next_json(lines, more);
    return o->separator ? next_between(lines, o->separator, more) : tfm__line_reader_next(lines, more);
}

/* ---- Public functions ---- */

struct tfm_documents {
    tfm__line_reader lines;
    tfm_document_options options;
    char *name, *separator;
};

tfm_status tfm_documents_open(tfm_documents **out, const char *file, const tfm_document_options *options) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("documents_open", out, file) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "documents_open: %s", TFM__RESERVED_SET_MESSAGE);
    const tfm_document_options o = options ? *options : (tfm_document_options){0};
    if (tfm__document_check("documents_open", &o) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_documents *d = tfm__alloc(1, sizeof(*d));
    tfm_status status = d ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK &&
        (!(d->name = tfm__strdup(file)) || (o.separator && !(d->separator = tfm__strdup(o.separator)))))
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        d->options = o;
        d->options.separator = d->separator;
        status = tfm__line_reader_open(&d->lines, d->name, 0);
    }
    if (status != TFM_OK)
        tfm_documents_free(&d);
    *out = d;
    return status;
}

tfm_status tfm_documents_next(tfm_documents *documents, const char **text, size_t *bytes) {
    if (TFM__NEEDS("documents_next", documents, text, bytes) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    bool more;
    *text = NULL;
    *bytes = 0;
    const tfm_status status = tfm__document_next(&documents->lines, &documents->options, &more);
    if (status == TFM_OK && more) {
        *text = documents->lines.text;
        *bytes = documents->lines.bytes;
    }
    return status;
}

void tfm_documents_free(tfm_documents **pointer) {
    tfm_documents *d = pointer ? *pointer : NULL;
    if (!d)
        return;
    *pointer = NULL;
    tfm__line_reader_close(&d->lines);
    free(d->name);
    free(d->separator);
    free(d);
}
