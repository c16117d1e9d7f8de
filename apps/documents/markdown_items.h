/* What md4c reports of a paragraph, heading or cell of Markdown, with its place in the document. */
#ifndef TFM_MARKDOWN_ITEMS_H
#define TFM_MARKDOWN_ITEMS_H

#include <md4c.h>
#include "documents/markup_internal.h"

typedef enum item_kind {
    ITEM_TEXT,
    ITEM_ENTITY,
    ITEM_HTML,
    ITEM_OPEN,
    ITEM_CLOSE,
    ITEM_SOFT_BREAK,
    ITEM_HARD_BREAK
} item_kind;

typedef struct item {
    item_kind kind;
    MD_SPANTYPE span;
    size_t begin, end; /* known for texts at once, for others when the next text is */
} item;

/* Places the marks between two texts: from `begin`, where the last one ends, to `limit`, where the next one begins.
 * `first`, `last`: there is no text before, or after them, in their block. */
bool markdown_place(const markup *m, item *items, size_t count, size_t begin, size_t limit, bool first, bool last);

#endif
