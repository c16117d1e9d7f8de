/* A text and its spans during pre-tokenization. */
#ifndef TFM_LIB_SPANS_H
#define TFM_LIB_SPANS_H

#include "base/base.h"
#include "text/bytes.h"

/* A non-empty part of a text. */
typedef struct tfm__text_span {
    size_t begin, end;
    int32_t id; /* of an added token, or -1 for text */
    bool start; /* it begins at the line's start */
} tfm__text_span;

/* Initially {0}. */
typedef struct tfm__spans {
    tfm__bytes text;
    tfm__text_span *items;
    size_t count, capacity;
} tfm__spans;

static inline void tfm__spans_free(tfm__spans *spans) {
    tfm__bytes_free(&spans->text);
    free(spans->items);
    *spans = (tfm__spans){0};
}

/* Adds a span unless it is empty. Out of memory, `text` has failed. */
static inline void tfm__spans_add(tfm__spans *spans, size_t begin, size_t end, int32_t id, bool start) {
    if (begin == end)
        return;
    if (spans->count == spans->capacity &&
        tfm__grow(&spans->items, &spans->capacity, spans->count + 1, sizeof(*spans->items)) != TFM_OK)
        spans->text.failed = true;
    else
        spans->items[spans->count++] = (tfm__text_span){begin, end, id, start};
}

#endif
