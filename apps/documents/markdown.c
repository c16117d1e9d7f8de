/* Markdown (CommonMark, with tables, task lists and strikethrough of GitHub) as runs of text: md4c finds blocks and
 * spans, and its texts point into the document; the marks around them, which it does not report, are found between the
 * texts. */
#include <md4c.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "documents/markup_internal.h"

/* Spans within each other, beyond which marks stay one by one; and the most bytes of marks before the text of a block.
 */
enum { DEEPEST = 64, FURTHEST = 4096 };

typedef enum item_kind {
    ITEM_TEXT,
    ITEM_ENTITY,
    ITEM_HTML,
    ITEM_OPEN,
    ITEM_CLOSE,
    ITEM_SOFT_BREAK,
    ITEM_HARD_BREAK
} item_kind;

/* What a paragraph, heading or cell consists of. */
typedef struct item {
    item_kind kind;
    MD_SPANTYPE span;
    size_t begin, end; /* known for texts at once, for others when the next text is */
} item;

typedef struct reader {
    markup *m;
    run_builder builder;
    item *items;
    size_t count, room;
    size_t done;     /* the end of the last text of earlier blocks */
    int raw;         /* blocks of code or HTML that are open */
    unsigned places; /* of the open blocks: MARKUP_IN_LINE, MARKUP_IN_CELL */
} reader;

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

/* Places the marks between two texts: from `begin`, where the last one ends, to `limit`, where the next one begins.
 * `first`, `last`: there is no text before, or after them, in their block. */
static bool place(const markup *m, item *items, size_t count, size_t begin, size_t limit, bool first, bool last) {
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

/* ---- Runs ------------------------------------------------------------------------------------------------------ */

/* Text; a reference to a footnote stays. */
static void add_text(reader *r, size_t begin, size_t end) {
    const char *text = r->m->text;
    for (size_t at = begin; at < end;) {
        const char *note = memmem(text + at, end - at, "[^", 2);
        const char *stop = note ? memchr(note, ']', (size_t)(text + end - note)) : NULL;
        const size_t next = stop ? (size_t)(note - text) : end;
        if (next > at)
            run_add_text(r->m, &r->builder, at, next, false, false);
        at = stop ? (size_t)(stop + 1 - text) : end;
        at += stop && next == begin && at < end && text[at] == ':'; /* its definition */
        if (stop)
            run_add(r->m, &r->builder, EVENT_ATOM, next, at);
    }
}

static void add_atom(reader *r, size_t begin, size_t end) {
    const size_t event = run_add(r->m, &r->builder, EVENT_ATOM, begin, end);
    if (event != NO_EVENT)
        r->builder.events[event].solid = true;
}

/* The item that closes the span of item `open`. */
static size_t close_of(const reader *r, size_t open) {
    int depth = 0;
    for (size_t i = open; i < r->count; i++) {
        depth += (r->items[i].kind == ITEM_OPEN) - (r->items[i].kind == ITEM_CLOSE);
        if (depth == 0)
            return i;
    }
    return r->count;
}

/* Whether a span stays as it is: code, and links whose text is their address or their label. */
static bool stays(const reader *r, size_t open, size_t close) {
    const item *o = &r->items[open], *c = &r->items[close];
    const char *text = r->m->text;
    if (o->span == MD_SPAN_CODE)
        return true;
    if (o->span != MD_SPAN_A && o->span != MD_SPAN_IMG)
        return false;
    return text[o->begin] == '<' || c->end - c->begin == 1 || (c->end - c->begin == 3 && text[c->begin + 1] == '[');
}

static void add_items(reader *r) {
    size_t opened[DEEPEST];
    int depth = 0;
    for (size_t i = 0; i < r->count && !r->m->out_of_memory; i++) {
        const item *now = &r->items[i];
        const size_t close = now->kind == ITEM_OPEN ? close_of(r, i) : r->count;
        if (close < r->count && (stays(r, i, close) || depth == DEEPEST)) {
            add_atom(r, now->begin, r->items[close].end);
            i = close;
        } else if (now->kind == ITEM_TEXT) {
            add_text(r, now->begin, now->end);
        } else if (now->kind == ITEM_ENTITY) {
            run_add_text(r->m, &r->builder, now->begin, now->end, true, false);
        } else if (now->kind == ITEM_SOFT_BREAK) {
            const size_t line = now->begin + strcspn(r->m->text + now->begin, "\r\n");
            run_add_text(r->m, &r->builder, line, line + 1, false, false);
        } else if (now->kind == ITEM_HARD_BREAK || now->kind == ITEM_HTML) {
            add_atom(r, now->begin, now->end);
        } else if (now->kind == ITEM_OPEN) {
            opened[depth++] = run_add(r->m, &r->builder, EVENT_OPEN, now->begin, now->end);
        } else if (depth > 0 && run_add(r->m, &r->builder, EVENT_CLOSE, now->begin, now->end) != NO_EVENT) {
            run_pair(r->m, &r->builder, opened[--depth], false);
        }
    }
}

static bool is_text(const item *i) {
    return i->kind == ITEM_TEXT || i->kind == ITEM_ENTITY || i->kind == ITEM_HTML;
}

/* Ends what stands in one paragraph, heading or cell. Where a mark is not found, the whole stays untranslated. */
static void finish(reader *r) {
    bool placed = true, first = true;
    size_t at = r->done;
    for (size_t i = 0, next; i < r->count && placed; i = next) {
        for (next = i; next < r->count && !is_text(&r->items[next]); next++)
            ;
        const bool last = next == r->count;
        placed = place(r->m, r->items + i, next - i, at, last ? r->m->bytes : r->items[next].begin, first, last);
        if (!last) {
            first = false;
            at = r->done = r->items[next++].end;
        }
    }
    if (placed && r->count > 0) {
        r->m->places = r->places;
        add_items(r);
        run_finish(r->m, &r->builder);
    }
    r->count = 0;
}

/* ---- Callbacks of md4c ----------------------------------------------------------------------------------------- */

static int add_item(reader *r, item_kind kind, MD_SPANTYPE span, size_t begin, size_t end) {
    if (!cli_grow(&r->items, &r->room, r->count + 1, sizeof(*r->items))) {
        r->m->out_of_memory = true;
        return 1;
    }
    r->items[r->count++] = (item){kind, span, begin, end};
    return 0;
}

static int on_block(reader *r, MD_BLOCKTYPE type, bool enters) {
    finish(r);
    if (type == MD_BLOCK_CODE || type == MD_BLOCK_HTML)
        r->raw += enters ? 1 : -1;
    r->places = !enters                                      ? 0
                : type == MD_BLOCK_TH || type == MD_BLOCK_TD ? MARKUP_IN_LINE | MARKUP_IN_CELL
                : type == MD_BLOCK_H                         ? MARKUP_IN_LINE
                                                             : 0;
    return r->m->out_of_memory;
}

static int on_enter_block(MD_BLOCKTYPE type, void *detail, void *user) {
    (void)detail;
    return on_block(user, type, true);
}

static int on_leave_block(MD_BLOCKTYPE type, void *detail, void *user) {
    (void)detail;
    return on_block(user, type, false);
}

static int on_enter_span(MD_SPANTYPE type, void *detail, void *user) {
    (void)detail;
    return add_item(user, ITEM_OPEN, type, 0, 0);
}

static int on_leave_span(MD_SPANTYPE type, void *detail, void *user) {
    (void)detail;
    return add_item(user, ITEM_CLOSE, type, 0, 0);
}

static int on_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE bytes, void *user) {
    reader *r = user;
    const char *document = r->m->text;
    if (r->raw)
        return 0;
    if (type == MD_TEXT_SOFTBR || type == MD_TEXT_BR)
        return add_item(r, type == MD_TEXT_BR ? ITEM_HARD_BREAK : ITEM_SOFT_BREAK, MD_SPAN_EM, 0, 0);
    if (text < document || text > document + r->m->bytes) /* a line end in code, which stays */
        return 0;
    const item_kind kind = type == MD_TEXT_ENTITY ? ITEM_ENTITY : type == MD_TEXT_HTML ? ITEM_HTML : ITEM_TEXT;
    const size_t begin = (size_t)(text - document);
    return add_item(r, kind, MD_SPAN_EM, begin, begin + bytes);
}

