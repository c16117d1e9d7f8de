/* tfm pull: downloads a model from the Hugging Face hub into the cache. */
#include <getopt.h>
#include <jansson.h>
#include "cli/cli.h"

int cmd_pull(int argc, char **argv) {
    const char *revision = NULL, *path;
    int workers = 0;
    bool json = false;
    const cli_option options[] = {
        {0, "revision", CLI_STRING, &revision, "REVISION", "a branch, a tag or a commit (default main)", NULL},
        {0, "max-workers", CLI_POSITIVE, &workers, "N", "files that are downloaded at the same time (default 8)", NULL},
        {0, "json", CLI_FLAG, &json, NULL, "write a JSON object instead of the path", NULL},
    };
    const cli_syntax syntax = {
        .name = "pull",
        .usage = "pull ORG/NAME[@REVISION][:FILE|:TYPE] [option...]",
        .about = "Downloads a model from the Hugging Face hub into the cache and prints its path.\n"
                 "Only the files that tfm reads: configuration, tokenizer, and weights in one\n"
                 "format, safetensors first. In a repository of GGUF files :FILE or :TYPE, such\n"
                 "as :Q4_K_M, selects one; Q4_K_M is the default. After an interruption, the same\n"
                 "command resumes. Files in the cache are not downloaded again. The cache is that\n"
                 "of the Python package huggingface_hub, with the same variables: HF_HOME,\n"
                 "HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE.\n",
        .examples = "  tfm pull HuggingFaceTB/SmolLM2-135M-Instruct\n"
                    "  tfm generate -m HuggingFaceTB/SmolLM2-135M-Instruct \"The sky is\"\n"
                    "  tfm pull unsloth/gemma-3-270m-it-GGUF:Q8_0\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operand = "NAME",
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_CONTINUE)
        code = cli_pull(&path, argv[optind], revision, workers);
    if (code != CLI_CONTINUE)
        return code;
    if (json)
        cli_print_json(json_pack("{s:s, s:s}", "name", argv[optind], "path", path));
    else
        printf("%s\n", path);
    return CLI_OK;
}
