/* Whole documents for tfm translate: HTML, Markdown, gettext catalogs and subtitles (document.c). */
#ifndef TFM_DOCUMENT_H
#define TFM_DOCUMENT_H

#include "cli/cli.h"
#include "documents/markup.h"

/* Bytes of a message of a reader. */
enum { DOCUMENT_MESSAGE = 512 };

/* A file format: separately translated texts, and everything around them. */
typedef struct document_kind {
    const char *name;
    /* Reads UTF-8 without NUL, with one after it, which stays until the document is freed. `message` receives a
     * sentence that names `file`: why it is refused, or a warning; "": there is none, or memory is short. */
    void *(*read)(const char *file, const char *text, size_t bytes, char message[DOCUMENT_MESSAGE]);
    size_t (*count)(const void *content);
    /* A text, owned by the document, and whether it needs an alignment. */
    const char *(*text)(const void *content, size_t i);
    bool (*marked)(const void *content, size_t i);
    /* The place of a text for messages: "line 3". */
    void (*where)(char *out, size_t room, const void *content, size_t i);
    /* Replaces a text by its translation, as markup_put does. False without memory. */
    bool (*put)(void *content, size_t i, const char *translation, const json_t *alignment);
    /* The document, which the caller frees; NULL without memory. */
    char *(*write)(const void *content);
    void (*free)(void *content);
} document_kind;

extern const document_kind document_html, document_markdown, document_po, document_srt, document_vtt;

typedef struct document {
    const document_kind *kind;
    void *content;
    cli_lines file;
    bool marked_order; /* it begins with a byte order mark */
} document;

/* Reads a file; NULL and "-" are standard input. CLI_OK, or CLI_FAILED after a message; freed in any case. */
int document_read(document *d, const document_kind *kind, const char *path);
/* Translates all texts, sentence by sentence. A text that cannot be translated is reported, kept, and counted in `bad`.
 */
int document_translate(document *d, tfm_model *model, const tfm_text_options *text, const tfm_search_options *search,
                       size_t *bad);
int document_write(const document *d, cli_output *out);
void document_free(document *d);

#endif
