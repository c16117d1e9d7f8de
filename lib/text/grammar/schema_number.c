/* Numbers of JSON schemas: digits are compared with those of the bounds from the left. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text/grammar/schema_compiler.h"

enum { MAX_DIGITS = 40, SAFE_DIGITS = 15 }; /* of a bound, before and after its point; a double has so many */

/* A bound of a magnitude. */
typedef struct bound {
    bool set, exclusive, negative;
    char whole[MAX_DIGITS + 1], fraction[MAX_DIGITS + 1]; /* digits; `whole` is "0" or has no leading zero */
} bound;

typedef struct range {
    tfm__schema_compiler *c;
    const bound *low, *high; /* `low` is always set */
    size_t most;             /* digits after the point; 0 for integers */
    uint32_t next;
} range;

static uint32_t digits(tfm__schema_compiler *c, int low, int high, uint32_t next) {
    return low > high ? TFM__NODE_FAIL
                      : tfm__grammar_byte_range(c->builder, (unsigned)('0' + low), (unsigned)('0' + high), next);
}

static uint32_t any_digits(tfm__schema_compiler *c, uint32_t next) {
    const uint32_t loop = tfm__grammar_node_reserve(c->builder);
    tfm__grammar_node_set(c->builder, loop, digits(c, 0, 9, loop), next);
    return loop;
}

/* ---- Ranges ------------------------------------------------------------------------------------------- */

static bool is_zero(const char *text) {
    return text[strspn(text, "0")] == '\0';
}

/* The digits of a bound from `at` on; "" after the last. */
static const char *rest(const bound *b, size_t at) {
    const size_t length = strlen(b->fraction);
    return b->fraction + (at < length ? at : length);
}

/* Whether a number may end here: `low` and `high` mean that it is equal to that bound so far. */
static bool may_end(const range *r, size_t at, bool low, bool high) {
    if (low && (!is_zero(rest(r->low, at)) || r->low->exclusive))
        return false;
    return !high || !is_zero(rest(r->high, at)) || !r->high->exclusive;
}

typedef uint32_t (*follow_fn)(const range *r, size_t at, size_t length, bool low, bool high);

/* A digit from `least` on, within the bounds' digits, and what follows by `follow`. */
static uint32_t compare_digit(const range *r, int least, char low_digit, char high_digit, bool low, bool high,
                              follow_fn follow, size_t at, size_t length) {
    const int from = low ? low_digit - '0' : 0, to = high ? high_digit - '0' : 9;
    const int first = from > least ? from : least;
    uint32_t all = TFM__NODE_FAIL;
    if (low && from >= least && from <= to)
        all = digits(r->c, from, from, follow(r, at + 1, length, true, high && from == to));
    if (high && to >= first && !(low && from == to))
        all = tfm__grammar_either(r->c->builder, digits(r->c, to, to, follow(r, at + 1, length, false, true)), all);
    const int begin = low && from >= least ? from + 1 : first, end = high ? to - 1 : 9;
    if (begin <= end)
        all =
            tfm__grammar_either(r->c->builder, digits(r->c, begin, end, follow(r, at + 1, length, false, false)), all);
    return all;
}

static uint32_t fraction(const range *r, size_t at, size_t length, bool low, bool high) {
    const uint32_t end = at > 0 && may_end(r, at, low, high) ? r->next : TFM__NODE_FAIL;
    if (at == r->most || !tfm__grammar_step(r->c->builder))
        return end;
    const char below = low && *rest(r->low, at) ? *rest(r->low, at) : '0';
    const char above = high && *rest(r->high, at) ? *rest(r->high, at) : '0';
    return tfm__grammar_either(r->c->builder, compare_digit(r, 0, below, above, low, high, fraction, at, length), end);
}

static uint32_t after_whole(const range *r, bool low, bool high) {
    const uint32_t end = may_end(r, 0, low, high) ? r->next : TFM__NODE_FAIL;
    const uint32_t more = r->most ? fraction(r, 0, 0, low, high) : TFM__NODE_FAIL;
    return tfm__grammar_either(r->c->builder, end, tfm__grammar_text(r->c->builder, ".", 1, more));
}

/* The whole part, of `length` digits. */
static uint32_t whole(const range *r, size_t at, size_t length, bool low, bool high) {
    if (!tfm__grammar_step(r->c->builder))
        return TFM__NODE_FAIL;
    if (at == length)
        return after_whole(r, low, high);
    return compare_digit(r, at == 0 && length > 1, low ? r->low->whole[at] : '0', high ? r->high->whole[at] : '9', low,
                         high, whole, at, length);
}

/* Magnitudes between two bounds. */
static uint32_t magnitude(tfm__schema_compiler *c, const bound *low, const bound *high, bool integer, uint32_t next) {
    const size_t shortest = strlen(low->whole), longest = high->set ? strlen(high->whole) : shortest;
    size_t most = longest > shortest ? longest : shortest, fractions = strlen(low->fraction);
    fractions = high->set && strlen(high->fraction) > fractions ? strlen(high->fraction) : fractions;
    most = most < SAFE_DIGITS ? SAFE_DIGITS - most : 1;
    const range r = {c, low, high, integer ? 0 : most > fractions ? most : fractions, next};
    uint32_t all = TFM__NODE_FAIL;
    for (size_t length = shortest; length <= longest; length++)
        all = tfm__grammar_either(c->builder, whole(&r, 0, length, length == shortest, high->set && length == longest),
                                  all);
    if (high->set)
        return all;
    uint32_t longer = any_digits(c, after_whole(&r, false, false));
    for (size_t i = 0; i < shortest; i++)
        longer = digits(c, 0, 9, longer);
    return tfm__grammar_either(c->builder, digits(c, 1, 9, longer), all);
}

