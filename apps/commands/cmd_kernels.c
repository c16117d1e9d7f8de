/* tfm kernels: programs for devices without a compiler. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "commands/kernels_workload.h"

typedef struct kernels_options {
    const char *export_dir, *pack_dir, *output, *model, *input, *device, *run_on;
    int preset, precision, vocabulary;
    bool preset_given, vocabulary_given, precision_given, train;
} kernels_options;

/* ---- Export ---- */

/* A new model of a preset's sizes. Layers are alike, so that two of them ask for all programs. */
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
    const tfm_model_options how = {.precision = cli_precision(o->precision), .no_tokenizer = !o->input};
    const tfm_context_options opening = {.device = o->run_on ? o->run_on : o->device, .on_build = cli_on_build};
    tfm_status status = tfm_context_open(&ctx, &opening);
    if (status == TFM_OK)
        status = o->model ? tfm_model_open(&model, ctx, o->model, &how) : new_model(&model, ctx, o);
    int code = status == TFM_OK ? CLI_OK : cli_fail_library();
    if (code == CLI_OK && !tfm_model_get_info(model)->has_lm_head)
        code =
            cli_fail("the model of %s writes no text: give what is to run on the device as a command after --, as in "
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

/* Runs another command of tfm, on the device that is to run programs. */
static int run_command(const cli_command *commands, const kernels_options *o, int argc, char **argv) {
    const cli_command *c = cli_command_named(commands, argv[0]);
    const char *device = o->run_on ? o->run_on : o->device;
    if (!c || c->run_of == cmd_kernels)
        return cli_fail("'%s' is no command that kernels can be exported from: see tfm --help", argv[0]);
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
        return code; /* what was collected goes with the process */
    if (tfm_kernels_end(&report) != TFM_OK)
        return cli_fail_library();
    fprintf(
        stderr,
        "%s has %d programs, %d of them new: compile each NAME.cl to NAME.bin, .aocx or .xclbin beside it, then run "
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

/* Whether options go together. */
static int check(const cli_syntax *syntax, const kernels_options *o, bool command) {
    const bool sample = o->model || o->preset_given;
    if (!o->export_dir == !o->pack_dir)
        return cli_usage_error(syntax, "give either --export DIR or --pack DIR");
    if (o->pack_dir && (sample || command || o->input || o->train || o->run_on))
        return cli_usage_error(syntax, "--pack takes what was exported: only -o and --device go with it");
    if (o->pack_dir && !o->output)
        return cli_usage_error(syntax, "which file is the pack to be? give -o FILE");
    if (o->pack_dir)
        return CLI_CONTINUE;
    if (o->output)
        return cli_usage_error(syntax, "-o is for --pack: --export names its folder itself");
    if (sample == command || (o->model && o->preset_given))
        return cli_usage_error(syntax,
                               "say what is to run on the device: -m DIR, --preset NAME, or a command after --");
    if (command && (o->input || o->train || o->precision_given || o->vocabulary_given))
        return cli_usage_error(syntax, "a command after -- has options of its own: give them there");
    if (o->model && o->vocabulary_given)
        return cli_usage_error(syntax, "--vocab-size is for --preset: a model has its vocabulary");
    if (o->preset_given && (o->input || o->precision_given))
        return cli_usage_error(syntax,
                               "--input and --precision are for a model, and a preset has no texts: give -m DIR");
    return CLI_CONTINUE;
}

int cmd_kernels(const cli_command *commands, int argc, char **argv) {
    kernels_options o = {.vocabulary = 8000};
    const cli_option options[] = {
        {0, "export", CLI_STRING, &o.export_dir, "DIR",
         "write a .cl file for each program, and manifest.json, into this folder; those that it has already stay",
         NULL},
        {0, "pack", CLI_STRING, &o.pack_dir, "DIR",
         "put the binaries that lie beside the programs of this folder into one file; those that are missing are built "
         "by "
         "the device, if it has a compiler",
         NULL},
        {'o', "output", CLI_STRING, &o.output, "FILE", "the pack to write", NULL},
        {'m', "model", CLI_STRING, &o.model, "DIR", "run this model: translation, or going on with prompts", NULL},
        {0, "preset", CLI_CHOICE, &o.preset, "tiny|small|base|big", "run a new model of these sizes", &o.preset_given},
        {0, "vocab-size", CLI_POSITIVE, &o.vocabulary, "N", "with --preset: how many pieces it has (default 8000)",
         &o.vocabulary_given},
        {0, "train", CLI_FLAG, &o.train, NULL, "train it besides, for a few updates", NULL},
        {'i', "input", CLI_STRING, &o.input, "FILE", "run these lines besides", NULL},
        {0, "precision", CLI_CHOICE, &o.precision, "auto|fp32|fp16|bf16|int8",
         "what the model's matrices are kept as (default auto)", &o.precision_given},
        {0, "run-on", CLI_STRING, &o.run_on, "DEVICE",
         "run the model on this device, with the kernels that suit the one of --device, which may have no compiler",
         NULL},
        CLI_DEVICE(&o.device),
    };
    const cli_syntax syntax = {
        .name = "kernels",
        .usage = "kernels --export DIR -m MODEL [option...]\n"
                 "       tfm kernels --export DIR --preset NAME [option...]\n"
                 "       tfm kernels --export DIR [option...] -- COMMAND...\n"
                 "       tfm kernels --pack DIR -o FILE [--device DEVICE]",
        .about = "For devices without a compiler, such as FPGAs: writes the programs that a\n"
                 "model needs as files for the vendor's offline compiler, and packs the\n"
                 "binaries. TFM_KERNELS=FILE makes every command take its programs from the\n"
                 "pack; then nothing is compiled. A pack is for one device, driver and\n"
                 "version of tfm.\n"
                 "Which programs those are is found by running, on a device that compiles:\n"
                 "batches of 1 to 64 random texts of 1 to 60 tokens, greedy, with beams and\n"
                 "drawn. What differs, such as longer texts, larger beams or other options,\n"
                 "may need programs that are not there; the sentence that says so names them.\n"
                 "Then export into the same folder again: with -i, your own lines, or after --\n"
                 "any command of tfm as you will run it, and pack anew.\n",
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
        return cli_usage_error(&syntax, "'%s' is too much: a command of tfm stands after --", argv[first]);
    code = check(&syntax, &o, command);
    if (code != CLI_CONTINUE)
        return code;
    return o.pack_dir ? pack(&o) : export(commands, &o, argc - first, argv + first);
}
