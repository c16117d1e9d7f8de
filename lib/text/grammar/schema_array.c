/* Arrays of JSON schemas. */
#include "text/grammar/schema_compiler.h"

static uint32_t byte(tfm__schema_compiler *c, char b, uint32_t next) {
    return tfm__grammar_text(c->builder, &b, 1, next);
}

/* A rule for elements, so that each place is one node. */
static uint32_t item_rule(tfm__schema_compiler *c, const json_t *items) {
    const uint32_t rule = tfm__grammar_rule_add(c->builder, "items", 5);
    const size_t length = tfm__schema_enter(c, "items");
    const uint32_t start = items ? c->emit(c, items, TFM__NODE_END) : tfm__json_any(c, TFM__NODE_END);
    tfm__grammar_rule_set(c->builder, rule, start);
    tfm__schema_leave(c, length);
    return rule;
}

uint32_t tfm__schema_array_emit(tfm__schema_compiler *c, const json_t *schema, uint32_t next) {
    const json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
    const int64_t least = tfm__schema_count(c, schema, "minItems", 0);
    const int64_t most = tfm__schema_count(c, schema, "maxItems", -1);
    if (prefix && !json_is_array(prefix))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, "prefixItems", "is no list");
    if (json_is_array(items))
        tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, "items", "is a list; use `prefixItems`");
    if (c->builder->status != TFM_OK || (most >= 0 && least > most))
        return TFM__NODE_FAIL;
    const int64_t named = (int64_t)json_array_size(prefix), rest = least > named ? least : named;
    const int64_t places = most >= 0 ? most : rest > 0 ? rest : 1; /* different ones */
    const uint32_t rule = most < 0 || most > named ? item_rule(c, items) : 0;
    const uint32_t close = byte(c, ']', next), last = tfm__json_blank(c, close);
    uint32_t at = last;
    if (most < 0) {
        at = tfm__grammar_node_reserve(c->builder);
        tfm__grammar_node_set(c->builder, at, last,
                              byte(c, ',', tfm__json_blank(c, tfm__grammar_call(c->builder, rule, at))));
    }
    for (int64_t i = places; i-- > 0 && c->builder->status == TFM_OK;) {
        const size_t length = tfm__schema_enter(c, "prefixItems");
        at = i < named ? c->emit(c, json_array_get(prefix, (size_t)i), at) : tfm__grammar_call(c->builder, rule, at);
        tfm__schema_leave(c, length);
        at = i ? byte(c, ',', tfm__json_blank(c, at)) : at;
        at = tfm__grammar_either(c->builder, at, i < least ? TFM__NODE_FAIL : i ? last : close);
    }
    return byte(c, '[', tfm__json_blank(c, places ? at : close));
}
