/* $ref and allOf: schemas as one. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text/grammar/schema_compiler.h"

enum { MERGE_STEPS = 256 }; /* of building: a merged schema is kept until the end */

typedef enum role { ANNOTATION, CONTAINER, ASSERTION } role;

static const struct {
    const char *name;
    role role;
} KEYWORDS[] = {
    {"title", ANNOTATION},
    {"description", ANNOTATION},
    {"default", ANNOTATION},
    {"examples", ANNOTATION},
    {"deprecated", ANNOTATION},
    {"readOnly", ANNOTATION},
    {"writeOnly", ANNOTATION},
    {"$schema", ANNOTATION},
    {"$comment", ANNOTATION},
    {"$id", ANNOTATION},
    {"$defs", CONTAINER},
    {"definitions", CONTAINER},
    {"type", ASSERTION},
    {"enum", ASSERTION},
    {"const", ASSERTION},
    {"anyOf", ASSERTION},
    {"allOf", ASSERTION},
    {"oneOf", ASSERTION},
    {"$ref", ASSERTION},
    {"properties", ASSERTION},
    {"required", ASSERTION},
    {"items", ASSERTION},
    {"additionalProperties", ASSERTION},
    {"prefixItems", ASSERTION},
    {"minItems", ASSERTION},
    {"maxItems", ASSERTION},
    {"minLength", ASSERTION},
    {"maxLength", ASSERTION},
    {"pattern", ASSERTION},
    {"format", ASSERTION},
    {"minimum", ASSERTION},
    {"maximum", ASSERTION},
    {"exclusiveMinimum", ASSERTION},
    {"exclusiveMaximum", ASSERTION},
};

static int role_of(const char *name) {
    for (size_t i = 0; i < TFM__COUNT(KEYWORDS); i++)
        if (strcmp(name, KEYWORDS[i].name) == 0)
            return (int)KEYWORDS[i].role;
    return -1;
}

bool tfm__schema_restricts(const json_t *schema) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value) {
        if (role_of(key) == ASSERTION)
            return true;
    }
    return json_is_false(schema);
}

void tfm__schema_check_keywords(tfm__schema_compiler *c, const json_t *schema) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value) {
        if (role_of(key) < 0)
            tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, key, "is not supported; remove it");
        else if (strcmp(key, "$id") == 0 && schema != c->root)
            tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, key, "is only supported at the top");
    }
}

json_t *tfm__schema_without(tfm__schema_compiler *c, const json_t *schema, const char *first, const char *second) {
    json_t *copy = tfm__schema_keep(c, json_copy((json_t *)(uintptr_t)schema));
    if (copy && json_object_get(copy, first))
        json_object_del(copy, first);
    if (copy && json_object_get(copy, second))
        json_object_del(copy, second);
    return copy;
}

/* ---- Merging ------------------------------------------------------------------------------------------ */

/* {"allOf": [a, b]}, or one of them if the other one is NULL: a new reference. */
static json_t *both(const json_t *a, const json_t *b) {
    json_t *x = (json_t *)(uintptr_t)a, *y = (json_t *)(uintptr_t)b;
    return x && y && !json_equal(x, y) ? json_pack("{s:[O,O]}", "allOf", x, y) : json_incref(x ? x : y);
}

/* Each property has its schemas in both, where those not named have that of `additionalProperties`. */
static void merge_properties(tfm__schema_compiler *c, json_t *out, const json_t *a, const json_t *b) {
    const json_t *sides[] = {a, b}, *own[2], *other[2];
    for (int i = 0; i < 2; i++) {
        own[i] = json_object_get(sides[i], "properties");
        other[i] = json_object_get(sides[i], "additionalProperties");
        if (own[i] && !json_is_object(own[i]))
            tfm__schema_refuse(c, TFM_ERROR_FORMAT, "properties", "is no object");
    }
    json_t *all = tfm__schema_keep(c, json_object()), *value;
    const char *key;
    for (int i = 0; i < 2; i++)
        json_object_foreach((json_t *)(uintptr_t)own[i], key, value) {
            const json_t *here = json_object_get(own[1 - i], key), *there = here ? here : other[1 - i];
            if (!json_object_get(all, key))
                tfm__schema_check(c, json_object_set_new(all, key, i ? both(there, value) : both(value, there)));
        }
    if (own[0] || own[1])
        tfm__schema_check(c, json_object_set(out, "properties", all));
    if (other[0] || other[1])
        tfm__schema_check(c, json_object_set_new(out, "additionalProperties", both(other[0], other[1])));
}

