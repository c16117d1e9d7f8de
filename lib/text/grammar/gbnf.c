/* GBNF, the grammars of llama.cpp. */
#include <stdio.h>
#include <string.h>
#include "text/grammar/grammar_expr.h"
#include "text/utf8.h"

/* A rule of the text. */
typedef struct rule {
    size_t defined, used; /* where in the text, plus one; 0 if it is not */
    uint32_t expr;
} rule;

typedef struct gbnf {
    const char *text;
    size_t bytes, at;
    tfm__grammar_builder builder;
    tfm__exprs exprs;
    rule *rules; /* as in the builder */
    size_t rule_capacity;
    tfm__id_table names;
    int depth;
} gbnf;

/* Sets the error at a place in the text; false. */
static bool wrong(gbnf *g, size_t at, const char *what) {
    int line = 1, column = 1;
    if (g->exprs.failed && g->builder.status == TFM_OK)
        g->builder.status = TFM_ERROR_MEMORY;
    for (size_t i = 0; i < at && i < g->bytes;) {
        column = g->text[i] == '\n' ? 1 : column + 1;
        line += g->text[i] == '\n';
        i += tfm__char_bytes(g->text + i);
    }
    tfm__grammar_fail(&g->builder, TFM_ERROR_FORMAT, "line %d, column %d: %s", line, column, what);
    return false;
}

static char peek(const gbnf *g) {
    return g->at < g->bytes ? g->text[g->at] : '\0';
}

static bool skip(gbnf *g, const char *expected) {
    const size_t length = strlen(expected);
    if (g->bytes - g->at < length || memcmp(g->text + g->at, expected, length) != 0)
        return false;
    g->at += length;
    return true;
}

/* Skips blanks and comments, and with `lines` line ends. */
static void skip_blanks(gbnf *g, bool lines) {
    for (char c = peek(g); c; c = peek(g)) {
        if (c == '#')
            while (peek(g) && peek(g) != '\n' && peek(g) != '\r')
                g->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            g->at++;
        else
            break;
    }
}

/* ---- Characters --------------------------------------------------------------------------------------- */

static bool read_hex(gbnf *g, int digits, uint32_t *out) {
    const size_t begin = g->at;
    for (*out = 0; digits > 0; digits--, g->at++) {
        const char c = peek(g);
        const int value = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (value < 0)
            return wrong(g, begin, "an escape needs 2 hexadecimal digits after \\x, 4 after \\u and 8 after \\U");
        *out = *out * 16 + (uint32_t)value;
    }
    return (*out <= 0x10ffff && (*out & 0x1ff800) != 0xd800) || wrong(g, begin, "the escape is no Unicode character");
}

