#include <string.h>
#include "text/grammar/schema_compiler.h"

static int type_of_name(const char *name) {
    static const struct {
        const char *name;
        int type;
    } TYPES[] = {{"null", TFM__SCHEMA_NULL},     {"boolean", TFM__SCHEMA_BOOLEAN},
                 {"string", TFM__SCHEMA_STRING}, {"integer", TFM__SCHEMA_INTEGER},
                 {"array", TFM__SCHEMA_ARRAY},   {"number", TFM__SCHEMA_INTEGER | TFM__SCHEMA_FRACTION},
                 {"object", TFM__SCHEMA_OBJECT}};
    for (size_t i = 0; name && i < TFM__COUNT(TYPES); i++)
        if (strcmp(name, TYPES[i].name) == 0)
            return TYPES[i].type;
    return 0;
}

static int type_of_value(const json_t *value) {
    static const int TYPES[] = {
        [JSON_OBJECT] = TFM__SCHEMA_OBJECT,   [JSON_ARRAY] = TFM__SCHEMA_ARRAY,   [JSON_STRING] = TFM__SCHEMA_STRING,
        [JSON_INTEGER] = TFM__SCHEMA_INTEGER, [JSON_REAL] = TFM__SCHEMA_FRACTION, [JSON_TRUE] = TFM__SCHEMA_BOOLEAN,
        [JSON_FALSE] = TFM__SCHEMA_BOOLEAN,   [JSON_NULL] = TFM__SCHEMA_NULL};
    const bool whole = json_is_real(value) && json_real_value(value) == (double)(int64_t)json_real_value(value);
    return whole ? TFM__SCHEMA_INTEGER : TYPES[json_typeof(value)];
}

const json_t *tfm__schema_constant(const json_t *schema, size_t i, size_t *count) {
    const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    *count = one ? 1 : json_array_size(list);
    return one ? one : json_array_get(list, i);
}

int tfm__schema_types(tfm__schema_compiler *c, const json_t *schema) {
    const json_t *type = json_object_get(schema, "type"), *value;
    int types = type ? 0 : TFM__SCHEMA_ANY;
    size_t i, count;
    if (!json_is_object(schema))
        return json_is_false(schema) ? 0 : TFM__SCHEMA_ANY;
    if (json_is_string(type))
        types = type_of_name(json_string_value(type));
    json_array_foreach(type, i, value) {
        const int one = type_of_name(json_string_value(value));
        if (!one)
            types = INT32_MIN;
        types |= one;
    }
    if (types < 0 || (type && !json_is_array(type) && !types)) {
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, "type", "is no type of JSON, and no list of them");
        return 0;
    }
    int constants = 0;
    (void)tfm__schema_constant(schema, 0, &count);
    for (i = 0; i < count; i++)
        constants |= type_of_value(tfm__schema_constant(schema, i, &count));
    return count || json_object_get(schema, "enum") ? types & constants : types;
}
