/* What the two files of markup share: a document and its runs. */
#ifndef TFM_MARKUP_TREE_H
#define TFM_MARKUP_TREE_H

#include <libxml/HTMLparser.h>
#include "markup.h"

/* A word of a run, and the innermost element of the run that it is in; NULL: none. A stop after <b>Haus</b> is in
 * another one than the word: `end`. */
typedef struct markup_word {
    xmlNode *mark, *end;
} markup_word;

/* What stands in a run and is no text, such as a picture, and how many words stand before it. */
typedef struct markup_atom {
    xmlNode *node;
    size_t words;
} markup_atom;

/* Neighbours among the children of one element, from `first` to `last`. */
typedef struct markup_run {
    xmlNode *parent, *first, *last;
    char *text; /* blanks made one, none at its ends */
    bool blank_before, blank_after;
    size_t bytes, room;
    markup_word *words;
    size_t word_count, word_room;
    markup_atom *atoms;
    size_t atom_count, atom_room;
} markup_run;

struct markup {
    htmlDocPtr document;
    xmlNode *fragment; /* the element around a fragment; NULL: a document */
    markup_run *runs;
    size_t count, room;
    bool starved;
};

bool markup_is_blank(char c);

#endif
