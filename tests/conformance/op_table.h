/* The op functions, by file. */
#ifndef TFM_TESTS_OP_TABLE_H
#define TFM_TESTS_OP_TABLE_H

#include "graph.h"

/* op_broadcast.c */
void op_add(node *n);
void op_expand(node *n);
void op_mean(node *n);
void op_sum(node *n);
/* factor x; x broadcast to these dims; a b with broadcasting. F32, sticky errors as in graph.h. */
tfm_tensor part_scaled(node *n, tfm_tensor x, float factor);
tfm_tensor part_spread(node *n, tfm_tensor x, int rank, const int64_t *dims);
tfm_tensor part_product(node *n, tfm_tensor a, tfm_tensor b);
/* op_pointwise.c */
void op_unary(node *n);
void op_hard_sigmoid(node *n);
void op_prelu(node *n);
void op_clip(node *n);
void op_binary(node *n);
void op_extreme(node *n);
void op_not(node *n);
void op_where(node *n);
/* op_reduce.c */
void op_reduce(node *n);
void op_cumsum(node *n);
void op_onehot(node *n);
void op_gather_elements(node *n);
/* op_host.c */
void op_shape(node *n);
void op_size(node *n);
void op_constant_of_shape(node *n);
void op_range(node *n);
void op_mod(node *n);
/* Casts input 0 on the host, for types that tfm_cast does not support. */
void part_cast_on_host(node *n, int type);
/* op_math.c */
void op_matmul(node *n);
void op_gemm(node *n);
void op_relu(node *n);
void op_gelu(node *n);
void op_swish(node *n);
void op_swiglu(node *n);
void op_topk(node *n);
void op_cast(node *n);
void op_cast_like(node *n);
/* op_norm.c */
void op_softmax(node *n);
void op_log_softmax(node *n);
void op_layer_normalization(node *n);
void op_rms_normalization(node *n);
void op_group_normalization(node *n);
void op_instance_normalization(node *n);
void op_rotary_embedding(node *n);
/* op_loss.c */
void op_negative_log_likelihood_loss(node *n);
void op_softmax_cross_entropy_loss(node *n);
/* op_layout.c */
void op_identity(node *n);
void op_dropout(node *n);
void op_constant(node *n);
void op_transpose(node *n);
void op_concat(node *n);
void op_split(node *n);
void op_slice(node *n);
void op_pad(node *n);
void op_gather(node *n);
void op_tensor_scatter(node *n);
/* op_shape.c */
void op_reshape(node *n);
void op_flatten(node *n);
void op_squeeze(node *n);
void op_unsqueeze(node *n);
/* op_attention.c */
void op_attention(node *n);

#endif
