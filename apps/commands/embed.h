/* What the files of tfm embed share. */
#ifndef TFM_EMBED_COMMAND_H
#define TFM_EMBED_COMMAND_H

#include "cli/adapters.h"
#include "cli/cli.h"

typedef enum embed_format { EMBED_JSON, EMBED_NPY, EMBED_TEXT } embed_format;

/* Settings of the task. */
typedef enum embed_task { EMBED_VECTORS, EMBED_SIMILAR, EMBED_CLASSIFY, EMBED_FILL_MASK, EMBED_SPARSE } embed_task;

typedef struct embed_job {
    const char *model_dir, *input, *output, *similar_file, *prompt, *device;
    int workers;
    cli_precisions precision;
    cli_adapters adapters;
    embed_task task;
    embed_format format;
    int top, width; /* width: of the embeddings written */
    bool classify, fill_mask, sparse, pairs, stats, normalize, no_normalize, pooling_given, query;
    int format_choice, pooling;
    bool format_given;
    tfm_embed_options options;
    tfm_embed_stats done;
    tfm_fleet *fleet;
    tfm_context *ctx;       /* of its first device, which computes neighbors */
    tfm_embedder *embedder; /* of embeddings and neighbors */
    tfm_model *model;       /* the embedder's, or loaded for the other tasks */
    cli_lines in, others;   /* others: of --similar */
    cli_output out;
    tfm_tensor neighbors; /* (N, W), rows of unit length */
    float *numbers;       /* the results of a chunk */
    size_t room;          /* of `numbers` */
    const char **seconds; /* the second texts of a chunk, with --pairs */
    size_t second_room;
    bool *bad; /* lines of a chunk that were rejected */
    size_t bad_room, bad_count;
    size_t rows; /* embeddings written */
    double load_seconds, load_build, build_seconds;
} embed_job;

/* Embeddings as lines of JSON or text, or as NumPy's .npy (embed_write.c). */
int embed_write_begin(embed_job *j);
bool embed_write_vectors(embed_job *j, size_t count);

/* A vector of each token of the chunk's lines (embed_multi_vector.c). */
int embed_multi_vector(embed_job *j);

/* Neighbors (embed_similar.c): embeddings of all lines of a file, and the nearest ones to the chunk's. */
int embed_similar_read(embed_job *j);
int embed_similar_write(embed_job *j, size_t count);

/* Classes and masked words of the chunk (embed_heads.c). */
int embed_classify(embed_job *j);
int embed_fill_mask(embed_job *j);

/* Sparse embeddings of the chunk (embed_weights.c). */
int embed_sparse(embed_job *j);

#endif
