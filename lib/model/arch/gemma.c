/* Gemma, Gemma 2 and the text models of Gemma 3, in the layouts of Hugging Face's transformers. Gammas are stored minus
 * 1, and the embedding is scaled by the square root of its width. */
#include "model/arch/decoder.h"

static const tfm__decoder_kind gemma = {.width = 3072,
                                        .feed_forward = 24576,
                                        .layers = 28,
                                        .heads = 16,
                                        .kv_heads = 16,
                                        .head_width = 256,
                                        .max_positions = 8192,
                                        .vocabulary = 256000,
                                        .epsilon = 1e-6,
                                        .tied = true,
                                        .activation_key = "hidden_act",
                                        .activation = TFM_GELU_TANH,
                                        .attention_biases = "attention_bias",
                                        .theta = 10000,
                                        .gemma = true};

static const tfm__decoder_kind gemma2 = {.width = 2304,
                                         .feed_forward = 9216,
                                         .layers = 26,
                                         .heads = 8,
                                         .kv_heads = 4,
                                         .head_width = 256,
                                         .max_positions = 8192,
                                         .vocabulary = 256000,
                                         .epsilon = 1e-6,
                                         .tied = true,
                                         .activation_key = "hidden_activation",
                                         .activation = TFM_GELU_TANH,
                                         .attention_biases = "attention_bias",
                                         .windows = TFM__WINDOW_BY_PATTERN,
                                         .window = 4096,
                                         .pattern = 2,
                                         .theta = 10000,
                                         .gemma = true,
                                         .sandwich_norm = true,
                                         .score_cap = 50,
                                         .logit_cap = 30};

static const tfm__decoder_kind gemma3_text = {.width = 2304,
                                              .feed_forward = 9216,
                                              .layers = 26,
                                              .heads = 8,
                                              .kv_heads = 4,
                                              .head_width = 256,
                                              .max_positions = 131072,
                                              .vocabulary = 262208,
                                              .epsilon = 1e-6,
                                              .tied = true,
                                              .activation_key = "hidden_activation",
                                              .activation = TFM_GELU_TANH,
                                              .attention_biases = "attention_bias",
                                              .head_norms = true,
                                              .windows = TFM__WINDOW_BY_PATTERN,
                                              .window = 4096,
                                              .pattern = 6,
                                              .theta = 1000000,
                                              .local_theta = 10000,
                                              .gemma = true,
                                              .sandwich_norm = true};

static const tfm__naming TABLES[TFM__ROLES] = {TFM__DECODER_EMBEDDINGS};
static const tfm__naming ENCODER_TABLES[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("model.embed_tokens"),
};

static const tfm__naming NAMES[TFM__ROLES] = {
    TFM__DECODER_NAMES,
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("post_attention_layernorm"),
};

static const tfm__naming NAMES_SANDWICH[TFM__ROLES] = {
    TFM__DECODER_NAMES,
    [TFM__SELF_NORM_AFTER] = TFM__DECODER_NORM("post_attention_layernorm"),
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("pre_feedforward_layernorm"),
    [TFM__FEED_FORWARD_NORM_AFTER] = TFM__DECODER_NORM("post_feedforward_layernorm"),
};

TFM__DECODER_FAMILY(gemma, "Gemma", gemma, TABLES, NAMES);
TFM__DECODER_FAMILY(gemma2, "Gemma2", gemma2, TABLES, NAMES_SANDWICH);

/* EmbeddingGemma: half of the window lies on either side of a token. */
static tfm_status read_encoder(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    const tfm_status status = tfm__decoder_read_config(arch, rules, from);
    arch->encoder = arch->decoder;
    arch->encoder.causal = false;
    arch->decoder = (tfm__stack_arch){0};
    arch->headless = true;
    return status;
}

static const tfm__family gemma3_encoder = {
    .name = "gemma3_text",
    .types = (const char *const[]){"gemma3_text", NULL},
    .classes = (const char *const[]){"Gemma3", NULL},
    .prefixes = (const char *const[]){"model.", NULL},
    .read = read_encoder,
    .decoder_kind = &gemma3_text,
    .common = ENCODER_TABLES,
    .encoder = NAMES_SANDWICH,
};

const tfm__family tfm__family_gemma3_text = {
    TFM__DECODER_MEMBERS(gemma3_text, "Gemma3", gemma3_text, TABLES, NAMES_SANDWICH),
    .encoder_only = &gemma3_encoder,
};
