#include "commands/model_output.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/cli.h"

int model_output_check(const char *dir, const char *from) {
    static const char *const HOLDS[] = {"recipe.json", "config.json", "modules.json"};
    char path[4096];
    struct stat a, b;
    if (stat(dir, &a) == 0 && stat(from, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return CLI_OK;
    for (size_t i = 0; i < CLI_COUNT(HOLDS); i++)
        if (snprintf(path, sizeof(path), "%s/%s", dir, HOLDS[i]) < (int)sizeof(path) && access(path, F_OK) == 0)
            return cli_fail("%s holds a model already (%s): give -o another directory, or remove that one first", dir,
                            HOLDS[i]);
    return CLI_OK;
}

/* The encoder of a sentence-transformers directory, which may be in a subfolder. */
static tfm_status read_info(tfm_model_info *info, const char *dir) {
    char path[4096];
    tfm_embedder_info vectors;
    const int length = snprintf(path, sizeof(path), "%s/modules.json", dir);
    if (length < (int)sizeof(path) && access(path, F_OK) == 0)
        return tfm_embedder_read_info(&vectors, info, dir, &(tfm_embedder_options){.no_tokenizer = true});
    return tfm_model_read_info(info, dir, &(tfm_model_options){.no_tokenizer = true});
}

int model_output_report(const char *from, const char *to, const char *dtype) {
    tfm_model_info before, after;
    if (read_info(&before, from) != TFM_OK || read_info(&after, to) != TFM_OK)
        return cli_fail_library();
    printf("%s: %.1f million parameters, %s; on a device they take %.1f MB, before %.1f\n", to,
           (double)after.parameters / 1e6, dtype ? dtype : after.stored_dtype, (double)after.parameter_bytes / 1e6,
           (double)before.parameter_bytes / 1e6);
    return CLI_OK;
}

bool model_output_is_gguf(const char *path) {
    const size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}
