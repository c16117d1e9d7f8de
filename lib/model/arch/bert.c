/* BERT ("BERT: Pre-training of Deep Bidirectional Transformers", Devlin et al. 2019); RoBERTa and XLM-R, with another
 * position offset and other heads; ELECTRA (Clark et al. 2020) and ALBERT (Lan et al. 2019), with factorized
 * embeddings; ALBERT also shares one layer. Keys and defaults are those of their configurations in Hugging Face's
 * transformers. */
#include "model/arch/encoder_keys.h"

/* ---- Differences ------------------------------------------------------------------------------ */

#define BASE_SIZE .width = 768, .layers = 12, .heads = 12, .feed_forward = 3072, .activation = TFM_GELU

static const tfm__encoder_kind BERT_KIND = {BASE_SIZE, .vocabulary = 30522, .pad = 0};

static const tfm__encoder_kind ROBERTA_KIND = {BASE_SIZE, .vocabulary = 50265, .pad = 1,
                                               .position_base = TFM__POSITIONS_AFTER_PAD, .mlm_activation = TFM_GELU};

static const tfm__encoder_kind ELECTRA_KIND = {.vocabulary = 30522,
                                               .width = 256,
                                               .layers = 12,
                                               .heads = 4,
                                               .feed_forward = 1024,
                                               .activation = TFM_GELU,
                                               .mlm_activation = TFM_GELU,
                                               .class_activation = TFM_GELU,
                                               .narrow = true};

static const tfm__encoder_kind ALBERT_KIND = {.vocabulary = 30000,
                                              .width = 4096,
                                              .layers = 12,
                                              .heads = 64,
                                              .feed_forward = 16384,
                                              .activation = TFM_GELU_TANH,
                                              .narrow = true,
                                              .always_projected = true,
                                              .grouped = true};

/* ---- Names -------------------------------------------------------------------------------------------- */

#define BLOCK(model, name) TFM__WEIGHT_AND_BIAS(model ".encoder.layer.#." name)
#define ENCODER(model)                                                                                                 \
    [TFM__POSITIONS] = TFM__WEIGHT_ONLY(model ".embeddings.position_embeddings"),                                      \
    [TFM__TOKEN_TYPES] = TFM__WEIGHT_ONLY(model ".embeddings.token_type_embeddings"),                                  \
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS(model ".embeddings.LayerNorm"),                                       \
    [TFM__SELF_QUERY] = BLOCK(model, "attention.self.query"), [TFM__SELF_KEY] = BLOCK(model, "attention.self.key"),    \
    [TFM__SELF_VALUE] = BLOCK(model, "attention.self.value"),                                                          \
    [TFM__SELF_OUT] = BLOCK(model, "attention.output.dense"),                                                          \
    [TFM__SELF_NORM] = BLOCK(model, "attention.output.LayerNorm"), [TFM__UP] = BLOCK(model, "intermediate.dense"),     \
    [TFM__DOWN] = BLOCK(model, "output.dense"), [TFM__FEED_FORWARD_NORM] = BLOCK(model, "output.LayerNorm")

static const tfm__naming BERT[TFM__ROLES] = {ENCODER("bert")};
static const tfm__naming ELECTRA[TFM__ROLES] = {
    ENCODER("electra"),
    [TFM__EMBEDDING_DENSE] = TFM__WEIGHT_AND_BIAS("electra.embeddings_project"),
};

/* Layers of a group share their tensors. */
#define ALBERT_LAYER(name) TFM__WEIGHT_AND_BIAS("albert.encoder.albert_layer_groups.#.albert_layers.#." name)
static const tfm__naming ALBERT[TFM__ROLES] = {
    [TFM__POSITIONS] = TFM__WEIGHT_ONLY("albert.embeddings.position_embeddings"),
    [TFM__TOKEN_TYPES] = TFM__WEIGHT_ONLY("albert.embeddings.token_type_embeddings"),
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS("albert.embeddings.LayerNorm"),
    [TFM__EMBEDDING_DENSE] = TFM__WEIGHT_AND_BIAS("albert.encoder.embedding_hidden_mapping_in"),
    [TFM__SELF_QUERY] = ALBERT_LAYER("attention.query"),
    [TFM__SELF_KEY] = ALBERT_LAYER("attention.key"),
    [TFM__SELF_VALUE] = ALBERT_LAYER("attention.value"),
    [TFM__SELF_OUT] = ALBERT_LAYER("attention.dense"),
    [TFM__SELF_NORM] = ALBERT_LAYER("attention.LayerNorm"),
    [TFM__UP] = ALBERT_LAYER("ffn"),
    [TFM__DOWN] = ALBERT_LAYER("ffn_output"),
    [TFM__FEED_FORWARD_NORM] = ALBERT_LAYER("full_layer_layer_norm"),
};

