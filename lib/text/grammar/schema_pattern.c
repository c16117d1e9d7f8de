#include <string.h>
#include "text/bytes.h"
#include "text/grammar/schema_pattern.h"

typedef struct pattern {
    const char *text, *pointer;
    size_t bytes, at;
    tfm__exprs *exprs;
    tfm__grammar_builder *builder;
    int depth;
} pattern;

static bool refuse(pattern *p, tfm_status status, const char *what) {
    if (p->exprs->failed && p->builder->status == TFM_OK)
        p->builder->status = TFM_ERROR_MEMORY;
    tfm__grammar_fail(p->builder, status, "`pattern` \"%.200s\" at %s has %s at byte %zu", p->text, p->pointer, what,
                      p->at + 1);
    return false;
}

static char peek(const pattern *p) {
    return p->at < p->bytes ? p->text[p->at] : '\0';
}

static bool skip(pattern *p, const char *expected) {
    const size_t length = strlen(expected);
    if (p->bytes - p->at < length || memcmp(p->text + p->at, expected, length) != 0)
        return false;
    p->at += length;
    return true;
}

/* ---- Characters --------------------------------------------------------------------------------------- */

static void add_all(tfm__char_set *set, const tfm__char_range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        tfm__char_set_add(set, ranges[i].low, ranges[i].high);
}