static bool in_list(const json_t *list, const json_t *value) {
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one) {
        if (json_equal((json_t *)(uintptr_t)one, (json_t *)(uintptr_t)value))
            return true;
    }
    return false;
}

/* The types in both, in words: an integer is a number. */
static json_t *merge_types(tfm__schema_compiler *c, const json_t *a, const json_t *b) {
    static const char *const NAMES[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    static const int BITS[] = {1, 2, 4, 12, 16, 32, 64};
    json_t *list = json_array();
    const int types = tfm__schema_types(c, tfm__schema_keep(c, json_pack("{s:O}", "type", a))) &
                      tfm__schema_types(c, tfm__schema_keep(c, json_pack("{s:O}", "type", b)));
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
        if ((types & BITS[i]) == BITS[i])
            tfm__schema_check(c, json_array_append_new(list, json_string(NAMES[i])));
    return list;
}

/* The values of `a` that are in `b`, or all of both. */
static json_t *merge_lists(tfm__schema_compiler *c, const json_t *a, const json_t *b, bool all) {
    json_t *list = all ? json_copy((json_t *)(uintptr_t)a) : json_array(), *one;
    size_t i;
    json_array_foreach(all ? b : a, i, one) {
        if (!tfm__grammar_steps(c->builder, json_array_size(all ? a : b)))
            break;
        if (all ? !in_list(a, one) : in_list(b, one))
            tfm__schema_check(c, json_array_append(list, one));
    }
    return list;
}

/* The value of a keyword that both have; NULL if there is none. A new reference. */
static json_t *merge_values(tfm__schema_compiler *c, const json_t *schema, const char *key, const json_t *a,
                            const json_t *b) {
    const double x = json_number_value(a), y = json_number_value(b);
    json_t *first = (json_t *)(uintptr_t)a, *second = (json_t *)(uintptr_t)b;
    if (json_equal(first, second) || role_of(key) != ASSERTION)
        return json_incref(first);
    if (strcmp(key, "type") == 0)
        return merge_types(c, a, b);
    if (strcmp(key, "required") == 0 || strcmp(key, "enum") == 0)
        return merge_lists(c, a, b, key[0] == 'r');
    if (strcmp(key, "const") == 0)
        return NULL;
    if (json_is_number(a) && json_is_number(b))
        return json_incref((strncmp(key, "max", 3) == 0 || strcmp(key, "exclusiveMaximum") == 0) == (x < y) ? first
                                                                                                            : second);
    if (strcmp(key, "items") == 0 && !json_object_get(schema, "prefixItems"))
        return both(a, b);
    tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, key, "is in two schemas of `allOf` or next to `$ref`");
    return NULL;
}

const json_t *tfm__schema_merge(tfm__schema_compiler *c, const json_t *a, const json_t *b) {
    if (!json_is_object(a) || !json_is_object(b))
        return json_is_false(a) || json_is_true(b) ? a : b;
    json_t *out = tfm__schema_keep(c, json_copy((json_t *)(uintptr_t)a)), *value;
    const char *key;
    const size_t named = json_object_size(json_object_get(a, "properties"));
    const size_t all = named + json_object_size(json_object_get(b, "properties")) + json_object_size(a);
    if (!out || !tfm__grammar_steps(c->builder, MERGE_STEPS + 8 * all))
        return NULL;
    if (json_object_get(a, "prefixItems") || json_object_get(b, "prefixItems"))
        for (int i = 0; i < 2; i++)
            if (json_object_get(i ? a : b, "items"))
                tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, "prefixItems", "is in two schemas of `allOf`");
    json_object_foreach((json_t *)(uintptr_t)b, key, value) {
        const json_t *known = json_object_get(a, key);
        if (strcmp(key, "properties") == 0 || strcmp(key, "additionalProperties") == 0)
            continue;
        json_t *merged = known ? merge_values(c, out, key, known, value) : json_incref(value);
        if (c->builder->status != TFM_OK || !merged) {
            json_decref(merged);
            return c->builder->status == TFM_OK ? tfm__schema_keep(c, json_false()) : NULL;
        }
        tfm__schema_check(c, json_object_set_new(out, key, merged));
    }
    merge_properties(c, out, a, b);
    return out;
}

