/* Line by line reading of text files. */
#ifndef TFM_LIB_LINE_FILE_H
#define TFM_LIB_LINE_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include "base/base.h"

/* A file being read line by line, initially {0}. */
typedef struct tfm__line_reader {
    const char *name; /* The path, for error messages. */
    FILE *file;       /* The open file, or NULL. */
    char *text;       /* The last line, valid until the next one is read. */
    size_t capacity;  /* Allocated bytes of `text`. */
    size_t bytes;     /* The length of the line without its end. */
    size_t ending;    /* The length of the line end: 0 to 2 bytes. */
} tfm__line_reader;

/* Opens a file at byte `at`. `name` is borrowed, and must outlive the reader. TFM_ERROR_IO on failure. */
tfm_status tfm__line_reader_open(tfm__line_reader *lines, const char *name, int64_t at);
/* Closes the file, if it is open. */
void tfm__line_reader_close(tfm__line_reader *lines);

/* Reads the next line; *more says whether there was one. A line ends with LF or CR LF; skips a byte order mark at the
 * start of the file. The content is not checked. */
tfm_status tfm__line_reader_next(tfm__line_reader *lines, bool *more);

/* Borrowed bytes of a text. */
typedef struct tfm__string_view {
    const char *text;
    size_t bytes;
} tfm__string_view;

/* Splits a TSV line: sides[0] is the text up to the first tab, sides[1] from there to the next tab or the end. False
 * without a tab. */
bool tfm__tsv_split(tfm__string_view *sides, const char *text, size_t bytes);

#endif
