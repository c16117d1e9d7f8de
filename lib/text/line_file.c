#include "text/line_file.h"
#include <errno.h>
#include <string.h>

tfm_status tfm__line_reader_open(tfm__line_reader *lines, const char *name, int64_t at) {
    *lines = (tfm__line_reader){.name = name, .file = fopen(name, "rbe")};
    if (!lines->file || fseeko(lines->file, (off_t)at, SEEK_SET) != 0)
        return tfm__fail(TFM_ERROR_IO, "%s: %s", name, strerror(errno));
    return TFM_OK;
}

void tfm__line_reader_close(tfm__line_reader *lines) {
    if (lines->file)
        fclose(lines->file);
    free(lines->text);
    *lines = (tfm__line_reader){0};
}

tfm_status tfm__line_reader_next(tfm__line_reader *lines, bool *more) {
    const bool start = ftello(lines->file) == 0;
    ssize_t n = getline(&lines->text, &lines->capacity, lines->file);
    *more = n > 0;
    if (n < 0 && !feof(lines->file)) /* also out of memory */
        return tfm__fail(TFM_ERROR_IO, "%s: %s", lines->name, strerror(errno));
    if (n <= 0)
        return TFM_OK;
    const ssize_t whole = n;
    if (lines->text[n - 1] == '\n')
        n--;
    if (n > 0 && lines->text[n - 1] == '\r')
        n--;
    lines->ending = (size_t)(whole - n);
    if (start && n >= 3 && memcmp(lines->text, "\xef\xbb\xbf", 3) == 0) {
        n -= 3;
        memmove(lines->text, lines->text + 3, (size_t)n);
    }
    lines->bytes = (size_t)n;
    return TFM_OK;
}

bool tfm__tsv_split(tfm__string_view *sides, const char *text, size_t bytes) {
    const char *tab = memchr(text, '\t', bytes);
    if (!tab)
        return false;
    const size_t rest = bytes - (size_t)(tab + 1 - text);
    const char *second = memchr(tab + 1, '\t', rest);
    sides[0] = (tfm__string_view){text, (size_t)(tab - text)};
    sides[1] = (tfm__string_view){tab + 1, second ? (size_t)(second - tab - 1) : rest};
    return true;
}
