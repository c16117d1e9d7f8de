/* tfm info: what a model directory holds. */
#include <inttypes.h>
#include <jansson.h>
#include <unistd.h>
#include <getopt.h>
#include "cli.h"

static const char *const ACTIVATIONS[] = {
    [TFM_NO_ACTIVATION] = "none",  [TFM_RELU] = "relu", [TFM_GELU] = "gelu",
    [TFM_GELU_TANH] = "gelu_tanh", [TFM_SILU] = "silu",
};

static void print_json(const tfm_model_info *m) {
    json_t *all = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:b, s:b, s:s, s:s, s:i, s:I, s:I, s:I, "
        "s:i, s:i, s:i, s:i}",
        "family", m->family, "width", m->width, "encoder_layers", m->encoder_layers, "decoder_layers",
        m->decoder_layers, "encoder_heads", m->encoder_heads, "decoder_heads", m->decoder_heads, "encoder_feed_forward",
        m->encoder_feed_forward, "decoder_feed_forward", m->decoder_feed_forward, "source_vocabulary",
        m->source_vocabulary, "target_vocabulary", m->target_vocabulary, "max_positions", m->max_positions,
        "activation", ACTIVATIONS[m->activation], "pre_norm", m->pre_norm, "tied_output", m->tied_output, "dtype",
        m->stored_dtype, "weights", m->stored_as, "weight_files", m->stored_files, "parameters",
        (json_int_t)m->parameters, "parameter_bytes", (json_int_t)m->parameter_bytes, "estimated_bytes",
        (json_int_t)m->estimated_bytes, "pad_id", m->pad_id, "eos_id", m->eos_id, "start_id", m->start_id, "beam",
        m->beam);
    cli_json_print(all);
}

static void print_table(const tfm_model_info *m) {
    const double mib = 1 << 20;
    printf("architecture      %s encoder-decoder, %s, %s\n", m->family, m->pre_norm ? "pre-norm" : "post-norm",
           ACTIVATIONS[m->activation]);
    printf("width             %d\n", m->width);
    printf("encoder           %d layers, %d heads, feed-forward %d\n", m->encoder_layers, m->encoder_heads,
           m->encoder_feed_forward);
    printf("decoder           %d layers, %d heads, feed-forward %d\n", m->decoder_layers, m->decoder_heads,
           m->decoder_feed_forward);
    printf("positions         %d\n", m->max_positions);
    printf("vocabulary        %d source, %d target; output %s\n", m->source_vocabulary, m->target_vocabulary,
           m->tied_output ? "tied to the target embedding" : "of its own");
    printf("special ids       pad %d, end %d, start %d\n", m->pad_id, m->eos_id, m->start_id);
    printf("default beam      %d\n", m->beam);
    printf("weights           %s, %s", m->stored_as, m->stored_dtype);
    printf(m->stored_files == 1 ? "\n" : ", in %d files\n", m->stored_files);
    printf("parameters        %" PRIu64 " (%.1f MiB on the device)\n", m->parameters, (double)m->parameter_bytes / mib);
    printf("estimated memory  %.1f MiB on the device while translating\n", (double)m->estimated_bytes / mib);
}

int cmd_info(int argc, char **argv) {
    bool json = false;
    const cli_option options[] = {{0, "json", CLI_FLAG, &json, NULL, "write a JSON object instead of a table", NULL}};
    const cli_syntax syntax = {
        .name = "info",
        .usage = "info MODEL [--json]",
        .about = "Says what the model in a directory is: architecture, sizes, parameters, and\n"
                 "how much device memory it needs; or, in the words of translate, why it does\n"
                 "not run. No device is used.\n",
        .examples = "  tfm info apps/demo\n  tfm info --json apps/demo | jq .parameters\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operands = 1,
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_GO)
        return code;
    tfm_model_info info;
    if (tfm_model_read_info(&info, argv[optind], NULL) != TFM_OK)
        return cli_fail_library();
    if (json)
        print_json(&info);
    else
        print_table(&info);
    return CLI_OK;
}
