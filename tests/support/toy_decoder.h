/* Small decoder-only models with random parameters, one for each kind of architecture. */
#ifndef TFM_TESTS_TOY_DECODER_H
#define TFM_TESTS_TOY_DECODER_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "model/arch/family.h"
#include "model/core/model.h"
#include "model/core/param_roles.h"

typedef enum toy_kind { TOY_LEARNED, TOY_ROTARY, TOY_LOCAL, TOY_KINDS } toy_kind;

enum { TOY_VOCABULARY = 61, TOY_POSITIONS = 640, TOY_EOS = 7, TOY_OTHER_EOS = 11 };

static inline void toy_turn(tfm__rotary_arch *out, int width, double base) {
    out->width = width;
    out->scale = 1;
    for (int i = 0; i < width / 2; i++)
        out->inv_freq[i] = pow(base, -2.0 * i / width);
}

/* Like GPT-2; like Llama; like Gemma, with local layers and soft caps. */
static inline tfm__arch toy_arch(toy_kind kind) {
    tfm__arch arch = {.tied_embeddings = kind != TOY_ROTARY};
    tfm__stack_arch *d = &arch.decoder;
    *d = (tfm__stack_arch){.layers = 2,
                           .width = 32,
                           .heads = 4,
                           .kv_heads = kind == TOY_LEARNED ? 4 : 2,
                           .head_width = 8,
                           .feed_forward = 48,
                           .causal = true,
                           .epsilon = 1e-5f,
                           .final_norm = true,
                           .vocabulary = TOY_VOCABULARY,
                           .embedding_scale = 1,
                           .max_positions = TOY_POSITIONS};
    if (kind == TOY_LEARNED) {
        d->activation = TFM_GELU_TANH;
        d->input_biases = d->output_biases = d->feed_forward_biases = d->norm_biases = true;
        d->norm = TFM_NORM_LAYER;
        d->norm_placement = TFM_NORM_PRE;
        d->positions = TFM__LEARNED_POSITIONS;
        return arch;
    }
    d->activation = kind == TOY_LOCAL ? TFM_GELU_TANH : TFM_SILU;
    d->gated = true;
    d->norm = TFM_NORM_RMS;
    d->norm_placement = kind == TOY_LOCAL ? TFM_NORM_SANDWICH : TFM_NORM_PRE;
    toy_turn(&d->rotary, 8, 10000);
    if (kind == TOY_LOCAL) {
        toy_turn(&d->local_rotary, 8, 100);
        d->layer[0] = TFM__LOCAL_LAYER;
        d->window = 4;
        d->head_norms = true;
        d->score_cap = 20;
        arch.logit_cap = 15;
    }
    return arch;
}

/* Arbitrary names: the tensor walk needs one for each role. */
static const tfm__naming TOY_COMMON[TFM__ROLES] = {[TFM__SHARED_EMBEDDING] = {"a", NULL, false},
                                                   [TFM__SOURCE_EMBEDDING] = {"b", NULL, false},
                                                   [TFM__TARGET_EMBEDDING] = {"c", NULL, false},
                                                   [TFM__OUTPUT_PROJECTION] = {"d", NULL, false}};
static const tfm__naming TOY_DECODER[TFM__ROLES] = {[TFM__POSITIONS] = {"p", NULL, false},
                                                    [TFM__FINAL_NORM] = {"e", "e.b", false},
                                                    [TFM__SELF_QUERY] = {"q.#", "q.#.b", false},
                                                    [TFM__SELF_KEY] = {"k.#", "k.#.b", false},
                                                    [TFM__SELF_VALUE] = {"v.#", "v.#.b", false},
                                                    [TFM__SELF_OUT] = {"o.#", "o.#.b", false},
                                                    [TFM__SELF_NORM] = {"n.#", "n.#.b", false},
                                                    [TFM__SELF_QUERY_NORM] = {"qn.#", NULL, false},
                                                    [TFM__SELF_KEY_NORM] = {"kn.#", NULL, false},
                                                    [TFM__SELF_NORM_AFTER] = {"na.#", NULL, false},
                                                    [TFM__GATE] = {"g.#", "g.#.b", false},
                                                    [TFM__UP] = {"u.#", "u.#.b", false},
                                                    [TFM__DOWN] = {"w.#", "w.#.b", false},
                                                    [TFM__FEED_FORWARD_NORM] = {"f.#", "f.#.b", false},
                                                    [TFM__FEED_FORWARD_NORM_AFTER] = {"fa.#", NULL, false}};
