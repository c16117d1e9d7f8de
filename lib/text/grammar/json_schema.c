/* JSON schemas (draft 2020-12) to grammars. */
#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "text/grammar/schema_compiler.h"

/* Schemas of constants in schemas of constants. */
enum { MAX_NESTED = 8 };

/* ---- Constants ---------------------------------------------------------------------------------------- */

static tfm_status compile(tfm_grammar **out, const tfm__schema_compiler *outer, size_t *steps, const json_t *root,
                          const json_t *schema);

/* The values of enum or const that the other keywords allow: their grammar tests each one. */
static uint32_t emit_constants(tfm__schema_compiler *c, const json_t *schema, uint32_t next) {
    const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    const json_t *rest = tfm__schema_without(c, schema, "const", one ? "" : "enum");
    uint32_t all = TFM__NODE_FAIL;
    tfm_grammar *others = NULL;
    if (list && !json_is_array(list))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, "enum", "is no list");
    if (c->builder->status == TFM_OK && tfm__schema_restricts(rest))
        c->builder->status = compile(&others, c, &c->builder->steps, c->root, rest);
    for (size_t i = one ? 1 : json_array_size(list); i-- > 0 && c->builder->status == TFM_OK;) {
        const json_t *value = one ? one : json_array_get(list, i);
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        tfm__schema_check(c, !text);
        if (others && !tfm__grammar_steps(c->builder, others->node_count)) { /* each test may visit all nodes */
            free(text);
            break;
        }
        if (text && (!others || tfm_grammar_matches(others, text, strlen(text))))
            all = tfm__grammar_either(c->builder, tfm__json_value(c, value, next), all);
        free(text);
    }
    tfm_grammar_free(&others);
    return all;
}

/* ---- Alternatives ------------------------------------------------------------------------------------- */

/* anyOf or oneOf, with each alternative merged with the other keywords. */
static uint32_t emit_alternatives(tfm__schema_compiler *c, const json_t *schema, const char *keyword, uint32_t next) {
    const json_t *list = json_object_get(schema, keyword), *rest = tfm__schema_without(c, schema, keyword, "");
    const bool plain = !tfm__schema_restricts(rest), one_of = strcmp(keyword, "oneOf") == 0;
    const size_t count = json_array_size(list), length = tfm__schema_enter(c, keyword);
    uint32_t all = TFM__NODE_FAIL;
    if (count == 0)
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, NULL, "is no list of schemas");
    for (size_t i = 0; one_of && i < count; i++)
        for (size_t k = i + 1; k < count && c->builder->status == TFM_OK; k++)
            if (!tfm__schema_disjoint(c, json_array_get(list, i), json_array_get(list, k), 0))
                tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, NULL,
                                   "has alternatives that may share a value; use `anyOf`, or a property with `const`");
    for (size_t i = count; i-- > 0 && c->builder->status == TFM_OK;) {
        const json_t *each = json_array_get(list, i);
        if (!plain) {
            const json_t *resolved = tfm__schema_resolve(c, each);
            each = resolved ? tfm__schema_merge(c, rest, resolved) : NULL;
        }
        if (each)
            all = tfm__grammar_either(c->builder, c->emit(c, each, next), all);
    }
    tfm__schema_leave(c, length);
    return all;
}

/* ---- Schemas ------------------------------------------------------------------------------------------ */

/* A schema that only refers to another one calls its rule, so that it may refer to itself. */
static uint32_t emit_reference(tfm__schema_compiler *c, const char *reference, uint32_t next) {
    const json_t *known = json_object_get(c->refs, reference);
    uint32_t rule = (uint32_t)json_integer_value(known);
    if (!known && tfm__schema_find(c, reference)) {
        rule = tfm__grammar_rule_add(c->builder, reference, strlen(reference));
        tfm__schema_check(c, json_object_set_new(c->refs, reference, json_integer(rule)));
        tfm__schema_check(c, json_array_append_new(c->pending, json_string(reference)));
    }
    return c->builder->status == TFM_OK ? tfm__grammar_call(c->builder, rule, next) : TFM__NODE_FAIL;
}

static uint32_t emit_types(tfm__schema_compiler *c, const json_t *schema, uint32_t next) {
    const int types = tfm__schema_types(c, schema);
    const json_t *type = json_object_get(schema, "type");
    tfm__grammar_builder *b = c->builder;
    uint32_t all = TFM__NODE_FAIL;
    if (!type && !tfm__schema_restricts(schema))
        return tfm__json_any(c, next);
    if (types & TFM__SCHEMA_NULL)
        all = tfm__grammar_text(b, "null", 4, next);
    if (types & TFM__SCHEMA_BOOLEAN)
        all = tfm__grammar_either(b, tfm__grammar_text(b, "true", 4, next),
                                  tfm__grammar_either(b, tfm__grammar_text(b, "false", 5, next), all));
    if (types & TFM__SCHEMA_INTEGER)
        all = tfm__grammar_either(b, tfm__schema_number_emit(c, schema, !(types & TFM__SCHEMA_FRACTION), next), all);
    if (types & TFM__SCHEMA_STRING)
        all = tfm__grammar_either(b, tfm__schema_string_emit(c, schema, next), all);
    if (types & TFM__SCHEMA_ARRAY)
        all = tfm__grammar_either(b, tfm__schema_array_emit(c, schema, next), all);
    if (types & TFM__SCHEMA_OBJECT)
        all = tfm__grammar_either(b, tfm__schema_object_emit(c, schema, next), all);
    return all;
}

