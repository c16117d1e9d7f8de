/* The architecture of a Transformer as data. A family reads its files into it; the forward pass, the parameter
 * traversal and training depend on it alone. Zero defaults mean that a feature is absent. */
#ifndef TFM_LIB_ARCH_H
#define TFM_LIB_ARCH_H

#include <stdbool.h>
#include "tfm/nn.h"

enum {
    TFM__MAX_LAYERS = 1024,
    TFM__MAX_ROTARY_PAIRS = 256, /* rotary width of up to 512 */
};

/* Position embeddings: added to the token embedding. */
typedef enum tfm__positions {
    TFM__NO_POSITIONS,      /* none: RoPE, a relative bias, ALiBi, or no position information */
    TFM__SINUSOIDS,         /* computed, unless the file has a table */
    TFM__LEARNED_POSITIONS, /* a table in the file */
} tfm__positions;

/* RoPE scaling, for contexts longer than in pretraining. */
typedef enum tfm__rope_type {
    TFM__ROPE_DEFAULT,  /* none */
    TFM__ROPE_LINEAR,   /* frequencies are divided by a factor */
    TFM__ROPE_DYNAMIC,  /* dynamic NTK: frequencies depend on the length of the sequence */
    TFM__ROPE_YARN,     /* "YaRN: Efficient Context Window Extension", Peng et al. 2023. */
    TFM__ROPE_LONGROPE, /* "LongRoPE", Ding et al. 2024. */
    TFM__ROPE_LLAMA3,   /* low frequencies are divided by a factor, high ones are not */
} tfm__rope_type;

/* Parameters of the RoPE frequencies, with the names of Hugging Face's `rope_parameters`; 0: the key is absent. */
typedef struct tfm__rope_config {
    tfm__rope_type type;
    double theta, partial, factor, attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim, low_freq_factor,
        high_freq_factor;
    int original, positions; /* `original_max_position_embeddings`, and the model's `max_position_embeddings` */
    bool untruncated;
    float short_factor[TFM__MAX_ROTARY_PAIRS], long_factor[TFM__MAX_ROTARY_PAIRS];
} tfm__rope_config;

/* Rotary position embedding of queries and keys ("RoFormer", Su et al. 2021). */
typedef struct tfm__rotary_arch {
    int width;                              /* R: the first R columns of a head are rotated; 0: none */
    int freq_dim;                           /* denominator of the exponents of the frequencies: R or R - 1 */
    float scale;                            /* factor of cosines and sines */
    double inv_freq[TFM__MAX_ROTARY_PAIRS]; /* [R/2]: rotation angle of a pair of columns per position */
    /* Sequences longer than `switch_length` use `inv_freq_long`, or with TFM__ROPE_DYNAMIC the frequencies of their
     * length. 0: all use `inv_freq`. */
    int switch_length;
    bool interleaved;    /* pairs are columns (0, 1), (2, 3) ..., else (0, R/2), (1, R/2 + 1) ... */
    bool recompute_keys; /* a sequence that grows past switch_length is recomputed from its beginning; else cached keys
                            stay */
    double inv_freq_long[TFM__MAX_ROTARY_PAIRS];
    tfm__rope_config config;
} tfm__rotary_arch;

/* Relative position bias of attention scores (T5, Raffel et al. 2020): a table (buckets, H), shared by the stack's
 * layers. */
typedef struct tfm__relative_arch {
    bool per_layer;   /* each layer has its own table */
    int buckets;      /* rows of the table; 0: there is none */
    int used;         /* buckets that distances are mapped to; 0: all */
    int max_distance; /* this and larger distances share the last bucket */
} tfm__relative_arch;

/* Deviations of single layers from the stack; bits of tfm__stack_arch.layer. */
enum {
    TFM__LOCAL_LAYER = 1,   /* sliding-window attention with the local RoPE frequencies */
    TFM__NO_ROPE_LAYER = 2, /* no RoPE */
    TFM__NO_NORM_LAYER = 4, /* no norm before attention */
};

