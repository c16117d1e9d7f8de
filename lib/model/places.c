#include "model/places.h"
#include <math.h>

/* ---- Rotation ---- */

/* What tables of texts of `length` tokens are for: 0 for all texts up to the border, and for all where there is none.
 * Beyond it, one length is as another but for rates that follow it. */
static int64_t kind_of_length(const tfm__rotary_arch *rotary, int64_t length) {
    if (rotary->border == 0 || length <= rotary->border)
        return 0;
    return rotary->form.type == TFM__ROPE_DYNAMIC ? length : rotary->border + 1;
}

bool tfm__model_keys_serve(const tfm_model *model, int64_t from, int64_t to) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    const tfm__rotary_arch *const rotary[] = {&arch->rotary, &arch->local_rotary};
    for (int k = 0; k < 2; k++)
        /* Otherwise keys of earlier rates are what others are used with, as in transformers. */
        if (rotary[k]->width && rotary[k]->again && kind_of_length(rotary[k], from) != kind_of_length(rotary[k], to))
            return false;
    return true;
}

/* The rate of pair i in texts of a kind. Rates that follow the length belong to a base that grows with it. */
static double rate_of(const tfm__rotary_arch *rotary, int64_t kind, int i) {
    const tfm__rope_form *form = &rotary->form;
    if (kind == 0)
        return rotary->rates[i];
    if (form->type != TFM__ROPE_DYNAMIC)
        return rotary->far_rates[i];
    const float width = (float)rotary->share, factor = (float)form->factor;
    const float stretch = factor * (float)kind / (float)rotary->border - (factor - 1);
    const float base = (float)form->theta * powf(stretch, width / (width - 2));
    return (double)(1 / powf(base, (float)(2 * i) / width));
}

/* The angle is rounded to float, as in the code that such models were trained with; its sine is that of the rounded
 * angle. */
static tfm_status make_turns(tfm_context *ctx, tfm__turns *out, const tfm__rotary_arch *rotary, int64_t positions,
                             int64_t kind) {
    const int64_t half = rotary->width / 2, dims[] = {positions, half};
    float *host = tfm__alloc((size_t)(positions * half), sizeof(*host));
    if (!host)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "model: no host memory for %lld positions",
                                 (long long)positions);
    for (int sine = 0; sine < 2; sine++) {
        for (int64_t i = 0; i < half; i++) {
            const float rate = (float)rate_of(rotary, kind, (int)i);
            for (int64_t p = 0; p < positions; p++) {
                const double angle = (double)((float)p * rate);
                host[p * half + i] = (float)(sine ? sin(angle) : cos(angle)) * rotary->scale;
            }
        }
        tfm_tensor *table = sine ? &out->sines : &out->cosines;
        tfm_tensor_free(ctx, table);
        tfm__tensor_new_lasting(ctx, table, TFM_F32, 2, dims);
        tfm_tensor_write(ctx, *table, host);
    }
    out->length = kind;
    free(host);
    return tfm_context_status(ctx);
}

tfm_status tfm__places_turn(tfm_model *model, tfm__stack *stack, const tfm__stack_arch *arch, int64_t positions,
                            int64_t length) {
    const tfm__rotary_arch *const rotary[] = {&arch->rotary, &arch->local_rotary};
    for (int k = 0; k < 2; k++) {
        const tfm_tensor table = stack->turns[k].cosines;
        const int64_t rows = table.buffer ? table.dims[0] : 0, kind = kind_of_length(rotary[k], length);
        int64_t room = rows ? rows : 256;
        if (rotary[k]->width == 0 || (rows >= positions && stack->turns[k].length == kind))
            continue;
        while (room < positions)
            room *= 2;
        if (make_turns(model->ctx, &stack->turns[k], rotary[k], room < arch->max_positions ? room : arch->max_positions,
                       kind) != TFM_OK)
            return tfm_context_status(model->ctx);
    }
    return tfm_context_status(model->ctx);
}

/* ---- Bias by distance ---- */

