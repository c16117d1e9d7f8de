/* BERT ("BERT: Pre-training of Deep Bidirectional Transformers", Devlin et al. 2019); RoBERTa and XLM-R, which differ
 * by where positions begin and by their heads; ELECTRA (Clark et al. 2020) and ALBERT (Lan et al. 2019), whose
 * embeddings may be narrower, and of which the latter has one layer for all. Keys and the defaults of absent ones are
 * those of their configurations in Hugging Face's transformers. */
#include "model/family/encoder_keys.h"

/* ---- Reading ------------------------------------------------------------------------------------------ */

/* What one of the families differs by. */
typedef struct variant {
    int vocabulary, pad, width, heads, feed_forward; /* defaults */
    tfm_activation activation;                       /* a default, too */
    bool positions_after;                            /* Position 0 is the row after that of the padding's id. */
    bool gelu_words;                                 /* The head of words has GELU, whatever `hidden_act` is, */
    bool gelu_classes;                               /* and that of classes, in the place of tanh. */
    bool narrow;                                     /* There is `embedding_size`, */
    bool widened; /* and a matrix that widens the embedding even where it is as wide as the stack. */
} variant;

/* The width of the embedding, and its matrix. */
static tfm_status read_narrow(tfm__stack_arch *out, const tfm__config_files *from, const variant *v) {
    static const char key[] = "embedding_size";
    int width = 128;
    if (!v->narrow)
        return TFM_OK;
    const tfm_status status = tfm__read_int(&width, tfm__network_key(from, key), key, 1, TFM__MAX_WIDTH);
    out->narrow_width = width != out->width || v->widened ? width : 0;
    return status;
}

static tfm_status read_stack(tfm__stack_arch *out, const tfm__config_files *from, const variant *v) {
    *out = (tfm__stack_arch){
        .activation = v->activation,
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
        {"hidden_size", &out->width, v->width, TFM__MAX_WIDTH},
        {"num_hidden_layers", &out->layers, 12, TFM__MAX_LAYERS},
        {"num_attention_heads", &out->heads, v->heads, 1024},
        {"intermediate_size", &out->feed_forward, v->feed_forward, TFM__MAX_WIDTH},
        {"max_position_embeddings", &out->max_positions, 512, TFM__MAX_WIDTH},
        {"type_vocab_size", &out->token_types, 2, TFM__MAX_WIDTH},
    };
    tfm_status status = tfm__check_encoder(from);
    if (status == TFM_OK)
        status = tfm__read_sizes(sizes, TFM__COUNT(sizes), from);
    if (status == TFM_OK)
        status = read_narrow(out, from, v);
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
    stack->skips = TFM__SKIPS_TO_ROW;
    stack->skipped_id = pad;
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
    head->tanh = head->kind == TFM__CLASSES_HEAD && !v->gelu_classes;
    head->activation = v->gelu_words ? TFM_GELU : arch->encoder.activation;
    head->norm = head->kind == TFM__WORDS_HEAD;
    return status;
}

static tfm_status read_bert(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    return read_variant(
        arch, rules, from,
        &(variant){
            .vocabulary = 30522, .width = 768, .heads = 12, .feed_forward = 3072, .activation = TFM_GELU, .pad = 0});
}

static tfm_status read_roberta(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    return read_variant(arch, rules, from,
                        &(variant){.vocabulary = 50265,
                                   .pad = 1,
                                   .width = 768,
                                   .heads = 12,
                                   .feed_forward = 3072,
                                   .activation = TFM_GELU,
                                   .positions_after = true,
                                   .gelu_words = true});
}

static tfm_status read_electra(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    return read_variant(arch, rules, from,
                        &(variant){.vocabulary = 30522,
                                   .width = 256,
                                   .heads = 4,
                                   .feed_forward = 1024,
                                   .activation = TFM_GELU,
                                   .gelu_words = true,
                                   .gelu_classes = true,
                                   .narrow = true});
}

