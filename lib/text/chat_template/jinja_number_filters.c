/* Filters of numbers. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include "text/chat_template/jinja_filters.h"
#include "text/chat_template/jinja_methods.h"
#include "text/chat_template/jinja_object.h"

enum { DIGITS = 400 };

/* The text without blanks around it and underscores between digits, in lower case; false if it is no number. */
static bool clean(char out[DIGITS], const tfm__jinja_string *text) {
    size_t from = 0, to = text->bytes, count = 0;
    while (from < to && isspace((unsigned char)text->data[from]))
        from++;
    while (to > from && isspace((unsigned char)text->data[to - 1]))
        to--;
    for (size_t i = from; i < to; i++) {
        const char c = text->data[i];
        const bool between = i > from && i + 1 < to && isalnum((unsigned char)text->data[i - 1]) &&
                             isalnum((unsigned char)text->data[i + 1]);
        if (count + 1 >= DIGITS || (unsigned char)c >= 0x80 || (c == '_' && !between))
            return false;
        if (c != '_')
            out[count++] = (char)tolower((unsigned char)c);
    }
    out[count] = 0;
    return count > 0;
}

bool tfm__jinja_parse_int(tfm__jinja *j, int64_t *out, const tfm__jinja_string *text, int64_t base) {
    char digits[DIGITS];
    static const char letters[] = "0b0o0x";
    static const int bases[] = {2, 8, 16};
    bool prefixed = false;
    if ((base != 0 && (base < 2 || base > 36)) || !clean(digits, text))
        return false;
    const bool negative = *digits == '-';
    const char *at = digits + (*digits == '-' || *digits == '+');
    for (int i = 0; i < 3; i++)
        if (strncmp(at, letters + 2 * i, 2) == 0 && (base == 0 || base == bases[i])) {
            base = bases[i];
            at += 2;
            prefixed = true;
            break;
        }
    if (base == 0 && *at == '0' && strspn(at, "0") != strlen(at) && !prefixed)
        return false;
    base = base == 0 ? 10 : base;
    *out = 0;
    if (!*at)
        return false;
    for (const char *c = at; *c; c++) {
        const int digit = isdigit((unsigned char)*c) ? *c - '0' : isalpha((unsigned char)*c) ? *c - 'a' + 10 : 99;
        if (digit >= base)
            return false;
    }
    for (; *at; at++) {
        const int digit = isdigit((unsigned char)*at) ? *at - '0' : *at - 'a' + 10;
        if (__builtin_mul_overflow(*out, base, out) || __builtin_add_overflow(*out, negative ? -digit : digit, out)) {
            tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "an integer exceeds 64 bits");
            return false;
        }
    }
    return true;
}

bool tfm__jinja_parse_float(double *out, const tfm__jinja_string *text) {
    char digits[DIGITS], *end;
    if (!clean(digits, text))
        return false;
    const char *at = digits + (*digits == '-' || *digits == '+');
    const bool word = strcmp(at, "inf") == 0 || strcmp(at, "infinity") == 0 || strcmp(at, "nan") == 0;
    if (!word && strspn(at, "0123456789.e+-") != strlen(at))
        return false;
    *out = strtod(digits, &end);
    return end > digits && !*end && (word || isdigit((unsigned char)*at) || *at == '.');
}

static tfm__jinja_value undefined_error(tfm__jinja *j, tfm__jinja_value value) {
    return tfm__jinja_error(j, "%s", value.why);
}

static tfm__jinja_value filter_int(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[2];
    int64_t integer;
    double real = 0;
    if (!tfm__jinja_bind(j, "int", args, "default base", 0, out))
        return value;
    const tfm__jinja_value fallback = tfm__jinja_is(out[0], TFM__JINJA_MISSING) ? tfm__jinja_int(0) : out[0];
    if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        return undefined_error(j, value);
    if (tfm__jinja_is_integral(value))
        return tfm__jinja_int(tfm__jinja_integral(value));
    if (tfm__jinja_is(value, TFM__JINJA_STRING)) {
        if (tfm__jinja_parse_int(j, &integer, value.string, tfm__jinja_int_argument(j, out[1], 10)))
            return tfm__jinja_int(integer);
        if (!tfm__jinja_parse_float(&real, value.string) || !isfinite(real))
            return fallback;
    } else if (!tfm__jinja_is(value, TFM__JINJA_FLOAT)) {
        return fallback;
    } else {
        real = value.real;
    }
    if (isnan(real))
        return fallback;
    if (isinf(real))
        return tfm__jinja_error(j, "cannot convert float infinity to integer");
    if (fabs(real) >= 0x1p63)
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "an integer exceeds 64 bits");
    return j->status == TFM_OK ? tfm__jinja_int((int64_t)real) : value;
}