static uint32_t emit(tfm__schema_compiler *c, const json_t *schema, uint32_t next) {
    const json_t *reference = json_object_get(schema, "$ref"), *all = json_object_get(schema, "allOf");
    tfm__schema_check_keywords(c, schema);
    if (json_is_string(reference) && !tfm__schema_restricts(tfm__schema_without(c, schema, "$ref", "")))
        return emit_reference(c, json_string_value(reference), next);
    if (json_array_size(all) == 1 && !tfm__schema_restricts(tfm__schema_without(c, schema, "allOf", "")))
        return c->emit(c, json_array_get(all, 0), next);
    const json_t *resolved = tfm__schema_resolve(c, schema);
    if (!resolved || json_is_boolean(resolved))
        return resolved && json_is_true(resolved) ? tfm__json_any(c, next) : TFM__NODE_FAIL;
    if (json_object_get(resolved, "enum") || json_object_get(resolved, "const"))
        return emit_constants(c, resolved, next);
    if (json_object_get(resolved, "anyOf"))
        return emit_alternatives(c, resolved, "anyOf", next);
    if (json_object_get(resolved, "oneOf"))
        return emit_alternatives(c, resolved, "oneOf", next);
    return emit_types(c, resolved, next);
}

static uint32_t emit_schema(tfm__schema_compiler *c, const json_t *schema, uint32_t next) {
    uint32_t at = TFM__NODE_FAIL;
    if (++c->depth > TFM__GRAMMAR_MAX_DEPTH)
        tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, NULL, "is nested too deep, or refers to itself");
    else if (tfm__grammar_step(c->builder))
        at = emit(c, schema, next);
    c->depth--;
    return at;
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

/* Compiles the schemas that references name, which may name more. */
static void emit_pending(tfm__schema_compiler *c) {
    for (size_t i = 0; i < json_array_size(c->pending) && c->builder->status == TFM_OK; i++) {
        const char *reference = json_string_value(json_array_get(c->pending, i));
        const json_t *schema = tfm__schema_find(c, reference);
        snprintf(c->pointer, sizeof(c->pointer), "%s", reference);
        if (schema)
            tfm__grammar_rule_set(c->builder, (uint32_t)json_integer_value(json_object_get(c->refs, reference)),
                                  c->emit(c, schema, TFM__NODE_END));
    }
}

/* `schema` is `root`, or one made from a part of it. */
/* *steps: of building so far. `outer`: the one whose constants are tested, or NULL. */
static tfm_status compile(tfm_grammar **out, const tfm__schema_compiler *outer, size_t *steps, const json_t *root,
                          const json_t *schema) {
    tfm__grammar_builder builder = {.name = "the JSON schema", .steps = *steps};
    tfm__schema_compiler c = {.builder = &builder,
                              .emit = emit_schema,
                              .root = root,
                              .made = json_array(),
                              .refs = json_object(),
                              .pending = json_array(),
                              .pointer = "#",
                              .any = TFM__NO_ID,
                              .string = TFM__NO_ID,
                              .character = TFM__NO_ID,
                              .blank = TFM__NO_ID,
                              .integer = TFM__NO_ID,
                              .number = TFM__NO_ID};
    c.nested = outer ? outer->nested + 1 : 0;
    tfm__schema_check(&c, !c.made || !c.refs || !c.pending);
    if (c.nested > MAX_NESTED)
        tfm__grammar_fail(&builder, TFM_ERROR_UNSUPPORTED, "constants with other keywords are nested too deeply");
    tfm__grammar_rule_add(&builder, "#", 1);
    if (builder.status == TFM_OK && schema == root)
        tfm__schema_check(&c, json_object_set_new(c.refs, "#", json_integer(0)));
    if (builder.status == TFM_OK)
        tfm__grammar_rule_set(&builder, 0, emit_schema(&c, schema, TFM__NODE_END));
    emit_pending(&c);
    *steps = builder.steps;
    const tfm_status status = tfm__grammar_finish(out, &builder);
    json_decref(c.made);
    json_decref(c.refs);
    json_decref(c.pending);
    return status;
}

/* NUL would become another character (base/json.h), which a constant must not. */
static bool has_nul(const char *text) {
    for (const char *at = strchr(text, '\\'); at; at = strchr(at, '\\')) {
        if (strncmp(at, "\\u0000", 6) == 0)
            return true;
        at += at[1] ? 2 : 1;
    }
    return false;
}

tfm_status tfm_grammar_from_json_schema(tfm_grammar **out, const char *schema) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("grammar_from_json_schema", out) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    json_t *root = NULL;
    const char *text = schema && *schema ? schema : "{\"type\": \"object\"}";
    const size_t bytes = strlen(text);
    if (bytes > TFM__GRAMMAR_MAX_TEXT)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "the JSON schema has %zu bytes; up to %d are allowed", bytes,
                         TFM__GRAMMAR_MAX_TEXT);
    if (has_nul(text))
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "the JSON schema: \\u0000 in a string is not supported; remove it");
    tfm_status status = tfm__json_read(&root, text, bytes, "the JSON schema");
    if (status == TFM_OK)
        status = compile(out, NULL, &(size_t){0}, root, root);
    json_decref(root);
    return status;
}
