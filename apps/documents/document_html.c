/* HTML and Markdown as documents: their runs of text, by markup.c. */
#include "documents/document.h"

static void *read_html(const char *file, const char *text, size_t bytes, char message[DOCUMENT_MESSAGE]) {
    (void)file, (void)message;
    return markup_read(text, bytes);
}

static void *read_markdown(const char *file, const char *text, size_t bytes, char message[DOCUMENT_MESSAGE]) {
    markup *m = markdown_read(text, bytes);
    if (!m && !markdown_supported)
        snprintf(message, DOCUMENT_MESSAGE,
                 "%s: this build has no Markdown: install md4c (Debian: libmd4c-dev) and build tfm again", file);
    return m;
}

static size_t count_runs(const void *m) {
    return markup_runs(m);
}

static const char *text_of(const void *m, size_t i) {
    return markup_text(m, i);
}

static bool is_marked(const void *m, size_t i) {
    return markup_marked(m, i);
}

static void where_is(char *out, size_t room, const void *m, size_t i) {
    snprintf(out, room, "line %ld", markup_line(m, i));
}

static bool put(void *m, size_t i, const char *translation, const json_t *alignment) {
    return markup_put(m, i, translation, alignment);
}

static char *write_html(const void *m) {
    return markup_write(m);
}

static void free_html(void *m) {
    markup_free(m);
}

const document_kind document_html = {"HTML",   read_html, count_runs, text_of,  is_marked,
                                     where_is, put,       write_html, free_html};
const document_kind document_markdown = {"Markdown", read_markdown, count_runs, text_of,  is_marked,
                                         where_is,   put,           write_html, free_html};
