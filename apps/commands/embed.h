/* What the files of tfm embed share. */
#ifndef TFM_EMBED_COMMAND_H
#define TFM_EMBED_COMMAND_H

#include "cli/cli.h"

typedef enum embed_format { EMBED_JSON, EMBED_NPY, EMBED_TEXT } embed_format;

/* What is asked of the model. */
typedef enum embed_task { EMBED_VECTORS, EMBED_SIMILAR, EMBED_CLASSIFY, EMBED_FILL_MASK } embed_task;

typedef struct embed_job {
    const char *model_dir, *input, *output, *similar_file, *prompt, *device;
    int workers;
    int precision;
    embed_task task;
    embed_format format;
    int top;
    bool classify, fill_mask, pairs, stats, normalize, no_normalize, pooling_given;
    int format_choice, pooling;
    bool format_given;
    tfm_embed_options options;
    tfm_embed_stats done;
    tfm_fleet *fleet;
    tfm_context *ctx;       /* of its first device, where neighbours are found */
    tfm_embedder *embedder; /* of vectors and neighbours */
    tfm_model *model;       /* of the other tasks its own, else the embedder's */
    cli_lines in, others;   /* others: those of --similar */
    cli_output out;
    tfm_tensor neighbours; /* (N, W), each row 1 long */
    float *numbers;        /* the results of a chunk */
    size_t room;           /* of `numbers` */
    const char **seconds;  /* the second texts of a chunk, with --pairs */
    size_t second_room;
    bool *bad; /* lines of a chunk that were rejected */
    size_t bad_room, bad_count;
    size_t rows; /* vectors that are written */
    double load_seconds, load_build, build_seconds;
} embed_job;

/* Vectors as lines of JSON or text, or as NumPy's .npy (embed_write.c). */
int embed_write_begin(embed_job *j);
bool embed_write_vectors(embed_job *j, size_t count);

/* Neighbours (embed_similar.c): the vectors of all lines of a file, and the nearest of them to the chunk's. */
int embed_similar_read(embed_job *j);
int embed_similar_write(embed_job *j, size_t count);

/* Classes and masked words of the chunk (embed_heads.c). */
int embed_classify(embed_job *j);
int embed_fill_mask(embed_job *j);

#endif
