/* Attention: entry point, and the kernels of GPU-style devices (cl/attention/attention.cl). */
#include "ops/attention/attention.h"
#include <inttypes.h>
#include <string.h>
#include "ops/autograd/tape.h"

/* Bytes of local memory of cl/attention/attention.cl for `block` queries. */
static size_t local_bytes(const tfm_context *ctx, const tfm__attention *a, int64_t block) {
    const int64_t group = tfm__context_tuning(ctx)->group, tile = group < 32 ? 32 : group;
    return sizeof(float) *
           (size_t)(block * (a->key_width + tile + group + 5) + (tfm__dropout_enabled(&a->dropout) ? 2 : 1) * tile);
}

/* Several queries share each key load if there are enough queries and their copies fit in their part of local memory.
 */
static tfm_status launch_gpu(tfm_context *ctx, const tfm__attention *a) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t queries = a->heads / a->kv_heads * a->targets, most = tuning->attention_shared_queries;
    const size_t there = tfm__context_limits(ctx)->local_bytes;
    const bool shared =
        queries >= tuning->attention_shared_min_queries && a->value_width <= tuning->attention_shared_max_head_dim;
    int64_t block = shared ? most : 1;
    while (block > 1 && local_bytes(ctx, a, block) > there / (size_t)tuning->attention_shared_local_divisor)
        block = block == most && most > 3 ? most / 2 : 1;
    if (block == 1 && local_bytes(ctx, a, 1) > there)
        return tfm__op_error(ctx, "attention",
                             "a head of %" PRId64 " key columns needs %zu bytes of local memory, %s has %zu: "
                             "use more heads",
                             a->key_width, local_bytes(ctx, a, 1), tfm_context_device(ctx)->name, there);
    const int64_t items = a->q.dims[0] * a->kv_heads * tfm__ceil_div(queries, block);
    const int64_t num_splits = tfm__attention_num_splits(ctx, a, items);
    if (num_splits > 1)
        return tfm__attention_split(ctx, a, (int)block, items, num_splits);
    tfm__kernel *kernel = tfm__attention_kernel(ctx, a, "attention", "attention_gpu", (int)block, "");
    const int64_t work = block * a->length * (a->key_width + a->value_width), bound = tfm__attention_launch_macs(ctx);
    const int64_t room = work < bound ? bound / (work + 1) : 1;
    for (int64_t first = 0; first < items; first += room) {
        const int64_t end = items - first < room ? items : first + room;
        tfm__attention_enqueue(ctx, a, kernel, tfm__row_grid(ctx, end - first),
                               TFM__ARGS(TFM__ATTENTION_FUSED_ARGS(a, end), TFM__I_AS("first_item", first)));
    }
    return tfm_context_status(ctx);
}

/* y (F32 or the inputs' dtype), and lse if requested. */
static tfm_status make_outputs(tfm_context *ctx, const tfm__attention *a, tfm_tensor *y,
                               const tfm_attention_options *options) {
    const tfm_tensor q = a->q, none = {0};
    tfm_tensor *lse = options->lse, *scores = options->scores;
    const int64_t flat[] = {q.dims[0], a->targets, a->heads * a->value_width};
    const int64_t apart[] = {q.dims[0], a->heads, a->targets, a->value_width};
    const int64_t all[] = {q.dims[0], a->heads, a->targets, a->length};
    const tfm_dtype dtype = y && y->buffer && y->dtype == q.dtype ? q.dtype : TFM_F32;
    if (scores && (unsigned)options->stage > TFM_ATTENTION_MASKED)
        return tfm__op_error(ctx, "attention", "stage %d of the scores is none of enum tfm_attention_stage",
                             (int)options->stage);
    if (tfm__op_output(ctx, "attention", y, dtype, q.rank, a->heads_first ? apart : flat) != TFM_OK ||
        (lse && tfm__op_output(ctx, "attention", lse, TFM_F32, 3, all) != TFM_OK) ||
        (scores && tfm__op_output(ctx, "attention", scores, TFM_F32, 4, all) != TFM_OK))
        return tfm_context_status(ctx);
    const tfm_tensor outputs[] = {*y, lse ? *lse : none, scores ? *scores : none};
    for (int i = 0; i < 3; i++)
        if (TFM__OP_NO_OVERLAP(ctx, "attention", outputs[i], q, a->k, a->v, a->lengths, a->kv_batch, a->kv_indices,
                               a->mask, outputs[(i + 1) % 3]) != TFM_OK)
            break;
    return tfm_context_status(ctx);
}

