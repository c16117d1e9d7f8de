/* The marks of Markdown between two texts of md4c, which does not report where they are. */
#include <string.h>
#include "documents/markdown_items.h"

/* The most bytes of marks before the text of a block. */
enum { FURTHEST = 4096 };

/* ---- Marks --------------------------------------------------------------------------------------------------------
 * Each function reads one mark at `at`, and returns its end, or SIZE_MAX if there is none. */

static size_t skip_run(const markup *m, size_t at, char c) {
    while (at < m->bytes && m->text[at] == c)
        at++;
    return at;
}

static size_t read_blanks(const markup *m, size_t at) {
    while (at < m->bytes && html_is_blank(m->text[at]))
        at++;
    return at;
}

/* Up to an unescaped `close`, which is before `limit`; `open` nests. */
static size_t read_enclosed(const markup *m, size_t at, size_t limit, char open, char close) {
    int depth = 0;
    for (; at < limit; at++) {
        const char c = m->text[at];
        if (c == '\\' && at + 1 < limit)
            at++;
        else if (c == close && depth-- == 0)
            return at + 1;
        else if (c == open && open != close)
            depth++;
    }
    return SIZE_MAX;
}

/* "(address "title")" of a link. */
static size_t read_address(const markup *m, size_t at, size_t limit) {
    const char *text = m->text;
    at = read_blanks(m, at + 1);
    if (at < m->bytes && text[at] == '<') {
        at = read_enclosed(m, at + 1, limit, '<', '>');
    } else {
        int depth = 0;
        for (; at < m->bytes && !html_is_blank(text[at]) && (text[at] != ')' || depth > 0); at++) {
            depth += (text[at] == '(') - (text[at] == ')');
            at += text[at] == '\\' && at + 1 < m->bytes;
        }
    }
    if (at == SIZE_MAX)
        return SIZE_MAX;
    at = read_blanks(m, at);
    if (at < m->bytes && strchr("\"'(", text[at]) && text[at])
        at = read_enclosed(m, at + 1, limit, text[at], text[at] == '(' ? ')' : text[at]);
    at = at == SIZE_MAX ? at : read_blanks(m, at);
    return at < m->bytes && text[at] == ')' ? at + 1 : SIZE_MAX;
}

static size_t read_open(const markup *m, size_t at, MD_SPANTYPE span) {
    const char *text = m->text + at;
    const size_t left = m->bytes - at;
    switch (span) {
    case MD_SPAN_EM:
        return left > 0 && (*text == '*' || *text == '_') ? at + 1 : SIZE_MAX;
    case MD_SPAN_STRONG:
        return left > 1 && (*text == '*' || *text == '_') && text[1] == *text ? at + 2 : SIZE_MAX;
    case MD_SPAN_DEL:
        return left > 0 && *text == '~' ? skip_run(m, at, '~') : SIZE_MAX;
    case MD_SPAN_IMG:
        return left > 1 && text[0] == '!' && text[1] == '[' ? at + 2 : SIZE_MAX;
    case MD_SPAN_A:
        return left > 0 && (*text == '[' || *text == '<') ? at + 1 : SIZE_MAX;
    case MD_SPAN_CODE:
        if (left == 0 || *text != '`' || (at > 0 && text[-1] == '`'))
            return SIZE_MAX;
        at = skip_run(m, at, '`');
        return at < m->bytes && html_is_blank(m->text[at]) ? at + 1 : at;
    default:
        return SIZE_MAX;
    }
}

/* `limit`: where the next text begins, or the end. A link without an address has a label, or is its own one. */
static size_t read_close(const markup *m, size_t at, MD_SPANTYPE span, size_t limit) {
    const char *text = m->text + at;
    if (span == MD_SPAN_A || span == MD_SPAN_IMG) {
        if (at < m->bytes && *text == '>')
            return at + 1;
        if (at >= m->bytes || *text != ']')
            return SIZE_MAX;
        const char next = at + 1 < m->bytes ? text[1] : 0;
        const size_t end = next == '('   ? read_address(m, at + 1, limit)
                           : next == '[' ? read_enclosed(m, at + 2, limit, 0, ']')
                                         : at + 1;
        return end <= limit ? end : at + 1;
    }
    if (span == MD_SPAN_CODE) {
        at += at < m->bytes && html_is_blank(*text);
        return at < m->bytes && m->text[at] == '`' ? skip_run(m, at, '`') : SIZE_MAX;
    }
    return read_open(m, at, span);
}

/* A line end, and what stands before the text of the next line: blanks, and the marks of quotes. */
static size_t read_break(const markup *m, size_t at, bool hard) {
    if (hard && at < m->bytes && m->text[at] == '\\')
        at++;
    while (at < m->bytes && (m->text[at] == ' ' || m->text[at] == '\t'))
        at++;
    at += at + 1 < m->bytes && m->text[at] == '\r' && m->text[at + 1] == '\n';
    if (at >= m->bytes || (m->text[at] != '\n' && m->text[at] != '\r'))
        return SIZE_MAX;
    for (at++; at < m->bytes && (m->text[at] == ' ' || m->text[at] == '\t' || m->text[at] == '>'); at++)
        ;
    return at;
}

/* ---- Places ---------------------------------------------------------------------------------------------------- */

/* Reads the marks of items from `at` on; returns the end of the last one, or SIZE_MAX. */
static size_t read_marks(const markup *m, item *items, size_t count, size_t at, size_t limit) {
    for (size_t i = 0; i < count && at != SIZE_MAX; i++) {
        items[i].begin = at;
        at = items[i].kind == ITEM_OPEN    ? read_open(m, at, items[i].span)
             : items[i].kind == ITEM_CLOSE ? read_close(m, at, items[i].span, limit)
                                           : read_break(m, at, items[i].kind == ITEM_HARD_BREAK);
        items[i].end = at;
    }
    return at;
}

/* Whether the marks fill what is between `at` and the text at `limit`, or all except the backslash of an escape. */
static bool fit(const markup *m, item *items, size_t count, size_t at, size_t limit) {
    const size_t end = read_marks(m, items, count, at, limit);
    return end == limit || (end != SIZE_MAX && end + 1 == limit && m->text[end] == '\\');
}

bool markdown_place(const markup *m, item *items, size_t count, size_t begin, size_t limit, bool first, bool last) {
    if (count == 0)
        return true;
    if (last && !first)
        return read_marks(m, items, count, begin, limit) != SIZE_MAX;
    if (!first)
        return fit(m, items, count, begin, limit);
    begin = limit - begin > FURTHEST ? limit - FURTHEST : begin;
    for (size_t at = limit; !last && at-- > begin;) /* after the marks of its block */
        if (fit(m, items, count, at, limit))
            return true;
    return false;
}