/* The class of \d, \w or \s, or its complement; false for other letters. */
static bool add_class(tfm__char_set *set, char letter) {
    static const tfm__char_range DIGIT[] = {{'0', '9'}}, WORD[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                                 SPACE[] = {{9, 13},          {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680},
                                            {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                            {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    tfm__char_set other = {0};
    const char lower = (char)(letter | 0x20);
    if (lower == 'd')
        add_all(&other, DIGIT, TFM__COUNT(DIGIT));
    else if (lower == 'w')
        add_all(&other, WORD, TFM__COUNT(WORD));
    else if (lower == 's')
        add_all(&other, SPACE, TFM__COUNT(SPACE));
    else
        return false;
    tfm__char_set_finish(&other, letter != lower);
    add_all(set, other.ranges, other.count);
    set->failed |= other.failed;
    tfm__char_set_free(&other);
    return true;
}

static bool read_hex(pattern *p, int digits, uint32_t *out) {
    const bool braces = digits == 4 && skip(p, "{");
    int read = 0;
    for (*out = 0; read < (braces ? 6 : digits); read++, p->at++) {
        const char c = peek(p);
        const int value = c >= '0' && c <= '9'                 ? c - '0'
                          : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                               : -1;
        if (value < 0)
            break;
        *out = *out * 16 + (uint32_t)value;
    }
    if (*out > 0x10ffff || (braces ? !read || !skip(p, "}") : read < digits))
        return refuse(p, TFM_ERROR_FORMAT, "an invalid escape");
    return true;
}

/* \uD83D\uDE00 is one character. */
static bool read_unicode(pattern *p, uint32_t *out) {
    uint32_t low;
    if (!read_hex(p, 4, out))
        return false;
    if ((*out & 0x1ffc00) == 0xd800 && skip(p, "\\u")) {
        if (!read_hex(p, 4, &low))
            return false;
        if ((low & 0x1ffc00) == 0xdc00)
            *out = 0x10000 + ((*out & 0x3ff) << 10) + (low & 0x3ff);
    }
    return (*out & 0x1ff800) != 0xd800 || refuse(p, TFM_ERROR_FORMAT, "half of a surrogate pair");
}

/* The character of an escape, after the backslash. */
static bool read_escape(pattern *p, uint32_t *out) {
    static const char FROM[] = "tnvfr", TO[] = "\t\n\v\f\r";
    const char c = peek(p), *at = c ? strchr(FROM, c) : NULL;
    const bool letter = (c | 32) >= 'a' && (c | 32) <= 'z', digit = c >= '0' && c <= '9';
    if (at) {
        *out = (unsigned char)TO[at - FROM];
    } else if (c == '0' && !(p->at + 1 < p->bytes && p->text[p->at + 1] >= '0' && p->text[p->at + 1] <= '9')) {
        *out = 0;
    } else if (c == 'c' && p->at + 1 < p->bytes && (p->text[p->at + 1] | 32) >= 'a' &&
               (p->text[p->at + 1] | 32) <= 'z') {
        *out = p->text[++p->at] & 31;
    } else if (c == 'x' || c == 'u') {
        p->at++;
        return c == 'x' ? read_hex(p, 2, out) : read_unicode(p, out);
    } else if (c == 'b' || c == 'B') {
        return refuse(p, TFM_ERROR_UNSUPPORTED, "\\b, which is not supported,");
    } else if (c == 'p' || c == 'P') {
        return refuse(p, TFM_ERROR_UNSUPPORTED, "\\p, which is not supported,");
    } else if (digit || c == 'k') {
        return refuse(p, TFM_ERROR_UNSUPPORTED, "a back reference, which is not supported,");
    } else if (letter || !c) {
        return refuse(p, TFM_ERROR_FORMAT, "an unknown escape");
    } else {
        *out = (uint32_t)tfm__char_next(p->text, &p->at);
        return true;
    }
    p->at++;
    return true;
}

/* An item of a class: *single is whether it is one character, which may begin a range. */
static bool read_class_item(pattern *p, tfm__char_set *set, uint32_t *c, bool *single) {
    *single = true;
    if (!skip(p, "\\")) {
        *c = (uint32_t)tfm__char_next(p->text, &p->at);
        return true;
    }
    if (add_class(set, peek(p))) {
        p->at++;
        *single = false;
        return true;
    }
    if (skip(p, "b")) {
        *c = '\b';
        return true;
    }
    return read_escape(p, c);
}

static bool read_class(pattern *p, uint32_t sequence) {
    tfm__char_set set = {0};
    const bool negated = skip(p, "^");
    bool good = true;
    while (good && !skip(p, "]")) {
        uint32_t low, high = 0;
        bool single, range = false;
        if (p->at >= p->bytes) {
            good = refuse(p, TFM_ERROR_FORMAT, "a class without ]");
            break;
        }
        good = read_class_item(p, &set, &low, &single);
        if (good && peek(p) == '-' && p->at + 1 < p->bytes && p->text[p->at + 1] != ']') {
            p->at++;
            good = read_class_item(p, &set, &high, &range);
            if (good && (!single || !range || high < low))
                good = refuse(p, TFM_ERROR_FORMAT, "an invalid range");
        }
        if (good && single)
            tfm__char_set_add(&set, low, range ? high : low);
    }
    tfm__char_set_finish(&set, negated);
    tfm__expr_add(p->exprs, sequence, tfm__expr_char_set(p->exprs, &set));
    return good;
}

static void add_any(pattern *p, uint32_t sequence, bool lines) {
    static const tfm__char_range ENDS[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    tfm__char_set set = {0};
    add_all(&set, ENDS, lines ? 0 : TFM__COUNT(ENDS));
    tfm__char_set_finish(&set, true);
    tfm__expr_add(p->exprs, sequence, tfm__expr_char_set(p->exprs, &set));
}

/* ---- Structure ---------------------------------------------------------------------------------------- */

static uint32_t read_alternatives(pattern *p);

static bool read_group(pattern *p, uint32_t sequence) {
    if (skip(p, "?") && !skip(p, ":")) {
        const char *end = peek(p) == '<' ? memchr(p->text + p->at, '>', p->bytes - p->at) : NULL;
        if (!end || p->text[p->at + 1] == '=' || p->text[p->at + 1] == '!')
            return refuse(p, TFM_ERROR_UNSUPPORTED, "an assertion or option, which is not supported,");
        p->at = (size_t)(end + 1 - p->text);
    }
    if (++p->depth > TFM__GRAMMAR_MAX_DEPTH)
        return refuse(p, TFM_ERROR_UNSUPPORTED, "too many nested groups");
    const uint32_t group = read_alternatives(p);
    p->depth--;
    tfm__expr_add(p->exprs, sequence, group);
    return p->builder->status == TFM_OK && (skip(p, ")") || refuse(p, TFM_ERROR_FORMAT, "a ( without )"));
}

/* {m}, {m,} or {m,n}; false, without a change, if it is something else. */
static bool read_count(pattern *p, int32_t *low, int32_t *high) {
    const size_t begin = p->at++;
    int32_t *to = low;
    bool digits = false;
    *low = *high = 0;
    for (; p->at < p->bytes && p->text[p->at] != '}'; p->at++) {
        const char c = p->text[p->at];
        if (c == ',' && to == low && digits) {
            to = high;
            digits = false;
        } else if (c >= '0' && c <= '9') {
            *to = *to > TFM__GRAMMAR_MAX_NODES ? *to : *to * 10 + (c - '0');
            digits = true;
        } else {
            break;
        }
    }
    if (!skip(p, "}") || (to == low && !digits)) {
        p->at = begin;
        return false;
    }
    if (to == low)
        *high = *low;
    else if (!digits)
        *high = TFM__EXPR_UNBOUNDED;
    return true;
}

static bool read_quantifiers(pattern *p, uint32_t sequence) {
    int32_t low = 0, high = TFM__EXPR_UNBOUNDED;
    const char c = peek(p);
    if (c == '{' ? !read_count(p, &low, &high) : c != '*' && c != '+' && c != '?')
        return true;
    if (c != '{') {
        p->at++;
        low = c == '+';
        high = c == '?' ? 1 : high;
    }
    if (high != TFM__EXPR_UNBOUNDED && high < low)
        return refuse(p, TFM_ERROR_FORMAT, "a repetition that ends before it begins");
    skip(p, "?"); /* a lazy one matches the same texts */
    tfm__expr_repeat_last(p->exprs, sequence, low, high);
    return true;
}

static bool read_item(pattern *p, uint32_t sequence) {
    const char c = peek(p);
    uint32_t one = 0;
    if (skip(p, "("))
        return read_group(p, sequence);
    if (skip(p, "["))
        return read_class(p, sequence);
    if (c == '*' || c == '+' || c == '?')
        return refuse(p, TFM_ERROR_FORMAT, "nothing to repeat");
    if (c == '^' || c == '$')
        return refuse(p, TFM_ERROR_UNSUPPORTED, "^ or $ inside, which is not supported,");
    if (skip(p, ".")) {
        add_any(p, sequence, false);
        return true;
    }
    if (skip(p, "\\")) {
        tfm__char_set set = {0};
        if (add_class(&set, peek(p))) {
            p->at++;
            tfm__char_set_finish(&set, false);
            tfm__expr_add(p->exprs, sequence, tfm__expr_char_set(p->exprs, &set));
            return true;
        }
        if (!read_escape(p, &one))
            return false;
    } else {
        one = (uint32_t)tfm__char_next(p->text, &p->at);
    }
    tfm__expr_add(p->exprs, sequence, tfm__expr_char(p->exprs, one));
    return true;
}

static void add_anything(pattern *p, uint32_t sequence) {
    add_any(p, sequence, true);
    tfm__expr_repeat_last(p->exprs, sequence, 0, TFM__EXPR_UNBOUNDED);
}

/* At the top, a sequence without ^ or $ matches a part of the text. */
static uint32_t read_sequence(pattern *p) {
    const uint32_t sequence = tfm__expr_new(p->exprs, TFM__EXPR_SEQUENCE, 0);
    const bool top = p->depth == 0;
    if (top && !skip(p, "^"))
        add_anything(p, sequence);
    while (p->at < p->bytes && peek(p) != '|' && peek(p) != ')' && !p->exprs->failed) {
        const bool last = p->at + 1 == p->bytes || p->text[p->at + 1] == '|';
        if (top && last && skip(p, "$"))
            return sequence;
        if (!read_item(p, sequence) || !read_quantifiers(p, sequence))
            return sequence;
    }
    if (top)
        add_anything(p, sequence);
    return sequence;
}

static uint32_t read_alternatives(pattern *p) {
    const uint32_t all = tfm__expr_new(p->exprs, TFM__EXPR_ALTERNATIVE, 0);
    do
        tfm__expr_add(p->exprs, all, read_sequence(p));
    while (p->builder->status == TFM_OK && !p->exprs->failed && skip(p, "|"));
    return all;
}

uint32_t tfm__schema_pattern_read(tfm__exprs *exprs, tfm__grammar_builder *builder, const char *text,
                                  const char *pointer) {
    pattern p = {text, pointer, strlen(text), 0, exprs, builder, 0};
    const uint32_t expr = read_alternatives(&p);
    if (exprs->failed && builder->status == TFM_OK)
        builder->status = TFM_ERROR_MEMORY;
    if (builder->status == TFM_OK && p.at < p.bytes)
        refuse(&p, TFM_ERROR_FORMAT, "a ) without (");
    return expr;
}
