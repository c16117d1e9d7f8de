/* DistilBERT ("DistilBERT, a distilled version of BERT", Sanh et al. 2019): BERT without token types and pooler, with
 * names and keys of its own. Keys and the defaults of absent ones are those of DistilBertConfig. */
#include "model/family/encoder_keys.h"

static tfm_status read_stack(tfm__stack_arch *out, const tfm__config_files *from) {
    *out = (tfm__stack_arch){
        .activation = TFM_GELU,
        .input_biases = true,
        .output_biases = true,
        .feed_forward_biases = true,
        .norm = TFM_NORM_LAYER,
        .norm_biases = true,
        .norm_place = TFM_NORM_AFTER,
        .epsilon = 1e-12f, /* the family has no key for it */
        .embedding_norm = true,
        .embedding_scale = 1,
        /* With `sinusoidal_pos_embds` the table holds sinusoids, and is stored all the same. */
        .positions = TFM__LEARNED_POSITIONS,
    };
    const tfm__size_key sizes[] = {
        {"vocab_size", &out->vocabulary, 30522, TFM__MAX_VOCABULARY},
        {"dim", &out->width, 768, TFM__MAX_WIDTH},
        {"n_layers", &out->layers, 6, TFM__MAX_LAYERS},
        {"n_heads", &out->heads, 12, 1024},
        {"hidden_dim", &out->feed_forward, 3072, TFM__MAX_WIDTH},
        {"max_position_embeddings", &out->max_positions, 512, TFM__MAX_WIDTH},
    };
    /* The common names, which count where a file has both, as in transformers. */
    const tfm__int_key common[] = {
        {"hidden_size", &out->width, TFM__MAX_WIDTH},
        {"num_hidden_layers", &out->layers, TFM__MAX_LAYERS},
        {"num_attention_heads", &out->heads, 1024},
    };
    tfm_status status = tfm__check_encoder(from);
    if (status == TFM_OK)
        status = tfm__read_sizes(sizes, TFM__COUNT(sizes), from);
    if (status == TFM_OK)
        status = tfm__read_ints(from, common, TFM__COUNT(common));
    if (status == TFM_OK)
        status = tfm__check_heads(from, "n_heads", out->heads, "dim", out->width);
    if (status == TFM_OK)
        status = tfm__read_activation(&out->activation, from, "activation");
    if (status == TFM_OK) {
        out->kv_heads = out->heads;
        out->head_width = out->width / out->heads;
    }
    return status;
}

static tfm_status read(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    tfm__head_arch *head = &arch->head;
    tfm_status status = read_stack(&arch->encoder, from);
    if (status == TFM_OK)
        status = tfm__read_padding(rules, from, 0, arch->encoder.vocabulary);
    if (status == TFM_OK)
        status = tfm__read_encoder_head(arch, from);
    head->dense_bias = true;
    head->activation = head->kind == TFM__CLASSES_HEAD ? TFM_RELU : arch->encoder.activation;
    head->norm = head->kind == TFM__WORDS_HEAD;
    return status;
}

#define PAIR(stem)                                                                                                     \
    { stem ".weight", stem ".bias", false }
#define TABLE(stem)                                                                                                    \
    { stem ".weight", NULL, false }
#define BLOCK(name) PAIR("distilbert.transformer.layer.#." name)

static const tfm__naming ENCODER[TFM__ROLES] = {
    [TFM__POSITIONS] = TABLE("distilbert.embeddings.position_embeddings"),
    [TFM__EMBEDDING_NORM] = PAIR("distilbert.embeddings.LayerNorm"),
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
    [TFM__SOURCE_TABLE] = TABLE("distilbert.embeddings.word_embeddings"),
    [TFM__OUTPUT_TABLE] = TABLE("vocab_projector"),
    [TFM__OUTPUT_BIAS] = {NULL, "vocab_projector.bias", false},
    [TFM__WORDS_DENSE] = PAIR("vocab_transform"),
    [TFM__WORDS_NORM] = PAIR("vocab_layer_norm"),
    [TFM__CLASSES_DENSE] = PAIR("pre_classifier"),
    [TFM__CLASSES_OUT] = PAIR("classifier"),
};

const tfm__family tfm__family_distilbert = {
    .name = "distilbert",
    .types = (const char *const[]){"distilbert", NULL},
    .classes = (const char *const[]){"DistilBert", NULL},
    .prefixes = (const char *const[]){"distilbert.", NULL},
    .ignored = (const char *const[]){"position_ids", "vocab_transform.", "vocab_layer_norm.", "vocab_projector.",
                                     "pre_classifier.", "classifier.", "qa_outputs.", NULL},
    .read = read,
    .common = COMMON,
    .encoder = ENCODER,
};
