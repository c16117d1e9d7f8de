/* A Transformer, described as data: what a family's files are read into, and all that the forward pass, the walk over
 * the parameters and training look at. A zero stands for what most models do without. */
#ifndef TFM_LIB_ARCH_H
#define TFM_LIB_ARCH_H

#include <stdbool.h>
#include "tfm/nn.h"

enum {
    TFM__MAX_LAYERS = 1024,
    TFM__MAX_ROTARY_PAIRS = 256, /* Heads up to 512 wide turn whole. */
};

/* What is added to the embedding at each position. */
typedef enum tfm__positions {
    TFM__NO_POSITIONS,      /* Nothing: layers tell positions apart by rotation or by a relative bias, or not at all. */
    TFM__SINUSOIDS,         /* They are computed, unless the file has a table of its own. */
    TFM__LEARNED_POSITIONS, /* They are a table in the file. */
} tfm__positions;

/* How the rates of a rotation were changed for texts longer than those that a model was first trained with. */
typedef enum tfm__rope_type {
    TFM__ROPE_DEFAULT,  /* They were not. */
    TFM__ROPE_LINEAR,   /* All are divided by a factor. */
    TFM__ROPE_DYNAMIC,  /* They become slower with the length of the text. */
    TFM__ROPE_YARN,     /* "YaRN: Efficient Context Window Extension", Peng et al. 2023. */
    TFM__ROPE_LONGROPE, /* "LongRoPE", Ding et al. 2024. */
    TFM__ROPE_LLAMA3,   /* Slow ones are divided by a factor, fast ones are not. */
} tfm__rope_type;

/* What the rates are computed from, in the words of Hugging Face's `rope_parameters`; a zero is a key that is absent.
 */
typedef struct tfm__rope_config {
    tfm__rope_type type;
    double theta, partial, factor, attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim, low_freq_factor,
        high_freq_factor;
    int original, positions; /* `original_max_position_embeddings`, and `max_position_embeddings` of the model */
    bool untruncated;
    float short_factor[TFM__MAX_ROTARY_PAIRS], long_factor[TFM__MAX_ROTARY_PAIRS];
} tfm__rope_config;

/* How queries and keys turn with their position ("RoFormer", Su et al. 2021). */
typedef struct tfm__rotary_arch {
    int width;                              /* R: how many columns of a head turn, from the first on; 0: none. */
    int freq_dim;                           /* What the exponents of the rates divide by: R, or one less. */
    float scale;                            /* What cosines and sines are multiplied by. */
    double inv_freq[TFM__MAX_ROTARY_PAIRS]; /* [R/2]: the angle that a pair of columns turns by from one position on. */
    /* Texts longer than `switch_length` turn by other rates: by `inv_freq_long`, or with TFM__ROPE_DYNAMIC by those of
     * their length. 0: all turn by `rates`. */
    int switch_length;
    bool interleaved;    /* Pairs are columns (0, 1), (2, 3) and so on, else (0, R/2), (1, R/2 + 1) and so on. */
    bool recompute_keys; /* A text that grows over the border is run again from its beginning; else old keys stay. */
    double inv_freq_long[TFM__MAX_ROTARY_PAIRS];
    tfm__rope_config config;
} tfm__rotary_arch;

/* The bias of scores by distance (T5, Raffel et al. 2020): a table (buckets, H) that all layers of a stack share. */
typedef struct tfm__relative_arch {
    bool per_layer;   /* Each layer has such a table of its own. */
    int buckets;      /* How many rows the table has; 0: there is none. */
    int used;         /* How many of them distances are sorted into; 0: all. */
    int max_distance; /* From this distance on, all are in the last bucket. */
} tfm__relative_arch;

/* What single layers do in another way than the stack says; bits of tfm__stack_arch.layer. */
enum {
    TFM__LOCAL_LAYER = 1,   /* Its attention sees the stack's window alone, and turns by the local rates. */
    TFM__NO_ROPE_LAYER = 2, /* It does not turn. */
    TFM__NO_NORM_LAYER = 4, /* There is no norm before its attention. */
};

