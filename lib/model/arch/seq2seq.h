/* Shared by the related encoder-decoder families of transformers (Marian, BART, M2M-100): most keys of config.json, and
 * the tensor names. */
#ifndef TFM_LIB_SEQ2SEQ_H
#define TFM_LIB_SEQ2SEQ_H

#include "model/arch/config_keys.h"

/* Values of config.json; a family sets its defaults first. */
typedef struct tfm__seq2seq {
    int d_model, encoder_layers, decoder_layers, encoder_heads, decoder_heads, encoder_ffn, decoder_ffn;
    int vocab_size, max_positions;
    bool scale_embedding, tie;
    tfm_activation activation;
} tfm__seq2seq;

/* Sizes of the large models, the default of all configurations. */
#define TFM__SEQ2SEQ_DEFAULTS                                                                                          \
    .d_model = 1024, .encoder_layers = 12, .decoder_layers = 12, .encoder_heads = 16, .decoder_heads = 16,             \
    .encoder_ffn = 4096, .decoder_ffn = 4096, .max_positions = 1024, .tie = true, .activation = TFM_GELU

/* Fails if the first of `architectures` is not an encoder-decoder with a head: a classifier, or a single stack. */
tfm_status tfm__seq2seq_check_class(const tfm__config_files *from);

/* Checks the class, then reads the keys; absent ones leave *c unchanged. */
tfm_status tfm__seq2seq_read(tfm__seq2seq *c, const tfm__config_files *from);

/* A post-norm stack of the given sizes with biases and without positions; the family sets the differences. */
tfm__stack_arch tfm__seq2seq_stack(const tfm__seq2seq *c, bool decoder);

/* `write` of a family: the same keys of config.json, and the ids. */
json_t *tfm__seq2seq_write(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules);

/* ---- Names ---- */

#define TFM__SEQ2SEQ_BLOCK(stack, name) TFM__WEIGHT_AND_BIAS("model." stack ".layers.#." name)
#define TFM__SEQ2SEQ_STACK(stack)                                                                                      \
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS("model." stack ".layernorm_embedding"),                               \
    [TFM__FINAL_NORM] = TFM__WEIGHT_AND_BIAS("model." stack ".layer_norm"),                                            \
    [TFM__POSITIONS] = TFM__WEIGHT_ONLY("model." stack ".embed_positions"),                                            \
    [TFM__SELF_QUERY] = TFM__SEQ2SEQ_BLOCK(stack, "self_attn.q_proj"),                                                 \
    [TFM__SELF_KEY] = TFM__SEQ2SEQ_BLOCK(stack, "self_attn.k_proj"),                                                   \
    [TFM__SELF_VALUE] = TFM__SEQ2SEQ_BLOCK(stack, "self_attn.v_proj"),                                                 \
    [TFM__SELF_OUT] = TFM__SEQ2SEQ_BLOCK(stack, "self_attn.out_proj"),                                                 \
    [TFM__SELF_NORM] = TFM__SEQ2SEQ_BLOCK(stack, "self_attn_layer_norm"),                                              \
    [TFM__UP] = TFM__SEQ2SEQ_BLOCK(stack, "fc1"), [TFM__DOWN] = TFM__SEQ2SEQ_BLOCK(stack, "fc2"),                      \
    [TFM__FEED_FORWARD_NORM] = TFM__SEQ2SEQ_BLOCK(stack, "final_layer_norm")

/* Name tables, [TFM__ROLES] each. */
extern const tfm__naming tfm__seq2seq_common[], tfm__seq2seq_encoder[], tfm__seq2seq_decoder[];
/* Prefixes of names, absent in files of models saved without their head; NULL-terminated. */
extern const char *const tfm__seq2seq_prefixes[];
/* Suffixes of stored tensors that are computed here (sinusoids in older files); NULL-terminated. */
extern const char *const tfm__seq2seq_ignored[];

#endif
