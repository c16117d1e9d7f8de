/* What the files of tfm attention share. */
#ifndef TFM_CMD_ATTENTION_H
#define TFM_CMD_ATTENTION_H

#include "plots/picture.h"

enum { ATTENTION_ALL_KINDS = 0 };

/* One layer's map, kept until all maps are computed. Its axes are the attention_job's. */
typedef struct attention_layer_map {
    tfm_attention_kind kind;
    int layer;
    int heads; /* of the stored weights */
    float *weights;
} attention_layer_map;

/* An attention_axis_copy that outlives the callback. */
typedef struct attention_axis_copy {
    size_t count;
    int32_t *ids;
    char **tokens;
} attention_axis_copy;

typedef struct attention_job {
    const char *model_dir, *source, *target, *output, *device;
    bool json;
    int kind, layer, head; /* 0: all */
    tfm_text_options text;
    tfm_context *ctx;
    tfm_model *model;
    attention_axis_copy source_axis, target_axis;
    attention_layer_map *maps;
    size_t count, room;
    bool out_of_memory, not_finite; /* why computing maps stopped */
    char *written;                  /* the model's own translation if no target is given */
} attention_job;

/* The axes of a map. */
const attention_axis_copy *attention_rows(const attention_job *job, const attention_layer_map *map);
const attention_axis_copy *attention_columns(const attention_job *job, const attention_layer_map *map);
/* Writes all maps as one picture (attention_picture.c). */
int attention_render(const attention_job *job, picture_format format, cli_output *out);

#endif