static tfm__jinja_value filter_float(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value fallback;
    double real;
    if (!tfm__jinja_bind(j, "float", args, "default", 0, &fallback))
        return value;
    if (tfm__jinja_is(value, TFM__JINJA_UNDEFINED))
        return undefined_error(j, value);
    if (tfm__jinja_is_number(value))
        return tfm__jinja_float(tfm__jinja_real(value));
    if (tfm__jinja_is(value, TFM__JINJA_STRING) && tfm__jinja_parse_float(&real, value.string))
        return tfm__jinja_float(real);
    return tfm__jinja_is(fallback, TFM__JINJA_MISSING) ? tfm__jinja_float(0) : fallback;
}

static tfm__jinja_value filter_abs(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    if (!tfm__jinja_bind(j, "abs", args, "", 0, NULL))
        return value;
    if (!tfm__jinja_is_number(value))
        return tfm__jinja_is(value, TFM__JINJA_UNDEFINED)
                   ? undefined_error(j, value)
                   : tfm__jinja_error(j, "bad operand type for abs(): '%s'", tfm__jinja_kind(value));
    if (tfm__jinja_is(value, TFM__JINJA_FLOAT))
        return tfm__jinja_float(fabs(value.real));
    return tfm__jinja_negative(j, value, tfm__jinja_integral(value) < 0);
}

static tfm__jinja_value filter_round(tfm__jinja *j, tfm__jinja_value value, const tfm__jinja_args *args) {
    tfm__jinja_value out[2];
    char text[400];
    if (!tfm__jinja_bind(j, "round", args, "precision method", 0, out))
        return value;
    const int64_t precision = tfm__jinja_int_argument(j, out[0], 0);
    const tfm__jinja_string *method = tfm__jinja_string_argument(j, out[1], "common");
    if (j->status != TFM_OK || !tfm__jinja_is_number(value))
        return tfm__jinja_error(j, "a '%s' cannot be rounded", tfm__jinja_kind(value));
    if (precision < 0 || precision > 15) {
        tfm__jinja_fail(j, TFM_ERROR_UNSUPPORTED, "round to %lld digits is not supported", (long long)precision);
        return value;
    }
    const double x = tfm__jinja_real(value), scale = pow(10, (double)precision);
    if (tfm__jinja_string_is(method, "ceil") || tfm__jinja_string_is(method, "floor"))
        return isfinite(x) ? tfm__jinja_float((*method->data == 'c' ? ceil(x * scale) : floor(x * scale)) / scale)
                           : tfm__jinja_error(j, "an infinite number cannot be rounded");
    if (!tfm__jinja_string_is(method, "common"))
        return tfm__jinja_error(j, "method must be common, ceil or floor");
    if (tfm__jinja_is_integral(value))
        return tfm__jinja_int(tfm__jinja_integral(value));
    if (!isfinite(x) || fabs(x) > 0x1p52)
        return value;
    snprintf(text, sizeof(text), "%.*f", (int)precision, x); /* exact decimals, ties to even, as in Python */
    return tfm__jinja_float(strtod(text, NULL));
}

tfm__jinja_filter tfm__jinja_number_filter(const tfm__jinja_string *name) {
    static const struct {
        const char *name;
        tfm__jinja_filter filter;
    } filters[] = {{"int", filter_int}, {"float", filter_float}, {"abs", filter_abs}, {"round", filter_round}};
    for (size_t i = 0; i < TFM__COUNT(filters); i++)
        if (tfm__jinja_string_is(name, filters[i].name))
            return filters[i].filter;
    return NULL;
}
