#include "model/core/positions.h"
#include "ops/ops.h"
#include <math.h>

/* ---- RoPE ---- */

/* Key of the RoPE table for sequences of `length` tokens: 0 up to switch_length, or if there is none. Above it, all
 * lengths share a table unless frequencies follow the length. */
static int64_t rope_variant(const tfm__rotary_arch *rotary, int64_t length) {
    if (rotary->switch_length == 0 || length <= rotary->switch_length)
        return 0;
    return rotary->config.type == TFM__ROPE_DYNAMIC ? length : rotary->switch_length + 1;
}

bool tfm__model_rope_matches(const tfm_model *model, int64_t from, int64_t to) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    const tfm__rotary_arch *const rotary[] = {&arch->rotary, &arch->local_rotary};
    for (int k = 0; k < 2; k++)
        /* otherwise cached keys keep their frequencies, as in transformers */
        if (rotary[k]->width && rotary[k]->recompute_keys &&
            rope_variant(rotary[k], from) != rope_variant(rotary[k], to))
            return false;
    return true;
}

bool tfm__model_rope_reusable(const tfm_model *model, int64_t from, int64_t to) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    const tfm__rotary_arch *const rotary[] = {&arch->rotary, &arch->local_rotary};
    for (int k = 0; k < 2; k++) {
        const int64_t variant = rope_variant(rotary[k], to);
        /* without recomputation, a sequence above the switch has keys of several frequencies */
        if (rotary[k]->width &&
            (variant != rope_variant(rotary[k], from) || (variant > 0 && !rotary[k]->recompute_keys)))
            return false;
    }
    return true;
}

/* Frequency of pair i for a table key. Dynamic scaling raises theta with the length. */
static double frequency_of(const tfm__rotary_arch *rotary, int64_t kind, int i) {
    const tfm__rope_config *form = &rotary->config;
    if (kind == 0)
        return rotary->inv_freq[i];
    if (form->type != TFM__ROPE_DYNAMIC)
        return rotary->inv_freq_long[i];
    const float width = (float)rotary->freq_dim, factor = (float)form->factor;
    const float stretch = factor * (float)kind / (float)rotary->switch_length - (factor - 1);
    const float base = (float)form->theta * powf(stretch, width / (width - 2));
    return (double)(1 / powf(base, (float)(2 * i) / width));
}

/* The angle is rounded to float as in the training code, and its sine is that of the rounded angle. */
static tfm_status make_rope_table(tfm_context *ctx, tfm__rope_table *out, const tfm__rotary_arch *rotary,
                                  int64_t positions, int64_t kind) {
    const int64_t half = rotary->width / 2, dims[] = {positions, half};
    float *host = tfm__alloc((size_t)(positions * half), sizeof(*host));
    if (!host)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "model: no host memory for %lld positions",
                                 (long long)positions);
    for (int sine = 0; sine < 2; sine++) {
        for (int64_t i = 0; i < half; i++) {
            const float rate = (float)frequency_of(rotary, kind, (int)i);
            for (int64_t p = 0; p < positions; p++) {
                const double angle = (double)((float)p * rate);
                host[p * half + i] = (float)(sine ? sin(angle) : cos(angle)) * rotary->scale;
            }
        }
        tfm_tensor *table = sine ? &out->sines : &out->cosines;
        tfm_tensor_free(ctx, table);
        tfm__tensor_new_persistent(ctx, table, TFM_F32, 2, dims);
        tfm_tensor_write(ctx, *table, host);
    }
    free(host);
    out->length = kind;
    if (tfm_context_status(ctx) != TFM_OK) { /* a caller that continues after the failure computes both again */
        tfm_tensor_free(ctx, &out->cosines);
        tfm_tensor_free(ctx, &out->sines);
    }
    return tfm_context_status(ctx);
}