/* One stack of equal blocks, with the embedding in front of it. */
typedef struct tfm__stack_arch {
    int layers;       /* 0: the model has no such stack. */
    int groups;       /* Layers of one group are the same tensors: so many groups one after the other, as even as can */
    int group_layers; /* be, and so many different layers in each, which take turns; 0: each layer has its own. */
    int width;        /* E. */
    int narrow_width; /* That of the embedding, which a matrix then widens to E; 0: E. */
    bool projected;   /* Positions are added after that matrix, which has no bias, and another one without a bias makes
                         what the stack gives as narrow again. */
    int heads;        /* H, the heads of the queries. */
    int kv_heads;     /* Hk, the heads of keys and values; it divides H. */
    int head_width;   /* D. */
    int feed_forward; /* The inner width of the feed-forward layers. */
    tfm_activation activation;
    bool gated;               /* The feed-forward layers have a gate. */
    bool input_biases;        /* Queries, keys and values have biases. */
    bool output_biases;       /* The projections after attention have biases. */
    bool feed_forward_biases; /* The matrices of the feed-forward layers have biases. */
    bool recurrent;           /* An SSRU stands in the place of attention over the stack's own input. */
    bool causal;              /* A position attends to none after it. */
    bool cross;               /* Blocks attend to the encoder's output too. */
    tfm_norm_kind norm;
    tfm_norm_placement norm_placement;
    float epsilon;
    bool norm_biases;      /* Layer norms have a beta. */
    bool plain_norms;      /* Norms have neither a gamma nor a beta. */
    float gamma_offset;    /* What is added to the gammas that the file has. */
    bool head_norms;       /* Each head of queries and keys has a norm over its columns, */
    bool joint_head_norms; /* or all heads have one together, */
    bool own_head_norms;   /* or each head has one of its own, without a beta. */
    bool parallel;         /* Both sub-layers of a block read its input, */
    bool shared_norm;      /* and through the same norm. */
    float residual_scale;  /* What sub-layers give is multiplied by; 0: it stays. */
    bool embedding_norm;   /* There is a norm over the sum of embedding and position. */
    bool final_norm;       /* There is a norm after the last block. */
    bool final_dropout;    /* Training drops some of what that norm gives. */
    int vocabulary;        /* V: the rows of the embedding. */
    int stored_vocabulary; /* How many of them the file has, from the first on: the others are zeros, and are never
                              written; 0: all. */
    float embedding_scale; /* What the embedding is multiplied by. */
    int token_types;       /* The rows of the table of token types, whose row 0 is added to every embedding; 0: none. */
    tfm__positions positions;
    tfm_sinusoid_layout sinusoids;
    int max_positions;
    int position_offset; /* Position p is row p + position_offset of the table, be it the file's or computed. */
    /* Whether the padding's token stands at no position wherever it is, as in fairseq: it gets the row before position
     * 0, or nothing, and in a whole text those after it stand as if it were not there. */
    enum { TFM__SKIPS_NONE, TFM__SKIPS_TO_ROW, TFM__SKIPS_TO_NOTHING } skips;
    int skipped_id;
    tfm__relative_arch relative;
    bool alibi; /* Scores fall linearly with the distance, in each head by another slope (ALiBi, Press et al. 2022). */
    tfm__rotary_arch rotary, local_rotary; /* `local_rotary` is that of layers with TFM__LOCAL_LAYER. */
    float score_scale;                     /* What q k^T is multiplied by; 0: 1/sqrt(D). */
    bool scale_by_inverse_layer;           /* It is divided by the layer's number, counted from 1. */
    float score_cap;                       /* Scores s become cap tanh(s / cap); 0: they stay. */
    int window; /* Local layers: how far a query sees: itself and window - 1 before it where causal, else window / 2
                   to either side. */
    unsigned char layer[TFM__MAX_LAYERS]; /* [layers]: bits of the enum above. */
} tfm__stack_arch;

/* What stands after an encoder that does not translate. */
typedef enum tfm__head_kind {
    TFM__NO_HEAD,  /* Nothing: the encoder's output is the result. */
    TFM__MLM_HEAD, /* What a masked word may be: a matrix, an activation and a norm at each position, and then the
                        output projection. */
    TFM__CLASSIFICATION_HEAD, /* What class a text is of: the same of the whole text, and a projection to the classes.
                               */
} tfm__head_kind;

typedef struct tfm__head_arch {
    tfm__head_kind kind;
    bool dense_bias; /* The matrix (E, E) has a bias. For words its outputs are as many as an embedding is wide. */
    bool tanh;       /* The activation is tanh, else `activation`. */
    tfm_activation activation;
    bool norm;   /* There is a norm, as the stack has them. */
    bool mean;   /* A text is the mean of its positions, else the first of them. */
    int classes; /* C. */
} tfm__head_arch;

typedef struct tfm__arch {
    tfm__stack_arch encoder, decoder; /* At least one of them has layers. */
    bool shared_tables;               /* Both stacks have one embedding table. */
    bool tied_embeddings;             /* The output projection is the table of the stack that writes. */
    bool headless;                    /* There is no output projection: what comes out of the stack is the result. */
    tfm__head_arch head;              /* Of a model that only encodes. */
    float output_scale;               /* What comes out of the last stack is multiplied by this; 0: it stays. */
    float logit_cap;                  /* Logits l become cap tanh(l / cap); 0: they stay. */
    double dropout[3];     /* In training: of the residual stream, of attention weights, inside feed-forward layers. */
    bool dropout_given[3]; /* Whether config.json says it. */
    const struct tfm__multimodal *multimodal; /* What the files have besides this, under names that tell (multimodal.h);
                                          NULL: they have this alone. */
} tfm__arch;

/* The width of a stack's embedding. */
static inline int tfm__stack_embedding_width(const tfm__stack_arch *stack) {
    return stack->narrow_width ? stack->narrow_width : stack->width;
}

/* The width of what a stack gives. */
static inline int tfm__stack_output_width(const tfm__stack_arch *stack) {
    return stack->projected ? stack->narrow_width : stack->width;
}

/* Whether something is added to scores by distance. */
static inline bool tfm__stack_has_position_bias(const tfm__stack_arch *arch) {
    return arch->relative.buckets > 0 || arch->alibi;
}

/* How many tables of biases by distance a stack has that has any. */
static inline int tfm__position_bias_tables(const tfm__stack_arch *arch) {
    return arch->relative.per_layer ? arch->layers : 1;
}

/* The stack that has the output projection: the decoder, or the encoder of a model that has no decoder. */
static inline const tfm__stack_arch *tfm__arch_output_stack(const tfm__arch *arch) {
    return arch->decoder.layers ? &arch->decoder : &arch->encoder;
}

#endif
