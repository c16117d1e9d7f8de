/* HTML and Markdown, whose every byte is kept except the text that is translated (markup.c). */
#ifndef TFM_MARKUP_H
#define TFM_MARKUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <tfm/text.h>

/* A document, cut into runs of text that are translated each: what a paragraph, a cell or a heading has. Phrasing
 * content such as <b> does not end a run; block content does. Text without any letter is no run and stays. */
typedef struct markup markup;

/* Reads UTF-8 without NUL, and with one after its end, which stays there until the document is freed. Any text is read,
 * damaged HTML as browsers do. NULL without memory. */
markup *markup_read(const char *text, size_t bytes);
/* The same for Markdown: words in links and emphasis are text; code, HTML, addresses, labels and front matter stay.
 * NULL without memory, or in a build without md4c (markdown.c, markdown_absent.c). */
markup *markdown_read(const char *text, size_t bytes);
extern const bool markdown_supported;
/* How many runs it has, in their order; and the text of one, which belongs to the document: character references are
 * what they stand for, blanks are one blank, and what nobody sees in words, such as soft hyphens, is left out. */
size_t markup_runs(const markup *m);
const char *markup_text(const markup *m, size_t run);
/* Whether a run has elements, pictures or the like whose place in the translation is to be found. */
bool markup_marked(const markup *m, size_t run);
/* The line of the document that a run begins on, from 1. */
long markup_line(const markup *m, size_t run);
/* Puts a translation in place of a run, which stays byte for byte where the translation is its text. `alignment` is
 * a list with the cli_alignment_json of each of its sentences; NULL: words go by place. False without memory. */
bool markup_put(markup *m, size_t run, const char *translation, const json_t *alignment);
/* The whole document, which the caller frees; NULL without memory. */
char *markup_write(const markup *m);
void markup_free(markup *m);

#endif
