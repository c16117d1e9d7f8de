/* Types shared by ops, layers and models. nn.h includes this header and not ops.h; programs that call ops include ops.h
 * or tfm.h. */
#ifndef TFM_TYPES_H
#define TFM_TYPES_H

typedef enum tfm_activation {
    TFM_NO_ACTIVATION, /* The identity. */
    TFM_RELU,          /* max(x, 0). */
    TFM_GELU,          /* x Phi(x), by the error function. */
    TFM_GELU_TANH,     /* The tanh approximation of GELU. */
    TFM_SILU,          /* x sigmoid(x), also called swish. */
    TFM_QUICK_GELU,    /* x sigmoid(1.702 x). */
    TFM_RELU2,         /* max(x, 0)^2. */
    TFM_RELU6,         /* min(max(x, 0), 6). */
    TFM_LEAKY_RELU,    /* x, or 0.01 x below 0. */
    TFM_SIGMOID,       /* 1 / (1 + e^-x). */
    TFM_TANH,          /* tanh(x). */
    TFM_MISH,          /* x tanh(log(1 + e^x)). */
    TFM_LAPLACE,       /* Phi((x - sqrt(1/2)) / sqrt(1/(4 pi))), with the constants of transformers. */
    TFM_GELU_10,       /* min(TFM_GELU, 10). */
    TFM_HARDSWISH,     /* x min(max(x + 3, 0), 6) / 6. */
    TFM_ACTIVATIONS    /* The number of values. */
} tfm_activation;

/* Pooling: how the token vectors of a sequence become one vector. */
typedef enum tfm_pooling {
    TFM_POOL_CLS,           /* The first token, such as BERT's [CLS]. */
    TFM_POOL_MEAN,          /* The mean. */
    TFM_POOL_MAX,           /* The maximum of each column. */
    TFM_POOL_MEAN_SQRT_LEN, /* The sum divided by the square root of the number of tokens. */
    TFM_POOL_WEIGHTED,      /* The mean weighted by position, counted from 1 ("SGPT", Muennighoff 2022). */
    TFM_POOL_LAST,          /* The last token. */
    TFM_POOLINGS            /* The number of values. */
} tfm_pooling;

typedef enum tfm_sinusoid_layout {
    TFM_SINUSOID_INTERLEAVED, /* Sines in even columns, cosines in odd ones: the paper, section 3.5. */
    TFM_SINUSOID_SPLIT,       /* Sines in the first ceil(E/2) columns, cosines in the others: Marian. */
    /* Sines in the first floor(E/2) columns, cosines in the next floor(E/2). Pair i of h has the frequency
     * 10000^(-i/(h-1)), down to exactly 1/10000: fairseq. The last column of an odd E is 0. */
    TFM_SINUSOID_FAIRSEQ,
} tfm_sinusoid_layout;

typedef struct tfm_dropout_options tfm_dropout_options;     /* See ops.h. */
typedef struct tfm_attention_options tfm_attention_options; /* See ops.h. */

#endif
