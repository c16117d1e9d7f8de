/* HTML whose markup is kept around the translation (markup.c; markup_absent.c without libxml2). */
#ifndef TFM_SERVE_MARKUP_H
#define TFM_SERVE_MARKUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <tfm/tfm.h>

/* A document, cut into runs of text that are translated each: what a paragraph, a cell or a heading has. Elements in
 * the middle of a run, such as <b>, are marks on some of its words. */
typedef struct markup markup;

/* Whether HTML can be read at all. */
bool serve_markup_there(void);
/* Reads a fragment or a document of UTF-8. NULL without memory. Damaged HTML is read as browsers do. */
markup *serve_markup_read(const char *html, size_t bytes);
/* How many runs it has, and the text of one, which belongs to the document. */
size_t serve_markup_runs(const markup *m);
const char *serve_markup_text(const markup *m, size_t run);
/* Puts a translation in the place of a run. `alignments` has the tokens of its sentences and how much each one of the
 * target looked at each one of the source, as in the answers of tfm serve; NULL: marks go by place. False without
 * memory. */
bool serve_markup_put(markup *m, size_t run, const char *translation, const json_t *alignment);
/* The whole document as HTML, which the caller frees; NULL without memory. */
char *serve_markup_write(const markup *m);
void serve_markup_free(markup *m);

#endif
