/* MPNet ("MPNet: Masked and Permuted Pre-training for Language Understanding", Song et al. 2020): learned positions,
 * which begin after that of the padding, and a bias of scores by distance as T5 has it. Keys and the defaults of absent
 * ones are those of MPNetConfig. */
#include "model/family/encoder_keys.h"

/* The id whose tokens stand at no position, of which the row of the table of positions is none of a token. transformers
 * looks at no key for it, whatever `pad_token_id` is. */
enum { PADDING = 1 };

static tfm_status read_stack(tfm__stack_arch *out, const tfm__config_files *from) {
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
        .position_offset = PADDING + 1,
        .skips = TFM__SKIPS_TO_ROW,
        .skipped_id = PADDING,
        .relative = {.used = 32, .most = 128}, /* whatever `relative_attention_num_buckets` is */
    };
    const tfm__size_key sizes[] = {
        {"vocab_size", &out->vocabulary, 30527, TFM__MAX_VOCABULARY},
        {"hidden_size", &out->width, 768, TFM__MAX_WIDTH},
        {"num_hidden_layers", &out->layers, 12, TFM__MAX_LAYERS},
        {"num_attention_heads", &out->heads, 12, 1024},
        {"intermediate_size", &out->feed_forward, 3072, TFM__MAX_WIDTH},
        {"max_position_embeddings", &out->max_positions, 512, TFM__MAX_WIDTH},
        {"relative_attention_num_buckets", &out->relative.buckets, 32, TFM__MAX_WIDTH},
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
    if (status == TFM_OK && out->relative.buckets < out->relative.used)
        status = tfm__fail(TFM_ERROR_FORMAT,
                           "%s: `relative_attention_num_buckets` is %d; the family uses %d of them, so it must be that "
                           "or more",
                           from->config_path, out->relative.buckets, out->relative.used);
    if (status == TFM_OK && out->max_positions <= out->position_offset)
        status = tfm__fail(TFM_ERROR_FORMAT, "%s: `max_position_embeddings` is %d; the first %d rows are no positions",
                           from->config_path, out->max_positions, out->position_offset);
    if (status == TFM_OK) {
        out->max_positions -= out->position_offset;
        out->kv_heads = out->heads;
        out->head_width = out->width / out->heads;
    }
    return status;
}

static tfm_status read(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    tfm__head_arch *head = &arch->head;
    tfm_status status = read_stack(&arch->encoder, from);
    if (status == TFM_OK)
        status = tfm__read_padding(rules, from, PADDING, arch->encoder.vocabulary);
    if (status == TFM_OK)
        status = tfm__read_encoder_head(arch, from);
    head->dense_bias = true;
    head->tanh = head->kind == TFM__CLASSES_HEAD;
    head->activation = TFM_GELU;
    head->norm = head->kind == TFM__WORDS_HEAD;
    return status;
}

#define PAIR(stem)                                                                                                     \
    { stem ".weight", stem ".bias", false }
#define TABLE(stem)                                                                                                    \
    { stem ".weight", NULL, false }
#define BLOCK(name) PAIR("mpnet.encoder.layer.#." name)

static const tfm__naming ENCODER[TFM__ROLES] = {
    [TFM__POSITIONS] = TABLE("mpnet.embeddings.position_embeddings"),
    [TFM__RELATIVE_BIAS] = TABLE("mpnet.encoder.relative_attention_bias"),
    [TFM__EMBEDDING_NORM] = PAIR("mpnet.embeddings.LayerNorm"),
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
    [TFM__SOURCE_TABLE] = TABLE("mpnet.embeddings.word_embeddings"),
    [TFM__OUTPUT_TABLE] = TABLE("lm_head.decoder"),
    [TFM__OUTPUT_BIAS] = {"lm_head.decoder.bias", "lm_head.bias", false},
    [TFM__WORDS_DENSE] = PAIR("lm_head.dense"),
    [TFM__WORDS_NORM] = PAIR("lm_head.layer_norm"),
    [TFM__CLASSES_DENSE] = PAIR("classifier.dense"),
    [TFM__CLASSES_OUT] = PAIR("classifier.out_proj"),
};

const tfm__family tfm__family_mpnet = {
    .name = "mpnet",
    .types = (const char *const[]){"mpnet", NULL},
    .classes = (const char *const[]){"MPNet", NULL},
    .prefixes = (const char *const[]){"mpnet.", NULL},
    .ignored = (const char *const[]){"position_ids", "pooler.dense.weight", "pooler.dense.bias", "lm_head.",
                                     "classifier.", "qa_outputs.", NULL},
    .read = read,
    .common = COMMON,
    .encoder = ENCODER,
};
