/* Writes embeddings as lines of JSON, as text, or as NumPy's .npy. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include "commands/embed.h"

/* ---- .npy ------------------------------------------------------------------------------------------------------ */

enum { HEADER = 128 };

/* The header of version 1.0, of constant length, so that it can be rewritten once the number of rows is known. */
static bool put_header(embed_job *j) {
    char text[HEADER + 1];
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    text[8] = HEADER - 10;
    text[9] = 0;
    const int used = snprintf(text + 10, HEADER - 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %d), }",
                              j->rows, j->width);
    memset(text + 10 + used, ' ', (size_t)(HEADER - 10 - used));
    text[HEADER - 1] = '\n';
    return fseeko(j->out.file, 0, SEEK_SET) == 0 && fwrite(text, 1, HEADER, j->out.file) == HEADER &&
           fseeko(j->out.file, 0, SEEK_END) == 0;
}

/* Little-endian on every host. */
static bool put_floats(FILE *file, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        const unsigned char bytes[] = {(unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16),
                                       (unsigned char)(bits >> 24)};
        if (fwrite(bytes, 1, sizeof(bytes), file) != sizeof(bytes))
            return false;
    }
    return true;
}

int embed_write_begin(embed_job *j) {
    if (j->format != EMBED_NPY)
        return CLI_OK;
    return put_header(j) ? CLI_OK : cli_fail("cannot write %s: %s", j->out.name, strerror(errno));
}

/* ---- Lines ----------------------------------------------------------------------------------------------------- */

/* Enough digits to round-trip a float. A bad line is null, or an empty line of text. */
static void put_line(const embed_job *j, const float *x, int width) {
    FILE *file = j->out.file;
    const bool json = j->format == EMBED_JSON, bad = isnan(x[0]);
    if (bad && json)
        fputs("null", file);
    else if (json)
        fputc('[', file);
    for (int i = 0; i < width && !bad; i++)
        fprintf(file, "%s%.9g", i == 0 ? "" : json ? "," : " ", (double)x[i]);
    fputs(json && !bad ? "]\n" : "\n", file);
}

bool embed_write_vectors(embed_job *j, size_t count) {
    const int width = j->width;
    j->rows += count;
    if (j->format == EMBED_NPY) {
        const bool put = put_floats(j->out.file, j->numbers, count * (size_t)width) && put_header(j);
        return cli_output_ok(&j->out) && put;
    }
    for (size_t i = 0; i < count; i++)
        put_line(j, j->numbers + i * (size_t)width, width);
    return cli_output_ok(&j->out);
}
