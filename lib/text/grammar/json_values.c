/* Parts of JSON: blanks, any value, strings, constants. */
#include <math.h>
#include <string.h>
#include <stdio.h>
#include "text/bytes.h"
#include "text/grammar/schema_compiler.h"

enum { MAX_INDENT = 32 };

static uint32_t byte(tfm__schema_compiler *c, char b, uint32_t next) {
    return tfm__grammar_byte_range(c->builder, (unsigned char)b, (unsigned char)b, next);
}

static uint32_t one_of(tfm__schema_compiler *c, const char *bytes, uint32_t next) {
    tfm__byte_set set = {0};
    for (; *bytes; bytes++)
        set.words[(unsigned char)*bytes >> 6] |= (uint64_t)1 << (*bytes & 63);
    return tfm__grammar_bytes(c->builder, &set, next);
}

/* Nothing, a blank, or a line break and an indentation. */
uint32_t tfm__json_blank(tfm__schema_compiler *c, uint32_t next) {
    if (c->blank == TFM__NO_ID) {
        uint32_t at = TFM__NODE_END;
        c->blank = tfm__grammar_rule_add(c->builder, "blank", 5);
        for (int i = 0; i < MAX_INDENT; i++)
            at = tfm__grammar_either(c->builder, byte(c, ' ', at), TFM__NODE_END);
        at = tfm__grammar_either(c->builder, byte(c, '\n', at), byte(c, ' ', TFM__NODE_END));
        tfm__grammar_rule_set(c->builder, c->blank, tfm__grammar_either(c->builder, at, TFM__NODE_END));
    }
    return tfm__grammar_call(c->builder, c->blank, next);
}

uint32_t tfm__json_any(tfm__schema_compiler *c, uint32_t next) {
    if (c->any == TFM__NO_ID) {
        c->any = tfm__grammar_rule_add(c->builder, "any", 3);
        json_t *empty = tfm__schema_keep(
            c, json_pack("{s:[s,s,s,s,s,s]}", "type", "object", "array", "string", "number", "boolean", "null"));
        if (c->builder->status == TFM_OK)
            tfm__grammar_rule_set(c->builder, c->any, c->emit(c, empty, TFM__NODE_END));
    }
    return tfm__grammar_call(c->builder, c->any, next);
}

/* ---- Strings ------------------------------------------------------------------------------------------ */

static uint32_t hex(tfm__schema_compiler *c, int digits, uint32_t next) {
    for (; digits > 0; digits--)
        next = one_of(c, "0123456789abcdefABCDEF", next);
    return next;
}

/* \uXXXX after the u: surrogates in pairs. */
static uint32_t unicode_escape(tfm__schema_compiler *c, uint32_t next) {
    tfm__grammar_builder *b = c->builder;
    const uint32_t low = tfm__grammar_text(b, "\\u", 2, one_of(c, "dD", one_of(c, "cdefCDEF", hex(c, 2, next))));
    const uint32_t pair = one_of(c, "89abAB", hex(c, 2, low)), plain = one_of(c, "01234567", hex(c, 2, next));
    const uint32_t after_d = one_of(c, "dD", tfm__grammar_either(b, plain, pair));
    return tfm__grammar_either(b, one_of(c, "0123456789abcefABCEF", hex(c, 3, next)), after_d);
}

static uint32_t any_char(tfm__schema_compiler *c, uint32_t next) {
    static const tfm__char_range PLAIN[] = {{' ', '!'}, {'#', '['}, {']', 0xd7ff}, {0xe000, 0x10ffff}};
    const tfm__char_set plain = {(tfm__char_range *)(uintptr_t)PLAIN, TFM__COUNT(PLAIN), 0, false};
    const uint32_t letters = one_of(c, "\"\\/bfnrt", next), unicode = byte(c, 'u', unicode_escape(c, next));
    return tfm__grammar_either(c->builder, tfm__grammar_char(c->builder, &plain, next),
                               byte(c, '\\', tfm__grammar_either(c->builder, letters, unicode)));
}

uint32_t tfm__json_any_char(tfm__schema_compiler *c, uint32_t next, bool by_rule) {
    if (!by_rule)
        return any_char(c, next);
    if (c->character == TFM__NO_ID) {
        c->character = tfm__grammar_rule_add(c->builder, "character", 9);
        tfm__grammar_rule_set(c->builder, c->character, any_char(c, TFM__NODE_END));
    }
    return tfm__grammar_call(c->builder, c->character, next);
}

