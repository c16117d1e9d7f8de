/* Text files, a line at a time. */
#ifndef TFM_LIB_LINE_FILE_H
#define TFM_LIB_LINE_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include "base/base.h"

/* A file that is read line by line. It starts as {0}. */
typedef struct tfm__line_reader {
    const char *name; /* The path, for error messages. */
    FILE *file;       /* The open file, or NULL. */
    char *text;       /* The last line, valid until the next one is read. */
    size_t capacity;  /* How many bytes `text` has room for. */
    size_t bytes;     /* The length of the line without its end. */
    size_t ending;    /* The length of that end: 0 to 2 bytes. */
} tfm__line_reader;

/* Opens a file at byte `at`. `name` stays the caller's, and must live as long as the reader. TFM_ERROR_IO if it cannot.
 */
tfm_status tfm__line_reader_open(tfm__line_reader *lines, const char *name, int64_t at);
/* Closes the file. It may be closed already, or never have been opened. */
void tfm__line_reader_close(tfm__line_reader *lines);

/* Reads the next line; *more says whether there was one. A line ends with LF or CR LF, and a byte order mark at the
 * start of the file is left out. The content of a line is not checked. */
tfm_status tfm__line_reader_next(tfm__line_reader *lines, bool *more);

/* Bytes of a text that belongs to somebody else. */
typedef struct tfm__string_view {
    const char *text;
    size_t bytes;
} tfm__string_view;

/* Splits a line of a TSV file: sides[0] is the text up to the first tab, and sides[1] the text from there to the next
 * tab or to the end. Returns false if there is no tab. */
bool tfm__tsv_split(tfm__string_view *sides, const char *text, size_t bytes);

#endif
