/* Text to keep untranslated: --keep, --keep-file and --no-keep. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

static int compile(tfm_placeholders **out, const char *const *patterns, size_t count, const char *option,
                   const char *file, const cli_syntax *syntax) {
    static const char CALL[] = "placeholders: ";
    const tfm_status status = tfm_placeholders_new(out, patterns, count);
    const char *why = tfm_error_message();
    if (status == TFM_ERROR_ARGUMENT)
        return cli_usage_error(syntax, "%s%s%s: %s", option, file ? " " : "", file ? file : "",
                               why + (strncmp(why, CALL, strlen(CALL)) == 0 ? strlen(CALL) : 0));
    return status == TFM_OK ? CLI_OK : cli_fail_library();
}

/* The file's patterns are compiled alone first, so that a message names it. */
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
        code = compile(out, all, count, "--keep-file", keep->file, syntax);
    if (code == CLI_OK && keep->patterns.count > 0) {
        tfm_placeholders_free(out);
        memcpy(all + count, keep->patterns.items, keep->patterns.count * sizeof(*all));
        code = compile(out, all, count + keep->patterns.count, "--keep", NULL, syntax);
    }
    free(all);
    cli_lines_close(&lines);
    return code;
}

int cli_keep(tfm_placeholders **out, const cli_keep_options *keep, const cli_syntax *syntax) {
    if (keep->none)
        return CLI_OK;
    return keep->file ? keep_file(out, keep, syntax)
                      : compile(out, keep->patterns.items, keep->patterns.count, "--keep", NULL, syntax);
}
