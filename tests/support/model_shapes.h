/* Small models for tests of decode steps. */
#ifndef TFM_TESTS_MODEL_SHAPES_H
#define TFM_TESTS_MODEL_SHAPES_H

#include <string.h>
#include "tfm/model.h"

static const tfm_model_shape TRANSLATOR = {.width = 32,
                                           .heads = 4,
                                           .ffn_dim = 64,
                                           .encoder_layers = 1,
                                           .decoder_layers = 2,
                                           .source_vocab_size = 60,
                                           .max_positions = 128,
                                           .pad_id = 59,
                                           .start_id = 59,
                                           .eos_id = 0,
                                           .activation = TFM_RELU,
                                           .seed = 3};

/* The smallest one, for devices that run work-items one by one. */
static const tfm_model_shape TINY_TRANSLATOR = {.width = 16,
                                                .heads = 2,
                                                .ffn_dim = 16,
                                                .encoder_layers = 1,
                                                .decoder_layers = 1,
                                                .source_vocab_size = 21,
                                                .max_positions = 24,
                                                .pad_id = 20,
                                                .start_id = 20,
                                                .activation = TFM_RELU,
                                                .seed = 3};

/* A decoder-only model of a family, as large as the translator; two heads share a KV head if the family supports it. */
static inline tfm_model_shape language_model(tfm_model_shape s, const char *family) {
    const bool old = strcmp(family, "gpt2") == 0;
    s.family = family;
    s.encoder_layers = 0;
    s.pad_id = -1;
    s.start_id = 1;
    s.eos_id = 2;
    s.kv_heads = old ? 0 : s.heads / 2;
    s.activation = old ? TFM_GELU_TANH : TFM_SILU;
    return s;
}

#endif
