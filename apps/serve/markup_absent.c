/* In the place of markup.c where tfm is built without libxml2. */
#include "markup.h"

bool serve_markup_there(void) {
    return false;
}

markup *serve_markup_read(const char *html, size_t bytes) {
    (void)html, (void)bytes;
    return NULL;
}

size_t serve_markup_runs(const markup *m) {
    (void)m;
    return 0;
}

const char *serve_markup_text(const markup *m, size_t run) {
    (void)m, (void)run;
    return NULL;
}

bool serve_markup_put(markup *m, size_t run, const char *translation, const json_t *alignment) {
    (void)m, (void)run, (void)translation, (void)alignment;
    return false;
}

char *serve_markup_write(const markup *m) {
    (void)m;
    return NULL;
}

void serve_markup_free(markup *m) {
    (void)m;
}
