/* A forward pass of a stack, shared by the files that compute it. */
#ifndef TFM_LIB_FORWARD_PASS_H
#define TFM_LIB_FORWARD_PASS_H

#include "model/core/model.h"

/* Inputs of a pass besides ids. */
typedef struct tfm__forward_pass {
    tfm__stack *stack;
    const tfm__stack_arch *arch;
    int64_t position;         /* of the first id of each row */
    tfm_tensor positions;     /* (B, T): position of each id, instead; or empty */
    tfm_tensor lengths;       /* (B): lengths of the input, or empty */
    tfm_tensor types;         /* (B, T): token types, or empty: all 0 */
    tfm_tensor encoded;       /* (N, S, E): encoder output for the blocks, or empty: `step` has its keys and values */
    tfm_tensor cross_lengths; /* (N) */
    const tfm__decode_step *step; /* NULL: whole sequences */
    bool kv_only;                 /* only the keys and values of the last block are needed */
    tfm_tensor buckets;           /* of distances (T, S), or empty */
    tfm_tensor bias;              /* position bias (1, H, T, S), or empty: per layer, or none */
    tfm__observer *observer;      /* or NULL */
    tfm_attention_kind own, cross;
} tfm__forward_pass;

/* x (B, T, E) = embedding * scale + positions, then norm, dropout in training and projection to E, if present. */
tfm_status tfm__forward_embed(tfm_model *model, tfm_tensor *x, const tfm__forward_pass *p, tfm_tensor ids);

/* logits = cap tanh(logits / cap) + bias: the bias is added last, so -inf stays. */
tfm_status tfm__model_cap_logits(tfm_model *model, tfm_tensor logits, tfm_tensor bias);

#endif
