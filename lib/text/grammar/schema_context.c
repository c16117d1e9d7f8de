#include <stdio.h>
#include <string.h>
#include "text/grammar/schema_compiler.h"

size_t tfm__schema_enter(tfm__schema_compiler *c, const char *key) {
    const size_t length = strlen(c->pointer);
    snprintf(c->pointer + length, sizeof(c->pointer) - length, "/%s", key);
    return length;
}

void tfm__schema_leave(tfm__schema_compiler *c, size_t length) {
    c->pointer[length] = '\0';
}

void tfm__schema_refuse(tfm__schema_compiler *c, tfm_status status, const char *keyword, const char *why) {
    if (keyword)
        tfm__grammar_fail(c->builder, status, "`%.100s` at %s %s", keyword, c->pointer, why);
    else
        tfm__grammar_fail(c->builder, status, "%s %s", c->pointer, why);
}

json_t *tfm__schema_keep(tfm__schema_compiler *c, json_t *value) {
    if (value && json_array_append_new(c->made, value) == 0)
        return value;
    tfm__schema_check(c, -1);
    return NULL;
}

void tfm__schema_check(tfm__schema_compiler *c, int failed) {
    if (failed && c->builder->status == TFM_OK)
        c->builder->status = tfm__fail(TFM_ERROR_MEMORY, "%s: out of memory", c->builder->name);
}

int64_t tfm__schema_count(tfm__schema_compiler *c, const json_t *schema, const char *keyword, int64_t otherwise) {
    const json_t *value = json_object_get(schema, keyword);
    const double number = json_number_value(value);
    if (!value)
        return otherwise;
    if (!json_is_number(value) || number < 0 || (json_is_real(value) && number != (double)(int64_t)number))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, keyword, "is no whole number from 0 on");
    else if (number > TFM__GRAMMAR_MAX_NODES)
        tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, keyword, "is too large; up to 262144 is supported");
    return c->builder->status == TFM_OK ? (int64_t)number : otherwise;
}

const char *tfm__schema_string(tfm__schema_compiler *c, const json_t *schema, const char *keyword) {
    const json_t *value = json_object_get(schema, keyword);
    if (value && !json_is_string(value))
        tfm__schema_refuse(c, TFM_ERROR_FORMAT, keyword, "is no string");
    return json_string_value(value);
}