/* A stack of equal blocks and its embedding. */
typedef struct tfm__stack_arch {
    int layers;       /* 0: the model has no such stack */
    int groups;       /* Cross-layer parameter sharing (ALBERT): consecutive groups, as even as possible, */
    int group_layers; /* with this many distinct layers each, used in rotation; 0: no sharing */
    int width;        /* E */
    int narrow_width; /* embedding width; a matrix projects it to E. 0: E */
    bool projected; /* positions are added after that matrix, which has no bias; a second one without bias projects the
                       output back */
    int heads;      /* H: query heads */
    int kv_heads;   /* Hk: KV heads; divides H */
    int head_width; /* D */
    int feed_forward; /* inner width of the feed-forward layers */
    tfm_activation activation;
    bool gated;               /* gated feed-forward layers */
    bool input_biases;        /* query, key and value projections have biases */
    bool output_biases;       /* output projections of attention have biases */
    bool feed_forward_biases; /* feed-forward layers have biases, */
    bool no_gate_biases;      /* but not their gates and up projections */
    bool recurrent;           /* an SSRU instead of self-attention */
    bool causal;              /* causal mask */
    bool cross;               /* cross-attention to the encoder's output */
    tfm_norm_kind norm;
    tfm_norm_placement norm_placement;
    float epsilon;
    bool norm_biases;      /* layer norms have a beta */
    bool plain_norms;      /* norms have neither gamma nor beta */
    float gamma_offset;    /* added to the stored gammas */
    bool head_norms;       /* norm over the columns of each query and key head, */
    bool joint_head_norms; /* or one norm over all heads, */
    bool own_head_norms;   /* or a norm without beta for each head */
    bool parallel;         /* parallel attention and feed-forward: both read the block's input, */
    bool shared_norm;      /* through the same norm */
    float residual_scale;  /* factor of the sub-layers' outputs; 0: 1 */
    bool embedding_norm;   /* norm over token plus position embedding */
    bool final_norm;       /* norm after the last block */
    bool final_dropout;    /* dropout after the final norm in training */
    int vocabulary;        /* V: rows of the embedding */
    int stored_vocabulary; /* the first rows, stored in the file; the others are zeros and never generated. 0: all */
    float embedding_scale; /* factor of the embedding */
    int token_types;       /* rows of the token type table, whose row 0 is added to every embedding; 0: none */
    tfm__positions positions;
    tfm_sinusoid_layout sinusoids;
    int max_positions;
    int position_offset; /* position p is row p + position_offset of the table, stored or computed */
    /* The padding token has no position (fairseq): it gets the row before position 0, or nothing; in a whole sequence
     * later tokens are counted as if it were absent. */
    enum { TFM__SKIPS_NONE, TFM__SKIPS_TO_ROW, TFM__SKIPS_TO_NOTHING } skips;
    int skipped_id;
    tfm__relative_arch relative;
    bool alibi;                            /* linear position bias, with a slope per head (ALiBi, Press et al. 2022) */
    tfm__rotary_arch rotary, local_rotary; /* `local_rotary`: layers with TFM__LOCAL_LAYER */
    float score_scale;                     /* factor of q k^T; 0: 1/sqrt(D) */
    bool scale_by_inverse_layer;           /* divided by the layer's number, counted from 1 */
    float score_cap;                       /* soft cap: scores s become cap tanh(s / cap); 0: none */
    int window; /* local layers, causal: the query and window - 1 keys before it; else window / 2 keys on either side */
    unsigned char layer[TFM__MAX_LAYERS]; /* [layers]: bits of TFM__LOCAL_LAYER, ... */
} tfm__stack_arch;

/* Head of an encoder-only model. */
typedef enum tfm__head_kind {
    TFM__NO_HEAD,  /* none: the encoder's output */
    TFM__MLM_HEAD, /* masked-token prediction: matrix, activation and norm per position, then the output projection */
    TFM__CLASSIFICATION_HEAD, /* sequence classification: the same for the whole text, then a projection to the classes
                               */
} tfm__head_kind;

typedef struct tfm__head_arch {
    tfm__head_kind kind;
    bool dense_bias; /* the matrix (E, E) has a bias; for TFM__MLM_HEAD it is (embedding width, E) */
    bool tanh;       /* activation tanh, else `activation` */
    tfm_activation activation;
    bool norm;   /* has a norm, of the stack's kind */
    bool mean;   /* mean pooling, else the first position */
    int classes; /* C */
} tfm__head_arch;

typedef struct tfm__arch {
    tfm__stack_arch encoder, decoder; /* at least one has layers */
    bool shared_tables;               /* both stacks share one embedding table */
    bool tied_embeddings;             /* the output projection is the embedding table of the output stack */
    bool headless;                    /* no output projection: the result is the stack's output */
    tfm__head_arch head;              /* encoder-only models */
    float output_scale;               /* factor of the last stack's output; 0: 1 */
    float logit_cap;                  /* soft cap: logits l become cap tanh(l / cap); 0: none */
    double dropout[3];                /* training: residual stream, attention weights, feed-forward layers */
    bool dropout_given[3];            /* set by config.json */
    const struct tfm__multimodal
        *multimodal; /* other parts of a multimodal checkpoint, by tensor name (multimodal.h), or NULL */
} tfm__arch;

/* Width of a stack's embedding. */
static inline int tfm__stack_embedding_width(const tfm__stack_arch *stack) {
    return stack->narrow_width ? stack->narrow_width : stack->width;
}

/* Width of a stack's output. */
static inline int tfm__stack_output_width(const tfm__stack_arch *stack) {
    return stack->projected ? stack->narrow_width : stack->width;
}

/* Whether a position bias is added to attention scores. */
static inline bool tfm__stack_has_position_bias(const tfm__stack_arch *arch) {
    return arch->relative.buckets > 0 || arch->alibi;
}

/* Number of position bias tables of a stack that has any. */
static inline int tfm__position_bias_tables(const tfm__stack_arch *arch) {
    return arch->relative.per_layer ? arch->layers : 1;
}

/* Whether `--precision int8` has a scale per row, and rounds activations to int8: the models shown to keep their
 * results, which translate. */
static inline bool tfm__arch_has_int8_rows(const tfm__arch *arch) {
    return arch->encoder.layers > 0 && arch->decoder.layers > 0;
}

/* The stack with the output projection: the decoder, or the encoder of an encoder-only model. */
static inline const tfm__stack_arch *tfm__arch_output_stack(const tfm__arch *arch) {
    return arch->decoder.layers ? &arch->decoder : &arch->encoder;
}

#endif
