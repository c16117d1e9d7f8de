/* Small decoders of every kind, from a config.json as transformers writes it and random parameters. */
#ifndef TFM_TESTS_DECODER_MODELS_H
#define TFM_TESTS_DECODER_MODELS_H

#include <jansson.h>
#include "model/core/model.h"
#include "support/scratch.h"

/* All have vocabulary 29, width 24, and 3 layers. */
enum { DECODER_VOCABULARY = 29, DECODER_WIDTH = 24 };

#define DECODER_SIZES                                                                                                  \
    "\"hidden_size\": 24, \"intermediate_size\": 20, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "           \
    "\"num_key_value_heads\": 2, \"vocab_size\": 29, \"max_position_embeddings\": 64, \"eos_token_id\": [2, 5], "      \
    "\"bos_token_id\": 1"

typedef struct decoder_kind {
    const char *name, *config;
} decoder_kind;

static const decoder_kind DECODERS[] = {
    {"gpt2", "{\"model_type\": \"gpt2\", \"n_embd\": 24, \"n_layer\": 3, \"n_head\": 4, \"n_positions\": 32, "
             "\"vocab_size\": 29, \"scale_attn_by_inverse_layer_idx\": true}"},
    {"gpt2 untied", "{\"model_type\": \"gpt2\", \"n_embd\": 24, \"n_layer\": 3, \"n_head\": 3, \"n_positions\": 32, "
                    "\"vocab_size\": 29, \"n_inner\": 10, \"tie_word_embeddings\": false, \"scale_attn_weights\": "
                    "false, \"activation_function\": \"relu\"}"},
    {"opt projected", "{\"model_type\": \"opt\", \"hidden_size\": 24, \"num_hidden_layers\": 3, "
                      "\"num_attention_heads\": 4, \"ffn_dim\": 20, \"max_position_embeddings\": 32, "
                      "\"vocab_size\": 29, \"word_embed_proj_dim\": 14, \"do_layer_norm_before\": false}"},
    {"opt plain norms", "{\"model_type\": \"opt\", \"hidden_size\": 24, \"num_hidden_layers\": 3, "
                        "\"num_attention_heads\": 3, \"ffn_dim\": 20, \"max_position_embeddings\": 32, "
                        "\"vocab_size\": 29, \"layer_norm_elementwise_affine\": false, \"enable_bias\": false}"},
    {"llama", "{\"model_type\": \"llama\", " DECODER_SIZES ", \"attention_bias\": true, \"mlp_bias\": true, "
              "\"rope_theta\": 500.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
              "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 16}}"},
    {"mistral", "{\"model_type\": \"mistral\", " DECODER_SIZES ", \"head_dim\": 10, \"sliding_window\": 5, "
                "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0, \"rope_theta\": 100.0}}"},
    {"qwen2", "{\"model_type\": \"qwen2\", " DECODER_SIZES ", \"use_sliding_window\": true, \"sliding_window\": 4, "
              "\"max_window_layers\": 1, \"tie_word_embeddings\": true, \"rope_scaling\": {\"type\": \"yarn\", "
              "\"factor\": 4.0, \"original_max_position_embeddings\": 16}}"},
    {"qwen3", "{\"model_type\": \"qwen3\", " DECODER_SIZES ", \"head_dim\": 8, \"attention_bias\": false}"},
    {"smollm3", "{\"model_type\": \"smollm3\", " DECODER_SIZES ", \"no_rope_layer_interval\": 2}"},
    {"phi3", "{\"model_type\": \"phi3\", " DECODER_SIZES ", \"head_dim\": 8, \"partial_rotary_factor\": 0.5, "
             "\"sliding_window\": 6, \"original_max_position_embeddings\": 48, \"rope_scaling\": {\"type\": \"su\", "
             "\"short_factor\": [1.0, 1.1], \"long_factor\": [2.0, 3.5]}}"},
    {"gemma", "{\"model_type\": \"gemma\", " DECODER_SIZES ", \"head_dim\": 8, \"hidden_act\": \"gelu\"}"},
    {"gemma2", "{\"model_type\": \"gemma2\", " DECODER_SIZES ", \"head_dim\": 8, \"sliding_window\": 4, "
               "\"query_pre_attn_scalar\": 30, \"attn_logit_softcapping\": 2.0, \"final_logit_softcapping\": 3.0}"},
    {"gemma3_text", "{\"model_type\": \"gemma3_text\", " DECODER_SIZES ", \"head_dim\": 8, \"sliding_window\": 4, "
                    "\"sliding_window_pattern\": 3, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}}"},
};

static inline tfm_status decoder_fill(void *user, const tfm__parameter *p) {
    harness_random *random = user;
    tfm_context *ctx = harness_context();
    const size_t count = (size_t)(p->dims[0] * (p->rank == 2 ? p->dims[1] : 1));
    const bool wide = p->rank == 2;
    float *host = malloc(count * sizeof(*host));
    assert_non_null(host);
    for (size_t i = 0; i < count; i++) {
        const float draw = (float)harness_range(random, -1000, 1000) / 1000;
        host[i] = wide ? draw / 2 : p->kind == TFM__GAMMA ? 1 + draw / 2 : draw / 4;
    }
    tfm__tensor_new_persistent(ctx, &p->param->value, TFM_F32, p->rank, p->dims);
    tfm_tensor_write(ctx, p->param->value, host);
    free(host);
    return tfm_context_status(ctx);
}

/* A model with this configuration, to be freed. */
static inline tfm_model *decoder_make(const char *config) {
    tfm_context *ctx = harness_context();
    const tfm__family *family;
    tfm__arch *arch = malloc(sizeof(*arch));
    tfm__generation_rules *rules = malloc(sizeof(*rules));
    tfm_model *model;
    harness_random random = {7};
    float bias[DECODER_VOCABULARY] = {0};
    assert_true(arch && rules);
    scratch_text("config.json", config);
    harness_ok(tfm__family_read(&family, arch, rules, scratch_root));
    harness_ok(tfm__model_new(&model, ctx, family, arch, rules));
    harness_ok(tfm__params_visit(family, arch, model, decoder_fill, &random));
    if (!arch->headless)
        harness_ok(tfm__model_set_biases(model, bias));
    free(arch);
    free(rules);
    return model;
}

/* Logits (rows, tokens, V) of token ids 0 to 28 in some order, of one forward pass; free with free(). */
static inline void decoder_ids(int32_t *ids, int count) {
    for (int i = 0; i < count; i++)
        ids[i] = (i * 11 + i / 7) % DECODER_VOCABULARY;
}

static inline float *decoder_logits(tfm_model *model, int rows, int tokens) {
    tfm_context *ctx = harness_context();
    tfm_tensor logits = {0};
    int32_t ids[256];
    assert_true(rows * tokens <= 256);
    decoder_ids(ids, rows * tokens);
    harness_ok(tfm_scope_open(ctx));
    harness_ok(
        tfm_model_decode(model, &logits, HARNESS_TENSOR(TFM_I32, ids, rows, tokens), (tfm_tensor){0}, (tfm_tensor){0}));
    float *host = harness_floats(logits);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return host;
}

/* The configuration read from a directory with this config.json and its other files. */
typedef struct said {
    const tfm__family *family;
    tfm__arch arch;
    tfm__generation_rules rules;
} said;

static inline tfm_status load(said *c, const char *config) {
    scratch_text("config.json", config);
    return tfm__family_read(&c->family, &c->arch, &c->rules, scratch_root);
}

#endif
