/* tfm kernels: offline-compiled programs for devices without a compiler. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "commands/kernels_workload.h"

typedef struct kernels_options {
    const char *export_dir, *pack_dir, *output, *model, *input, *device, *run_on;
    int preset, vocabulary;
    cli_precisions precision;
    bool preset_given, vocabulary_given, precision_given, train;
} kernels_options;

/* ---- Export ---- */

/* A new model of a preset's sizes. All layers are alike, so two of them need all programs. */
static tfm_status new_model(tfm_model **model, tfm_context *ctx, const kernels_options *o) {
    const bench_model *sizes = &bench_models[o->preset];
    const tfm_model_shape shape = {.width = sizes->width,
                                   .heads = sizes->heads,
                                   .ffn_dim = sizes->feed_forward,
                                   .encoder_layers = 2,
                                   .decoder_layers = 2,
                                   .source_vocab_size = o->vocabulary,
                                   .max_positions = 256,
                                   .pad_id = o->vocabulary - 1,
                                   .start_id = o->vocabulary - 1,
                                   .eos_id = 0,
                                   .activation = TFM_RELU,
                                   .seed = 1};
    return tfm_model_new(model, ctx, &shape);
}

static int run_workload(const kernels_options *o) {
    tfm_context *ctx = NULL;
    tfm_model *model = NULL;
    tfm_model_options how = {.no_tokenizer = !o->input};
    const tfm_context_options opening = {.device = o->run_on ? o->run_on : o->device, .on_build = cli_on_build};
    tfm_status status = tfm_context_open(&ctx, &opening);
    cli_set_precision(&how, o->precision);
    if (status == TFM_OK)
        status = o->model ? tfm_model_open(&model, ctx, o->model, &how) : new_model(&model, ctx, o);
    int code = status == TFM_OK ? CLI_OK : cli_fail_library();
    if (code == CLI_OK && !tfm_model_get_info(model)->has_lm_head)
        code = cli_fail("the model of %s writes no text: give the command to run after --, as in "
                        "tfm kernels --export DIR -- embed -m %s",
                        o->model, o->model);
    if (code == CLI_OK)
        code = workload_generate(model);
    if (code == CLI_OK && o->input)
        code = workload_lines(model, o->input);
    if (code == CLI_OK && o->train)
        code = workload_train(model);
    cli_progress(NULL);
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return code;
}

/* Runs another command of tfm on the device that runs the programs. */
static int run_command(const cli_command *commands, const kernels_options *o, int argc, char **argv) {
    const cli_command *c = cli_command_named(commands, argv[0]);
    const char *device = o->run_on ? o->run_on : o->device;
    if (!c || c->run_of == cmd_kernels)
        return cli_fail("kernels cannot be exported from '%s': see tfm --help for the commands", argv[0]);
    if (device && setenv("TFM_DEVICE", device, 1) != 0)
        return cli_fail("out of memory");
    return cli_run(commands, c, argc, argv);
}

static int export(const cli_command *commands, const kernels_options *o, int argc, char **argv) {
    tfm_kernels_report report;
    if (tfm_kernels_begin(o->export_dir, o->run_on ? o->device : NULL) != TFM_OK)
        return cli_fail_library();
    const int code = argc > 0 ? run_command(commands, o, argc, argv) : run_workload(o);
    if (code != CLI_OK)
        return code; /* the process's end frees the list */
    if (tfm_kernels_end(&report) != TFM_OK)
        return cli_fail_library();
    fprintf(
        stderr,
        "%s has %d programs, %d of them new: compile each NAME.cl to NAME.bin, .aocx or .xclbin next to it, then run "
        "tfm kernels --pack %s -o FILE\n",
        o->export_dir, report.programs, report.added, o->export_dir);
    return CLI_OK;
}

/* ---- Pack ---- */

static int pack(const kernels_options *o) {
    tfm_kernels_report report;
    if (tfm_kernels_pack(&report, o->output, o->pack_dir, o->device) != TFM_OK)
        return cli_fail_library();
    fprintf(stderr, "%s has %d programs in %.1f MB, %d of them built by the device: TFM_KERNELS=%s runs them\n",
            o->output, report.programs, (double)report.bytes * 1e-6, report.built, o->output);
    return CLI_OK;
}

