/* What the files of tfm attend share. */
#ifndef TFM_CMD_ATTENTION_H
#define TFM_CMD_ATTENTION_H

#include "plots/picture.h"

enum { ATTEND_ALL_KINDS = 0 };

/* One layer's map, attend_map until all are there. Its axes are the attend_job's. */
typedef struct attend_map {
    tfm_attention_kind kind;
    int layer;
    int heads; /* of the weights that are attend_map */
    float *weights;
} attend_map;

/* An attend_axis that outlives the callback. */
typedef struct attend_axis {
    size_t count;
    int32_t *ids;
    char **tokens;
} attend_axis;

typedef struct attend_job {
    const char *model_dir, *source, *target, *output, *device;
    bool json;
    int kind, layer, head; /* 0: all */
    tfm_text_options text;
    tfm_context *ctx;
    tfm_model *model;
    attend_axis source_axis, target_axis;
    attend_map *maps;
    size_t count, room;
    bool starved, no_numbers; /* why no more maps are taken */
    char *written;            /* the model's own translation, where no target is given */
} attend_job;

/* The axes of a map. */
const attend_axis *attend_rows(const attend_job *job, const attend_map *map);
const attend_axis *attend_columns(const attend_job *job, const attend_map *map);
/* Writes all maps as one picture (attention_picture.c). */
int attend_draw(const attend_job *job, picture_format format, cli_output *out);

#endif