static bool read_char(gbnf *g, uint32_t *out) {
    static const char FROM[] = "nrt\\\"[]", TO[] = "\n\r\t\\\"[]";
    if (peek(g) != '\\') {
        *out = (uint32_t)tfm__char_next(g->text, &g->at);
        return true;
    }
    g->at++;
    const char c = peek(g), *at = c ? strchr(FROM, c) : NULL;
    if (c)
        g->at++;
    if (at)
        *out = (unsigned char)TO[at - FROM];
    else if (c == 'x' || c == 'u' || c == 'U')
        return read_hex(g, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    else
        return wrong(g, g->at - (c != 0) - 1,
                     "this escape is unknown; use \\n \\r \\t \\\\ \\\" \\[ \\] \\x \\u or \\U");
    return true;
}

static bool read_text(gbnf *g, uint32_t sequence) {
    const size_t begin = g->at++;
    const uint32_t text = tfm__expr_new(&g->exprs, TFM__EXPR_SEQUENCE, 0);
    uint32_t c;
    while (peek(g) != '"') {
        if (g->at >= g->bytes)
            return wrong(g, begin, "the text has no closing \"");
        if (!read_char(g, &c))
            return false;
        tfm__expr_add(&g->exprs, text, tfm__expr_char(&g->exprs, c));
    }
    g->at++;
    tfm__expr_add(&g->exprs, sequence, text);
    return true;
}

static bool read_class(gbnf *g, uint32_t sequence) {
    const size_t begin = g->at++;
    tfm__char_set set = {0};
    const bool negated = skip(g, "^");
    bool good = true;
    while (good && peek(g) != ']') {
        uint32_t low = 0, high;
        const size_t here = g->at;
        good = g->at < g->bytes ? read_char(g, &low) : wrong(g, begin, "the class has no closing ]");
        high = low;
        if (good && peek(g) == '-' && g->at + 1 < g->bytes && g->text[g->at + 1] != ']') {
            g->at++;
            good = read_char(g, &high);
        }
        if (good && high < low)
            good = wrong(g, here, "the range ends before it begins");
        tfm__char_set_add(&set, low, high);
    }
    g->at += good;
    tfm__char_set_finish(&set, negated);
    tfm__expr_add(&g->exprs, sequence, tfm__expr_char_set(&g->exprs, &set));
    return good;
}

/* ---- Rules -------------------------------------------------------------------------------------------- */

static size_t name_bytes(const gbnf *g) {
    size_t at = g->at;
    while (at < g->bytes && (g->text[at] == '-' || g->text[at] == '_' || (g->text[at] >= '0' && g->text[at] <= '9') ||
                             ((g->text[at] | 0x20) >= 'a' && (g->text[at] | 0x20) <= 'z')))
        at++;
    return at - g->at;
}

/* The rule of a name, which may be new. */
static uint32_t find_rule(gbnf *g, const char *name, size_t bytes) {
    tfm__grammar_builder *b = &g->builder;
    const uint64_t hash = tfm__hash64(name, bytes, 0);
    uint32_t id;
    for (size_t at = 0; (id = tfm__id_table_next(&g->names, hash, &at)) != TFM__NO_ID;)
        if (strlen(b->rules[id].name) == bytes && memcmp(b->rules[id].name, name, bytes) == 0)
            return id;
    id = tfm__grammar_rule_add(b, name, bytes);
    if (b->status == TFM_OK)
        b->status = tfm__grow(&g->rules, &g->rule_capacity, id + 1, sizeof(*g->rules));
    if (b->status == TFM_OK)
        b->status = tfm__id_table_add(&g->names, hash, id);
    if (b->status == TFM_OK)
        g->rules[id] = (rule){0};
    return id;
}

static bool read_number(gbnf *g, int32_t *out) {
    const size_t begin = g->at;
    for (*out = 0; peek(g) >= '0' && peek(g) <= '9'; g->at++) {
        *out = *out * 10 + (peek(g) - '0');
        if (*out > TFM__GRAMMAR_MAX_NODES)
            return wrong(g, begin, "the number of repetitions is too large; up to 262144 are allowed");
    }
    return g->at > begin || wrong(g, begin, "a repetition needs a number, as in {2}, {2,} and {2,5}");
}

/* {m}, {m,} or {m,n} */
static bool read_count(gbnf *g, int32_t *low, int32_t *high) {
    const size_t begin = g->at++;
    skip_blanks(g, g->depth > 0);
    if (!read_number(g, low))
        return false;
    *high = *low;
    skip_blanks(g, g->depth > 0);
    if (skip(g, ",")) {
        skip_blanks(g, g->depth > 0);
        *high = TFM__EXPR_UNBOUNDED;
        if (peek(g) != '}' && !read_number(g, high))
            return false;
        skip_blanks(g, g->depth > 0);
    }
    if (!skip(g, "}"))
        return wrong(g, g->at, "a repetition needs a closing }");
    return *high == TFM__EXPR_UNBOUNDED || *low <= *high || wrong(g, begin, "the repetition ends before it begins");
}

static uint32_t read_alternatives(gbnf *g);

static bool read_group(gbnf *g, uint32_t sequence) {
    const size_t begin = g->at++;
    if (++g->depth > TFM__GRAMMAR_MAX_DEPTH) {
        tfm__grammar_fail(&g->builder, TFM_ERROR_UNSUPPORTED, "it has more than %d nested groups",
                          TFM__GRAMMAR_MAX_DEPTH);
        return false;
    }
    skip_blanks(g, true);
    const uint32_t group = read_alternatives(g);
    g->depth--;
    if (g->builder.status == TFM_OK && !skip(g, ")"))
        return wrong(g, peek(g) ? g->at : begin, peek(g) ? "this is not expected in a group" : "the group has no )");
    tfm__expr_add(&g->exprs, sequence, group);
    return true;
}

static bool read_item(gbnf *g, uint32_t sequence) {
    tfm__char_set any = {0};
    const char c = peek(g);
    if (c == '"')
        return read_text(g, sequence);
    if (c == '[')
        return read_class(g, sequence);
    if (c == '(')
        return read_group(g, sequence);
    if (c == '.') {
        g->at++;
        tfm__char_set_finish(&any, true);
        tfm__expr_add(&g->exprs, sequence, tfm__expr_char_set(&g->exprs, &any));
        return true;
    }
    const size_t bytes = name_bytes(g);
    const uint32_t id = find_rule(g, g->text + g->at, bytes);
    if (g->builder.status == TFM_OK && !g->rules[id].used)
        g->rules[id].used = g->at + 1;
    g->at += bytes;
    tfm__expr_add(&g->exprs, sequence, tfm__expr_new(&g->exprs, TFM__EXPR_RULE, id));
    return true;
}

static uint32_t read_sequence(gbnf *g) {
    const uint32_t sequence = tfm__expr_new(&g->exprs, TFM__EXPR_SEQUENCE, 0);
    bool item = false, good = !g->exprs.failed;
    while (good) {
        int32_t low = 0, high = TFM__EXPR_UNBOUNDED;
        const char c = peek(g);
        if (c == '*' || c == '+' || c == '?' || c == '{') {
            if (!item)
                wrong(g, g->at, "there is nothing to repeat before this");
            low = c == '+';
            high = c == '?' ? 1 : high;
            if (c == '{')
                good = read_count(g, &low, &high);
            else
                g->at++;
            if (item && good)
                tfm__expr_repeat_last(&g->exprs, sequence, low, high);
        } else if (c == '"' || c == '[' || c == '(' || c == '.' || name_bytes(g) > 0) {
            good = item = read_item(g, sequence);
        } else {
            break;
        }
        skip_blanks(g, g->depth > 0);
        good = good && !g->exprs.failed && g->builder.status == TFM_OK;
    }
    return sequence;
}

static uint32_t read_alternatives(gbnf *g) {
    const uint32_t all = tfm__expr_new(&g->exprs, TFM__EXPR_ALTERNATIVE, 0);
    while (!g->exprs.failed && g->builder.status == TFM_OK) {
        tfm__expr_add(&g->exprs, all, read_sequence(g));
        const size_t here = g->at;
        skip_blanks(g, true);
        if (!skip(g, "|")) {
            g->at = here;
            break;
        }
        skip_blanks(g, true);
    }
    return all;
}

/* name ::= alternatives, and the end of the line */
static bool read_rule(gbnf *g) {
    const size_t begin = g->at, bytes = name_bytes(g);
    if (!bytes)
        return wrong(g, begin, "a rule such as `name ::= ...` is needed here");
    const uint32_t id = find_rule(g, g->text + begin, bytes);
    g->at += bytes;
    skip_blanks(g, false);
    if (g->builder.status == TFM_OK && !skip(g, "::="))
        return wrong(g, g->at, "`::=` is needed after the name of a rule");
    if (g->builder.status == TFM_OK && g->rules[id].defined)
        return wrong(g, begin, "the rule has been defined before");
    skip_blanks(g, true);
    const uint32_t expr = read_alternatives(g);
    if (g->builder.status != TFM_OK || g->exprs.failed)
        return false;
    g->rules[id].defined = begin + 1;
    g->rules[id].expr = expr;
    if (g->at < g->bytes && peek(g) != '\n' && peek(g) != '\r')
        return wrong(g, g->at, "this is not expected in a rule");
    return true;
}

static void compile(gbnf *g) {
    tfm__grammar_builder *b = &g->builder;
    find_rule(g, "root", 4);
    skip_blanks(g, true);
    while (g->at < g->bytes && b->status == TFM_OK && read_rule(g))
        skip_blanks(g, true);
    if (g->exprs.failed && b->status == TFM_OK)
        b->status = TFM_ERROR_MEMORY;
    if (b->status == TFM_OK && !g->rules[0].defined)
        tfm__grammar_fail(b, TFM_ERROR_FORMAT, "it has no rule `root`, which texts begin with");
    for (uint32_t i = 0; i < b->rule_count && b->status == TFM_OK; i++) {
        char what[160];
        snprintf(what, sizeof(what), "the rule `%.100s` is not defined", b->rules[i].name);
        if (!g->rules[i].defined)
            wrong(g, g->rules[i].used - 1, what);
        else
            tfm__grammar_rule_set(b, i, tfm__expr_emit(b, &g->exprs, g->rules[i].expr, false, TFM__NODE_END));
    }
}

tfm_status tfm_grammar_from_gbnf(tfm_grammar **out, const char *text) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("grammar_from_gbnf", out, text) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    gbnf g = {.text = text, .bytes = strlen(text), .builder = {.name = "the grammar"}};
    if (g.bytes > TFM__GRAMMAR_MAX_TEXT)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "the grammar has %zu bytes; up to %d are allowed", g.bytes,
                         TFM__GRAMMAR_MAX_TEXT);
    const size_t valid = tfm__utf8_valid(text, g.bytes);
    if (valid < g.bytes)
        return tfm__fail(TFM_ERROR_FORMAT, "the grammar: byte %zu is not well-formed UTF-8", valid + 1);
    compile(&g);
    const tfm_status status = tfm__grammar_finish(out, &g.builder);
    tfm__exprs_free(&g.exprs);
    tfm__id_table_free(&g.names);
    free(g.rules);
    return status;
}
