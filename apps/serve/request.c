/* Requests: body and fields. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "serve/request.h"
#include "serve/server.h"

/* Bytes of a body besides its texts; maximum bytes of a character in JSON. */
enum { SPARE = 64 << 10, CHARACTER = 12 };

void serve_request_body(serve_request *r, const char *data, size_t bytes) {
    const size_t most = (size_t)r->server->options->limits.chars * CHARACTER + SPARE;
    if (r->too_large || r->out_of_memory || r->bytes + bytes > most) {
        r->too_large = r->too_large || !r->out_of_memory;
        return;
    }
    if (!cli_grow(&r->body, &r->room, r->bytes + bytes + 1, 1)) {
        r->out_of_memory = true;
        return;
    }
    memcpy(r->body + r->bytes, data, bytes);
    r->bytes += bytes;
}

/* ---- Forms ----------------------------------------------------------------------------------------------------- */

enum { FORM_FIELDS = 32 };
typedef struct form_field {
    char name[64];
    char *text;
    size_t bytes, room;
} form_field;

typedef struct form {
    form_field fields[FORM_FIELDS];
    size_t count;
    bool out_of_memory, many;
    char *file; /* of the request */
} form;

static enum MHD_Result form_add(form *f, const char *name, const char *data, uint64_t offset, size_t bytes) {
    form_field *field = NULL;
    for (size_t i = 0; i < f->count && !field; i++)
        if (strncmp(f->fields[i].name, name, sizeof(f->fields[i].name) - 1) == 0)
            field = &f->fields[i];
    if (field && field->bytes != offset) /* duplicate: the first wins */
        return MHD_YES;
    if (!field && f->count == FORM_FIELDS) {
        f->many = true;
        return MHD_NO;
    }
    if (!field) {
        field = &f->fields[f->count++];
        snprintf(field->name, sizeof(field->name), "%s", name);
    }
    if (!cli_grow(&field->text, &field->room, field->bytes + bytes + 1, 1)) {
        f->out_of_memory = true;
        return MHD_NO;
    }
    memcpy(field->text + field->bytes, data ? data : "", bytes);
    field->bytes += bytes;
    return MHD_YES;
}

static enum MHD_Result on_field(void *user, enum MHD_ValueKind kind, const char *key, const char *file,
                                const char *type, const char *encoding, const char *data, uint64_t offset,
                                size_t bytes) {
    form *f = user;
    (void)kind, (void)type, (void)encoding;
    if (key && file && !*f->file && strcmp(key, "file") == 0)
        snprintf(f->file, sizeof(((serve_request *)NULL)->file), "%s", file);
    return key ? form_add(user, key, data, offset, bytes) : MHD_YES;
}

static enum MHD_Result on_argument(void *user, enum MHD_ValueKind kind, const char *key, const char *value) {
    (void)kind;
    return key && value ? form_add(user, key, value, 0, strlen(value)) : MHD_YES;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes a name or value of a URL-encoded form in place; returns its bytes. A percent sign without a valid escape is
 * kept (WHATWG URL); libmicrohttpd's parser does not. */
static size_t decode(char *text, size_t bytes) {
    size_t out = 0;
    for (size_t i = 0; i < bytes; i++) {
        const bool escape =
            text[i] == '%' && bytes - i > 2 && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
        const char c = text[i] == '+' ? ' ' : text[i];
        text[out++] = escape ? (char)(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : c;
        i += escape ? 2 : 0;
    }
    return out;
}

/* Parses a URL-encoded form in place: each name ends at its `=`. */
static bool read_encoded(form *f, char *body, size_t bytes) {
    char *const end = body + bytes;
    for (char *at = body, *next; at < end; at = next) {
        char *stop = memchr(at, '&', (size_t)(end - at));
        stop = stop ? stop : end;
        next = stop + 1;
        char *equals = memchr(at, '=', (size_t)(stop - at));
        if (!equals || equals == at)
            continue;
        at[decode(at, (size_t)(equals - at))] = 0;
        if (form_add(f, at, equals + 1, 0, decode(equals + 1, (size_t)(stop - equals) - 1)) != MHD_YES)
            return false;
    }
    return true;
}

static bool read_parts(form *f, serve_request *r) {
    struct MHD_PostProcessor *reader = MHD_create_post_processor(r->connection, 4096, on_field, f);
    const bool good = reader && MHD_post_process(reader, r->body, r->bytes) == MHD_YES;
    return (!reader || MHD_destroy_post_processor(reader) == MHD_YES) && good;
}

/* Converts a form's CRLF to LF. */
static size_t line_ends(char *text, size_t bytes) {
    size_t out = 0;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != '\r' || i + 1 == bytes || text[i + 1] != '\n')
            text[out++] = text[i];
    return out;
}

/* The fields as JSON; NULL for invalid UTF-8, an invalid form, or without memory. */
static json_t *form_json(serve_request *r, bool parts) {
    form f = {.file = r->file};
    const bool good = r->bytes == 0 || (parts ? read_parts(&f, r) : read_encoded(&f, r->body, r->bytes));
    MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, on_argument, &f);
    json_t *object = good && !f.out_of_memory && !f.many ? json_object() : NULL;
    for (size_t i = 0; i < f.count; i++) {
        const bool whole = *r->file && strcmp(f.fields[i].name, "file") == 0;
        const size_t bytes = whole ? f.fields[i].bytes : line_ends(f.fields[i].text, f.fields[i].bytes);
        if (object && json_object_set_new(object, f.fields[i].name, json_stringn(f.fields[i].text, bytes)) != 0) {
            json_decref(object);
            object = NULL;
        }
        free(f.fields[i].text);
    }
    return object;
}

