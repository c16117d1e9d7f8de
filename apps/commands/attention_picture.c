/* Renders attention maps: a panel for each head, or for the mean over the heads of a layer. */
#include <stdlib.h>
#include "commands/cmd_attention.h"

const attention_axis_copy *attention_rows(const attention_job *j, const attention_layer_map *map) {
    return map->kind == TFM_ENCODER_SELF ? &j->source_axis : &j->target_axis;
}

const attention_axis_copy *attention_columns(const attention_job *j, const attention_layer_map *map) {
    return map->kind == TFM_DECODER_SELF ? &j->target_axis : &j->source_axis;
}

/* Panels are grouped by layer, or by kind if each layer has one head. */
typedef struct page {
    picture_panel *panels;
    char (*headings)[48]; /* [maps] */
    float **means;        /* [maps], over the heads; NULL where there is one head */
    const char **written; /* output tokens of the decoder's rows; target_axis has the input tokens */
    size_t count, maps;
} page;

static const char *kind_name(tfm_attention_kind kind) {
    static const char *const names[] = {
        [TFM_ENCODER_SELF] = "encoder", [TFM_DECODER_SELF] = "decoder self", [TFM_DECODER_CROSS] = "decoder cross"};
    return names[kind];
}

/* "decoder 1 cross" */
static void name_layer(char *out, size_t bytes, const attention_layer_map *map) {
    static const char *const suffixes[] = {
        [TFM_ENCODER_SELF] = "", [TFM_DECODER_SELF] = " self", [TFM_DECODER_CROSS] = " cross"};
    snprintf(out, bytes, "%s %d%s", map->kind == TFM_ENCODER_SELF ? "encoder" : "decoder", map->layer + 1,
             suffixes[map->kind]);
}

static picture_panel *add_panel(page *to, const attention_job *j, const attention_layer_map *map,
                                const float *weights) {
    const attention_axis_copy *rows = attention_rows(j, map), *columns = attention_columns(j, map);
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

/* The mean over the heads; its rows add up to 1. NULL when out of memory. */
static float *mean_of(const attention_layer_map *map, size_t count) {
    float *mean = malloc(count * sizeof(*mean));
    for (size_t i = 0; mean && i < count; i++) {
        double sum = 0;
        for (int h = 0; h < map->heads; h++)
            sum += (double)map->weights[(size_t)h * count + i];
        mean[i] = (float)(sum / map->heads);
    }
    return mean;
}

static bool add_panels(page *to, const attention_job *j, size_t index, bool first_of_kind) {
    const attention_layer_map *map = &j->maps[index];
    const size_t count = attention_rows(j, map)->count * attention_columns(j, map)->count;
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

/* Panels are sorted by kind, then by layer. */
static bool make_page(page *out, const attention_job *j) {
    const attention_axis_copy *target = &j->target_axis, *source = &j->source_axis;
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

int attention_render(const attention_job *j, picture_format format, cli_output *out) {
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
