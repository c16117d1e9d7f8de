/* Build tool: bin2c OUT.c IN.cl ... writes a table {name, folder, text} of the given files as C. */
#include <stdio.h>
#include <string.h>

static int write_text(FILE *out, const char *path) {
    FILE *in = fopen(path, "rb");
    if (!in)
        return perror(path), 1;
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *folder = slash;
    while (folder && folder > path && folder[-1] != '/')
        folder--;
    fprintf(out, "    {\"%.*s\", \"%.*s\", (const char[]){", (int)strcspn(base, "."), base,
            folder ? (int)(slash - folder) : 0, folder ? folder : "");
    for (int c, n = 0; (c = fgetc(in)) != EOF; n++)
        fprintf(out, "%s%d,", n % 24 ? "" : "\n        ", c);
    fprintf(out, " 0}},\n");
    fclose(in);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return fprintf(stderr, "usage: bin2c OUT.c IN.cl ...\n"), 2;
    FILE *out = fopen(argv[1], "wb");
    if (!out)
        return perror(argv[1]), 1;
    fprintf(out, "#include \"dev/program/kernel_text.h\"\n\nconst tfm__kernel_source TFM__KERNEL_SOURCES[] = {\n");
    for (int i = 2; i < argc; i++)
        if (write_text(out, argv[i]))
            return 1;
    fprintf(out, "    {0, 0, 0},\n};\n");
    return fclose(out) ? (perror(argv[1]), 1) : 0;
}
