/* tfm quantize: writes a model directory with int8, int4, fp16 or bf16 weights, or a GGUF file. */
#include <stdlib.h>
#include <string.h>
#include <getopt.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/cli.h"
#include "commands/model_output.h"
#include "commands/quantize_check.h"
#include "cli/cli_options.h"

enum { UNSET = -1, INT8, FP16, BF16, INT4, Q8_0, Q4_0 };

static int write_gguf(const char *output, const char *from, int precision) {
    static const char *const TYPES[] = {[FP16] = "F16", [BF16] = "BF16", [Q8_0] = "Q8_0", [Q4_0] = "Q4_0"};
    struct stat a, b;
    if (precision == INT8 || precision == INT4)
        return cli_fail("a GGUF file has no %s: use --precision %s",
                        precision == INT8 ? "int8 weights with one scale for each output" : "int4 weights",
                        precision == INT8 ? "q8_0" : "q4_0");
    if (stat(output, &a) == 0 && stat(from, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return cli_fail("%s is the model itself: give -o another file", output);
    if (tfm_model_write_gguf(output, from, TYPES[precision == UNSET ? Q8_0 : precision]) != TFM_OK)
        return cli_fail_library();
    return model_output_report(from, output, NULL);
}

/* Whether a directory can be written: the precision is not a GGUF file's type, and no model is overwritten. */
static int check_new(const cli_syntax *syntax, const char *output, const char *from, int precision) {
    if (precision > INT4)
        return cli_usage_error(syntax, "q8_0 and q4_0 are types of GGUF files: give -o a name that ends in .gguf");
    return model_output_check(output, from);
}

static int write_directory(const char *output, const char *from, int precision) {
    static const tfm_dtype DTYPES[] = {[INT8] = TFM_I8, [FP16] = TFM_F16, [BF16] = TFM_BF16};
    if (tfm_model_quantize(output, from, DTYPES[precision == UNSET ? INT8 : precision]) != TFM_OK)
        return cli_fail_library();
    return model_output_report(from, output, NULL);
}

/* Opens the device and reads the text if there is one. */
static int write_int4(const char *output, const char *from, int group, const char *text, const char *device) {
    cli_lines file = {0};
    tfm_int4_options options = {.group = group};
    int code = text ? cli_lines_read_file(&file, "--calibrate", text) : CLI_OK;
    if (code == CLI_OK && text &&
        tfm_context_open(&options.ctx, &(tfm_context_options){.device = device, .on_build = cli_on_build}) != TFM_OK)
        code = cli_fail_library();
    if (text) {
        options.text = file.buffer;
        options.text_bytes = file.used;
    }
    if (code == CLI_OK && tfm_model_quantize_int4(output, from, &options) != TFM_OK)
        code = cli_fail_library();
    tfm_context_free(&options.ctx);
    cli_lines_close(&file);
    return code == CLI_OK ? model_output_report(from, output, "int4 layers") : code;
}

int cmd_quantize(int argc, char **argv) {
    const char *output = NULL, *check = NULL, *device = NULL, *text = NULL;
    int precision = UNSET, activations = 0, group = UNSET;
    static const int GROUPS[] = {32, 64, 128};
    static const tfm_precision OPENED[] = {TFM_PRECISION_AUTO, TFM_PRECISION_INT8, TFM_PRECISION_FP16,
                                           TFM_PRECISION_BF16}; /* after UNSET */
    const cli_option options[] = {
        {'o', "output", CLI_STRING, (void *)&output, "DIR|FILE.gguf",
         "the directory to write, created if missing; or a GGUF file", NULL},
        {0, "precision", CLI_CHOICE, &precision, "int8|fp16|bf16|int4|q8_0|q4_0",
         "dtype of linear weights and embeddings (default int8), or int4 for the linear layers of blocks; a GGUF file "
         "takes fp16, bf16, q8_0 (its default) and q4_0",
         NULL},
        {0, "group", CLI_CHOICE, &group, "32|64|128",
         "int4: inputs with one scale (default 64); halved until it divides the inputs of all layers", NULL},
        {0, "calibrate", CLI_STRING, (void *)&text, "TEXT",
         "int4: a text file in the language of later inputs; the model runs on 16384 tokens of it, and weights are "
         "rounded so that its layers change little",
         NULL},
        {0, "check", CLI_STRING, (void *)&check, "FILE",
         "compare the result with fp32 on these lines: perplexity, KL divergence and equal top-1 tokens, BLEU of "
         "translations, or cosine similarity of embeddings; without -o, compare MODEL as it is, or opened with "
         "--precision int8, fp16 or bf16",
         NULL},
        CLI_ACTIVATION_PRECISION(activations),
        CLI_DEVICE(&device),
    };
    const cli_syntax syntax = {
        .name = "quantize",
        .usage = "quantize MODEL -o DIR|FILE.gguf [option...]",
        .about = "Writes a copy of a model directory with quantized weights: int8, int4, fp16 or\n"
                 "bf16. Norms, biases and positions keep their dtype. The tokenizer and all other\n"
                 "files are copied, except those of a training run. Every command accepts it;\n"
                 "train does not accept int8 and int4.\n"
                 "int8 weights take a quarter of the memory: 32 inputs of an output have a scale\n"
                 "and a minimum, and activations are rounded to int16. Encoder-decoders have a\n"
                 "scale for each output and use int8 GEMM: each row of a layer's input is\n"
                 "quantized to 255 steps, so translations change slightly. fp16 and bf16 weights\n"
                 "are converted to fp32 on load, unless a command has --precision fp16 or bf16:\n"
                 "then they stay 16-bit, and accumulation is fp32.\n"
                 "int4 weights take an eighth: groups of inputs have a scale and a zero point.\n"
                 "The layout is pack-quantized of compressed-tensors.\n"
                 "With --calibrate, results change less than by rounding to nearest.\n"
                 "With -o FILE.gguf it writes a GGUF file with the tokenizer, for llama.cpp and\n"
                 "others; the model may be a GGUF file, too.\n",
        .examples = "  tfm quantize apps/demo -o demo-int8\n"
                    "  tfm quantize opus-mt-de-en -o opus-fp16 --precision fp16\n"
                    "  tfm quantize SmolLM2-135M -o smollm2-int4 --precision int4 --calibrate a.txt\n"
                    "  tfm quantize SmolLM2-135M -o smollm2.gguf --precision q4_0\n"
                    "  tfm quantize opus-mt-de-en -o opus-int8 --check test.de\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operand = "MODEL",
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_CONTINUE && !output && !check)
        code = cli_usage_error(&syntax, "-o is needed: the directory to write");
    if (code != CLI_CONTINUE)
        return code;
    const char *from = argv[optind];
    code = cli_find_model(&from);
    if (code != CLI_CONTINUE)
        return code;
    if (precision != INT4 && (group != UNSET || text))
        return cli_usage_error(&syntax, "--group and --calibrate are options of --precision int4");
    if (activations && !check)
        return cli_usage_error(&syntax, "--activation-precision is for --check");
    if (!output && precision > BF16)
        return cli_usage_error(&syntax, "without -o, --precision is int8, fp16 or bf16: give -o to write a model");
    tfm_model_options how = {.activation_precision = activations ? TFM_PRECISION_FP32 : TFM_PRECISION_AUTO};
    if (!output)
        how.precision = OPENED[precision + 1];
    if (!output)
        code = CLI_OK;
    else if (model_output_is_gguf(output))
        code = write_gguf(output, from, precision);
    else if ((code = check_new(&syntax, output, from, precision)) == CLI_OK)
        code = precision == INT4 ? write_int4(output, from, group == UNSET ? 0 : GROUPS[group], text, device)
                                 : write_directory(output, from, precision);
    return code == CLI_OK && check ? quantize_check(from, output ? output : from, &how, check, device) : code;
}
