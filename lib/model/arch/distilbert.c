/* DistilBERT ("DistilBERT, a distilled version of BERT", Sanh et al. 2019): BERT without token types and pooler, with
 * different tensor names and keys. Keys and defaults are those of DistilBertConfig. */
#include "model/arch/encoder_keys.h"

/* With `sinusoidal_pos_embds` the position table holds sinusoids and is stored as well. */
static const tfm__encoder_kind KIND = {.width_key = "dim",
                                       .layers_key = "n_layers",
                                       .heads_key = "n_heads",
                                       .feed_forward_key = "hidden_dim",
                                       .activation_key = "activation",
                                       .common_keys = true,
                                       .fixed_epsilon = true,
                                       .no_token_types = true,
                                       .vocabulary = 30522,
                                       .width = 768,
                                       .layers = 6,
                                       .heads = 12,
                                       .feed_forward = 3072,
                                       .activation = TFM_GELU,
                                       .class_activation = TFM_RELU};

#define BLOCK(name) TFM__WEIGHT_AND_BIAS("distilbert.transformer.layer.#." name)

static const tfm__naming ENCODER[TFM__ROLES] = {
    [TFM__POSITIONS] = TFM__WEIGHT_ONLY("distilbert.embeddings.position_embeddings"),
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS("distilbert.embeddings.LayerNorm"),
    [TFM__SELF_QUERY] = BLOCK("attention.q_lin"),
    [TFM__SELF_KEY] = BLOCK("attention.k_lin"),
    [TFM__SELF_VALUE] = BLOCK("attention.v_lin"),
    [TFM__SELF_OUT] = BLOCK("attention.out_lin"),
    [TFM__SELF_NORM] = BLOCK("sa_layer_norm"),
    [TFM__UP] = BLOCK("ffn.lin1"),
    [TFM__DOWN] = BLOCK("ffn.lin2"),
    [TFM__FEED_FORWARD_NORM] = BLOCK("output_layer_norm"),
};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("distilbert.embeddings.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("vocab_projector"),
    [TFM__OUTPUT_BIAS] = {NULL, "vocab_projector.bias", false},
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("vocab_transform"),
    [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("vocab_layer_norm"),
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS("pre_classifier"),
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier"),
};

const tfm__family tfm__family_distilbert = {
    .name = "distilbert",
    .types = (const char *const[]){"distilbert", NULL},
    .classes = (const char *const[]){"DistilBert", NULL},
    .prefixes = (const char *const[]){"distilbert.", NULL},
    .ignored = (const char *const[]){"position_ids", "vocab_transform.", "vocab_layer_norm.", "vocab_projector.",
                                     "pre_classifier.", "classifier.", "qa_outputs.", NULL},
    .read = tfm__encoder_read,
    .encoder_kind = &KIND,
    .common = COMMON,
    .encoder = ENCODER,
};
