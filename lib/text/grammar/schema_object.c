/* Objects of JSON schemas: named properties in the order of the schema, then others. */
#include <string.h>
#include "text/bytes.h"
#include "text/grammar/schema_compiler.h"

enum { MAX_KEY = 1024 }; /* bytes of a name that other keys must differ from */

static uint32_t byte(tfm__schema_compiler *c, char b, uint32_t next) {
    return tfm__grammar_text(c->builder, &b, 1, next);
}

/* ---- Other keys --------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The rest of a key that differs from all of `count` sorted names, which begin alike up to `at`. Up to the difference
 * characters have one form only, so that an escape cannot spell a name. */
static uint32_t other_key(tfm__schema_compiler *c, const char *const *names, size_t count, size_t at,
                          uint32_t free_rest, uint32_t end) {
    const bool complete = names[0][at] == '\0';
    size_t begin = complete;
    tfm__char_set others = {0};
    uint32_t all = complete ? TFM__NODE_FAIL : end;
    while (begin < count && tfm__grammar_step(c->builder)) {
        size_t last = begin + 1, next = at;
        const uint32_t one = (uint32_t)tfm__char_next(names[begin], &next);
        while (last < count && strncmp(names[last] + at, names[begin] + at, next - at) == 0)
            last++;
        tfm__char_range range = {one, one};
        const uint32_t rest = other_key(c, names + begin, last - begin, next, free_rest, end);
        all = tfm__grammar_either(c->builder, tfm__json_char(c, &(tfm__char_set){&range, 1, 1, false}, rest), all);
        tfm__char_set_add(&others, one, one);
        begin = last;
    }
    tfm__char_set_finish(&others, true);
    if (others.failed && c->builder->status == TFM_OK)
        c->builder->status = TFM_ERROR_MEMORY;
    all = tfm__grammar_either(c->builder, tfm__json_char(c, &others, free_rest), all);
    tfm__char_set_free(&others);
    return all;
}

/* A key that is none of the names. */
static uint32_t emit_other_key(tfm__schema_compiler *c, const json_t *names, uint32_t next) {
    const size_t count = json_array_size(names);
    if (!count)
        return tfm__json_string(c, next);
    const char **texts = tfm__alloc(count, sizeof(*texts));
    if (!texts && c->builder->status == TFM_OK)
        c->builder->status = TFM_ERROR_MEMORY;
    for (size_t i = 0; texts && i < count; i++) {
        texts[i] = json_string_value(json_array_get(names, i));
        if (strlen(texts[i]) > MAX_KEY)
            tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, "additionalProperties",
                               "is not supported with a property name of more than 1024 bytes");
    }
    uint32_t at = TFM__NODE_FAIL;
    if (c->builder->status == TFM_OK) {
        qsort(texts, count, sizeof(*texts), by_bytes);
        const uint32_t end = byte(c, '"', next), rest = tfm__grammar_node_reserve(c->builder);
        tfm__grammar_node_set(c->builder, rest, tfm__json_any_char(c, rest, false), end);
        at = byte(c, '"', other_key(c, texts, count, 0, rest, end));
    }
    free(texts);
    return at;
}

/* ---- Objects ------------------------------------------------------------------------------------------ */

/* : and a value of a schema, which may be NULL for any. */
static uint32_t emit_value(tfm__schema_compiler *c, const char *place, const char *key, const json_t *schema,
                           uint32_t next) {
    const size_t length = tfm__schema_enter(c, place);
    if (key)
        tfm__schema_enter(c, key);
    const uint32_t value = schema ? c->emit(c, schema, next) : tfm__json_any(c, next);
    tfm__schema_leave(c, length);
    return byte(c, ':', tfm__json_blank(c, value));
}

/* The names of `properties`, then names of `required` alone. */
static json_t *list_names(tfm__schema_compiler *c, const json_t *properties, const json_t *required) {
    json_t *names = tfm__schema_keep(c, json_array()), *known = tfm__schema_keep(c, json_object()), *value;
    const char *key;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)properties, key, value)
        tfm__schema_check(c, json_array_append_new(names, json_string(key)));
    json_array_foreach(required, i, value) {
        key = json_string_value(value);
        if (!key) {
            tfm__schema_refuse(c, TFM_ERROR_FORMAT, "required", "is no list of strings");
        } else if (!json_object_get(properties, key) && !json_object_get(known, key)) {
            tfm__schema_check(c, json_object_set_new(known, key, json_true()));
            tfm__schema_check(c, json_array_append_new(names, json_string(key)));
        }
    }
    return names;
}

static json_t *set_of(tfm__schema_compiler *c, const json_t *list) {
    json_t *set = tfm__schema_keep(c, json_object()), *value;
    size_t i;
    json_array_foreach(list, i, value) {
        if (json_is_string(value))
            tfm__schema_check(c, json_object_set_new(set, json_string_value(value), json_true()));
    }
    return set;
}

/* `first` is before any property, `more` after one: without and with a comma. */
static uint32_t emit_properties(tfm__schema_compiler *c, const json_t *schema, const json_t *names, uint32_t next) {
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const json_t *required = set_of(c, json_object_get(schema, "required"));
    uint32_t first = byte(c, '}', next), more = tfm__json_blank(c, first);
    if (!json_is_false(additional)) {
        const uint32_t loop = tfm__grammar_node_reserve(c->builder);
        const uint32_t pair = emit_other_key(c, names, emit_value(c, "additionalProperties", NULL, additional, loop));
        tfm__grammar_node_set(c->builder, loop, more, byte(c, ',', tfm__json_blank(c, pair)));
        more = loop;
        first = tfm__grammar_either(c->builder, first, pair);
    }
    for (size_t i = json_array_size(names); i-- > 0 && c->builder->status == TFM_OK;) {
        const char *key = json_string_value(json_array_get(names, i));
        const json_t *value = json_object_get(properties, key);
        const bool needed = json_object_get(required, key);
        uint32_t pair = value ? emit_value(c, "properties", key, value, more)
                              : emit_value(c, "additionalProperties", NULL, additional, more);
        pair = tfm__json_literal(c, key, strlen(key), pair);
        first = tfm__grammar_either(c->builder, pair, needed ? TFM__NODE_FAIL : first);
        more = tfm__grammar_either(c->builder, byte(c, ',', tfm__json_blank(c, pair)), needed ? TFM__NODE_FAIL : more);
    }
    return byte(c, '{', tfm__json_blank(c, first));
}

uint32_t tfm__schema_object_emit(tfm__schema_compiler *c, const json_t *schema, uint32_t next) {
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    if (properties && !json_is_object(properties))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, "properties", "is no object");
    if (required && !json_is_array(required))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, "required", "is no list of strings");
    const json_t *names = list_names(c, properties, required);
    return c->builder->status == TFM_OK ? emit_properties(c, schema, names, next) : TFM__NODE_FAIL;
}
