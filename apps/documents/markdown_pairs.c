/* Which items of Markdown end which: spans, which md4c nests, and tags of inline HTML, which any text may have. */
#include <string.h>
#include <strings.h>
#include "documents/markdown_items.h"

/* How far an end tag looks for its start tag. */
enum { DEEPEST = 64 };

static void open_item(item *items, size_t i, size_t *top) {
    items[i].below = *top;
    *top = i;
}

/* Closes `open` with `i`, and leaves out the tags within it that have no end tag. */
static void close_item(item *items, size_t open, size_t i, size_t *top) {
    items[open].partner = i;
    items[i].partner = open;
    *top = items[open].below;
}

/* The start tag of an end tag, in the same span. */
static size_t find_start(const markup *m, const item *items, const html_token *t, size_t top) {
    const char *name = m->text + t->name;
    for (int far = 0; top != NO_ITEM && items[top].kind == ITEM_HTML && far < DEEPEST; far++, top = items[top].below)
        if (items[top].name_bytes == t->name_bytes &&
            strncasecmp(m->text + items[top].begin + 1, name, t->name_bytes) == 0)
            return top;
    return NO_ITEM;
}

static void pair_tag(const markup *m, item *items, size_t i, size_t *top) {
    html_lexer lexer = {.text = m->text, .bytes = items[i].end, .at = items[i].begin};
    html_token t;
    html_next(&t, &lexer);
    if (t.kind != HTML_START && t.kind != HTML_END)
        return;
    const html_element *element = html_element_of(m->text + t.name, t.name_bytes);
    const bool single = element->flags & (HTML_VOID | HTML_BLOCK);
    items[i].name_bytes = t.name_bytes;
    items[i].note = element->id == HTML_ID_SUP;
    items[i].kept = t.kind == HTML_START && markup_keeps(m, element, &t, false);
    items[i].solid = (single || items[i].kept) && !(element->flags & HTML_BLIND);
    const size_t open = single || t.kind == HTML_START ? NO_ITEM : find_start(m, items, &t, *top);
    if (open != NO_ITEM)
        close_item(items, open, i, top);
    else if (!single && t.kind == HTML_START)
        open_item(items, i, top);
}

void markdown_pair(const markup *m, item *items, size_t count) {
    size_t top = NO_ITEM;
    for (size_t i = 0; i < count; i++) {
        items[i].partner = NO_ITEM;
        if (items[i].kind == ITEM_HTML) {
            pair_tag(m, items, i, &top);
        } else if (items[i].kind == ITEM_OPEN) {
            open_item(items, i, &top);
        } else if (items[i].kind == ITEM_CLOSE) {
            while (top != NO_ITEM && items[top].kind != ITEM_OPEN)
                top = items[top].below;
            if (top != NO_ITEM)
                close_item(items, top, i, &top);
        }
    }
}
