/* BERT ("BERT: Pre-training of Deep Bidirectional Transformers", Devlin et al. 2019), and RoBERTa and XLM-R, which
 * differ by where positions begin and by their heads. Keys and the defaults of absent ones are those of BertConfig and
 * RobertaConfig. */
#include "model/family/encoder_keys.h"

/* ---- Reading ------------------------------------------------------------------------------------------ */

/* What one of the families differs by. */
typedef struct variant {
    int vocabulary, pad;  /* defaults */
    bool positions_after; /* Position 0 is the row after that of the padding's id. */
    bool gelu_words;      /* The head of words has GELU, whatever `hidden_act` is. */
} variant;

static tfm_status read_stack(tfm__stack_arch *out, const tfm__config_files *from, const variant *v) {
    *out = (tfm__stack_arch){
        .activation = TFM_GELU,
        .input_biases = true,
        .output_biases = true,
        .feed_forward_biases = true,
        .norm = TFM_NORM_LAYER,
        .norm_biases = true,
        .norm_place = TFM_NORM_AFTER,
        .epsilon = 1e-12f,
        .embedding_norm = true,
        .embedding_scale = 1,
        .positions = TFM__LEARNED_POSITIONS,
    };
    const tfm__size_key sizes[] = {
        {"vocab_size", &out->vocabulary, v->vocabulary, TFM__MAX_VOCABULARY},
        {"hidden_size", &out->width, 768, TFM__MAX_WIDTH},
        {"num_hidden_layers", &out->layers, 12, TFM__MAX_LAYERS},
        {"num_attention_heads", &out->heads, 12, 1024},
        {"intermediate_size", &out->feed_forward, 3072, TFM__MAX_WIDTH},
        {"max_position_embeddings", &out->max_positions, 512, TFM__MAX_WIDTH},
        {"type_vocab_size", &out->token_types, 2, TFM__MAX_WIDTH},
    };
    tfm_status status = tfm__check_encoder(from);
    if (status == TFM_OK)
        status = tfm__read_sizes(sizes, TFM__COUNT(sizes), from);
    if (status == TFM_OK)
        status = tfm__check_heads(from, "num_attention_heads", out->heads, "hidden_size", out->width);
    if (status == TFM_OK)
        status = tfm__read_activation(&out->activation, from, "hidden_act");
    if (status == TFM_OK)
        status = tfm__read_epsilon(&out->epsilon, from, "layer_norm_eps");
    if (status == TFM_OK) {
        out->kv_heads = out->heads;
        out->head_width = out->width / out->heads;
    }
    return status;
}

/* The rows of the table of positions up to the padding's are none of a token. */
static tfm_status skip_positions(tfm__stack_arch *stack, int pad, const tfm__config_files *from) {
    stack->position_offset = pad + 1;
    if (stack->max_positions <= stack->position_offset)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `max_position_embeddings` is %d, and positions begin after `pad_token_id`, which is %d: "
                         "none is left",
                         from->config_path, stack->max_positions, pad);
    stack->max_positions -= stack->position_offset;
    return TFM_OK;
}

static tfm_status read_variant(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from, const variant *v) {
    tfm__head_arch *head = &arch->head;
    tfm_status status = read_stack(&arch->encoder, from, v);
    if (status == TFM_OK)
        status = tfm__read_padding(rules, from, v->pad, arch->encoder.vocabulary);
    if (status == TFM_OK && v->positions_after)
        status = skip_positions(&arch->encoder, rules->pad_id, from);
    if (status == TFM_OK)
        status = tfm__read_encoder_head(arch, from);
    head->dense_bias = true;
    head->tanh = head->kind == TFM__CLASSES_HEAD;
    head->activation = v->gelu_words ? TFM_GELU : arch->encoder.activation;
    head->norm = head->kind == TFM__WORDS_HEAD;
    return status;
}

static tfm_status read_bert(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    return read_variant(arch, rules, from, &(variant){.vocabulary = 30522, .pad = 0});
}

static tfm_status read_roberta(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    return read_variant(arch, rules, from,
                        &(variant){.vocabulary = 50265, .pad = 1, .positions_after = true, .gelu_words = true});
}

/* ---- Names -------------------------------------------------------------------------------------------- */