/* Rejects conflicting options. */
static int check(const cli_syntax *syntax, const kernels_options *o, bool command) {
    const bool sample = o->model || o->preset_given;
    if (!o->export_dir == !o->pack_dir)
        return cli_usage_error(syntax, "give either --export DIR or --pack DIR");
    if (o->pack_dir && (sample || command || o->input || o->train || o->run_on))
        return cli_usage_error(syntax, "--pack packs an exported folder: only -o and --device go with it");
    if (o->pack_dir && !o->output)
        return cli_usage_error(syntax, "no pack file is given: give -o FILE");
    if (o->pack_dir)
        return CLI_CONTINUE;
    if (o->output)
        return cli_usage_error(syntax, "-o is for --pack: give --export its folder");
    if (sample == command || (o->model && o->preset_given))
        return cli_usage_error(syntax, "give one thing to run: -m MODEL, --preset NAME, or a command after --");
    const bool precisions = o->precision_given || o->precision.activations;
    if (command && (o->input || o->train || precisions || o->vocabulary_given))
        return cli_usage_error(syntax,
                               "options of a model do not go with a command after --: give its own options there");
    if (o->model && o->vocabulary_given)
        return cli_usage_error(syntax, "--vocab-size is for --preset: leave it out with -m");
    if (o->preset_given && (o->input || precisions))
        return cli_usage_error(syntax, "--input and --precision need a model: give -m MODEL");
    return CLI_CONTINUE;
}

int cmd_kernels(const cli_command *commands, int argc, char **argv) {
    kernels_options o = {.vocabulary = 8000};
    const cli_option options[] = {
        {0, "export", CLI_STRING, &o.export_dir, "DIR",
         "write a .cl file for each program, and manifest.json, into this folder; existing programs stay", NULL},
        {0, "pack", CLI_STRING, &o.pack_dir, "DIR",
         "pack the binaries of this folder into one file; the device builds missing ones, if it has a compiler", NULL},
        {'o', "output", CLI_STRING, &o.output, "FILE", "the pack to write", NULL},
        {'m', "model", CLI_STRING, &o.model, "MODEL", "run this model: translation or text generation", NULL},
        {0, "preset", CLI_CHOICE, &o.preset, "tiny|small|base|big", "run a new model of this preset", &o.preset_given},
        {0, "vocab-size", CLI_POSITIVE, &o.vocabulary, "N", "with --preset: vocabulary size (default 8000)",
         &o.vocabulary_given},
        {0, "train", CLI_FLAG, &o.train, NULL, "also train it for a few updates", NULL},
        {'i', "input", CLI_STRING, &o.input, "FILE", "also run these lines", NULL},
        {0, "precision", CLI_CHOICE, &o.precision.weights, "auto|fp32|fp16|bf16|int8",
         "dtype of the model's weights (default auto)", &o.precision_given},
        CLI_ACTIVATION_PRECISION(o.precision.activations),
        {0, "run-on", CLI_STRING, &o.run_on, "DEVICE",
         "run the model on this device, with the kernels for --device, which may lack a compiler", NULL},
        CLI_DEVICE(&o.device),
    };
    const cli_syntax syntax = {
        .name = "kernels",
        .usage = "kernels --export DIR -m MODEL [option...]\n"
                 "       tfm kernels --export DIR --preset NAME [option...]\n"
                 "       tfm kernels --export DIR [option...] -- COMMAND...\n"
                 "       tfm kernels --pack DIR -o FILE [--device DEVICE]",
        .about = "For devices without a compiler, such as FPGAs: exports a model's OpenCL\n"
                 "programs for the vendor's offline compiler, and packs the binaries. With\n"
                 "TFM_KERNELS=FILE every command loads its programs from the pack and compiles\n"
                 "nothing. A pack is for one device, driver and version of tfm.\n"
                 "The programs are collected by running the model on a device that compiles:\n"
                 "batches of 1 to 64 random texts of 1 to 60 tokens, greedy, with beams and\n"
                 "sampled. Longer texts, larger beams or other options may need more programs;\n"
                 "an error message names missing ones. Then export into the same folder again,\n"
                 "with your own lines (-i) or the intended tfm command after --, and pack again.\n",
        .examples = "  tfm kernels --export out -m apps/demo --device accel --run-on cpu\n"
                    "  tfm kernels --export out -- train --src a.de --tgt a.en -o new --max-steps 9\n"
                    "  tfm kernels --pack out -o demo.pack\n"
                    "  TFM_KERNELS=demo.pack tfm translate -m apps/demo < lines\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .more = true,
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    const int first = optind;
    const bool command = first < argc;
    if (command && strcmp(argv[first - 1], "--") != 0)
        return cli_usage_error(&syntax, "unexpected argument '%s': give a command of tfm after --", argv[first]);
    code = check(&syntax, &o, command);
    if (code != CLI_CONTINUE)
        return code;
    return o.pack_dir ? pack(&o) : export(commands, &o, argc - first, argv + first);
}
