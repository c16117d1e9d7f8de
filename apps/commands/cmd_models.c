/* tfm models: lists the cache of the Hugging Face hub. tfm rm: deletes models from it. */
#include <getopt.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>
#include <tfm/hub.h>
#include "cli/cli.h"

static int print_json(const tfm_hub_model *models, size_t count) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all,
                              json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "name", models[i].name, "revision",
                                        models[i].refs, "commit", models[i].commit, "path", models[i].path, "files",
                                        (json_int_t)models[i].files, "bytes", (json_int_t)models[i].bytes));
    cli_print_json(all);
    return CLI_OK;
}

/* The name is last: it may be long. A commit without a branch is shown by its first characters. */
static int print_table(const tfm_hub_model *models, size_t count) {
    char size[24];
    if (count == 0) {
        fputs("tfm: the cache has no models: download one with tfm pull ORG/NAME\n", stderr);
        return CLI_OK;
    }
    printf("%9s  %5s  %-12s  %s\n", "size", "files", "revision", "name");
    for (size_t i = 0; i < count; i++) {
        const tfm_hub_model *m = &models[i];
        printf("%9s  %5zu  %-12.*s  %s\n", cli_bytes_text(size, sizeof(size), m->bytes), m->files, 12,
               *m->refs ? m->refs : m->commit, m->name);
    }
    return CLI_OK;
}

int cmd_models(int argc, char **argv) {
    bool json = false;
    const cli_option options[] = {
        {0, "json", CLI_FLAG, &json, NULL, "write an array of JSON objects instead of a table", NULL}};
    const cli_syntax syntax = {
        .name = "models",
        .usage = "models [--json]",
        .about = "Lists the models in the cache of the Hugging Face hub: size, number of files,\n"
                 "branch, tag or commit, and name. Downloads of other programs are listed, too;\n"
                 "tfm info NAME says whether tfm runs a model.\n",
        .examples = "  tfm models\n  tfm models --json | jq -r '.[].path'\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    tfm_hub_model *models = NULL;
    size_t count = 0;
    if (tfm_hub_list(&models, &count) != TFM_OK)
        return cli_fail_library();
    code = json ? print_json(models, count) : print_table(models, count);
    tfm_hub_models_free(&models);
    return code;
}

/* ---- tfm rm --------------------------------------------------------------------------------------------- */

/* Asks on the terminal. */
static bool confirm(const char *name, uint64_t bytes) {
    char size[24], answer[16] = "";
    fprintf(stderr, "delete %s, %s? [y/N] ", name, cli_bytes_text(size, sizeof(size), bytes));
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int remove_model(const char *name, bool yes, bool dry_run) {
    uint64_t bytes;
    char size[24];
    if (tfm_hub_remove(&bytes, name, true) != TFM_OK)
        return cli_fail_library();
    if (!yes && !dry_run && !isatty(STDIN_FILENO))
        return cli_fail("%s is not deleted: standard input is not a terminal, so give --yes", name);
    if (!yes && !dry_run && !confirm(name, bytes))
        return cli_fail("%s is not deleted", name);
    if (!dry_run && tfm_hub_remove(&bytes, name, false) != TFM_OK)
        return cli_fail_library();
    printf("%s %s, %s\n", dry_run ? "would delete" : "deleted", name, cli_bytes_text(size, sizeof(size), bytes));
    return CLI_OK;
}

int cmd_rm(int argc, char **argv) {
    bool yes = false, dry_run = false;
    const cli_option options[] = {
        {'y', "yes", CLI_FLAG, &yes, NULL, "do not ask", NULL},
        {0, "dry-run", CLI_FLAG, &dry_run, NULL, "only show the disk space that would be free", NULL},
    };
    const cli_syntax syntax = {
        .name = "rm",
        .usage = "rm NAME... [option...]",
        .about = "Deletes models from the cache of the Hugging Face hub: ORG/NAME with all its\n"
                 "revisions, ORG/NAME@REVISION one of them, with the files that no other revision\n"
                 "uses, or ORG/NAME:FILE one GGUF file. Asks before.\n",
        .examples = "  tfm rm HuggingFaceTB/SmolLM2-135M-Instruct\n"
                    "  tfm rm --yes unsloth/gemma-3-270m-it-GGUF:Q8_0\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operand = "NAME",
        .more = true,
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    code = CLI_OK;
    for (int i = optind; i < argc; i++) {
        const int one = remove_model(argv[i], yes, dry_run);
        code = code == CLI_OK ? one : code;
    }
    return code;
}