uint32_t tfm__json_char(tfm__schema_compiler *c, const tfm__char_set *set, uint32_t next) {
    static const tfm__char_range PLAIN[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    static const char FROM[] = "\"\\\b\f\n\r\t", TO[] = "\"\\bfnrt";
    const tfm__char_set plain = {(tfm__char_range *)(uintptr_t)PLAIN, TFM__COUNT(PLAIN), 0, false};
    tfm__char_set raw = {0};
    tfm__char_set_intersect(&raw, set, &plain);
    const uint32_t direct = tfm__grammar_char(c->builder, &raw, next);
    tfm__char_set_free(&raw);
    char letters[8] = "";
    uint32_t escapes = TFM__NODE_FAIL;
    for (size_t i = 0; FROM[i]; i++)
        if (tfm__char_set_has(set, (unsigned char)FROM[i]))
            letters[strlen(letters)] = TO[i];
    for (uint32_t one = 0; one < 32; one++) {
        if (!tfm__char_set_has(set, one) || (one && strchr(FROM, (int)one)))
            continue;
        const char digit[] = {"0123456789abcdef"[one % 16], "0123456789ABCDEF"[one % 16], '\0'};
        const char *begin = one < 16 ? "u000" : "u001";
        escapes =
            tfm__grammar_either(c->builder, tfm__grammar_text(c->builder, begin, 4, one_of(c, digit, next)), escapes);
    }
    escapes = tfm__grammar_either(c->builder, one_of(c, letters, next), escapes);
    return tfm__grammar_either(c->builder, direct, byte(c, '\\', escapes));
}

uint32_t tfm__json_string(tfm__schema_compiler *c, uint32_t next) {
    if (c->string == TFM__NO_ID) {
        c->string = tfm__grammar_rule_add(c->builder, "string", 6);
        const uint32_t loop = tfm__grammar_node_reserve(c->builder);
        tfm__grammar_node_set(c->builder, loop, any_char(c, loop), byte(c, '"', TFM__NODE_END));
        tfm__grammar_rule_set(c->builder, c->string, byte(c, '"', loop));
    }
    return tfm__grammar_call(c->builder, c->string, next);
}

uint32_t tfm__json_literal(tfm__schema_compiler *c, const char *text, size_t bytes, uint32_t next) {
    uint32_t at = byte(c, '"', next);
    for (size_t end = bytes; end > 0;) {
        size_t begin = end - 1, from;
        while (begin > 0 && ((unsigned char)text[begin] & 0xc0) == 0x80)
            begin--;
        from = begin;
        const uint32_t one = (uint32_t)tfm__char_next(text, &from);
        tfm__char_range range = {one, one};
        at = tfm__json_char(c, &(tfm__char_set){&range, 1, 1, false}, at);
        end = begin;
    }
    return byte(c, '"', at);
}

/* ---- Constants ---------------------------------------------------------------------------------------- */

/* The shortest text with the same value; integers without a fraction. */
static uint32_t number(tfm__schema_compiler *c, const json_t *value, uint32_t next) {
    char text[64];
    const double x = json_real_value(value);
    if (json_is_integer(value))
        snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (fabs(x) < 1e15 && x == floor(x))
        snprintf(text, sizeof(text), "%.0f", x);
    else
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, sizeof(text), "%.*g", digits, x);
            if (strtod(text, NULL) == x)
                break;
        }
    for (char *at = text; *at; at++)
        if (*at == ',') /* of the locale */
            *at = '.';
    return tfm__grammar_text(c->builder, text, strlen(text), next);
}

static uint32_t container(tfm__schema_compiler *c, const json_t *value, uint32_t next) {
    const bool list = json_is_array(value);
    const char *key;
    json_t *one, *keys = tfm__schema_keep(c, json_array());
    json_object_foreach((json_t *)(uintptr_t)value, key, one)
        tfm__schema_check(c, json_array_append_new(keys, json_string(key)));
    const size_t count = list ? json_array_size(value) : json_array_size(keys);
    uint32_t at = byte(c, list ? ']' : '}', next);
    at = count ? tfm__json_blank(c, at) : at;
    for (size_t i = count; i-- > 0 && c->builder->status == TFM_OK;) {
        key = json_string_value(json_array_get(keys, i));
        at = tfm__json_value(c, list ? json_array_get(value, i) : json_object_get(value, key), at);
        if (!list)
            at = tfm__json_literal(c, key, strlen(key), byte(c, ':', tfm__json_blank(c, at)));
        at = i ? byte(c, ',', tfm__json_blank(c, at)) : at;
    }
    return byte(c, list ? '[' : '{', tfm__json_blank(c, at));
}

uint32_t tfm__json_value(tfm__schema_compiler *c, const json_t *value, uint32_t next) {
    static const char *const WORDS[] = {[JSON_TRUE] = "true", [JSON_FALSE] = "false", [JSON_NULL] = "null"};
    const json_type type = json_typeof(value);
    if (++c->depth > TFM__GRAMMAR_MAX_DEPTH)
        tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, "enum", "is nested too deep");
    if (c->builder->status != TFM_OK)
        next = TFM__NODE_FAIL;
    else if (type == JSON_STRING)
        next = tfm__json_literal(c, json_string_value(value), json_string_length(value), next);
    else if (type == JSON_INTEGER || type == JSON_REAL)
        next = number(c, value, next);
    else if (type == JSON_OBJECT || type == JSON_ARRAY)
        next = container(c, value, next);
    else
        next = tfm__grammar_text(c->builder, WORDS[type], strlen(WORDS[type]), next);
    c->depth--;
    return next;
}
