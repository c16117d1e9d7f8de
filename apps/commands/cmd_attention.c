/* tfm attention: attention weights of one pair of texts, as a picture or as numbers. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "commands/cmd_attention.h"

/* ---- Maps in ------------------------------------------------------------------------------------------- */

static bool keep_axis(attention_axis_copy *out, const tfm_token_list *in) {
    if (out->tokens)
        return true;
    out->count = in->count;
    out->ids = malloc(in->count * sizeof(*out->ids));
    out->tokens = calloc(in->count, sizeof(*out->tokens));
    for (size_t i = 0; out->ids && out->tokens && i < in->count; i++) {
        out->ids[i] = in->ids[i];
        out->tokens[i] = strdup(in->tokens[i]);
        if (!out->tokens[i])
            return false;
    }
    return out->ids && out->tokens;
}

static void free_axis(attention_axis_copy *a) {
    for (size_t i = 0; a->tokens && i < a->count; i++)
        free(a->tokens[i]);
    free(a->tokens);
    free(a->ids);
}

static bool is_selected(const attention_job *j, const tfm_attention_map *map) {
    return (j->kind == ATTENTION_ALL_KINDS || j->kind == (int)map->kind + 1) &&
           (j->layer == 0 || j->layer == map->layer + 1) && j->head <= map->heads;
}

static bool keep_map(attention_job *j, const tfm_attention_map *map) {
    const size_t head = map->rows.count * map->columns.count;
    const int heads = j->head ? 1 : map->heads;
    if (!cli_grow(&j->maps, &j->room, j->count + 1, sizeof(*j->maps)))
        return false;
    float *weights = malloc((size_t)heads * head * sizeof(*weights));
    if (!weights)
        return false;
    memcpy(weights, map->weights + (j->head ? (size_t)(j->head - 1) * head : 0),
           (size_t)heads * head * sizeof(*weights));
    j->maps[j->count++] = (attention_layer_map){map->kind, map->layer, heads, weights};
    for (size_t i = 0; i < (size_t)heads * head; i++)
        j->not_finite |= !isfinite(weights[i]);
    return !j->not_finite;
}

