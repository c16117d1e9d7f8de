/* Cohere's Command R (2024): LLaMA with layer norms without betas, parallel sub-layers after one norm, interleaved RoPE
 * and scaled logits. Keys and defaults are those of CohereConfig. */
#include "model/arch/decoder.h"

static const tfm__decoder_kind cohere = {.width = 8192,
                                         .feed_forward = 22528,
                                         .layers = 40,
                                         .heads = 64,
                                         .max_positions = 8192,
                                         .vocabulary = 256000,
                                         .epsilon = 1e-5,
                                         .epsilon_key = "layer_norm_eps",
                                         .layer_norms = true,
                                         .no_betas = true,
                                         .tied = true,
                                         .activation_key = "hidden_act",
                                         .activation = TFM_SILU,
                                         .attention_biases = "attention_bias",
                                         .head_norms_key = "use_qk_norm",
                                         .own_head_norms = true,
                                         .parallel = true,
                                         .parallel_norm = true,
                                         .logit_scale_key = "logit_scale",
                                         .logit_scale = 0.0625,
                                         .theta = 500000,
                                         .interleaved = true};

static const tfm__naming TABLES[TFM__ROLES] = {TFM__DECODER_EMBEDDINGS};
static const tfm__naming NAMES[TFM__ROLES] = {TFM__DECODER_NAMES};

TFM__DECODER_FAMILY(cohere, "Cohere", cohere, TABLES, NAMES);
