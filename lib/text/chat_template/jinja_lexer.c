#include "text/chat_template/jinja_lexer.h"
#include <unicode/uchar.h>
#include "text/chat_template/jinja_case.h"

typedef struct lexer {
    tfm__jinja *j;
    tfm__jinja_tokens tokens;
    const char *text;
    size_t at, end;
    int line;
    char open[256]; /* brackets of the current tag */
    size_t depth;
} lexer;

static void add(lexer *l, tfm__jinja_token_kind kind, tfm__jinja_value value) {
    tfm__jinja_tokens *tokens = &l->tokens;
    if (tokens->count == tokens->capacity) {
        const size_t capacity = tokens->capacity ? 2 * tokens->capacity : 256;
        tfm__jinja_token *items = tfm__jinja_alloc(l->j, capacity, sizeof(*items));
        if (!items)
            return;
        if (tokens->count)
            memcpy(items, tokens->items, tokens->count * sizeof(*items));
        tokens->items = items;
        tokens->capacity = capacity;
    }
    tokens->items[tokens->count++] = (tfm__jinja_token){.kind = kind, .line = l->line, .value = value};
}

static void fail(lexer *l, const char *what) {
    l->j->line = l->line;
    tfm__jinja_fail(l->j, TFM_ERROR_FORMAT, "%s", what);
}

static bool next_is(const lexer *l, size_t at, const char *text) {
    const size_t bytes = strlen(text);
    return l->end - at >= bytes && memcmp(l->text + at, text, bytes) == 0;
}

/* Moves on, and counts lines. */
static void move(lexer *l, size_t to) {
    for (; l->at < to; l->at++)
        l->line += l->text[l->at] == '\n';
}

static size_t skip_space(const lexer *l, size_t at) {
    while (at < l->end) {
        size_t next = at;
        if (!tfm__jinja_is_space(tfm__char_next(l->text, &next)))
            break;
        at = next;
    }
    return at;
}

static size_t trim_space(const lexer *l, size_t from, size_t to) {
    while (to > from && tfm__jinja_is_space(tfm__char_before(l->text, to)))
        do
            to--;
        while (((unsigned char)l->text[to] & 0xc0) == 0x80);
    return to;
}

/* Adds the text before a tag. Its sign '-' strips blanks; without a sign, the blanks at the start of the line of a
 * statement or comment are removed. */
static void add_data(lexer *l, size_t to, char sign, bool variable) {
    const bool at_line_start = l->at == 0 || l->text[l->at - 1] == '\n';
    size_t end = to, begin = to;
    if (sign == '-') {
        end = trim_space(l, l->at, to);
    } else if (sign != '+' && !variable) {
        while (begin > l->at && l->text[begin - 1] != '\n')
            begin--;
        if ((begin > l->at || at_line_start) && skip_space(l, begin) >= to)
            end = begin;
    }
    if (end > l->at)
        add(l, TFM__JINJA_DATA, tfm__jinja_share(l->j, l->text + l->at, end - l->at));
    move(l, to);
}

/* The end of a tag at `at`, such as `-%}` with the blanks after it; 0 if it is none. */
static size_t tag_end(const lexer *l, size_t at, const char *close, bool plus, bool trims) {
    const bool minus = next_is(l, at, "-") && next_is(l, at + 1, close);
    if (minus)
        return skip_space(l, at + 3);
    if (plus && next_is(l, at, "+") && next_is(l, at + 1, close))
        return at + 3;
    if (!next_is(l, at, close))
        return 0;
    return at + 2 + (trims && next_is(l, at + 2, "\n"));
}

static void lex_comment(lexer *l) {
    for (size_t at = l->at; at < l->end; at++) {
        const size_t end = tag_end(l, at, "#}", true, true);
        if (end) {
            move(l, end);
            return;
        }
    }
    fail(l, "Missing end of comment tag");
}

/* The end of `{% raw %}` if the tag is one; its blanks are not trimmed. */
static size_t raw_begin(const lexer *l, size_t after_sign) {
    size_t at = skip_space(l, after_sign);
    if (!next_is(l, at, "raw"))
        return 0;
    return tag_end(l, skip_space(l, at + 3), "%}", false, false);
}

static void lex_raw(lexer *l) {
    for (size_t at = l->at; at < l->end; at++) {
        if (!next_is(l, at, "{%"))
            continue;
        const char sign = next_is(l, at + 2, "-") ? '-' : next_is(l, at + 2, "+") ? '+' : 0;
        const size_t name = skip_space(l, at + 2 + (sign != 0));
        const size_t end = next_is(l, name, "endraw") ? tag_end(l, skip_space(l, name + 6), "%}", true, true) : 0;
        if (end) {
            add_data(l, at, sign, false);
            move(l, end);
            return;
        }
    }
    fail(l, "Missing end of raw directive");
}

static bool is_name(int32_t c, bool first) {
    if (c < 0x80)
        return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!first && c >= '0' && c <= '9');
    return u_hasBinaryProperty(c, first ? UCHAR_XID_START : UCHAR_XID_CONTINUE);
}

static size_t name_end(const lexer *l) {
    size_t at = l->at;
    while (at < l->end) {
        size_t next = at;
        if (!is_name(tfm__char_next(l->text, &next), at == l->at))
            break;
        at = next;
    }
    return at;
}

