/* A Transformer, described as data: what a family's files are read into, and all that the forward pass, the walk over
 * the parameters and training look at. */
#ifndef TFM_LIB_ARCH_H
#define TFM_LIB_ARCH_H

#include <stdbool.h>
#include "tfm/nn.h"

typedef enum tfm__positions {
    TFM__SINUSOIDS,         /* They are computed, unless the file has a table of its own. */
    TFM__LEARNED_POSITIONS, /* They are a table in the file. */
} tfm__positions;

/* One stack of equal blocks, with the embedding in front of it. */
typedef struct tfm__stack_arch {
    int layers;
    int width;        /* E. */
    int heads;        /* H, the heads of the queries. */
    int kv_heads;     /* Hk, the heads of keys and values; it divides H. */
    int head_width;   /* D. */
    int feed_forward; /* The inner width of the feed-forward layers. */
    tfm_activation activation;
    bool gated;  /* The feed-forward layers have a gate. */
    bool biases; /* The matrices in blocks have biases. */
    bool causal; /* A position attends to none after it. */
    bool cross;  /* Blocks attend to the encoder's output too. */
    tfm_norm_kind norm;
    tfm_norm_place norm_place;
    float epsilon;
    bool embedding_norm;   /* There is a norm over the sum of embedding and position. */
    bool final_norm;       /* There is a norm after the last block. */
    int vocabulary;        /* V: the rows of the embedding. */
    float embedding_scale; /* What the embedding is multiplied by. */
    tfm__positions positions;
    int max_positions;
    int position_offset; /* Of learned tables: position p is row p + position_offset of the file's table. */
} tfm__stack_arch;

typedef struct tfm__arch {
    tfm__stack_arch encoder, decoder;
    bool shared_tables; /* Both stacks have one embedding table. */
    bool tied_output;   /* The output projection is the decoder's embedding table. */
} tfm__arch;

#endif
