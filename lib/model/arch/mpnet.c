/* MPNet ("MPNet: Masked and Permuted Pre-training for Language Understanding", Song et al. 2020): learned positions
 * that begin after the padding's row, and T5's relative position bias. Keys and defaults are those of MPNetConfig. */
#include "model/arch/encoder_keys.h"

/* transformers uses padding row 1 for any `pad_token_id`, and 32 buckets for any `relative_attention_num_buckets`. */
static const tfm__encoder_kind KIND = {.no_token_types = true,
                                       .relative = true,
                                       .vocabulary = 30527,
                                       .pad = 1,
                                       .width = 768,
                                       .layers = 12,
                                       .heads = 12,
                                       .feed_forward = 3072,
                                       .activation = TFM_GELU,
                                       .position_base = TFM__POSITIONS_AFTER_FIXED,
                                       .mlm_activation = TFM_GELU};

#define BLOCK(name) TFM__WEIGHT_AND_BIAS("mpnet.encoder.layer.#." name)

static const tfm__naming ENCODER[TFM__ROLES] = {
    [TFM__POSITIONS] = TFM__WEIGHT_ONLY("mpnet.embeddings.position_embeddings"),
    [TFM__RELATIVE_BIAS] = TFM__WEIGHT_ONLY("mpnet.encoder.relative_attention_bias"),
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS("mpnet.embeddings.LayerNorm"),
    [TFM__SELF_QUERY] = BLOCK("attention.attn.q"),
    [TFM__SELF_KEY] = BLOCK("attention.attn.k"),
    [TFM__SELF_VALUE] = BLOCK("attention.attn.v"),
    [TFM__SELF_OUT] = BLOCK("attention.attn.o"),
    [TFM__SELF_NORM] = BLOCK("attention.LayerNorm"),
    [TFM__UP] = BLOCK("intermediate.dense"),
    [TFM__DOWN] = BLOCK("output.dense"),
    [TFM__FEED_FORWARD_NORM] = BLOCK("output.LayerNorm"),
};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("mpnet.embeddings.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head.decoder"),
    [TFM__OUTPUT_BIAS] = {"lm_head.decoder.bias", "lm_head.bias", false},
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("lm_head.dense"),
    [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("lm_head.layer_norm"),
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS("classifier.dense"),
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier.out_proj"),
};

const tfm__family tfm__family_mpnet = {
    .name = "mpnet",
    .types = (const char *const[]){"mpnet", NULL},
    .classes = (const char *const[]){"MPNet", NULL},
    .prefixes = (const char *const[]){"mpnet.", NULL},
    .ignored = (const char *const[]){"position_ids", "pooler.dense.weight", "pooler.dense.bias", "lm_head.",
                                     "classifier.", "qa_outputs.", NULL},
    .read = tfm__encoder_read,
    .encoder_kind = &KIND,
    .common = COMMON,
    .encoder = ENCODER,
};