static void lex_string(lexer *l) {
    const char quote = l->text[l->at];
    size_t at = l->at + 1;
    while (at < l->end && l->text[at] != quote)
        at += l->text[at] == '\\' ? 2 : 1;
    if (at >= l->end) {
        fail(l, "a string has no end");
        return;
    }
    l->j->line = l->line;
    add(l, TFM__JINJA_TEXT, tfm__jinja_literal_string(l->j, l->text + l->at + 1, at - l->at - 1));
    move(l, at + 1);
}

/* Keeps the stack of brackets: the end of a tag within brackets is none. */
static void match_brackets(lexer *l, char c) {
    static const char pairs[] = "()[]{}";
    const char *found = strchr(pairs, c);
    if (!found)
        return;
    if ((found - pairs) % 2 == 0) {
        if (l->depth == sizeof(l->open))
            fail(l, "brackets are nested more than 256 deep");
        else
            l->open[l->depth++] = found[1];
    } else if (l->depth == 0 || l->open[--l->depth] != c) {
        fail(l, "a closing bracket has no opening one");
    }
}

static void lex_operator(lexer *l) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < TFM__COUNT(operators); i++)
        if (next_is(l, l->at, operators[i])) {
            if (!operators[i][1])
                match_brackets(l, *operators[i]);
            add(l, TFM__JINJA_OPERATOR, tfm__jinja_text(l->j, operators[i]));
            move(l, l->at + strlen(operators[i]));
            return;
        }
    fail(l, "unexpected character");
}

/* One token within a tag. */
static void lex_token(lexer *l) {
    const char c = l->text[l->at];
    const size_t space = skip_space(l, l->at);
    tfm__jinja_value number = tfm__jinja_none();
    if (space > l->at) {
        move(l, space);
        return;
    }
    l->j->line = l->line;
    if (c >= '0' && c <= '9') {
        const bool after_dot = l->text[l->at - 1] == '.';
        const size_t bytes = tfm__jinja_literal_number(l->j, &number, l->text + l->at, l->end - l->at, after_dot);
        add(l, tfm__jinja_is(number, TFM__JINJA_FLOAT) ? TFM__JINJA_REAL : TFM__JINJA_NUMBER, number);
        move(l, l->at + bytes);
        return;
    }
    const size_t name = name_end(l);
    if (name > l->at) {
        add(l, TFM__JINJA_NAME, tfm__jinja_share(l->j, l->text + l->at, name - l->at));
        move(l, name);
    } else if (c == '"' || c == '\'') {
        lex_string(l);
    } else {
        lex_operator(l);
    }
}

static void lex_tag(lexer *l, bool variable) {
    const int line = l->line;
    l->depth = 0;
    add(l, variable ? TFM__JINJA_VARIABLE_BEGIN : TFM__JINJA_BLOCK_BEGIN, tfm__jinja_none());
    while (l->at < l->end && l->j->status == TFM_OK) {
        const size_t end = l->depth ? 0 : tag_end(l, l->at, variable ? "}}" : "%}", !variable, !variable);
        if (end) {
            add(l, variable ? TFM__JINJA_VARIABLE_END : TFM__JINJA_BLOCK_END, tfm__jinja_none());
            move(l, end);
            return;
        }
        lex_token(l);
    }
    l->line = line;
    fail(l, variable ? "a tag {{ has no end" : "a tag {% has no end");
}

/* The text up to the next tag, and the tag. */
static void lex_part(lexer *l) {
    size_t tag = l->at;
    while (tag < l->end &&
           !(l->text[tag] == '{' && (next_is(l, tag, "{{") || next_is(l, tag, "{%") || next_is(l, tag, "{#"))))
        tag++;
    if (tag == l->end) {
        add(l, TFM__JINJA_DATA, tfm__jinja_share(l->j, l->text + l->at, l->end - l->at));
        move(l, tag);
        return;
    }
    const char kind = l->text[tag + 1], sign = next_is(l, tag + 2, "-") ? '-' : next_is(l, tag + 2, "+") ? '+' : 0;
    const size_t after = tag + 2 + (sign != 0);
    add_data(l, tag, sign, kind == '{');
    const size_t raw = kind == '%' ? raw_begin(l, after) : 0;
    move(l, raw ? raw : after);
    if (raw)
        lex_raw(l);
    else if (kind == '#')
        lex_comment(l);
    else
        lex_tag(l, kind == '{');
}

/* The template with LF as the only line end, and without the last one. */
static tfm__jinja_value normal_lines(tfm__jinja *j, const char *text, size_t bytes) {
    tfm__jinja_writer out = {.j = j};
    for (size_t at = 0, next; at < bytes; at = next) {
        const char *cr = memchr(text + at, '\r', bytes - at);
        next = cr ? (size_t)(cr - text) : bytes;
        tfm__jinja_write(&out, text + at, next - at);
        if (cr) {
            tfm__jinja_write(&out, "\n", 1);
            next += 1 + (next + 1 < bytes && text[next + 1] == '\n');
        }
    }
    out.bytes -= out.bytes && out.data[out.bytes - 1] == '\n';
    return tfm__jinja_written(&out);
}

tfm__jinja_tokens tfm__jinja_lex(tfm__jinja *j, const char *text, size_t bytes) {
    const tfm__jinja_value source = normal_lines(j, text, bytes);
    if (j->status != TFM_OK)
        return (tfm__jinja_tokens){0};
    lexer l = {.j = j, .text = source.string->data, .end = source.string->bytes, .line = 1};
    while (l.at < l.end && j->status == TFM_OK)
        lex_part(&l);
    add(&l, TFM__JINJA_END, tfm__jinja_none());
    return l.tokens;
}
