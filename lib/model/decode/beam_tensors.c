/* Tensors, grids and kernels, shared by the files of beam search. */
#include "model/decode/beam.h"

tfm__grid tfm__beam_items(const tfm_context *ctx, int64_t count) {
    size_t group = (size_t)tfm__context_tuning(ctx)->group;
    return TFM__GRID_1D(((size_t)count + group - 1) / group * group, group);
}

tfm_tensor tfm__beam_ints(tfm_context *ctx, int64_t count) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_I32, 1, &count);
    return x;
}

tfm_tensor tfm__beam_floats(tfm_context *ctx, int64_t count) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, TFM_F32, 1, &count);
    return x;
}

tfm_tensor tfm__beam_ints_of(tfm_context *ctx, const int32_t *host, int64_t count) {
    tfm_tensor x = tfm__beam_ints(ctx, count);
    tfm_tensor_write(ctx, x, host);
    return x;
}

/* The arrays stay unchanged after a failure. */
tfm_status tfm__beam_grow(tfm__beam *beam, int64_t needed) {
    enum { ARRAYS = 3 };
    tfm_context *ctx = beam->ctx;
    if (needed <= beam->slots)
        return tfm_context_status(ctx);
    int64_t capacity = 2 * beam->slots;
    while (capacity < needed)
        capacity *= 2;
    tfm_tensor *const arrays[ARRAYS] = {&beam->slot_token, &beam->slot_parent, &beam->slot_score};
    tfm_tensor larger[ARRAYS] = {{0}};
    for (int i = 0; i < ARRAYS; i++) {
        tfm_tensor head = {0};
        larger[i] = arrays[i]->dtype == TFM_I32 ? tfm__beam_ints(ctx, capacity) : tfm__beam_floats(ctx, capacity);
        tfm_tensor_rows(ctx, &head, larger[i], 0, beam->slots);
        tfm__tensor_copy(ctx, head, *arrays[i]);
    }
    const bool whole = tfm_context_status(ctx) == TFM_OK;
    for (int i = 0; i < ARRAYS; i++) {
        tfm_tensor_free(ctx, whole ? arrays[i] : &larger[i]);
        if (whole)
            *arrays[i] = larger[i];
    }
    if (whole)
        beam->slots = capacity;
    return tfm_context_status(ctx);
}

tfm__kernel *tfm__beam_kernel(const tfm__beam *beam, const char *name, const char *more) {
    const int candidates = beam->candidates < beam->vocabulary ? beam->candidates : (int)beam->vocabulary;
    return tfm__kernel_get(beam->ctx, "beam", name, "-DBEAM=%d -DCANDIDATES=%d%s%s%s", beam->width, candidates,
                           beam->hf_search ? " -DHF_SEARCH" : "", beam->ragged ? " -DRAGGED" : "", more);
}
