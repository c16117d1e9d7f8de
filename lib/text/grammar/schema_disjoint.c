/* Whether two schemas share a value. */
#include <string.h>
#include "text/grammar/schema_compiler.h"

enum { MAX_DISJOINT_DEPTH = 8 };

/* Whether no constant of `a` is one of `b`. Without constants in both it is false. */
static bool constants_differ(const json_t *a, const json_t *b) {
    size_t count, other;
    (void)tfm__schema_constant(a, 0, &count);
    (void)tfm__schema_constant(b, 0, &other);
    if (!count || !other)
        return false;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < other; k++) {
            const json_t *x = tfm__schema_constant(a, i, &count), *y = tfm__schema_constant(b, k, &other);
            if (json_equal(x, y) || json_is_real(x) || json_is_real(y) || json_is_object(x) || json_is_array(x))
                return false; /* 1 and 1.0 are equal, also in lists */
        }
    return true;
}

static bool requires(const json_t *schema, const char *key) {
    size_t i;
    const json_t *one;
    json_array_foreach(json_object_get(schema, "required"), i, one) {
        if (json_is_string(one) && strcmp(json_string_value(one), key) == 0)
            return true;
    }
    return false;
}

/* Whether objects of `a` have a property that those of `b` have not, or with another value. */
static bool property_differs(tfm__schema_compiler *c, const json_t *a, const json_t *b, int depth) {
    const json_t *of_a = json_object_get(a, "properties"), *of_b = json_object_get(b, "properties"), *one;
    size_t i;
    json_array_foreach(json_object_get(a, "required"), i, one) {
        const char *key = json_string_value(one);
        const json_t *x = key ? json_object_get(of_a, key) : NULL, *y = key ? json_object_get(of_b, key) : NULL;
        if (!key)
            continue;
        if (!y && json_is_false(json_object_get(b, "additionalProperties")))
            return true;
        if (json_is_false(y) || (x && y && requires(b, key) && tfm__schema_disjoint(c, x, y, depth + 1)))
            return true;
    }
    return false;
}

bool tfm__schema_disjoint(tfm__schema_compiler *c, const json_t *a, const json_t *b, int depth) {
    if (depth > MAX_DISJOINT_DEPTH)
        return false;
    const json_t *x = tfm__schema_resolve(c, a), *y = tfm__schema_resolve(c, b);
    const int shared = x && y ? tfm__schema_types(c, x) & tfm__schema_types(c, y) : 0;
    if (!shared || c->builder->status != TFM_OK)
        return c->builder->status == TFM_OK;
    size_t count, other;
    (void)tfm__schema_constant(x, 0, &count);
    (void)tfm__schema_constant(y, 0, &other);
    count *= other;
    count += json_array_size(json_object_get(x, "required")) * json_array_size(json_object_get(y, "required"));
    if (!tfm__grammar_steps(c->builder, count))
        return false;
    if (constants_differ(x, y))
        return true;
    return shared == TFM__SCHEMA_OBJECT && (property_differs(c, x, y, depth) || property_differs(c, y, x, depth));
}
