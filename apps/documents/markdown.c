/* Markdown (CommonMark, with tables, task lists and strikethrough of GitHub) as runs of text: md4c finds blocks and
 * spans, and its texts point into the document; the marks around them, which it does not report, are found between the
 * texts. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "documents/markdown_items.h"

/* Spans within each other, beyond which marks stay one by one. */
enum { DEEPEST = 64 };

typedef struct reader {
    markup *m;
    run_builder builder;
    item *items;
    size_t count, room;
    size_t done;      /* the end of the last text of earlier blocks */
    int raw;          /* blocks of code or HTML that are open */
    unsigned places;  /* of the open blocks: MARKUP_IN_LINE, MARKUP_IN_CELL */
    bool line_in_tag; /* the last text was a line end in a tag */
    bool alert;       /* a quote begins here, which may be an alert of GitHub */
} reader;

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

static void add_atom(reader *r, size_t begin, size_t end, bool solid) {
    const size_t event = run_add(r->m, &r->builder, EVENT_ATOM, begin, end);
    if (event != NO_EVENT)
        r->builder.events[event].solid = solid;
}

/* Whether a span or element stays as it is: code, and links whose text is their address or their label. */
static bool stays(const reader *r, const item *o) {
    const item *c = &r->items[o->partner];
    const char *text = r->m->text;
    if (o->kind == ITEM_HTML)
        return o->kept;
    if (o->span == MD_SPAN_CODE)
        return true;
    if (o->span != MD_SPAN_A && o->span != MD_SPAN_IMG)
        return false;
    return text[o->begin] == '<' || c->end - c->begin == 1 || (c->end - c->begin == 3 && text[c->begin + 1] == '[');
}

/* How many items at the start of a quote are "[!NOTE]" on its own line, which makes it an alert. */
static size_t alert_items(const reader *r) {
    const char *text = r->m->text + r->items[0].begin;
    const size_t bytes = r->items[0].end - r->items[0].begin;
    if (!r->alert || r->items[0].kind != ITEM_TEXT || bytes < 4 || memcmp(text, "[!", 2) != 0 || text[bytes - 1] != ']')
        return 0;
    for (size_t i = 2; i + 1 < bytes; i++)
        if (!isalpha((unsigned char)text[i]))
            return 0;
    if (r->count == 1)
        return 1;
    return r->items[1].kind == ITEM_SOFT_BREAK || r->items[1].kind == ITEM_HARD_BREAK ? 2 : 0;
}

static void add_single(reader *r, const item *now) {
    if (now->kind == ITEM_TEXT) {
        add_text(r, now->begin, now->end);
    } else if (now->kind == ITEM_ENTITY) {
        run_add_text(r->m, &r->builder, now->begin, now->end, true, false);
    } else if (now->kind == ITEM_SOFT_BREAK) {
        const size_t line = now->begin + strcspn(r->m->text + now->begin, "\r\n");
        run_add_text(r->m, &r->builder, line, line + 1, false, false);
    } else {
        add_atom(r, now->begin, now->end, now->kind != ITEM_HTML || now->solid);
    }
}

static void add_items(reader *r) {
    size_t opened[DEEPEST];
    int depth = 0;
    markdown_pair(r->m, r->items, r->count);
    for (size_t i = alert_items(r); i < r->count && !r->m->out_of_memory; i++) {
        const item *now = &r->items[i];
        if (now->partner == NO_ITEM) {
            add_single(r, now);
        } else if (now->partner > i && (stays(r, now) || depth == DEEPEST)) {
            add_atom(r, now->begin, r->items[now->partner].end, now->kind != ITEM_HTML || now->solid);
            i = now->partner;
        } else if (now->partner > i) {
            opened[depth++] = run_add(r->m, &r->builder, EVENT_OPEN, now->begin, now->end);
        } else if (run_add(r->m, &r->builder, EVENT_CLOSE, now->begin, now->end) != NO_EVENT) {
            run_pair(r->m, &r->builder, opened[--depth], now->note);
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
        placed =
            markdown_place(r->m, r->items + i, next - i, at, last ? r->m->bytes : r->items[next].begin, first, last);
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
    r->items[r->count++] = (item){.kind = kind, .span = span, .begin = begin, .end = end};
    return 0;
}

static int on_block(reader *r, MD_BLOCKTYPE type, bool enters) {
    finish(r);
    r->alert = enters && (type == MD_BLOCK_QUOTE || (type == MD_BLOCK_P && r->alert));
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
    item *last = r->count > 0 ? &r->items[r->count - 1] : NULL;
    const bool inside = text >= document && text <= document + r->m->bytes;
    const bool joins = last && last->kind == ITEM_HTML && type == MD_TEXT_HTML && (*text != '<' || r->line_in_tag);
    r->line_in_tag = joins && !inside;
    if (joins && inside) /* a tag on more than one line */
        last->end = (size_t)(text - document) + bytes;
    if (joins || !inside) /* a line end in code or a tag, which stays */
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