tfm_status tfm__positions_rope(tfm_model *model, tfm__stack *stack, const tfm__stack_arch *arch, int64_t positions,
                               int64_t length) {
    const tfm__rotary_arch *const rotary[] = {&arch->rotary, &arch->local_rotary};
    for (int k = 0; k < 2; k++) {
        const tfm_tensor table = stack->rope[k].cosines;
        const int64_t rows = table.buffer ? table.dims[0] : 0, kind = rope_variant(rotary[k], length);
        int64_t room = rows ? rows : 256;
        if (rotary[k]->width == 0 || (rows >= positions && stack->rope[k].length == kind))
            continue;
        while (room < positions)
            room *= 2;
        if (make_rope_table(model->ctx, &stack->rope[k], rotary[k],
                            room < arch->max_positions ? room : arch->max_positions, kind) != TFM_OK)
            return tfm_context_status(model->ctx);
    }
    return tfm_context_status(model->ctx);
}

/* ---- Position bias ---- */

/* The bucket of a key at `distance` after its query, computed in float as in transformers' T5: the first half of the
 * buckets are exact distances, the others logarithmic ranges. If a query attends in both directions, each has half of
 * the buckets. */
static int32_t bucket_of(const tfm__stack_arch *arch, int64_t distance) {
    const int rows = arch->relative.used ? arch->relative.used : arch->relative.buckets;
    const int buckets = arch->causal ? rows : rows / 2, exact = buckets / 2;
    const int first = !arch->causal && distance > 0 ? buckets : 0;
    const int64_t far = distance < 0 ? -distance : arch->causal ? 0 : distance;
    if (far < exact || exact == 0)
        return first + (int32_t)(far < buckets ? far : buckets - 1);
    const float range = (float)log((double)arch->relative.max_distance / exact);
    const int64_t bucket = exact + (int64_t)(logf((float)far / (float)exact) / range * (float)(buckets - exact));
    return first + (int32_t)(bucket < buckets ? bucket : buckets - 1);
}

/* *distances (T, S): key position minus query position, <= 0. */
static tfm_status make_distances(tfm_context *ctx, tfm_tensor *distances, int64_t first, int64_t targets) {
    const int64_t dims[] = {targets, first + targets};
    float *host = tfm__alloc((size_t)(dims[0] * dims[1]), sizeof(*host));
    if (!host)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "model: no host memory for the bias of %lld positions",
                                 (long long)dims[1]);
    for (int64_t t = 0; t < dims[0]; t++)
        for (int64_t s = 0; s <= first + t; s++)
            host[t * dims[1] + s] = (float)(s - (first + t));
    tfm_tensor_new(ctx, distances, TFM_F32, 2, dims);
    tfm_tensor_write(ctx, *distances, host);
    free(host);
    return tfm_context_status(ctx);
}

/* Slopes of H heads: for the first n (the largest power of two <= H) 2^(-8 i / n), then 2^(-4 (2 i - 1) / n). */
static tfm_status alibi_bias(tfm_context *ctx, tfm_tensor *bias, tfm_tensor distances, int heads) {
    float *host = tfm__alloc((size_t)heads, sizeof(*host));
    tfm_tensor slopes = {0}, grid = {0};
    int n = 1;
    if (!host)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "model: no host memory for %d heads", heads);
    while (2 * n <= heads)
        n *= 2;
    for (int h = 0; h < heads; h++)
        host[h] = (float)(h < n ? exp2(-8.0 * (h + 1) / n) : exp2(-4.0 * (2 * (h - n) + 1) / n));
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &slopes, TFM_F32, 3, (int64_t[]){heads, 1, 1});
    tfm_tensor_write(ctx, slopes, host);
    free(host);
    tfm_tensor_reshape(ctx, &grid, distances, 3, (int64_t[]){1, distances.dims[0], distances.dims[1]});
    tfm_mul(ctx, bias, slopes, grid);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){bias});
}

