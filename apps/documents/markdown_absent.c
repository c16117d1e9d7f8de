/* Markdown in a build without md4c. */
#include "cli/cli.h"
#include "documents/markup.h"

markup *markdown_read(const char *file, const char *text, size_t bytes) {
    (void)text, (void)bytes;
    cli_fail("%s: this build has no Markdown: install md4c (Debian: libmd4c-dev) and build tfm again", file);
    return NULL;
}
