/* Which provider multiplies: as TFM_GEMM says, by the table of `tfm tune`, or in the order of the device's tuning. */
#include "ops/gemm.h"

const tfm__gemm_provider *const tfm__gemm_all[TFM__GEMM_PROVIDERS] = {
    &tfm__gemm_small, &tfm__gemm_dots,  &tfm__gemm_thirds, &tfm__gemm_packed, &tfm__gemm_rows,
    &tfm__gemm_tiled, &tfm__gemm_plain, &tfm__gemm_engine, &tfm__gemm_clblast};

static size_t place_of(const tfm__gemm_provider *provider) {
    size_t i = 0;
    while (i + 1 < TFM__GEMM_PROVIDERS && tfm__gemm_all[i] != provider)
        i++;
    return i;
}

static const char *trouble(const tfm__gemm_state *state, const tfm__gemm_provider *provider) {
    return state && provider->must_prove ? state->proofs[place_of(provider)].trouble : NULL;
}

const char *tfm__gemm_trouble(tfm_context *ctx, const tfm__gemm_provider *provider) {
    return trouble(tfm__gemm_state_of(ctx), provider);
}

static bool takes(tfm_context *ctx, const tfm__gemm_state *state, const tfm__gemm_provider *provider,
                  const tfm__gemm_task *task) {
    return !provider->declines(ctx, task) && !trouble(state, provider);
}

const char *tfm__gemm_declines(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task) {
    const char *why = provider->declines(ctx, task);
    return why ? why : tfm__gemm_trouble(ctx, provider);
}

/* The first of the tuning's order that takes the task, or NULL. */
static const tfm__gemm_provider *in_order(tfm_context *ctx, const tfm__gemm_state *state, const tfm__gemm_task *task) {
    const double pairs = (double)task->m * (double)task->n * (double)task->k;
    for (size_t i = 0; i < state->order_count; i++) {
        const tfm__gemm_provider *provider = state->order[i].provider;
        if (task->m >= state->order[i].least_rows && pairs >= (double)state->order[i].least_pairs &&
            (state->mode != TFM__GEMM_BUILTIN || !provider->must_prove) && takes(ctx, state, provider, task))
            return provider;
    }
    return NULL;
}

static bool rounds(const tfm__gemm_provider *provider) {
    return provider == &tfm__gemm_engine || provider == &tfm__gemm_dots;
}

static bool obeyed(tfm_context *ctx, const tfm__gemm_state *state, const tfm__gemm_row *row,
                   const tfm__gemm_task *task) {
    return row && (state->mode != TFM__GEMM_BUILTIN || !row->provider->must_prove) &&
           takes(ctx, state, row->provider, task);
}

const tfm__gemm_provider *tfm__gemm_choose(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__gemm_state *state = tfm__gemm_state_of(ctx);
    if (!state)
        return NULL;
    if (state->mode == TFM__GEMM_CLBLAST && takes(ctx, state, &tfm__gemm_clblast, task))
        return &tfm__gemm_clblast;
    const tfm_dtype inputs = tfm__gemm_inputs(ctx, task);
    const tfm__gemm_row *row = tfm__gemm_tuned(state, task, inputs);
    if (obeyed(ctx, state, row, task))
        return row->provider;
    const tfm__gemm_provider *first = in_order(ctx, state, task);
    if (inputs != TFM_F32 && !rounds(first)) {
        /* Then what was tried with products that round nothing is as good for this one. */
        row = tfm__gemm_tuned(state, task, TFM_F32);
        if (obeyed(ctx, state, row, task))
            return row->provider;
    }
    return first ? first : &tfm__gemm_plain;
}

const char *tfm__gemm_rounds_not(tfm_context *ctx, tfm_dtype inputs) {
    const int64_t many = 4096; /* rows and columns; whoever takes few of them elsewhere is no matter */
    const tfm__gemm_task task = {.batch = 1, .m = many, .n = many, .k = many, .shared_b = true, .alpha = 1};
    const tfm__gemm_state *state = tfm__gemm_state_of(ctx);
    const tfm_dtype before = tfm__context_set_inputs(ctx, inputs);
    const char *why = NULL;
    /* By the device's rule: where the table of `tfm tune` has others, it has the engine elsewhere. */
    const bool asked = state && state->mode == TFM__GEMM_CLBLAST && takes(ctx, state, &tfm__gemm_clblast, &task);
    if (state && (asked || !rounds(in_order(ctx, state, &task)))) {
        const tfm__gemm_provider *own =
            tfm__context_tuning(ctx)->class == TFM__WIDE ? &tfm__gemm_dots : &tfm__gemm_engine;
        why = asked ? "the environment variable TFM_GEMM asks for CLBlast" : tfm__gemm_declines(ctx, own, &task);
        why = why ? why : "this kind of device uses none for products";
    }
    tfm__context_set_inputs(ctx, before);
    return why;
}

tfm_status tfm__gemm_run(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task) {
    while (provider && provider->must_prove) {
        tfm__gemm_state *state = tfm__gemm_state_of(ctx);
        tfm__gemm_proof *proof = state ? &state->proofs[place_of(provider)] : NULL;
        if (!proof || tfm__gemm_proven(ctx, provider, proof, task, state->mode == TFM__GEMM_CLBLAST) != TFM_OK ||
            !proof->trouble)
            return tfm_context_status(ctx);
        provider = tfm__gemm_choose(ctx, task); /* which declines now */
    }
    return provider ? provider->run(ctx, task) : tfm_context_status(ctx);
}

uint64_t tfm__gemm_memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__gemm_provider *provider = tfm__gemm_choose(ctx, task);
    if (!provider)
        return 0;
    return (provider->memory ? provider->memory(ctx, task) : 0) +
           (provider->must_prove ? tfm__gemm_proof_memory(task) : 0);
}