tfm_status tfm__positions_buckets(tfm_model *model, tfm_tensor *buckets, const tfm__stack_arch *arch, int64_t first,
                                  int64_t targets) {
    const int64_t dims[] = {targets, first + targets};
    if (arch->alibi)
        return make_distances(model->ctx, buckets, first, targets);
    if (arch->relative.buckets == 0)
        return tfm_context_status(model->ctx);
    int32_t *host = tfm__alloc((size_t)(dims[0] * dims[1]), sizeof(*host));
    if (!host)
        return tfm__context_fail(model->ctx, TFM_ERROR_MEMORY, "model: no host memory for the bias of %lld positions",
                                 (long long)dims[1]);
    for (int64_t t = 0; t < dims[0]; t++)
        for (int64_t s = 0; s < dims[1]; s++)
            host[t * dims[1] + s] = bucket_of(arch, s - (first + t));
    tfm_tensor_new(model->ctx, buckets, TFM_I32, 2, dims);
    tfm_tensor_write(model->ctx, *buckets, host);
    free(host);
    return tfm_context_status(model->ctx);
}

tfm_status tfm__positions_bias(tfm_model *model, tfm_tensor *bias, const tfm__stack *stack, const tfm__stack_arch *arch,
                               int layer, tfm_tensor buckets) {
    tfm_context *ctx = model->ctx;
    if (!buckets.buffer)
        return tfm_context_status(ctx);
    if (arch->alibi)
        return alibi_bias(ctx, bias, buckets, arch->heads);
    const tfm_tensor table = stack->relative[layer].value;
    const int64_t count = buckets.dims[0] * buckets.dims[1], dims[] = {buckets.dims[0], buckets.dims[1], table.dims[1]};
    tfm_tensor index = {0}, flat = {0}, grid = {0};
    tfm_scope_open(ctx);
    tfm_tensor_reshape(ctx, &index, buckets, 1, &count);
    tfm_gather(ctx, &flat, table, index);
    tfm_tensor_reshape(ctx, &grid, flat, 3, dims);
    tfm_permute(ctx, bias, grid, (int[]){2, 0, 1});
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){bias});
}

/* The row of the last query serves all earlier ones, aligned at its end. */
tfm_status tfm__model_position_bias(tfm_model *model, tfm_tensor *out, int64_t positions) {
    tfm_context *ctx = model->ctx;
    const tfm__stack_arch *arch = &model->arch.decoder;
    const int64_t heads = arch->heads, tables = tfm__position_bias_tables(arch);
    tfm_tensor buckets = {0};
    if (!tfm__stack_has_position_bias(arch) || positions < 1)
        return tfm_context_status(ctx);
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, out, TFM_F32, 2, (int64_t[]){tables * heads, positions});
    tfm__positions_buckets(model, &buckets, arch, positions - 1, 1);
    for (int64_t i = 0; i < tables; i++) {
        tfm_tensor bias = {0}, rows = {0}, place = {0};
        tfm__positions_bias(model, &bias, &model->decoder, arch, (int)i, buckets);
        tfm_tensor_reshape(ctx, &rows, bias, 2, (int64_t[]){heads, positions});
        tfm_tensor_rows(ctx, &place, *out, i * heads, heads);
        tfm__tensor_copy(ctx, place, rows);
    }
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){out});
}

tfm_status tfm__positions_bias_row(tfm_model *model, tfm_tensor *bias, tfm_tensor position_bias, int layer,
                                   int64_t position) {
    tfm_context *ctx = model->ctx;
    const int64_t heads = model->arch.decoder.heads, first = layer * heads;
    tfm_tensor row = {0}; /* (H, position + 1) */
    if (!position_bias.buffer)
        return tfm_context_status(ctx);
    const int64_t last = position_bias.dims[1];
    tfm_slice(ctx, &row, position_bias, (tfm_range[]){{first, first + heads, 1}, {last - 1 - position, last, 1}});
    return tfm_tensor_reshape(ctx, bias, row, 3, (int64_t[]){heads, 1, position + 1});
}
