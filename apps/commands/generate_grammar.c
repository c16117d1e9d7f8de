/* Grammars of `tfm generate`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "commands/generate_grammar.h"

/* The whole file. */
static int read_file(char **text, const char *option, const char *path) {
    size_t room = 0;
    FILE *in = fopen(path, "r");
    *text = NULL;
    errno = in ? 0 : errno;
    const bool empty = in && getdelim(text, &room, 0, in) < 0;
    const int error = errno;
    const bool failed = !in || ferror(in) || (empty && error);
    if (in)
        fclose(in);
    if (failed)
        return cli_fail("%s: cannot read %s: %s", option, path, strerror(error));
    return empty ? cli_fail("%s: %s is empty", option, path) : CLI_OK;
}

int generate_grammar(tfm_grammar **out, const char *schema, const char *grammar) {
    const bool inlined = schema && strchr("{", schema[strspn(schema, " \n\t")]);
    const char *option = schema ? "--json-schema" : "--grammar";
    char *text = NULL;
    *out = NULL;
    if (!schema && !grammar)
        return CLI_OK;
    const int code = inlined ? CLI_OK : read_file(&text, option, schema ? schema : grammar);
    if (code != CLI_OK)
        return code;
    const tfm_status status =
        schema ? tfm_grammar_from_json_schema(out, inlined ? schema : text) : tfm_grammar_from_gbnf(out, text);
    free(text);
    return status == TFM_OK ? CLI_OK : cli_fail("%s: %s", option, tfm_error_message());
}
