/* In the place of markup.c where tfm is built without libxml2. */
#include "markup.h"

bool markup_there(void) {
    return false;
}

markup *markup_read(const char **why, const char *html, size_t bytes) {
    (void)html, (void)bytes;
    *why = "this tfm was built without libxml2";
    return NULL;
}

size_t markup_runs(const markup *m) {
    (void)m;
    return 0;
}

const char *markup_text(const markup *m, size_t run) {
    (void)m, (void)run;
    return NULL;
}

bool markup_marked(const markup *m, size_t run) {
    (void)m, (void)run;
    return false;
}

long markup_line(const markup *m, size_t run) {
    (void)m, (void)run;
    return 0;
}

bool markup_put(markup *m, size_t run, const char *translation, const json_t *alignment) {
    (void)m, (void)run, (void)translation, (void)alignment;
    return false;
}

char *markup_write(const markup *m) {
    (void)m;
    return NULL;
}

char *markup_write_plain(const markup *m) {
    (void)m;
    return NULL;
}

void markup_free(markup *m) {
    (void)m;
}
