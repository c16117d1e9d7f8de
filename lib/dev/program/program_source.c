/* The text of a program: the prelude, and the op's file with its includes. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "dev/program/program.h"
#include "dev/program/kernel_text.h"

static const tfm__kernel_source *embedded_source(const char *file) {
    const tfm__kernel_source *entry = TFM__KERNEL_SOURCES;
    while (entry->name && strcmp(entry->name, file) != 0)
        entry++;
    return entry;
}

/* The folder in TFM_CL_DIR, or NULL; another value gives one warning per process. */
static const char *override_folder(void) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const char *directory = getenv("TFM_CL_DIR");
    struct stat about;
    if (!directory || !*directory)
        return NULL;
    if (stat(directory, &about) == 0 && S_ISDIR(about.st_mode))
        return directory;
    if (!atomic_flag_test_and_set(&warned))
        tfm__log(TFM_LOG_WARNING,
                 "TFM_CL_DIR is \"%.200s\", which is not a folder: the built-in kernels are used; give a folder with "
                 ".cl files",
                 directory);
    return NULL;
}

/* The text of a kernel file: from TFM_CL_DIR, there or in its subfolder of cl/, else the embedded one. Owned by the
 * caller. */
static char *load_kernel_source(tfm_context *ctx, const char *file) {
    const tfm__kernel_source *entry = embedded_source(file);
    const char *directory = override_folder();
    if (directory) {
        char *path = tfm__format("%s/%s.cl", directory, file), *text = NULL;
        if (path && !tfm__file_exists(path) && entry->name) {
            free(path);
            path = tfm__format("%s/%s/%s.cl", directory, entry->folder, file);
        }
        if (path && tfm__file_exists(path) && tfm__file_read(&text, NULL, path) != TFM_OK)
            tfm__context_fail(ctx, TFM_ERROR_IO, "TFM_CL_DIR: %s", tfm_error_message());
        free(path);
        if (text || ctx->status != TFM_OK)
            return text;
    }
    if (!entry->name) {
        tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "there is no kernel text '%s.cl'", file);
        return NULL;
    }
    return tfm__strdup(entry->text);
}

const char *tfm__program_builtins(void) {
    return embedded_source("opencl_builtins")->text;
}

/* The next line that begins with #include, or the end of the text. */
static const char *next_include(const char *text) {
    static const char WORD[] = "#include \"";
    if (strncmp(text, WORD, strlen(WORD)) == 0)
        return text;
    const char *found = strstr(text, "\n#include \"");
    return found ? found + 1 : text + strlen(text);
}

/* A line `#include "name.cl"` is replaced by that text, so that kernels of several files share functions. Included
 * texts cannot include others. False if a text cannot be loaded. */
static bool write_with_includes(tfm_context *ctx, FILE *out, const char *file, const char *text) {
    fprintf(out, "#line 1 \"%s.cl\"\n", file);
    for (int line = 1; *text;) {
        const char *end = next_include(text);
        fwrite(text, 1, (size_t)(end - text), out);
        for (; text < end; text++)
            line += *text == '\n';
        if (!*text)
            break;
        text = strchr(text, '"') + 1;
        char *other = tfm__format("%.*s", (int)strcspn(text, ".\"\n"), text),
             *part = other ? load_kernel_source(ctx, other) : NULL;
        if (part)
            fprintf(out, "#line 1 \"%s.cl\"\n%s\n#line %d \"%s.cl\"", other, part, line + 1, file);
        text += strcspn(text, "\n");
        const bool loaded = part != NULL;
        free(other);
        free(part);
        if (!loaded)
            return false;
    }
    fputc('\n', out);
    return true;
}

char *tfm__program_source(tfm_context *ctx, const char *file) {
    char *prelude = load_kernel_source(ctx, "prelude"), *text = prelude ? load_kernel_source(ctx, file) : NULL;
    char *source = NULL;
    size_t bytes;
    FILE *out = text ? open_memstream(&source, &bytes) : NULL;
    bool whole = out && write_with_includes(ctx, out, "prelude", prelude) && write_with_includes(ctx, out, file, text);
    whole = !(out && ferror(out)) && whole;
    whole = !(out && fclose(out) != 0) && whole;
    free(prelude);
    free(text);
    if (!whole && ctx->status == TFM_OK)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for the text of %s.cl", file);
    if (whole)
        return source;
    free(source);
    return NULL;
}

/* Maps a line of the assembled text by the preceding #line: NVIDIA's compiler ignores them and reports
 * "<kernel>:413:15". */
static void place_of(const char *source, long line, char *name, size_t size, long *at) {
    snprintf(name, size, "<kernel>");
    *at = line;
    for (long i = 1; source && i < line; i++) {
        long first;
        char file[64];
        if (sscanf(source, "#line %ld \"%63[^\"\n]\"", &first, file) == 2) {
            snprintf(name, size, "%s", file);
            *at = first + line - i - 1;
        }
        source = strchr(source, '\n');
        source = source ? source + 1 : NULL;
    }
}

char *tfm__build_log_map_lines(const char *log, const char *source) {
    static const char MARK[] = "<kernel>:";
    char *out = tfm__strdup("");
    while (out && *log) {
        const char *mark = strstr(log, MARK), *rest = mark ? mark + strlen(MARK) : log + strlen(log);
        char name[64] = "<kernel>", *more;
        long at = 0;
        const size_t digits = strspn(rest, "0123456789");
        if (mark && digits > 0 && digits < 9)
            place_of(source, strtol(rest, NULL, 10), name, sizeof(name), &at);
        if (at > 0)
            more = tfm__format("%s%.*s%s:%ld", out, (int)(mark - log), log, name, at);
        else
            more = tfm__format("%s%.*s", out, (int)(rest - log), log);
        free(out);
        out = more;
        log = at > 0 ? rest + digits : rest;
    }
    return out;
}