static bool on_map(void *user, const tfm_attention_map *map) {
    attention_job *j = user;
    bool good =
        map->kind == TFM_ENCODER_SELF ? keep_axis(&j->source_axis, &map->rows) : keep_axis(&j->target_axis, &map->rows);
    good = good && (!is_selected(j, map) || keep_map(j, map));
    j->out_of_memory = !good && !j->not_finite;
    return good;
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static json_t *tokens_json(const attention_axis_copy *a) {
    return cli_tokens_json(&(tfm_token_list){.count = a->count, .tokens = (const char *const *)a->tokens});
}

static json_t *weights_json(const attention_layer_map *map, size_t rows, size_t columns) {
    const float *weight = map->weights;
    json_t *heads = json_array();
    for (int h = 0; h < map->heads; h++) {
        json_t *head = json_array();
        for (size_t r = 0; r < rows; r++) {
            json_t *row = json_array();
            for (size_t c = 0; c < columns; c++)
                json_array_append_new(row, json_real((double)*weight++));
            json_array_append_new(head, row);
        }
        json_array_append_new(heads, head);
    }
    return heads;
}

/* "encoder.1.self": layers are counted from 1, as --layer and the pictures count them. */
static json_t *name_json(const attention_layer_map *map) {
    return json_sprintf("%s.%d.%s", map->kind == TFM_ENCODER_SELF ? "encoder" : "decoder", map->layer + 1,
                        map->kind == TFM_DECODER_CROSS ? "cross" : "self");
}

static int write_json(const attention_job *j, cli_output *out) {
    json_t *layers = json_array();
    for (size_t i = 0; i < j->count; i++) {
        const attention_layer_map *map = &j->maps[i];
        const attention_axis_copy *rows = attention_rows(j, map), *columns = attention_columns(j, map);
        json_t *layer = json_pack("{s:o, s:i, s:o, s:o, s:o}", "name", name_json(map), "heads", map->heads, "rows",
                                  tokens_json(rows), "columns", tokens_json(columns), "weights",
                                  weights_json(map, rows->count, columns->count));
        json_array_append_new(layers, layer);
    }
    cli_write_json(out, json_pack("{s:o}", "layers", layers), 9);
    return cli_output_flush(out);
}

/* ---- The command --------------------------------------------------------------------------------------- */

typedef enum form { FORM_NONE, FORM_SVG, FORM_PNG, FORM_JSON } form;

static form form_of(const char *path) {
    static const char *const endings[] = {[FORM_SVG] = ".svg", [FORM_PNG] = ".png", [FORM_JSON] = ".json"};
    const char *ending = strrchr(path, '.');
    for (form f = FORM_SVG; ending && f <= FORM_JSON; f++)
        if (strcasecmp(ending, endings[f]) == 0)
            return f;
    return FORM_NONE;
}

/* Rejects an absent layer or head before anything is computed. */
static int check_choice(const attention_job *j) {
    const tfm_model_info info = *tfm_model_get_info(j->model);
    const bool encoder = j->kind == TFM_ENCODER_SELF + 1, decoder = j->kind > TFM_ENCODER_SELF + 1;
    int layers = info.encoder_layers, heads = info.encoder_heads;
    if (decoder || (!encoder && info.decoder_layers > layers))
        layers = info.decoder_layers;
    if (decoder || (!encoder && info.decoder_heads > heads))
        heads = info.decoder_heads;
    if (j->layer > layers)
        return cli_fail("--layer is %d: the model has %d encoder and %d decoder layers", j->layer, info.encoder_layers,
                        info.decoder_layers);
    if (j->head > heads)
        return cli_fail("--head is %d: the model has %d heads in the encoder, %d in the decoder", j->head,
                        info.encoder_heads, info.decoder_heads);
    return CLI_OK;
}

static int compute(attention_job *j) {
    if (tfm_context_open(&j->ctx, &(tfm_context_options){.device = j->device, .on_build = cli_on_build}) != TFM_OK ||
        tfm_model_open(&j->model, j->ctx, j->model_dir, NULL) != TFM_OK)
        return cli_fail_library();
    int code = check_choice(j);
    if (code != CLI_OK)
        return code;
    const tfm_status status = tfm_attention_maps(j->model, j->source, j->target, &j->text, NULL, on_map, j);
    cli_progress(NULL);
    if (status != TFM_OK && j->not_finite)
        return cli_fail("%s: attention weights are NaN or infinite: the model's parameters are damaged", j->model_dir);
    if (status != TFM_OK)
        return j->out_of_memory ? cli_fail("out of memory for the maps") : cli_fail_library();
    if (j->count == 0) /* each of the two is somewhere */
        return cli_fail("no attention has both layer %d and head %d: give another --layer or --head", j->layer,
                        j->head);
    if (!j->target && tfm_tokenizer_decode(tfm_model_tokenizer(j->model), &j->written, j->target_axis.ids + 1,
                                           j->target_axis.count - 1) != TFM_OK)
        return cli_fail_library();
    return CLI_OK;
}

static int write_file(attention_job *j, form as, cli_output *out) {
    int code = compute(j);
    if (code == CLI_OK && j->output)
        code =
            as == FORM_JSON ? write_json(j, out) : attention_render(j, as == FORM_SVG ? PICTURE_SVG : PICTURE_PNG, out);
    return code;
}

/* Reports an unwritable file, or missing picture support, before anything is computed. */
static int run(attention_job *j, form as) {
    cli_output out = {0}, numbers = {0};
    int code = as == FORM_SVG || as == FORM_PNG ? picture_require() : CLI_OK;
    if (code == CLI_OK && j->output)
        code = cli_output_open(&out, j->output);
    if (code == CLI_OK)
        code = write_file(j, as, &out);
    int closing = cli_output_close(&out, code == CLI_OK);
    code = code == CLI_OK ? closing : code;
    if (code == CLI_OK && j->json) {
        cli_output_open(&numbers, NULL);
        code = write_json(j, &numbers);
        closing = cli_output_close(&numbers, code == CLI_OK);
        code = code == CLI_OK ? closing : code;
    }
    tfm_text_free(&j->written);
    for (size_t i = 0; i < j->count; i++)
        free(j->maps[i].weights);
    free(j->maps);
    free_axis(&j->source_axis);
    free_axis(&j->target_axis);
    tfm_model_free(&j->model);
    tfm_context_free(&j->ctx);
    return code;
}

int cmd_attention(int argc, char **argv) {
    attention_job j = {0};
    const cli_option options[] = {
        {'m', "model", CLI_STRING, &j.model_dir, "MODEL",
         "the model: its directory, or its name on the Hugging Face hub", NULL},
        {'t', "target", CLI_STRING, &j.target, "TEXT", "the target text (default: the model's own translation)", NULL},
        CLI_LANGUAGES(j.text),
        {'o', "output", CLI_STRING, &j.output, "FILE",
         "write a picture (.svg, .png) or the weights (.json) to this file, which appears when it is "
         "complete",
         NULL},
        {0, "json", CLI_FLAG, &j.json, NULL, "write the weights to standard output", NULL},
        {0, "kind", CLI_CHOICE, &j.kind, "all|encoder|self|cross",
         "show only encoder self-attention, decoder self-attention, or cross-attention", NULL},
        {0, "layer", CLI_POSITIVE, &j.layer, "N", "show only this layer, counted from 1", NULL},
        {0, "head", CLI_POSITIVE, &j.head, "N", "show only this head, counted from 1", NULL},
        CLI_DEVICE(&j.device),
    };
    const cli_syntax syntax = {
        .name = "attention",
        .usage = "attention -m MODEL TEXT [--target TEXT] -o FILE [option...]",
        .about = "Computes the attention weights of a translation: encoder self-attention,\n"
                 "decoder self-attention and cross-attention, of every layer and head. Renders\n"
                 "them as one picture, or writes them as JSON:\n"
                 "  {\"layers\":[{\"name\":\"encoder.1.self\",\"heads\":4,\"rows\":[tokens],\n"
                 "    \"columns\":[tokens],\"weights\":[heads][rows][columns]}]}\n"
                 "A row adds up to 1. In cross-attention a row of the picture is named after the\n"
                 "output token, a row in JSON after the decoder's input token.\n",
        .examples = "  tfm attention -m apps/demo \"Ich liebe dich.\" -o love.svg\n"
                    "  tfm attention -m apps/demo \"Ich liebe dich.\" -t \"I love him.\" -o him.png\n"
                    "  tfm attention -m apps/demo \"Guten Tag.\" --json | jq '.layers[0].weights[0]'\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operand = "TEXT",
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    form as = j.output ? form_of(j.output) : FORM_NONE;
    if (!j.model_dir)
        return cli_usage_error(&syntax, "no model is given: give -m MODEL");
    if (!j.output && !j.json)
        return cli_usage_error(&syntax, "no output is given: give -o FILE.svg, -o FILE.png or --json");
    if (j.output && as == FORM_NONE)
        return cli_usage_error(&syntax, "--output is '%s': give a name that ends in .svg, .png or .json", j.output);
    j.source = argv[optind];
    return run(&j, as);
}
