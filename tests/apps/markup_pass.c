/* Passes HTML through apps/documents/markup.c without a model: markup_pass same|mark|reverse|texts FILE... writes
 * FILE.same and so on: texts unchanged (same), with U+27E6 and U+27E7 around them (mark), with words reversed
 * (reverse), or as lines without the document (texts). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "documents/markup.h"

static char *read_file(const char *path, size_t *bytes) {
    FILE *in = fopen(path, "rb");
    char *text = in && fseek(in, 0, SEEK_END) == 0 ? malloc((size_t)ftell(in) + 1) : NULL;
    if (text) {
        *bytes = (size_t)ftell(in);
        rewind(in);
        *bytes = fread(text, 1, *bytes, in);
        text[*bytes] = 0;
    }
    if (in)
        fclose(in);
    return text;
}

static void reverse(char *to, const char *text) {
    const size_t bytes = strlen(text);
    size_t end = bytes;
    for (size_t at = bytes; at-- > 0;)
        if (text[at] == ' ' || at == 0) {
            const size_t begin = at + (text[at] == ' ');
            memcpy(to, text + begin, end - begin);
            to += end - begin;
            *to++ = at > 0 ? ' ' : 0;
            end = at;
        }
}

static char *translate(const char *mode, const char *text) {
    char *to = malloc(strlen(text) + 8);
    if (!to)
        return NULL;
    if (strcmp(mode, "mark") == 0)
        sprintf(to, "\xE2\x9F\xA6%s\xE2\x9F\xA7", text);
    else if (strcmp(mode, "reverse") == 0)
        reverse(to, text);
    else
        strcpy(to, text);
    return to;
}

static int pass(const char *mode, const char *path) {
    char name[4096], *text;
    size_t bytes = 0;
    snprintf(name, sizeof(name), "%s.%s", path, mode);
    text = read_file(path, &bytes);
    markup *m = text ? markup_read(text, bytes) : NULL;
    FILE *out = m ? fopen(name, "wb") : NULL;
    int failed = !out;
    for (size_t i = 0; !failed && i < markup_runs(m); i++) {
        char *to = translate(mode, markup_text(m, i));
        failed = !to || !markup_put(m, i, to, NULL);
        if (strcmp(mode, "texts") == 0)
            fprintf(out, "%s\n", markup_text(m, i));
        free(to);
    }
    char *written = failed ? NULL : markup_write(m);
    if (written && strcmp(mode, "texts") != 0)
        fwrite(written, 1, strlen(written), out);
    failed = failed || !written;
    if (out && fclose(out) != 0)
        failed = 1;
    free(written);
    markup_free(m);
    free(text);
    return failed;
}

int main(int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (pass(argv[1], argv[i])) {
            fprintf(stderr, "markup_pass: cannot take %s through\n", argv[i]);
            return 1;
        }
    return 0;
}
