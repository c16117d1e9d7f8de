/* What products keep with a context. */
#include <string.h>
#include "ops/gemm.h"

/* Its address is the key under which a context keeps the state of its products. */
static char SLOT;

const tfm__gemm_provider *tfm__gemm_named(const char *name) {
    for (size_t i = 0; i < TFM__GEMM_PROVIDERS; i++)
        if (strcmp(tfm__gemm_all[i]->name, name) == 0)
            return tfm__gemm_all[i];
    return NULL;
}

static tfm_status find_order(tfm_context *ctx, tfm__gemm_state *state) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    for (size_t i = 0; i < TFM__PREFERENCES && tuning->gemm_order[i].provider; i++) {
        state->order[i].provider = tfm__gemm_named(tuning->gemm_order[i].provider);
        state->order[i].least_rows = tuning->gemm_order[i].least_rows;
        state->order[i].least_pairs = tuning->gemm_order[i].least_pairs;
        if (!state->order[i].provider)
            return tfm__context_fail(ctx, TFM_ERROR_UNSUPPORTED,
                                     "gemm: the variant '%s' asks for a provider '%s', and there is none of that name",
                                     tuning->name, tuning->gemm_order[i].provider);
        state->order_count = i + 1;
    }
    return TFM_OK;
}

static void state_free(void *data) {
    tfm__gemm_state *state = data;
    free(state->rows);
    free(state);
}

tfm__gemm_state *tfm__gemm_state_of(tfm_context *ctx) {
    tfm__gemm_state *state = tfm__context_slot(ctx, &SLOT);
    if (state || tfm_context_status(ctx) != TFM_OK)
        return state;
    static const char *const names[] = {"auto", "clblast", "builtin"};
    const char *asked = getenv("TFM_GEMM");
    size_t mode = 0;
    while (asked && *asked && mode < TFM__COUNT(names) && strcmp(asked, names[mode]) != 0)
        mode++;
    if (mode == TFM__COUNT(names)) {
        tfm__context_fail(ctx, TFM_ERROR_ARGUMENT, "TFM_GEMM is '%s': it takes auto, clblast or builtin", asked);
        return NULL;
    }
    state = tfm__alloc(1, sizeof(*state));
    if (!state) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory");
        return NULL;
    }
    state->mode = (tfm__gemm_mode)mode;
    if (find_order(ctx, state) != TFM_OK || tfm__gemm_read_rows(ctx, state) != TFM_OK) {
        state_free(state);
        return NULL;
    }
    return tfm__context_set_slot(ctx, &SLOT, state, state_free) == TFM_OK ? state : NULL;
}