/* ---- The document ---------------------------------------------------------------------------------------------- */

/* The bytes of a YAML front matter. */
static size_t front_matter(const char *text) {
    size_t at = strspn(text, "-") == 3 ? 3 + strspn(text + 3, " \t\r") : 0;
    while (at > 0 && text[at] == '\n') {
        const char *line = text + at + 1;
        const size_t bytes = strcspn(line, "\n");
        if ((strncmp(line, "---", 3) == 0 || strncmp(line, "...", 3) == 0) && 3 + strspn(line + 3, " \t\r") == bytes)
            return at + 1 + bytes;
        at += 1 + bytes;
    }
    return 0;
}

const bool markdown_supported = true;

markup *markdown_read(const char *text, size_t bytes) {
    const size_t skipped = front_matter(text);
    reader r = {.m = calloc(1, sizeof(*r.m)), .done = skipped};
    const MD_PARSER parser = {.flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS,
                              .enter_block = on_enter_block,
                              .leave_block = on_leave_block,
                              .enter_span = on_enter_span,
                              .leave_span = on_leave_span,
                              .text = on_text};
    bool good = r.m != NULL;
    if (good) {
        *r.m = (markup){.text = text, .bytes = bytes, .markdown = true};
        good = md_parse(text + skipped, (MD_SIZE)(bytes - skipped), &parser, &r) == 0 && !r.m->out_of_memory;
    }
    free(r.items);
    free(r.builder.events);
    if (good)
        return r.m;
    markup_free(r.m);
    return NULL;
}
