/* Markdown in a build without md4c. */
#include "documents/markup.h"

const bool markdown_supported = false;

markup *markdown_read(const char *text, size_t bytes) {
    (void)text, (void)bytes;
    return NULL;
}
