/* Build tool: embed OUT.c NAME=FILE ... writes the files as C strings, serve_text_NAME. */
#include <stdio.h>
#include <string.h>

static int embed(FILE *out, const char *argument) {
    const char *equals = strchr(argument, '=');
    FILE *in = equals ? fopen(equals + 1, "rb") : NULL;
    if (!in)
        return perror(argument), 1;
    const int length = (int)(equals - argument);
    fprintf(out, "extern const char serve_text_%.*s[];\nconst char serve_text_%.*s[] = {", length, argument, length,
            argument);
    for (int c, n = 0; (c = fgetc(in)) != EOF; n++)
        fprintf(out, "%s%d,", n % 24 ? "" : "\n    ", c > 127 ? c - 256 : c);
    fprintf(out, " 0};\n");
    fclose(in);
    return 0;
}

int main(int argc, char **argv) {
    FILE *out = argc > 1 ? fopen(argv[1], "wb") : NULL;
    if (!out)
        return fprintf(stderr, "usage: embed OUT.c NAME=FILE ...\n"), 2;
    for (int i = 2; i < argc; i++)
        if (embed(out, argv[i]))
            return 1;
    return fclose(out) ? (perror(argv[1]), 1) : 0;
}
