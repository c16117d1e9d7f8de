/* What finding the parts of a cue and writing them share: the items of one part. */
#ifndef TFM_SUBTITLE_VIEW_H
#define TFM_SUBTITLE_VIEW_H

#include "documents/subtitles.h"

/* A word of a part, and the innermost tag around its beginning and its end: the index of an item, or SUBTITLE_NONE. */
typedef struct subtitle_word {
    size_t mark, end;
} subtitle_word;

/* What stands between words and is no text. It goes before the word that follows it, or, with `after`, behind the word
 * before it. */
typedef struct subtitle_atom {
    const char *at;
    size_t bytes, word, mark;
    bool after;
} subtitle_atom;

typedef struct subtitle_view {
    subtitle_items items;
    size_t first, last; /* items: the first word and the last one */
    size_t lead;        /* items before this one stay as they are */
    size_t *parents;    /* [items.count]: the tag around an opening tag */
    char *text;
    size_t text_bytes;
    subtitle_word *words;
    size_t word_count, word_room;
    subtitle_atom *atoms;
    size_t atom_count, atom_room;
    bool marked;
    bool references, plain; /* it has character references; it has an & that is none */
} subtitle_view;

/* Reads a part. False when out of memory; the caller frees it in any case. view->text is NULL where it has none. */
bool subtitle_view_read(subtitle_view *view, const char *text, size_t bytes, bool vtt);
void subtitle_view_free(subtitle_view *view);
/* Whether an item is a tag whose place in the translation is found by the words in it. */
bool subtitle_view_mark(const subtitle_view *view, size_t item);

#endif
