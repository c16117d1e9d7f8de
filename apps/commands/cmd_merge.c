/* tfm merge: writes a model with adapters merged into its weights. */
#include <sys/stat.h>
#include "cli/adapters.h"
#include "cli/cli.h"
#include "cli/cli_options.h"
#include "commands/model_output.h"

enum { UNSET = -1 };

static int write_model(const char *output, const char *from, const cli_adapters *adapters, const char *type) {
    struct stat a, b;
    if (stat(output, &a) == 0 && stat(from, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return cli_fail("%s is the model itself: give -o another name", output);
    const int code = model_output_is_gguf(output) ? CLI_OK : model_output_check(output, from);
    if (code == CLI_OK && tfm_model_merge(output, from, adapters->items, adapters->count, type) != TFM_OK)
        return cli_fail_library();
    return code == CLI_OK ? model_output_report(from, output, NULL) : code;
}

int cmd_merge(int argc, char **argv) {
    static const char *const TYPES[] = {"F16", "BF16", "Q8_0", "Q4_0"};
    const char *model = NULL, *output = NULL;
    cli_adapters adapters = {0};
    int precision = UNSET;
    const cli_option options[] = {
        {'m', "model", CLI_STRING, (void *)&model, "MODEL",
         "the base model: its directory, or its name on the Hugging Face hub", NULL},
        CLI_ADAPTERS(&adapters),
        {'o', "output", CLI_STRING, (void *)&output, "DIR|FILE.gguf",
         "the directory to write, created if missing; or a GGUF file", NULL},
        {0, "precision", CLI_CHOICE, &precision, "fp16|bf16|q8_0|q4_0", "type of a GGUF file's matrices (default fp16)",
         NULL},
    };
    const cli_syntax syntax = {
        .name = "merge",
        .usage = "merge -m MODEL --adapter DIR [--adapter-scale S] -o DIR|FILE.gguf",
        .about = "Writes a copy of a model with LoRA adapters of PEFT merged into its weights. The\n"
                 "tensors keep their dtype; the tokenizer and all other files are copied. Other\n"
                 "programs open the result without the adapters.\n"
                 "With -o FILE.gguf it writes a GGUF file with the tokenizer, for llama.cpp and\n"
                 "others; the model may be a GGUF file, too.\n",
        .examples = "  tfm merge -m Qwen3-0.6B --adapter my-lora -o merged\n"
                    "  tfm merge -m Qwen3-0.6B --adapter my-lora --adapter-scale 0.5 -o merged.gguf\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    if (!model || !output || adapters.count == 0)
        return cli_usage_error(&syntax, "%s is needed", !model ? "-m MODEL" : !output ? "-o DIR" : "--adapter DIR");
    if (precision != UNSET && !model_output_is_gguf(output))
        return cli_usage_error(&syntax, "--precision is for GGUF files: give -o a name that ends in .gguf");
    code = cli_find_model(&model);
    return code == CLI_CONTINUE ? write_model(output, model, &adapters, precision == UNSET ? NULL : TYPES[precision])
                                : code;
}
