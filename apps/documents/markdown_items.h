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
    size_t partner;    /* the item that ends it, or that it ends; NO_ITEM: none */
    size_t below;      /* of open ones: the one around it */
    size_t name_bytes; /* of a tag */
    bool kept, note;   /* the element of a start tag is not translated; it may be a footnote's mark */
    bool solid;        /* of HTML: as of run_atom */
} item;

#define NO_ITEM SIZE_MAX

/* Places the marks between two texts: from `begin`, where the last one ends, to `limit`, where the next one begins.
 * `first`, `last`: there is no text before, or after them, in their block. */
bool markdown_place(const markup *m, item *items, size_t count, size_t begin, size_t limit, bool first, bool last);
/* Finds which spans and tags begin and end together; spans and elements are nested (markdown_pairs.c). */
void markdown_pair(const markup *m, item *items, size_t count);

#endif