#define PAIR(stem)                                                                                                     \
    { stem ".weight", stem ".bias", false }
#define TABLE(stem)                                                                                                    \
    { stem ".weight", NULL, false }
#define BLOCK(model, name) PAIR(model ".encoder.layer.#." name)
#define ENCODER(model)                                                                                                 \
    [TFM__POSITIONS] = TABLE(model ".embeddings.position_embeddings"),                                                 \
    [TFM__TOKEN_TYPES] = TABLE(model ".embeddings.token_type_embeddings"),                                             \
    [TFM__EMBEDDING_NORM] = PAIR(model ".embeddings.LayerNorm"),                                                       \
    [TFM__SELF_QUERY] = BLOCK(model, "attention.self.query"), [TFM__SELF_KEY] = BLOCK(model, "attention.self.key"),    \
    [TFM__SELF_VALUE] = BLOCK(model, "attention.self.value"),                                                          \
    [TFM__SELF_OUT] = BLOCK(model, "attention.output.dense"),                                                          \
    [TFM__SELF_NORM] = BLOCK(model, "attention.output.LayerNorm"), [TFM__UP] = BLOCK(model, "intermediate.dense"),     \
    [TFM__DOWN] = BLOCK(model, "output.dense"), [TFM__FEED_FORWARD_NORM] = BLOCK(model, "output.LayerNorm")

static const tfm__naming BERT[TFM__ROLES] = {ENCODER("bert")};
static const tfm__naming ROBERTA[TFM__ROLES] = {ENCODER("roberta")};

static const tfm__naming BERT_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_TABLE] = TABLE("bert.embeddings.word_embeddings"),
    [TFM__OUTPUT_TABLE] = TABLE("cls.predictions.decoder"),
    [TFM__OUTPUT_BIAS] = {"cls.predictions.decoder.bias", "cls.predictions.bias", false},
    [TFM__WORDS_DENSE] = PAIR("cls.predictions.transform.dense"),
    [TFM__WORDS_NORM] = PAIR("cls.predictions.transform.LayerNorm"),
    [TFM__CLASSES_DENSE] = PAIR("bert.pooler.dense"),
    [TFM__CLASSES_OUT] = PAIR("classifier"),
};

static const tfm__naming ROBERTA_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_TABLE] = TABLE("roberta.embeddings.word_embeddings"),
    [TFM__OUTPUT_TABLE] = TABLE("lm_head.decoder"),
    [TFM__OUTPUT_BIAS] = {"lm_head.decoder.bias", "lm_head.bias", false},
    [TFM__WORDS_DENSE] = PAIR("lm_head.dense"),
    [TFM__WORDS_NORM] = PAIR("lm_head.layer_norm"),
    [TFM__CLASSES_DENSE] = PAIR("classifier.dense"),
    [TFM__CLASSES_OUT] = PAIR("classifier.out_proj"),
};

/* Heads that are not run, and what an encoder alone does without. */
static const char *const IGNORED[] = {"position_ids", "pooler.dense.weight", "pooler.dense.bias", "cls.",
                                      "lm_head.",     "classifier.",         "qa_outputs.",       NULL};
static const char *const RESPELLED[] = {"LayerNorm.weight", "LayerNorm.gamma", "LayerNorm.bias", "LayerNorm.beta",
                                        NULL};

const tfm__family tfm__family_bert = {
    .name = "bert",
    .types = (const char *const[]){"bert", NULL},
    .classes = (const char *const[]){"Bert", NULL},
    .prefixes = (const char *const[]){"bert.", NULL},
    .ignored = IGNORED,
    .respelled = RESPELLED,
    .read = read_bert,
    .common = BERT_COMMON,
    .encoder = BERT,
};

const tfm__family tfm__family_roberta = {
    .name = "roberta",
    .types = (const char *const[]){"roberta", "xlm-roberta", "camembert", NULL},
    .classes = (const char *const[]){"Roberta", "XLMRoberta", "Camembert", NULL},
    .prefixes = (const char *const[]){"roberta.", NULL},
    .ignored = IGNORED,
    .respelled = RESPELLED,
    .read = read_roberta,
    .common = ROBERTA_COMMON,
    .encoder = ROBERTA,
};
