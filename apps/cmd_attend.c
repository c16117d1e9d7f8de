/* tfm attend: what a model's attention looks at, for one pair of texts, as a picture or as numbers. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "picture.h"

enum { ALL_KINDS = 0 };

/* One layer's map, kept until all are there. Its axes are the job's. */
typedef struct kept {
    tfm_attention_kind kind;
    int layer;
    int heads; /* of the weights that are kept */
    float *weights;
} kept;

/* An axis that outlives the callback. */
typedef struct axis {
    size_t count;
    int32_t *ids;
    char **tokens;
} axis;

typedef struct job {
    const char *model_dir, *source, *target, *output, *device;
    bool json;
    int kind, layer, head; /* 0: all */
    tfm_text_options text;
    tfm_context *ctx;
    tfm_model *model;
    axis source_axis, target_axis;
    kept *maps;
    size_t count, room;
    bool starved, no_numbers; /* why no more maps are taken */
    char *written;            /* the model's own translation, where no target is given */
} job;

/* ---- Maps in ------------------------------------------------------------------------------------------- */

static bool keep_axis(axis *out, const tfm_attention_axis *in) {
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

static void free_axis(axis *a) {
    for (size_t i = 0; a->tokens && i < a->count; i++)
        free(a->tokens[i]);
    free(a->tokens);
    free(a->ids);
}

static bool wanted(const job *j, const tfm_attention_map *map) {
    return (j->kind == ALL_KINDS || j->kind == (int)map->kind + 1) && (j->layer == 0 || j->layer == map->layer + 1) &&
           j->head <= map->heads;
}

static bool keep_map(job *j, const tfm_attention_map *map) {
    const size_t head = map->rows.count * map->columns.count;
    const int heads = j->head ? 1 : map->heads;
    if (!cli_grow(&j->maps, &j->room, j->count + 1, sizeof(*j->maps)))
        return false;
    float *weights = malloc((size_t)heads * head * sizeof(*weights));
    if (!weights)
        return false;
    memcpy(weights, map->weights + (j->head ? (size_t)(j->head - 1) * head : 0),
           (size_t)heads * head * sizeof(*weights));
    j->maps[j->count++] = (kept){map->kind, map->layer, heads, weights};
    for (size_t i = 0; i < (size_t)heads * head; i++)
        j->no_numbers |= !isfinite(weights[i]);
    return !j->no_numbers;
}

static bool on_map(void *user, const tfm_attention_map *map) {
    job *j = user;
    bool good =
        map->kind == TFM_ENCODER_SELF ? keep_axis(&j->source_axis, &map->rows) : keep_axis(&j->target_axis, &map->rows);
    good = good && (!wanted(j, map) || keep_map(j, map));
    j->starved = !good && !j->no_numbers;
    return good;
}

static const axis *rows_of(const job *j, const kept *map) {
    return map->kind == TFM_ENCODER_SELF ? &j->source_axis : &j->target_axis;
}

static const axis *columns_of(const job *j, const kept *map) {
    return map->kind == TFM_DECODER_SELF ? &j->target_axis : &j->source_axis;
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static json_t *tokens_json(const axis *a) {
    return cli_tokens_json(&(tfm_attention_axis){.count = a->count, .tokens = (const char *const *)a->tokens});
}

static json_t *weights_json(const kept *map, size_t rows, size_t columns) {
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
static json_t *name_json(const kept *map) {
    return json_sprintf("%s.%d.%s", map->kind == TFM_ENCODER_SELF ? "encoder" : "decoder", map->layer + 1,
                        map->kind == TFM_DECODER_CROSS ? "cross" : "self");
}

static int write_json(const job *j, cli_output *out) {
    json_t *layers = json_array();
    for (size_t i = 0; i < j->count; i++) {
        const kept *map = &j->maps[i];
        const axis *rows = rows_of(j, map), *columns = columns_of(j, map);
        json_t *layer = json_pack("{s:o, s:i, s:o, s:o, s:o}", "name", name_json(map), "heads", map->heads, "rows",
                                  tokens_json(rows), "columns", tokens_json(columns), "weights",
                                  weights_json(map, rows->count, columns->count));
        json_array_append_new(layers, layer);
    }
    cli_put_json(out, json_pack("{s:o}", "layers", layers), 9);
    return cli_output_flush(out);
}

/* ---- The picture --------------------------------------------------------------------------------------- */

/* Groups of panels, a group a layer; or, with one head of each, a group a kind. */
typedef struct page {
    picture_panel *panels;
    char (*headings)[48]; /* [maps] */
    float **means;        /* [maps], over the heads; NULL where there is one head */
    const char **written; /* what a row of the decoder writes, where target_axis has what it reads */
    size_t count, maps;
} page;

static const char *kind_name(tfm_attention_kind kind) {
    static const char *const names[] = {
        [TFM_ENCODER_SELF] = "encoder", [TFM_DECODER_SELF] = "decoder self", [TFM_DECODER_CROSS] = "decoder cross"};
    return names[kind];
}

/* "decoder 1 cross" */
static void name_layer(char *out, size_t bytes, const kept *map) {
    static const char *const suffixes[] = {
        [TFM_ENCODER_SELF] = "", [TFM_DECODER_SELF] = " self", [TFM_DECODER_CROSS] = " cross"};
    snprintf(out, bytes, "%s %d%s", map->kind == TFM_ENCODER_SELF ? "encoder" : "decoder", map->layer + 1,
             suffixes[map->kind]);
}

static picture_panel *add_panel(page *to, const job *j, const kept *map, const float *weights) {
    const axis *rows = rows_of(j, map), *columns = columns_of(j, map);
    const bool cross = map->kind == TFM_DECODER_CROSS;
    picture_panel *panel = &to->panels[to->count++];
    *panel = (picture_panel){.block = (int)map->kind,
                             .rows = rows->count,
                             .columns = columns->count,
                             .row_labels = cross ? to->written : (const char *const *)rows->tokens,
                             .column_labels = (const char *const *)columns->tokens,
                             .weights = weights};
    return panel;
}

/* The mean over the heads: a row of it adds up to 1 as well. NULL when out of memory. */
static float *mean_of(const kept *map, size_t count) {
    float *mean = malloc(count * sizeof(*mean));
    for (size_t i = 0; mean && i < count; i++) {
        double sum = 0;
        for (int h = 0; h < map->heads; h++)
            sum += (double)map->weights[(size_t)h * count + i];
        mean[i] = (float)(sum / map->heads);
    }
    return mean;
}

static bool add_panels(page *to, const job *j, size_t index, bool first_of_kind) {
    const kept *map = &j->maps[index];
    const size_t count = rows_of(j, map)->count * columns_of(j, map)->count;
    char *heading = to->headings[index];
    if (j->head) {
        snprintf(heading, sizeof(to->headings[index]), "%s, head %d", kind_name(map->kind), j->head);
        picture_panel *panel = add_panel(to, j, map, map->weights);
        name_layer(panel->title, sizeof(panel->title), map);
        panel->heading = first_of_kind ? heading : NULL;
        return true;
    }
    name_layer(heading, sizeof(to->headings[index]), map);
    if (map->heads > 1) {
        to->means[index] = mean_of(map, count);
        picture_panel *panel = add_panel(to, j, map, to->means[index]);
        snprintf(panel->title, sizeof(panel->title), "mean of %d heads", map->heads);
        panel->heading = heading;
    }
    for (int h = 0; h < map->heads; h++) {
        picture_panel *panel = add_panel(to, j, map, map->weights + (size_t)h * count);
        snprintf(panel->title, sizeof(panel->title), "head %d", h + 1);
        panel->heading = map->heads == 1 ? heading : NULL;
    }
    return map->heads == 1 || to->means[index];
}

/* Panels go by kind, then by layer, so that those that are alike stand together. */
static bool make_page(page *out, const job *j) {
    const axis *target = &j->target_axis, *source = &j->source_axis;
    size_t panels = 0;
    for (size_t i = 0; i < j->count; i++)
        panels += (size_t)j->maps[i].heads + 1;
    *out = (page){calloc(panels, sizeof(*out->panels)),
                  calloc(j->count, sizeof(*out->headings)),
                  calloc(j->count, sizeof(*out->means)),
                  calloc(target->count, sizeof(*out->written)),
                  0,
                  j->count};
    bool good = out->panels && out->headings && out->means && out->written;
    for (size_t i = 0; good && i < target->count; i++) /* the end is the source's last token */
        out->written[i] = i + 1 < target->count ? target->tokens[i + 1] : source->tokens[source->count - 1];
    for (int kind = TFM_ENCODER_SELF; good && kind <= TFM_DECODER_CROSS; kind++) {
        bool first = true;
        for (size_t i = 0; good && i < j->count; i++)
            if ((int)j->maps[i].kind == kind) {
                good = add_panels(out, j, i, first);
                first = false;
            }
    }
    return good;
}

static void free_page(page *p) {
    for (size_t i = 0; p->means && i < p->maps; i++)
        free(p->means[i]);
    free(p->panels);
    free(p->headings);
    free(p->means);
    free(p->written);
}

static int draw(const job *j, picture_format format, cli_output *out) {
    char self[256];
    const char *notes[3] = {
        "A row is a token that attends, and a column a token that it looks at. The weights of a row "
        "add up to 1. \"_\" begins a word."};
    size_t note_count = 1;
    page panels;
    snprintf(self, sizeof(self),
             "A row of the decoder's attention to itself is the token that it has read last, %s at first; a row of its "
             "attention to the source is the token that it writes next.",
             j->target_axis.tokens[0]);
    if (j->kind != TFM_ENCODER_SELF + 1)
        notes[note_count++] = self;
    bool made = make_page(&panels, j);
    int code = made ? picture_write(&(picture){.source = j->source,
                                               .target = j->target ? j->target : j->written,
                                               .notes = notes,
                                               .note_count = note_count,
                                               .panels = panels.panels,
                                               .panel_count = panels.count},
                                    format, out)
                    : cli_fail("out of memory for the picture");
    free_page(&panels);
    return code;
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

/* A layer or head that the model has not got is told before anything is computed. */
static int check_choice(const job *j) {
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

static int compute(job *j) {
    if (tfm_context_open(&j->ctx, &(tfm_context_options){.device = j->device, .on_build = cli_building}) != TFM_OK ||
        tfm_model_open(&j->model, j->ctx, j->model_dir, NULL) != TFM_OK)
        return cli_fail_library();
    int code = check_choice(j);
    if (code != CLI_OK)
        return code;
    const tfm_status status = tfm_attend(j->model, j->source, j->target, &j->text, NULL, on_map, j);
    cli_progress(NULL);
    if (status != TFM_OK && j->no_numbers)
        return cli_fail("%s: attention's weights are no numbers: the model's parameters are damaged", j->model_dir);
    if (status != TFM_OK)
        return j->starved ? cli_fail("out of memory for the maps") : cli_fail_library();
    if (j->count == 0) /* each of the two is somewhere */
        return cli_fail("no attention has both layer %d and head %d: give another --layer or --head", j->layer,
                        j->head);
    if (!j->target && tfm_tokenizer_decode(tfm_model_tokenizer(j->model), &j->written, j->target_axis.ids + 1,
                                           j->target_axis.count - 1) != TFM_OK)
        return cli_fail_library();
    return CLI_OK;
}

static int write_file(job *j, form as, cli_output *out) {
    int code = compute(j);
    if (code == CLI_OK && j->output)
        code = as == FORM_JSON ? write_json(j, out) : draw(j, as == FORM_SVG ? PICTURE_SVG : PICTURE_PNG, out);
    return code;
}

/* A file that cannot be written, and a machine that cannot draw, are told before anything is computed. */
static int run(job *j, form as) {
    cli_output out = {0}, numbers = {0};
    int code = as == FORM_SVG || as == FORM_PNG ? picture_ready() : CLI_OK;
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

int cmd_attend(int argc, char **argv) {
    job j = {0};
    const cli_option options[] = {
        {'m', "model", CLI_TEXT, &j.model_dir, "DIR", "the model's directory", NULL},
        {'t', "target", CLI_TEXT, &j.target, "TEXT", "the translation to look at (default: the model's own)", NULL},
        CLI_LANGUAGES(j.text),
        {'o', "output", CLI_TEXT, &j.output, "FILE",
         "write a picture here if the name ends in .svg or .png, the numbers if in .json; the file appears when it is "
         "complete",
         NULL},
        {0, "json", CLI_FLAG, &j.json, NULL, "write the numbers to standard output", NULL},
        {0, "kind", CLI_CHOICE, &j.kind, "all|encoder|self|cross",
         "show only the encoder's attention, the decoder's over the target, or the decoder's over the source", NULL},
        {0, "layer", CLI_INT, &j.layer, "N", "show only this layer, counted from 1", NULL},
        {0, "head", CLI_INT, &j.head, "N", "show only this head, counted from 1", NULL},
        CLI_DEVICE(&j.device),
    };
    const cli_syntax syntax = {
        .name = "attend",
        .usage = "attend -m DIR TEXT [--target TEXT] -o FILE [option...]",
        .about = "Shows what the model's attention looks at while it translates a text: the\n"
                 "weights of every layer and head of the encoder, of the decoder over what it\n"
                 "has written, and of the decoder over the source. It draws them as one picture,\n"
                 "or writes them as numbers:\n"
                 "  {\"layers\":[{\"name\":\"encoder.1.self\",\"heads\":4,\"rows\":[tokens],\n"
                 "    \"columns\":[tokens],\"weights\":[heads][rows][columns]}]}\n"
                 "A row adds up to 1. Where the decoder looks at the source, a row of the\n"
                 "picture is named by the token that is written, and a row of the numbers by the\n"
                 "token that was read to write it.\n",
        .examples = "  tfm attend -m apps/demo \"Ich liebe dich.\" -o love.svg\n"
                    "  tfm attend -m apps/demo \"Ich liebe dich.\" --target \"I love him.\" -o him.png\n"
                    "  tfm attend -m apps/demo \"Guten Morgen.\" --json | jq '.layers[0].weights[0]'\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operands = 1,
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_GO)
        return code;
    form as = j.output ? form_of(j.output) : FORM_NONE;
    if (!j.model_dir)
        return cli_misuse(&syntax, "which model? give -m DIR");
    if (!j.output && !j.json)
        return cli_misuse(&syntax, "where to? give -o FILE.svg, -o FILE.png or --json");
    if (j.output && as == FORM_NONE)
        return cli_misuse(&syntax, "--output is '%s': its ending says what to write, .svg, .png or .json", j.output);
    j.source = argv[optind];
    return run(&j, as);
}