/* ---- Fields ---------------------------------------------------------------------------------------------------- */

/* Whether Content-Type is this type. */
static bool is_type(const char *header, const char *type) {
    const size_t length = strlen(type);
    return header && strncasecmp(header, type, length) == 0 && strchr("; \t", header[length]);
}

/* Checks the types of text and boolean fields. */
static bool check_types(const serve_request *r, serve_reply *refusal) {
    static const struct {
        const char *name;
        bool boolean;
    } fields[] = {{"api_key", false}, {"source", false},          {"target", false},    {"format", false},
                  {"model", false},   {"encoding_format", false}, {"alignments", true}, {"stream", true}};
    for (size_t i = 0; i < CLI_COUNT(fields); i++) {
        const json_t *value = json_object_get(r->fields, fields[i].name);
        if (!value || json_is_null(value) || (fields[i].boolean ? json_is_boolean(value) : json_is_string(value)))
            continue;
        *refusal = serve_reply_field(r, fields[i].name, NULL, "Invalid request: %s parameter is not %s", fields[i].name,
                                     fields[i].boolean ? "true or false" : "a text");
        return false;
    }
    return true;
}

bool serve_request_parse(serve_request *r, serve_reply *refusal) {
    const char *type = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    const char *coding = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_ENCODING);
    char why[CLI_REASON];
    if (r->out_of_memory) {
        *refusal = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
        return false;
    }
    if (r->bytes > 0 && coding && *coding && strcasecmp(coding, "identity") != 0) {
        *refusal = serve_reply_error(r, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                     "Invalid request: Content-Encoding is %.20s: bodies are read as they are, without "
                                     "compression",
                                     coding);
        return false;
    }
    if (is_type(type, "application/json")) {
        r->fields = cli_json_parse(r->body ? r->body : "", r->bytes, why);
        if (!r->fields)
            *refusal = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: the body is not JSON: %s", why);
        else if (!json_is_object(r->fields))
            *refusal = serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "Invalid request: the body is not a JSON object");
        return json_is_object(r->fields) && check_types(r, refusal);
    }
    const bool parts = is_type(type, "multipart/form-data");
    if (r->bytes > 0 && !parts && !is_type(type, "application/x-www-form-urlencoded")) {
        *refusal = serve_reply_error(r, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                     "Invalid request: Content-Type is not application/json, "
                                     "application/x-www-form-urlencoded or multipart/form-data");
        return false;
    }
    r->form = true;
    r->fields = form_json(r, parts);
    if (!r->fields)
        *refusal = serve_reply_error(r, MHD_HTTP_BAD_REQUEST,
                                     "Invalid request: the form is damaged, is not UTF-8 or has more than %d fields",
                                     FORM_FIELDS);
    return r->fields != NULL;
}

void serve_request_release(serve_request *r) {
    static const char *const KEPT[] = {"q", "target", "alignments", "encoding_format"};
    json_t *kept = json_object();
    for (size_t i = 0; kept && i < CLI_COUNT(KEPT); i++) {
        json_t *value = json_object_get(r->fields, KEPT[i]);
        if (value && (i > 0 || value == r->job->source)) /* texts only if owned by the job */
            json_object_set(kept, KEPT[i], value);
    }
    if (kept) {
        json_decref(r->fields);
        r->fields = kept;
    }
    free(r->body);
    r->body = NULL;
    r->bytes = r->room = 0;
}

const char *serve_request_text(const serve_request *r, const char *name) {
    const json_t *value = json_object_get(r->fields, name);
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

bool serve_request_integer(const serve_request *r, const char *name, int low, int high, int fallback, int *out,
                           serve_reply *refusal) {
    const json_t *value = json_object_get(r->fields, name);
    const char *text = json_string_value(value);
    char *end = NULL;
    long long number = fallback;
    bool good = true;
    errno = 0;
    const double real = json_real_value(value); /* 4.0 is 4 */
    if (json_is_integer(value))
        number = json_integer_value(value);
    else if (json_is_real(value) && real == floor(real))
        number = real < -0x1p62 ? INT64_MIN : real > 0x1p62 ? INT64_MAX : (long long)real;
    else if (text && *text && r->form)
        number = strtoll(text, &end, 10), good = end != text && *end == 0 && errno == 0;
    else if (value && !json_is_null(value) && !(text && r->form))
        good = false;
    if (!good)
        *refusal = serve_reply_field(r, name, NULL, "Invalid request: %s parameter is not a number", name);
    else if (value && !json_is_null(value) && (number < low || number > high))
        good = false, *refusal = serve_reply_field(r, name, NULL, "Invalid request: %s parameter must be from %d to %d",
                                                   name, low, high);
    *out = (int)number;
    return good;
}

size_t serve_characters(const char *text, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}
