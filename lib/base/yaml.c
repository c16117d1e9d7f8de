#include "base/yaml.h"
#include <string.h>
#include <yaml.h>
#include "base/file.h"
#include "base/json.h"

/* Far more than any configuration needs. */
enum { MAX_DEPTH = 32, MAX_BYTES = 4 << 20 };

typedef struct reader {
    yaml_parser_t parser;
    const char *name; /* for error messages */
} reader;

static tfm_status read_value(reader *r, json_t **out, const yaml_event_t *first, int depth);

static tfm_status out_of_memory(const reader *r) {
    return tfm__fail(TFM_ERROR_MEMORY, "out of host memory while reading %s", r->name);
}

static tfm_status refuse(const reader *r, const yaml_event_t *at, const char *what) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s: line %zu, column %zu: %s", r->name, at->start_mark.line + 1,
                     at->start_mark.column + 1, what);
}

/* The next event, for yaml_event_delete; empty after a failure. */
static tfm_status next_event(reader *r, yaml_event_t *out) {
    const yaml_parser_t *p = &r->parser;
    if (yaml_parser_parse(&r->parser, out))
        return TFM_OK;
    *out = (yaml_event_t){.type = YAML_NO_EVENT};
    if (p->error == YAML_MEMORY_ERROR)
        return out_of_memory(r);
    if (p->error == YAML_READER_ERROR)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is not YAML: byte %zu: %s", r->name, p->problem_offset,
                         p->problem ? p->problem : "it is not text");
    return tfm__fail(TFM_ERROR_FORMAT, "%s is not YAML: line %zu, column %zu: %s", r->name, p->problem_mark.line + 1,
                     p->problem_mark.column + 1, p->problem ? p->problem : "the parser failed");
}

static tfm_status read_scalar(reader *r, json_t **out, const yaml_event_t *at) {
    const char *text = (const char *)at->data.scalar.value;
    const size_t bytes = at->data.scalar.length;
    if (memchr(text, '\0', bytes))
        return refuse(r, at, "a string has a NUL in it");
    if (at->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        json_error_t error;
        if (bytes == 0 || strcmp(text, "~") == 0)
            *out = json_null();
        else if (strcmp(text, "True") == 0 || strcmp(text, "TRUE") == 0)
            *out = json_true();
        else if (strcmp(text, "False") == 0 || strcmp(text, "FALSE") == 0)
            *out = json_false();
        else
            *out = json_loadb(text, bytes, JSON_DECODE_ANY, &error);
    }
    if (!*out)
        *out = json_stringn(text, bytes);
    return *out ? TFM_OK : out_of_memory(r);
}

static tfm_status read_list(reader *r, json_t **out, int depth) {
    *out = json_array();
    for (tfm_status status = *out ? TFM_OK : out_of_memory(r);;) {
        yaml_event_t event = {.type = YAML_NO_EVENT};
        json_t *item = NULL;
        if (status == TFM_OK)
            status = next_event(r, &event);
        const bool over = status != TFM_OK || event.type == YAML_SEQUENCE_END_EVENT;
        if (!over)
            status = read_value(r, &item, &event, depth + 1);
        yaml_event_delete(&event);
        if (item && json_array_append_new(*out, item) != 0)
            status = out_of_memory(r);
        if (over)
            return status;
    }
}

/* One key and its value; `key` is the event of the key. */
static tfm_status read_pair(reader *r, json_t *object, const yaml_event_t *key, int depth) {
    if (key->type != YAML_SCALAR_EVENT || key->data.scalar.anchor || key->data.scalar.tag)
        return refuse(r, key, "a key must be a plain word or a string");
    const char *name = (const char *)key->data.scalar.value;
    if (strlen(name) != key->data.scalar.length)
        return refuse(r, key, "a key has a NUL in it");
    if (json_object_get(object, name))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: line %zu: `%.200s` occurs twice", r->name, key->start_mark.line + 1,
                         name);
    yaml_event_t event;
    json_t *value = NULL;
    tfm_status status = next_event(r, &event);
    if (status == TFM_OK)
        status = read_value(r, &value, &event, depth + 1);
    yaml_event_delete(&event);
    if (value && json_object_set_new(object, name, value) != 0)
        status = out_of_memory(r);
    return status;
}