/* The bucket of a key that stands `distance` after its query, as transformers' T5 computes it, in float: half of the
 * buckets are for distances up to their number, one each, the others for logarithmic ranges. Where a query sees keys on
 * both sides, each side has half of the buckets. */
static int32_t bucket_of(const tfm__stack_arch *arch, int64_t distance) {
    const int rows = arch->relative.used ? arch->relative.used : arch->relative.buckets;
    const int buckets = arch->causal ? rows : rows / 2, exact = buckets / 2;
    const int first = !arch->causal && distance > 0 ? buckets : 0;
    const int64_t far = distance < 0 ? -distance : arch->causal ? 0 : distance;
    if (far < exact || exact == 0)
        return first + (int32_t)(far < buckets ? far : buckets - 1);
    const float range = (float)log((double)arch->relative.most / exact);
    const int64_t bucket = exact + (int64_t)(logf((float)far / (float)exact) / range * (float)(buckets - exact));
    return first + (int32_t)(bucket < buckets ? bucket : buckets - 1);
}

/* *out (H, rows, columns): the biases of buckets[row][column]. */
static tfm_status look_up(tfm_model *model, tfm_tensor *out, const tfm__stack *stack, const int32_t *buckets,
                          int64_t rows, int64_t columns) {
    tfm_context *ctx = model->ctx;
    const int64_t count = rows * columns, dims[] = {rows, columns, stack->relative.value.dims[1]};
    tfm_tensor index = {0}, flat = {0}, grid = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &index, TFM_I32, 1, &count);
    tfm_tensor_write(ctx, index, buckets);
    tfm_gather(ctx, &flat, stack->relative.value, index);
    tfm_tensor_reshape(ctx, &grid, flat, 3, dims);
    tfm_permute(ctx, out, grid, (int[]){2, 0, 1});
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){out});
}

/* Buckets of `rows` queries, the first at `first`, over `columns` keys. */
static tfm_status make_bias(tfm_model *model, tfm_tensor *out, const tfm__stack *stack, const tfm__stack_arch *arch,
                            int64_t first, int64_t rows, int64_t columns) {
    int32_t *buckets = tfm__alloc((size_t)(rows * columns), sizeof(*buckets));
    if (!buckets)
        return tfm__context_fail(model->ctx, TFM_ERROR_MEMORY, "model: no host memory for the bias of %lld positions",
                                 (long long)columns);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t s = 0; s < columns; s++)
            buckets[t * columns + s] = bucket_of(arch, s - (first + t));
    look_up(model, out, stack, buckets, rows, columns);
    free(buckets);
    return tfm_context_status(model->ctx);
}

tfm_status tfm__places_bias(tfm_model *model, tfm_tensor *bias, const tfm__stack *stack, const tfm__stack_arch *arch,
                            int64_t first, int64_t targets) {
    if (arch->relative.buckets == 0)
        return tfm_context_status(model->ctx);
    return make_bias(model, bias, stack, arch, first, targets, first + targets);
}

tfm_status tfm__model_relative(tfm_model *model, tfm_tensor *out, int64_t positions) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    tfm_tensor row = {0}; /* (H, 1, positions) */
    if (arch->relative.buckets == 0 || positions < 1)
        return tfm_context_status(model->ctx);
    make_bias(model, &row, &model->decoder, arch, positions - 1, 1, positions);
    return tfm_tensor_reshape(model->ctx, out, row, 2, (int64_t[]){row.dims[0], positions});
}

tfm_status tfm__places_bias_row(tfm_model *model, tfm_tensor *bias, tfm_tensor relative, int64_t position) {
    tfm_context *ctx = model->ctx;
    const int64_t last = relative.dims[1];
    tfm_tensor row = {0}; /* (H, position + 1) */
    if (!relative.buffer)
        return tfm_context_status(ctx);
    tfm_slice(ctx, &row, relative, (tfm_range[]){TFM_WHOLE, {last - 1 - position, last, 1}});
    return tfm_tensor_reshape(ctx, bias, row, 3, (int64_t[]){relative.dims[0], 1, position + 1});
}