/* ---- References --------------------------------------------------------------------------------------- */

/* The next part of a JSON pointer: %XX of a URI, then ~0 and ~1. */
static bool read_part(char *out, size_t size, const char **pointer) {
    size_t count = 0;
    const char *at = *pointer;
    for (; *at && *at != '/'; at++) {
        unsigned byte = (unsigned char)*at;
        if (byte == '%' && sscanf(at + 1, "%2x", &byte) == 1 && at[1] && at[2])
            at += 2;
        if (byte == '~' && (at[1] == '0' || at[1] == '1'))
            byte = *++at == '0' ? '~' : '/';
        if (count + 1 >= size || byte == 0)
            return false;
        out[count++] = (char)byte;
    }
    out[count] = '\0';
    *pointer = at;
    return true;
}

const json_t *tfm__schema_find(tfm__schema_compiler *c, const char *reference) {
    const json_t *at = c->root;
    char part[512];
    if (reference[0] != '#' || (reference[1] && reference[1] != '/')) {
        tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, reference, "is no reference such as #/$defs/name");
        return NULL;
    }
    for (reference++; *reference && at;) {
        reference++;
        char *end;
        const bool good = read_part(part, sizeof(part), &reference);
        const unsigned long index = strtoul(part, &end, 10);
        if (!good)
            at = NULL;
        else if (json_is_array(at))
            at = *part && !*end ? json_array_get(at, index) : NULL;
        else
            at = json_object_get(at, part);
    }
    if (!at || (!json_is_object(at) && !json_is_boolean(at))) {
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, "$ref", "names no schema");
        return NULL;
    }
    return at;
}

static const json_t *resolve(tfm__schema_compiler *c, const json_t *schema) {
    const json_t *all = json_object_get(schema, "allOf"), *reference = json_object_get(schema, "$ref"), *one;
    size_t i;
    tfm__schema_check_keywords(c, schema);
    if (all && (!json_is_array(all) || json_array_size(all) == 0))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, "allOf", "is no list of schemas");
    if (reference && !json_is_string(reference))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, "$ref", "is no string");
    if (c->builder->status != TFM_OK || (!all && !reference))
        return c->builder->status == TFM_OK ? schema : NULL;
    const json_t *out = tfm__schema_without(c, schema, "allOf", "$ref");
    if (out && reference) {
        const json_t *target = tfm__schema_find(c, json_string_value(reference));
        target = target ? tfm__schema_resolve(c, target) : NULL;
        out = target ? tfm__schema_merge(c, out, target) : NULL;
    }
    json_array_foreach(all, i, one) {
        const json_t *part = out ? tfm__schema_resolve(c, one) : NULL;
        out = part ? tfm__schema_merge(c, out, part) : NULL;
    }
    return out;
}

const json_t *tfm__schema_resolve(tfm__schema_compiler *c, const json_t *schema) {
    const json_t *out = NULL;
    if (json_is_boolean(schema))
        return schema;
    if (!tfm__grammar_step(c->builder))
        return NULL;
    if (!json_is_object(schema))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, NULL, "is no schema: give an object, true or false");
    else if (++c->depth > TFM__GRAMMAR_MAX_DEPTH)
        tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, NULL, "is nested too deep, or refers to itself");
    else
        out = resolve(c, schema);
    c->depth -= json_is_object(schema);
    return out;
}