static tfm_status read_mapping(reader *r, json_t **out, int depth) {
    *out = json_object();
    for (tfm_status status = *out ? TFM_OK : out_of_memory(r);;) {
        yaml_event_t event = {.type = YAML_NO_EVENT};
        if (status == TFM_OK)
            status = next_event(r, &event);
        const bool over = status != TFM_OK || event.type == YAML_MAPPING_END_EVENT;
        if (!over)
            status = read_pair(r, *out, &event, depth);
        yaml_event_delete(&event);
        if (over)
            return status;
    }
}

/* Reads the value that begins with this event. */
static tfm_status read_value(reader *r, json_t **out, const yaml_event_t *first, int depth) {
    const bool scalar = first->type == YAML_SCALAR_EVENT, list = first->type == YAML_SEQUENCE_START_EVENT;
    if (first->type == YAML_ALIAS_EVENT || (scalar && first->data.scalar.anchor) ||
        (list && first->data.sequence_start.anchor) ||
        (first->type == YAML_MAPPING_START_EVENT && first->data.mapping_start.anchor))
        return refuse(r, first, "anchors (&, *) are not supported: repeat the value");
    if ((scalar && first->data.scalar.tag) || (list && first->data.sequence_start.tag) ||
        (first->type == YAML_MAPPING_START_EVENT && first->data.mapping_start.tag))
        return refuse(r, first, "tags (!) are not supported: write the value without");
    if (depth > MAX_DEPTH)
        return refuse(r, first, "lists and mappings are nested too deep");
    if (scalar)
        return read_scalar(r, out, first);
    if (list)
        return read_list(r, out, depth);
    if (first->type == YAML_MAPPING_START_EVENT)
        return read_mapping(r, out, depth);
    return refuse(r, first, "a value is missing");
}

/* Expects an event before the value or after it. */
static tfm_status expect(reader *r, yaml_event_type_t type, const char *what) {
    yaml_event_t event;
    tfm_status status = next_event(r, &event);
    if (status == TFM_OK && event.type != type)
        status = refuse(r, &event, what);
    yaml_event_delete(&event);
    return status;
}

static tfm_status read_document(reader *r, json_t **out) {
    yaml_event_t event = {.type = YAML_NO_EVENT};
    tfm_status status = expect(r, YAML_STREAM_START_EVENT, "no value begins here");
    if (status == TFM_OK)
        status = expect(r, YAML_DOCUMENT_START_EVENT, "it is empty; a mapping is needed");
    if (status == TFM_OK)
        status = next_event(r, &event);
    if (status == TFM_OK)
        status = read_value(r, out, &event, 0);
    yaml_event_delete(&event);
    if (status == TFM_OK && !json_is_object(*out))
        status = tfm__fail(TFM_ERROR_FORMAT, "%s holds %s; a mapping in YAML is needed", r->name, tfm__json_kind(*out));
    if (status == TFM_OK)
        status = expect(r, YAML_DOCUMENT_END_EVENT, "something follows the mapping");
    if (status == TFM_OK)
        status = expect(r, YAML_STREAM_END_EVENT, "a second document follows the first");
    return status;
}

tfm_status tfm__yaml_parse(json_t **out, const char *text, size_t bytes, const char *name) {
    reader r = {.name = name};
    *out = NULL;
    if (bytes > MAX_BYTES)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has %zu bytes: more than a configuration may have", name, bytes);
    if (!yaml_parser_initialize(&r.parser))
        return out_of_memory(&r);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    const tfm_status status = read_document(&r, out);
    yaml_parser_delete(&r.parser);
    if (status != TFM_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

tfm_status tfm__yaml_load(json_t **out, const char *path) {
    *out = NULL;
    tfm__file file;
    tfm_status status = tfm__file_map(&file, path);
    if (status != TFM_OK)
        return status;
    status = tfm__yaml_parse(out, file.data ? (const char *)file.data : "", file.size, path);
    tfm__file_unmap(&file);
    return status;
}
