/* HTML, and subtitles as a little of it, whose markup is kept around the translation (markup.c; markup_absent.c without
 * libxml2). */
#ifndef TFM_MARKUP_H
#define TFM_MARKUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <tfm/tfm.h>

/* A document, cut into runs of text that are translated each: what a paragraph, a cell or a heading has. Elements in
 * the middle of a run, such as <b>, are marks on some of its words. */
typedef struct markup markup;

/* Whether HTML can be read at all. */
bool markup_there(void);
/* Reads a fragment or a document of UTF-8. Damaged HTML is read as browsers do. NULL where it cannot be read whole, or
 * without memory; `why` then says so, as the end of a sentence. */
markup *markup_read(const char **why, const char *html, size_t bytes);
/* How many runs it has, and the text of one, which belongs to the document. */
size_t markup_runs(const markup *m);
const char *markup_text(const markup *m, size_t run);
/* Whether a run has marks or pictures whose place in the translation is to be found. */
bool markup_marked(const markup *m, size_t run);
/* The line of the document that a run begins on, from 1. */
long markup_line(const markup *m, size_t run);
/* Puts a translation in the place of a run. `alignment` is a list with the cli_details_json of each of its sentences;
 * NULL: marks go by place. False without
 * memory. */
bool markup_put(markup *m, size_t run, const char *translation, const json_t *alignment);
/* The whole document as HTML, which the caller frees; NULL without memory. */
char *markup_write(const markup *m);
/* A fragment as subtitles have it, which the caller frees: <br> is the end of a line, a comment is what is in it, and
 * there are no entities. NULL without memory. */
char *markup_write_plain(const markup *m);
void markup_free(markup *m);

#endif
