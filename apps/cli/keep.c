/* Text to keep untranslated: --keep, --keep-file and --no-keep. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

/* `option` is where the patterns are from: "--keep", or a file and a line. */
static int compile(tfm_placeholders **out, const char *const *patterns, size_t count, const char *option,
                   const cli_syntax *syntax) {
    static const char CALL[] = "placeholders: ";
    const tfm_status status = tfm_placeholders_new(out, patterns, count);
    const char *why = tfm_error_message();
    if (status == TFM_ERROR_ARGUMENT)
        return cli_usage_error(syntax, "%s: %s", option,
                               why + (strncmp(why, CALL, strlen(CALL)) == 0 ? strlen(CALL) : 0));
    return status == TFM_OK ? CLI_OK : cli_fail_library();
}

/* The first invalid one of patterns that are invalid together, by bisection: compiling takes time. */
static size_t find_invalid(const char *const *patterns, size_t count) {
    size_t low = 0;
    for (size_t high = count - 1; low < high;) {
        tfm_placeholders *some = NULL;
        const size_t middle = low + (high - low) / 2;
        if (tfm_placeholders_new(&some, patterns, middle + 1) == TFM_OK)
            low = middle + 1;
        else
            high = middle;
        tfm_placeholders_free(&some);
    }
    return low;
}

/* Compiles the patterns of a file alone, so that a message names the line. */
static int compile_file(tfm_placeholders **out, const char *const *patterns, size_t count, const cli_lines *lines,
                        const char *file, const cli_syntax *syntax) {
    const tfm_status status = tfm_placeholders_new(out, patterns, count);
    char where[1024];
    size_t line = 0;
    if (status != TFM_ERROR_ARGUMENT)
        return status == TFM_OK ? CLI_OK : cli_fail_library();
    const size_t invalid = find_invalid(patterns, count);
    while (lines->text[line] != patterns[invalid])
        line++;
    snprintf(where, sizeof(where), "--keep-file %s, line %zu", file, line + 1);
    return compile(out, patterns + invalid, 1, where, syntax);
}

static int keep_file(tfm_placeholders **out, const cli_keep_options *keep, const cli_syntax *syntax) {
    cli_lines lines = {.fd = -1};
    int code = cli_lines_read_all(&lines, "--keep-file", keep->file);
    size_t count = 0;
    const char **all = code == CLI_OK ? calloc(lines.count + keep->patterns.count + 1, sizeof(*all)) : NULL;
    if (code == CLI_OK && !all)
        code = cli_fail("out of memory for the patterns of %s", keep->file);
    for (size_t i = 0; code == CLI_OK && i < lines.count; i++) {
        if (strlen(lines.text[i]) != lines.bytes[i])
            code = cli_usage_error(syntax, "--keep-file %s, line %zu has a NUL byte", keep->file, i + 1);
        else if (lines.bytes[i] > 0)
            all[count++] = lines.text[i];
    }
    if (code == CLI_OK)
        code = compile_file(out, all, count, &lines, keep->file, syntax);
    if (code == CLI_OK && keep->patterns.count > 0) {
        tfm_placeholders_free(out);
        memcpy(all + count, keep->patterns.items, keep->patterns.count * sizeof(*all));
        code = compile(out, all, count + keep->patterns.count, "--keep", syntax);
    }
    free(all);
    cli_lines_close(&lines);
    return code;
}

int cli_keep(tfm_placeholders **out, const cli_keep_options *keep, const cli_syntax *syntax) {
    if (keep->none)
        return CLI_OK;
    return keep->file ? keep_file(out, keep, syntax)
                      : compile(out, keep->patterns.items, keep->patterns.count, "--keep", syntax);
}
