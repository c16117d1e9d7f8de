/* Text files, a line at a time. */
#ifndef TFM_LIB_LINE_FILE_H
#define TFM_LIB_LINE_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include "base/base.h"

/* A file that is read, and its last line without its end, borrowed until the next. Starts as {0}. */
typedef struct tfm__lines {
    const char *name;
    FILE *file;
    char *text;
    size_t room, bytes;
} tfm__lines;

/* Opens a file behind its first `at` bytes; the name is borrowed. TFM_ERROR_IO. */
tfm_status tfm__lines_open(tfm__lines *lines, const char *name, int64_t at);
/* Takes a closed one, and one that did not open. */
void tfm__lines_close(tfm__lines *lines);

/* *more: whether there was a line. CR LF ends one too, and a byte order mark at the start is no text. What is
 * in a line is not looked at. */
tfm_status tfm__lines_next(tfm__lines *lines, bool *more);

/* Text of somebody else's. */
typedef struct tfm__span {
    const char *text;
    size_t bytes;
} tfm__span;

/* sides[0] and [1]: the two texts of one line of a TSV, up to the first tab, and from there to the next, or
 * the end. False without a tab. */
bool tfm__tsv_split(tfm__span *sides, const char *text, size_t bytes);

#endif