static const tfm__naming ROBERTA[TFM__ROLES] = {ENCODER("roberta")};

static const tfm__naming BERT_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("bert.embeddings.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("cls.predictions.decoder"),
    [TFM__OUTPUT_BIAS] = {"cls.predictions.decoder.bias", "cls.predictions.bias", false},
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("cls.predictions.transform.dense"),
    [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("cls.predictions.transform.LayerNorm"),
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS("bert.pooler.dense"),
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier"),
};

static const tfm__naming ROBERTA_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("roberta.embeddings.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head.decoder"),
    [TFM__OUTPUT_BIAS] = {"lm_head.decoder.bias", "lm_head.bias", false},
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("lm_head.dense"),
    [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("lm_head.layer_norm"),
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS("classifier.dense"),
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier.out_proj"),
};

static const tfm__naming ELECTRA_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("electra.embeddings.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("generator_lm_head"),
    [TFM__OUTPUT_BIAS] = {NULL, "generator_lm_head.bias", false},
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("generator_predictions.dense"),
    [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("generator_predictions.LayerNorm"),
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS("classifier.dense"),
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier.out_proj"),
};

static const tfm__naming ALBERT_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("albert.embeddings.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("predictions.decoder"),
    [TFM__OUTPUT_BIAS] = {"predictions.decoder.bias", "predictions.bias", false},
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("predictions.dense"),
    [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("predictions.LayerNorm"),
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS("albert.pooler"),
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier"),
};

/* Tensors of unsupported heads and other unused tensors. */
static const char *const IGNORED[] = {"position_ids", "pooler.dense.weight", "pooler.dense.bias", "cls.",
                                      "lm_head.",     "classifier.",         "qa_outputs.",       NULL};
static const char *const LEGACY_NAMES[] = {"LayerNorm.weight", "LayerNorm.gamma", "LayerNorm.bias", "LayerNorm.beta",
                                           NULL};

const tfm__family tfm__family_bert = {
    .name = "bert",
    .types = (const char *const[]){"bert", NULL},
    .classes = (const char *const[]){"Bert", NULL},
    .prefixes = (const char *const[]){"bert.", NULL},
    .ignored = IGNORED,
    .legacy_names = LEGACY_NAMES,
    .read = tfm__encoder_read,
    .encoder_kind = &BERT_KIND,
    .common = BERT_COMMON,
    .encoder = BERT,
};

const tfm__family tfm__family_roberta = {
    .name = "roberta",
    .types = (const char *const[]){"roberta", "xlm-roberta", "camembert", NULL},
    .classes = (const char *const[]){"Roberta", "XLMRoberta", "Camembert", NULL},
    .prefixes = (const char *const[]){"roberta.", NULL},
    .ignored = IGNORED,
    .legacy_names = LEGACY_NAMES,
    .read = tfm__encoder_read,
    .encoder_kind = &ROBERTA_KIND,
    .common = ROBERTA_COMMON,
    .encoder = ROBERTA,
};

const tfm__family tfm__family_electra = {
    .name = "electra",
    .types = (const char *const[]){"electra", NULL},
    .classes = (const char *const[]){"Electra", NULL},
    .prefixes = (const char *const[]){"electra.", NULL},
    .ignored = (const char *const[]){"position_ids", "discriminator_predictions.", "generator_predictions.",
                                     "generator_lm_head.", "classifier.", "qa_outputs.", NULL},
    .legacy_names = LEGACY_NAMES,
    .read = tfm__encoder_read,
    .encoder_kind = &ELECTRA_KIND,
    .common = ELECTRA_COMMON,
    .encoder = ELECTRA,
};

const tfm__family tfm__family_albert = {
    .name = "albert",
    .types = (const char *const[]){"albert", NULL},
    .classes = (const char *const[]){"Albert", NULL},
    .prefixes = (const char *const[]){"albert.", NULL},
    .ignored = (const char *const[]){"position_ids", "pooler.weight", "pooler.bias", "predictions.", "sop_classifier.",
                                     "classifier.", "qa_outputs.", NULL},
    .read = tfm__encoder_read,
    .encoder_kind = &ALBERT_KIND,
    .common = ALBERT_COMMON,
    .encoder = ALBERT,
};