static const tfm__family TOY_FAMILY = {.name = "toy", .common = TOY_COMMON, .decoder = TOY_DECODER};

typedef struct toy_maker {
    tfm_context *ctx;
    harness_random random;
} toy_maker;

static inline void toy_fill(toy_maker *m, tfm_tensor *out, int rank, const int64_t *dims, float middle, float spread) {
    const size_t count = (size_t)(dims[0] * (rank == 2 ? dims[1] : 1));
    float *host = malloc(count * sizeof(*host));
    assert_non_null(host);
    harness_fill(&m->random, host, count, spread);
    for (size_t i = 0; i < count; i++)
        host[i] += middle;
    harness_ok(tfm__tensor_new_persistent(m->ctx, out, TFM_F32, rank, dims));
    harness_ok(tfm_tensor_write(m->ctx, *out, host));
    free(host);
}

static inline tfm_status toy_put(void *user, const tfm__parameter *p) {
    const float wide = p->kind == TFM__EMBEDDING ? 1.0f
                       : p->kind == TFM__MATRIX  ? 1.6f / sqrtf((float)p->dims[1])
                                                 : 0.2f;
    toy_fill(user, &p->param->value, p->rank, p->dims, p->kind == TFM__GAMMA, wide);
    return TFM_OK;
}

/* A model that stops at TOY_EOS and, if `ends` is 2, at TOY_OTHER_EOS; with 0 never. */
static inline tfm_model *toy_decoder(toy_kind kind, int ends) {
    static tfm__generation_rules rules;
    const tfm__arch arch = toy_arch(kind);
    toy_maker m = {harness_context(), {17 + (uint64_t)kind}};
    tfm_model *model = NULL;
    float bias[TOY_VOCABULARY] = {0};
    rules = (tfm__generation_rules){.pad_id = -1,
                                    .eos_id = ends ? TOY_EOS : -1,
                                    .start_id = 1,
                                    .decoder_only = true,
                                    .eos_ids = {TOY_EOS, TOY_OTHER_EOS},
                                    .eos_id_count = ends,
                                    .forced_bos_id = -1,
                                    .forced_eos_id = -1};
    harness_ok(tfm__model_new(&model, m.ctx, &TOY_FAMILY, &arch, &rules));
    harness_ok(tfm__params_visit(&TOY_FAMILY, &arch, model, toy_put, &m));
    harness_ok(tfm__model_set_biases(model, bias));
    return model;
}

/* A toy model with the pieces of another model's vocabulary. */
static inline tfm_model *talking_toy(void) {
    tfm_model *model = toy_decoder(TOY_ROTARY, 0);
    char *dir = harness_source("apps/demo");
    harness_ok(tfm_tokenizer_open(&model->tokenizer, dir));
    free(dir);
    return model;
}

/* The logits [V] after these token ids, from one forward pass. */
static inline void toy_logits(tfm_model *model, float *out, const int32_t *ids, size_t count) {
    tfm_context *ctx = model->ctx;
    const int64_t dims[] = {1, (int64_t)count};
    tfm_tensor tokens = {0}, logits = {0}, flat = {0}, last = {0}, none = {0};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor_new(ctx, &tokens, TFM_I32, 2, dims);
    tfm_tensor_write(ctx, tokens, ids);
    tfm_model_decode(model, &logits, tokens, none, none);
    tfm_tensor_reshape(ctx, &flat, logits, 2, (int64_t[]){dims[1], TOY_VOCABULARY});
    tfm_tensor_rows(ctx, &last, flat, dims[1] - 1, 1);
    harness_ok(tfm_tensor_read(ctx, out, last));
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

#endif