static tfm_status read_albert(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    int groups = 1, inner = 1;
    tfm_status status = tfm__read_ints(
        from, (const tfm__int_key[]){{"num_hidden_groups", &groups, TFM__MAX_LAYERS}, {"inner_group_num", &inner, 8}},
        2);
    if (status == TFM_OK)
        status = read_variant(arch, rules, from,
                              &(variant){.vocabulary = 30000,
                                         .width = 4096,
                                         .heads = 64,
                                         .feed_forward = 16384,
                                         .activation = TFM_GELU_TANH,
                                         .narrow = true,
                                         .widened = true});
    tfm__stack_arch *s = &arch->encoder;
    if (status == TFM_OK && (groups > s->layers || s->layers * inner > TFM__MAX_LAYERS))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `num_hidden_groups` is %d and `inner_group_num` %d, and there are %d layers: groups are "
                         "at most as many, and %d layers can be run",
                         from->config_path, groups, inner, s->layers, TFM__MAX_LAYERS);
    s->groups = groups;
    s->group_layers = inner;
    s->layers *= inner;
    return status;
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
static const tfm__naming ELECTRA[TFM__ROLES] = {
    ENCODER("electra"),
    [TFM__EMBEDDING_DENSE] = PAIR("electra.embeddings_project"),
};

/* All layers of a group are the same tensors. */
#define ALBERT_LAYER(name) PAIR("albert.encoder.albert_layer_groups.#.albert_layers.#." name)
static const tfm__naming ALBERT[TFM__ROLES] = {
    [TFM__POSITIONS] = TABLE("albert.embeddings.position_embeddings"),
    [TFM__TOKEN_TYPES] = TABLE("albert.embeddings.token_type_embeddings"),
    [TFM__EMBEDDING_NORM] = PAIR("albert.embeddings.LayerNorm"),
    [TFM__EMBEDDING_DENSE] = PAIR("albert.encoder.embedding_hidden_mapping_in"),
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

static const tfm__naming ELECTRA_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_TABLE] = TABLE("electra.embeddings.word_embeddings"),
    [TFM__OUTPUT_TABLE] = TABLE("generator_lm_head"),
    [TFM__OUTPUT_BIAS] = {NULL, "generator_lm_head.bias", false},
    [TFM__WORDS_DENSE] = PAIR("generator_predictions.dense"),
    [TFM__WORDS_NORM] = PAIR("generator_predictions.LayerNorm"),
    [TFM__CLASSES_DENSE] = PAIR("classifier.dense"),
    [TFM__CLASSES_OUT] = PAIR("classifier.out_proj"),
};

static const tfm__naming ALBERT_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_TABLE] = TABLE("albert.embeddings.word_embeddings"),
    [TFM__OUTPUT_TABLE] = TABLE("predictions.decoder"),
    [TFM__OUTPUT_BIAS] = {"predictions.decoder.bias", "predictions.bias", false},
    [TFM__WORDS_DENSE] = PAIR("predictions.dense"),
    [TFM__WORDS_NORM] = PAIR("predictions.LayerNorm"),
    [TFM__CLASSES_DENSE] = PAIR("albert.pooler"),
    [TFM__CLASSES_OUT] = PAIR("classifier"),
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

const tfm__family tfm__family_electra = {
    .name = "electra",
    .types = (const char *const[]){"electra", NULL},
    .classes = (const char *const[]){"Electra", NULL},
    .prefixes = (const char *const[]){"electra.", NULL},
    .ignored = (const char *const[]){"position_ids", "discriminator_predictions.", "generator_predictions.",
                                     "generator_lm_head.", "classifier.", "qa_outputs.", NULL},
    .respelled = RESPELLED,
    .read = read_electra,
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
    .read = read_albert,
    .common = ALBERT_COMMON,
    .encoder = ALBERT,
};
