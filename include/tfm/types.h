/* Types of ops.h that layers and models take too. nn.h includes this header in place of ops.h, so a program that calls
 * ops includes ops.h or tfm.h. */
#ifndef TFM_TYPES_H
#define TFM_TYPES_H

typedef enum tfm_activation {
    TFM_NO_ACTIVATION, /* x itself. */
    TFM_RELU,          /* max(x, 0). */
    TFM_GELU,          /* x Phi(x), computed by the error function. */
    TFM_GELU_TANH,     /* The approximation of GELU by tanh. */
    TFM_SILU,          /* x sigmoid(x), which is also called swish. */
    TFM_QUICK_GELU,    /* x sigmoid(1.702 x). */
    TFM_RELU2,         /* max(x, 0)^2. */
    TFM_RELU6,         /* min(max(x, 0), 6). */
    TFM_LEAKY_RELU,    /* x, or 0.01 x below 0. */
    TFM_SIGMOID,       /* 1 / (1 + e^-x). */
    TFM_TANH,          /* tanh(x). */
    TFM_MISH,          /* x tanh(log(1 + e^x)). */
    TFM_LAPLACE,       /* Phi((x - sqrt(1/2)) / sqrt(1/(4 pi))), in the digits that transformers has of these. */
    TFM_GELU_10,       /* TFM_GELU, but never above 10. */
    TFM_HARDSWISH,     /* x min(max(x + 3, 0), 6) / 6. */
    TFM_ACTIVATIONS    /* How many of these there are. */
} tfm_activation;

/* How the tokens of a sequence become one vector. */
typedef enum tfm_pooling {
    TFM_POOL_CLS,           /* The first token, as BERT's [CLS]. */
    TFM_POOL_MEAN,          /* Their mean. */
    TFM_POOL_MAX,           /* In each column the largest. */
    TFM_POOL_MEAN_SQRT_LEN, /* Their sum, divided by the square root of how many they are. */
    TFM_POOL_WEIGHTED, /* Their mean, in which the token at place p, from 1, counts p times ("SGPT", Muennighoff 2022).
                        */
    TFM_POOL_LAST,     /* The last token. */
    TFM_POOLINGS       /* How many of these there are. */
} tfm_pooling;

typedef enum tfm_sinusoid_layout {
    TFM_SINUSOID_INTERLEAVED, /* Sines are in even columns and cosines in odd ones, as in the paper, section 3.5. */
    TFM_SINUSOID_SPLIT,       /* Sines are in the first ceil(E/2) columns, cosines in the others, as in Marian. */
    /* Sines are in the first floor(E/2) columns and cosines in the next as many, and rates fall to 1/10000 exactly:
     * pair i of h turns by 10000^(-i/(h-1)), as in fairseq's models. The last column of an odd E is 0. */
    TFM_SINUSOID_FAIRSEQ,
} tfm_sinusoid_layout;

typedef struct tfm_dropout_options tfm_dropout_options;     /* Of tfm_dropout, in ops.h. */
typedef struct tfm_attention_options tfm_attention_options; /* Of tfm_attention, in ops.h. */

#endif
