/* What the files of markup share: a document's runs, and how they are found. */
#ifndef TFM_MARKUP_INTERNAL_H
#define TFM_MARKUP_INTERNAL_H

#include <stdint.h>
#include "documents/html_lexer.h"
#include "documents/marks.h"

/* Elements of a run within each other; what lies deeper stays where it is, one tag at a time. */
enum { MARKUP_DEEPEST = 64 };

/* An element of a run, by its tags in the source; and where its text begins in the run's. Those of a run are in the
 * order of their start tags. */
typedef struct run_element {
    size_t open, open_end, close, close_end;
    size_t first;
    int parent; /* -1: none */
    int depth;
} run_element;

/* From this byte of the text on, it is in this element; -1: in none. */
typedef struct run_span {
    size_t at;
    int element;
} run_span;

/* What stays as it is in a run: pictures, code, comments, tags whose element is not whole in the run. */
typedef struct run_atom {
    marks_mark mark;
    size_t begin, end;
    int element;
    bool gap;   /* a blank stands before it */
    bool solid; /* it is seen, or has a blank in it: words before and after are two words; no footnote's mark is */
    bool deep;  /* has its own runs */
} run_atom;

/* The bytes of the document from `begin` to `end` become those from `at` on. */
typedef struct run_insert {
    size_t at, begin, end;
} run_insert;

typedef struct markup_run {
    size_t begin, end;
    long line;
    char *text;
    size_t bytes, room;
    run_span *spans;
    run_element *elements;
    run_atom *atoms;
    size_t span_count, span_room, element_count, element_room, atom_count, atom_room;
    unsigned places;                 /* MARKUP_IN_LINE, MARKUP_IN_CELL */
    uint64_t literal[2], escaped[2]; /* Markdown: ASCII that stands in the text without, and after a backslash */
    char *put;                       /* what is written in its place; NULL: it stays */
    run_insert *inserts;
    size_t put_bytes, put_room, insert_count, insert_room;
} markup_run;

/* Bytes of the source that something else is written for, whatever becomes of the runs. */
typedef struct markup_edit {
    size_t begin, end;
    const char *text;
} markup_edit;

struct markup {
    const char *text;
    size_t bytes;
    markup_run *runs; /* sorted by where they begin; one may lie in an atom of another */
    markup_edit *edits;
    size_t count, room, edit_count, edit_room;
    size_t counted; /* how far lines have been counted, and how many there are by then */
    long lines;
    bool markdown;   /* not HTML */
    unsigned places; /* of the next run */
    bool out_of_memory;
};

/* Of a run of Markdown: its first word does not begin a line (headings, cells); it is in a cell of a table. */
enum { MARKUP_IN_LINE = 1, MARKUP_IN_CELL = 2 };

/* ---- Building a run (markup_events.c) -------------------------------------------------------------------------- */

typedef enum event_kind { EVENT_TEXT, EVENT_OPEN, EVENT_CLOSE, EVENT_ATOM } event_kind;

#define NO_EVENT SIZE_MAX

/* What is found between the ends of two blocks. */
typedef struct run_event {
    event_kind kind;
    bool solid, deep; /* as of run_atom */
    bool references;  /* of text */
    size_t begin, end;
    size_t partner;       /* the event of the other tag of its element, or NO_EVENT */
    size_t seen, letters; /* in the text before it */
} run_event;

typedef struct run_builder {
    run_event *events;
    size_t count, room;
    size_t seen, letters; /* characters that are seen, and those of them that are letters */
    size_t generation;    /* grows with each run */
} run_builder;

/* Adds text from `begin` to `end`; what a separator parts is separate runs, with `lines` its lines and columns too.
 */
void run_add_text(markup *m, run_builder *b, size_t begin, size_t end, bool references, bool lines);
/* Ends the run before a start tag of a form's control that follows another one without text between, or of a box of a
 * choice: these are no part of one sentence. */
void run_part_controls(markup *m, run_builder *b, const html_token *t);
/* Parts a sentence that ends at `stop`, except end tags, from one that begins at `at`: "gut.</b>Wir", not "z.<b>B". */
void run_part_sentences(markup *m, run_builder *b, size_t stop, size_t at);
/* Adds a tag or an atom; returns the event. */
size_t run_add(markup *m, run_builder *b, event_kind kind, size_t begin, size_t end);
/* The element whose tags are the event `open` and the last one is whole. Without words, such as an arrow, or with
 * `note` and the text of a footnote's mark, it becomes an atom. */
void run_pair(markup *m, run_builder *b, size_t open, bool note);
/* Makes a run of what there is, if it has letters; and begins another one. */
void run_finish(markup *m, run_builder *b);
/* Makes the run (markup_run.c); false without memory. */
bool run_make(markup_run *run, const markup *m, const run_builder *b);
/* The innermost element of a run that two are in; -1: none. */
int run_around(const markup_run *run, int a, int b);
/* The bytes of a template's expression with signs, as {{ a && b }}, that `text` begins with and that stands in the
 * source as it is: its author wrote no references in it. 0: none. */
size_t run_expression(const markup_run *run, const markup *m, const char *text);
void run_free(markup_run *run);

/* ---- Attributes (markup_attributes.c) -------------------------------------------------------------------------- */

/* 1 and 0: a tag says that its text is to be translated, or not; -1: it says nothing. */
int markup_says_translate(const markup *m, const html_token *tag);
/* Whether the text of an element is not translated; `outer`: the text around it is not. */
bool markup_keeps(const markup *m, const html_element *element, const html_token *tag, bool outer);
/* What is written is UTF-8: where a <meta> says another encoding, it says that from now on. */
void markup_edit_encoding(markup *m, const html_token *tag);

/* ---- Elements that a word is in (markup_path.c) ---------------------------------------------------------------- */

/* Elements of a run, from the outermost to the innermost. */
typedef struct run_path {
    int elements[MARKUP_DEEPEST];
    int count;
} run_path;

run_path run_path_to(const markup_run *run, int element);
/* How many elements two have in common, from the outermost on. */
int run_path_common(const run_path *a, const run_path *b);
bool run_path_has(const run_path *p, int element);
/* Adds an element, unless there is one of its name already, since a link in a link is none; or there are too many. */
void run_path_join(run_path *p, const markup *m, const markup_run *run, int element);

/* The innermost element of a byte of the run's text, and of all bytes of a range; -1: none. */
int run_element_at(const markup_run *run, size_t at);
int run_element_of(const markup_run *run, size_t begin, size_t end);

/* The words of a translation that are in an element: the last consecutive ones, and the most consecutive ones. */
typedef struct run_words {
    size_t begin, end, most, most_end;
} run_words;

/* Adds a word to an element and those around it, in the order of words. */
void run_words_add(run_words *words, const markup_run *run, int element, size_t word);

/* ---- Markdown (markdown_escape.c) ------------------------------------------------------------------------------ */

/* Whether a character of a translation would be markup where the run stands. What stands in the source without a
 * backslash is none there, and what stands there after one has it again, as `\$` may be markup to some renderers. Only
 * at its begin may a line be a heading, a list or a quote. */
bool markdown_is_escaped(const markup_run *run, const char *text, size_t at);

/* ---- Finding runs (markup_walk.c) ------------------------------------------------------------------------------ */

void markup_walk(markup *m);

#endif