/* Computes every output; dtypes that the kernels cannot write go through scratch of the current scope. */
static tfm_status compute(tfm_context *ctx, tfm__attention *a, tfm_tensor y, const tfm_attention_options *options) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (a->mask.buffer && (a->mask.dtype == TFM_F16 || a->mask.dtype == TFM_BF16)) {
        tfm_tensor wide = {0};
        tfm_cast(ctx, &wide, a->mask, TFM_F32);
        a->mask = wide;
    }
    a->y = y;
    if (y.dtype != TFM_F32) {
        a->y = (tfm_tensor){0};
        tfm_tensor_new(ctx, &a->y, TFM_F32, y.rank, y.dims);
    }
    if (options->lse)
        a->lse = *options->lse;
    if (tuning->class == TFM__CLASS_CPU && tuning->width > 1)
        tfm__attention_cpu(ctx, a);
    else if (tfm__attention_tiled_fits(ctx, a))
        tfm__attention_tiled(ctx, a);
    else
        launch_gpu(ctx, a);
    if (y.dtype != TFM_F32)
        tfm_cast(ctx, &y, a->y, y.dtype);
    return options->scores ? tfm__attention_scores(ctx, a, *options->scores, options->stage) : tfm_context_status(ctx);
}

/* Inputs that the backward pass does not support. */
static tfm_status check_recorded(tfm_context *ctx, const tfm__attention *a) {
    if (a->paged || a->mapped)
        return tfm__op_error(ctx, "attention",
                             "with `kv_indices` or `kv_batch` it has no backward pass: stop the tape first");
    if (a->k.dtype != TFM_F32)
        return tfm__op_error(ctx, "attention", "keys %s are not F32, and have no backward pass: stop the tape first",
                             TFM__SHAPE(a->k));
    return tfm_context_status(ctx);
}

tfm_status tfm_attention(tfm_context *ctx, tfm_tensor *y, tfm_tensor q, tfm_tensor k, tfm_tensor v,
                         const tfm_attention_options *options) {
    const tfm_attention_options none = {0};
    options = options ? options : &none;
    if (TFM__OP_BEGIN(ctx, "attention", "hkkIIIM", q, k, v, options->lengths, options->kv_batch, options->kv_indices,
                      options->mask) != TFM_OK ||
        TFM__OP_OPTIONS(ctx, "attention", options) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__attention a = {.q = q,
                        .k = k,
                        .v = v,
                        .lengths = options->lengths,
                        .kv_batch = options->kv_batch,
                        .kv_indices = options->kv_indices,
                        .mask = options->mask,
                        .padded = options->lengths.buffer != NULL,
                        .mapped = options->kv_batch.buffer != NULL,
                        .paged = options->kv_indices.buffer != NULL};
    if (options->dropout)
        a.dropout = *options->dropout;
    if (tfm__dropout_check(ctx, "attention", &a.dropout) != TFM_OK ||
        tfm__attention_setup(ctx, &a, options) != TFM_OK || make_outputs(ctx, &a, y, options) != TFM_OK ||
        tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    const bool recorded = TFM__TAPE_REQUIRES_GRAD(ctx, q, k, v, a.mask);
    if (recorded && check_recorded(ctx, &a) == TFM_OK && !options->lse)
        tfm_tensor_new(ctx, &a.lse, TFM_F32, 3, (int64_t[]){q.dims[0], a.heads, a.targets});
    compute(ctx, &a, *y, options);
    if (recorded)
        tfm__attention_record(ctx, &a);
    return tfm_scope_close(ctx, 0, NULL);
}