/* ---- Bounds ------------------------------------------------------------------------------------------- */

/* The decimal digits of a number; false if there are too many. */
static bool read_bound(bound *out, const json_t *value, bool exclusive) {
    char text[40], mantissa[24] = "";
    int exponent = 0, count = 0;
    const double x = json_number_value(value);
    *out = (bound){.set = true, .exclusive = exclusive, .negative = x < 0, .whole = "0"};
    if (json_is_integer(value)) {
        snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        strcpy(out->whole, text + (text[0] == '-'));
        return true;
    }
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision, fabs(x));
        if (strtod(text, NULL) == fabs(x))
            break;
    }
    for (const char *at = text; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            mantissa[count++] = *at;
    exponent = strchr(text, 'e') ? atoi(strchr(text, 'e') + 1) : 0;
    if (exponent + 1 > MAX_DIGITS || count - exponent > MAX_DIGITS)
        return false;
    size_t before = 0, after = 0;
    for (int i = exponent < 0 ? exponent : 0; i < count || i <= exponent; i++) { /* i: from the first digit */
        const char digit = i >= 0 && i < count ? mantissa[i] : '0';
        if (i <= exponent && (before || digit != '0'))
            out->whole[before++] = digit;
        else if (i > exponent)
            out->fraction[after++] = digit;
    }
    return true;
}

/* The tighter one of an inclusive and an exclusive bound. */
static void read_bounds(tfm__schema_compiler *c, bound *out, const json_t *schema, const char *inclusive,
                        const char *exclusive, int sign) {
    *out = (bound){0};
    const json_t *values[] = {json_object_get(schema, inclusive), json_object_get(schema, exclusive)};
    for (int i = 0; i < 2; i++)
        if (values[i] && !json_is_number(values[i]))
            tfm__schema_refuse(c, TFM_ERROR_FORMAT, i ? exclusive : inclusive, "is not a number");
    if (c->builder->status != TFM_OK || (!values[0] && !values[1]))
        return;
    const bool second =
        !values[0] || (values[1] && sign * json_number_value(values[1]) >= sign * json_number_value(values[0]));
    if (!read_bound(out, values[second], second))
        tfm__schema_refuse(c, TFM_ERROR_UNSUPPORTED, second ? exclusive : inclusive, "has too many digits");
}

/* ---- Numbers ------------------------------------------------------------------------------------------ */

static uint32_t plain_number(tfm__schema_compiler *c, bool integer) {
    tfm__grammar_builder *b = c->builder;
    uint32_t end = TFM__NODE_END;
    tfm__byte_set e = {0}, sign = {0};
    e.words[1] = (uint64_t)1 << ('E' & 63) | (uint64_t)1 << ('e' & 63);
    sign.words[0] = (uint64_t)1 << '+' | (uint64_t)1 << '-';
    if (!integer) {
        uint32_t exponent = end;
        for (int i = 0; i < 2; i++)
            exponent = tfm__grammar_either(b, digits(c, 0, 9, exponent), TFM__NODE_END);
        exponent = digits(c, 0, 9, exponent);
        exponent = tfm__grammar_either(b, tfm__grammar_bytes(b, &sign, exponent), exponent);
        end = tfm__grammar_either(b, tfm__grammar_bytes(b, &e, exponent), end);
        end = tfm__grammar_either(b, tfm__grammar_text(b, ".", 1, digits(c, 0, 9, any_digits(c, end))), end);
    }
    const uint32_t value = tfm__grammar_either(b, digits(c, 0, 0, end), digits(c, 1, 9, any_digits(c, end)));
    return tfm__grammar_either(b, value, tfm__grammar_text(b, "-", 1, value));
}

uint32_t tfm__schema_number_emit(tfm__schema_compiler *c, const json_t *schema, bool integer, uint32_t next) {
    static const bound ZERO = {.set = true, .whole = "0"}, ABOVE = {.set = true, .exclusive = true, .whole = "0"};
    bound low, high, none = {0};
    uint32_t *rule = integer ? &c->integer : &c->number;
    read_bounds(c, &low, schema, "minimum", "exclusiveMinimum", 1);
    read_bounds(c, &high, schema, "maximum", "exclusiveMaximum", -1);
    if (c->builder->status != TFM_OK)
        return TFM__NODE_FAIL;
    if (!low.set && !high.set) {
        if (*rule == TFM__NO_ID) {
            *rule = tfm__grammar_rule_add(c->builder, integer ? "integer" : "number", integer ? 7 : 6);
            tfm__grammar_rule_set(c->builder, *rule, plain_number(c, integer));
        }
        return tfm__grammar_call(c->builder, *rule, next);
    }
    uint32_t positive = TFM__NODE_FAIL, negative = TFM__NODE_FAIL;
    if (!high.set || !high.negative)
        positive = magnitude(c, low.set && !low.negative ? &low : &ZERO, &high, integer, next);
    if (!low.set || low.negative)
        negative = magnitude(c, high.set && high.negative ? &high : &ABOVE, low.set ? &low : &none, integer, next);
    return tfm__grammar_either(c->builder, positive, tfm__grammar_text(c->builder, "-", 1, negative));
}
