/* Which op of ONNX is which function. An op that is not here, or an attribute that its line does not name,
 * makes a case unsupported by that name. */
#include "op_table.h"

#include <string.h>

static const op_entry entries[] = {
    {"Add", "", op_add},
    {"Attention", "is_causal kv_num_heads q_num_heads scale softcap qk_matmul_output_mode softmax_precision "
     "left_window_size right_window_size",
     op_attention},
    {"Cast", "to saturate", op_cast},
    {"CastLike", "saturate", op_cast_like},
    {"Concat", "axis", op_concat},
    {"Constant", "value", op_constant},
    {"Dropout", "seed ratio", op_dropout},
    {"Expand", "", op_expand},
    {"Flatten", "axis", op_flatten},
    {"Gather", "axis", op_gather},
    {"Gelu", "approximate", op_gelu},
    {"Gemm", "alpha beta transA transB", op_gemm},
    {"GroupNormalization", "epsilon num_groups stash_type", op_group_normalization},
    {"Identity", "", op_identity},
    {"InstanceNormalization", "epsilon", op_instance_normalization},
    {"LayerNormalization", "axis epsilon stash_type", op_layer_normalization},
    {"LogSoftmax", "axis", op_log_softmax},
    {"MatMul", "", op_matmul},
    {"Mean", "", op_mean},
    {"Mul", "", op_mul},
    {"Neg", "", op_neg},
    {"NegativeLogLikelihoodLoss", "ignore_index reduction", op_negative_log_likelihood_loss},
    {"Relu", "", op_relu},
    {"Reshape", "allowzero", op_reshape},
    {"RMSNormalization", "axis epsilon stash_type", op_rms_normalization},
    {"RotaryEmbedding", "interleaved num_heads rotary_embedding_dim", op_rotary_embedding},
    {"Slice", "axes starts ends", op_slice},
    {"Softmax", "axis", op_softmax},
    {"SoftmaxCrossEntropyLoss", "ignore_index reduction", op_softmax_cross_entropy_loss},
    {"Split", "axis split num_outputs", op_split},
    {"Squeeze", "axes", op_squeeze},
    {"Sub", "", op_sub},
    {"Sum", "", op_sum},
    {"SwiGLU", "alpha", op_swiglu},
    {"Swish", "alpha", op_swish},
    {"TensorScatter", "axis mode", op_tensor_scatter},
    {"TopK", "axis largest sorted", op_topk},
    {"Transpose", "perm", op_transpose},
    {"Unsqueeze", "axes", op_unsqueeze},
};

const op_entry *op_find(const char *name) {
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}
