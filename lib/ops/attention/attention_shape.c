/* Shapes, visibility (mask, window, causality) and argument checks of attention. */
#include "ops/attention/attention.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static tfm_status check_ranks(tfm_context *ctx, tfm__attention *a) {
    const int rank = a->q.rank, kv_rank = a->paged ? 2 : rank;
    if (rank != 3 && rank != 4)
        return tfm__op_error(ctx, "attention", "q is %s, neither (B, T, H dk) nor (B, H, T, dk)", TFM__SHAPE(a->q));
    if (a->k.rank != kv_rank || a->v.rank != kv_rank)
        return tfm__op_error(ctx, "attention", "k is %s and v %s; with q %s%s they are of rank %d", TFM__SHAPE(a->k),
                             TFM__SHAPE(a->v), TFM__SHAPE(a->q), a->paged ? " and rows" : "", kv_rank);
    if (a->v.dtype != a->k.dtype || (a->k.dtype != a->q.dtype && a->q.dtype != TFM_F32))
        return tfm__op_error(ctx, "attention", "q is %s, k %s and v %s: they must be of one dtype, or q F32",
                             TFM__SHAPE(a->q), TFM__SHAPE(a->k), TFM__SHAPE(a->v));
    if (a->k.dtype == TFM_I8 && (a->k.offset % 4 != 0 || a->v.offset % 4 != 0))
        return tfm__op_error(ctx, "attention", "int8 k %s and v %s must begin at multiples of four bytes",
                             TFM__SHAPE(a->k), TFM__SHAPE(a->v));
    if (a->paged && a->kv_indices.rank != 2)
        return tfm__op_error(ctx, "attention", "kv_indices is %s, not (B, S)", TFM__SHAPE(a->kv_indices));
    return TFM_OK;
}

/* Heads, their widths, T and S from the shapes. */
static tfm_status read_shape(tfm_context *ctx, tfm__attention *a, const tfm_attention_options *options) {
    const tfm_tensor q = a->q, k = a->k, v = a->v;
    a->heads_first = q.rank == 4;
    a->heads = a->heads_first ? q.dims[1] : options->heads;
    a->kv_heads = options->kv_heads ? options->kv_heads : a->heads_first && !a->paged ? k.dims[1] : a->heads;
    if (a->heads <= 0 || a->kv_heads <= 0 || a->heads % a->kv_heads != 0 || options->heads < 0 ||
        (a->heads_first && options->heads && options->heads != a->heads))
        return tfm__op_error(ctx, "attention",
                             "%" PRId64 " heads over %" PRId64 " key heads with q %s: heads must be "
                             "given for (B, T, H dk), and be a multiple of kv_heads",
                             a->heads_first && options->heads ? (int64_t)options->heads : a->heads, a->kv_heads,
                             TFM__SHAPE(q));
    const int64_t in_key = a->heads_first && !a->paged ? 1 : a->kv_heads;
    a->targets = q.dims[a->heads_first ? 2 : 1];
    a->length = a->paged ? a->kv_indices.dims[1] : k.dims[a->heads_first ? 2 : 1];
    a->key_width = a->heads_first ? q.dims[3] : q.dims[2] / a->heads;
    a->value_width = k.dtype == TFM_I8 ? a->key_width : tfm__last_dim(v) / in_key;
    const bool whole = a->heads_first || q.dims[2] % a->heads == 0;
    if (!whole || a->key_width <= 0 || a->value_width <= 0 ||
        tfm__last_dim(k) != tfm__kv_span(k.dtype, a->key_width) * in_key ||
        tfm__last_dim(v) != tfm__kv_span(k.dtype, a->value_width) * in_key)
        return tfm__op_error(ctx, "attention",
                             "q %s, k %s and v %s do not divide into %" PRId64 " heads and %" PRId64 " key heads",
                             TFM__SHAPE(q), TFM__SHAPE(k), TFM__SHAPE(v), a->heads, a->kv_heads);
    if (a->heads_first && !a->paged && (k.dims[1] != a->kv_heads || v.dims[1] != a->kv_heads))
        return tfm__op_error(ctx, "attention", "k %s and v %s do not have %" PRId64 " heads", TFM__SHAPE(k),
                             TFM__SHAPE(v), a->kv_heads);
    return TFM_OK;
}

/* N from the inputs that have sequences; inputs with B sequences. */
static tfm_status check_batch(tfm_context *ctx, tfm__attention *a) {
    const tfm_tensor q = a->q, k = a->k, v = a->v;
    a->sequences = !a->mapped ? q.dims[0] : !a->paged ? k.dims[0] : a->padded ? a->lengths.dims[0] : INT32_MAX;
    if (a->mapped && (a->kv_batch.rank != 1 || a->kv_batch.dims[0] != q.dims[0]))
        return tfm__op_error(ctx, "attention", "kv_batch is %s with q %s, not (B)", TFM__SHAPE(a->kv_batch),
                             TFM__SHAPE(q));
    if (a->paged && (a->kv_indices.dims[0] != q.dims[0] || k.dims[0] != v.dims[0]))
        return tfm__op_error(ctx, "attention",
                             "kv_indices is %s with q %s, k %s and v %s, not (B, S), or k and v differ",
                             TFM__SHAPE(a->kv_indices), TFM__SHAPE(q), TFM__SHAPE(k), TFM__SHAPE(v));
    if (!a->paged && (k.dims[0] != a->sequences || v.dims[0] != a->sequences))
        return tfm__op_error(ctx, "attention",
                             "k %s and v %s are not of the same sequences as q %s; give `kv_batch` if "
                             "some are shared",
                             TFM__SHAPE(k), TFM__SHAPE(v), TFM__SHAPE(q));
    if (!a->paged && v.dims[a->heads_first ? 2 : 1] != a->length)
        return tfm__op_error(ctx, "attention", "k %s and v %s differ in length", TFM__SHAPE(k), TFM__SHAPE(v));
    if (a->padded && (a->lengths.rank != 1 || a->lengths.dims[0] != a->sequences))
        return tfm__op_error(ctx, "attention", "lengths is %s for %" PRId64 " sequences of keys",
                             TFM__SHAPE(a->lengths), a->sequences);
    if (a->length >= TFM__ATTENTION_MAX_LENGTH || a->targets >= TFM__ATTENTION_MAX_LENGTH || k.dims[0] > INT32_MAX ||
        q.dims[0] > INT32_MAX)
        return tfm__op_error(ctx, "attention",
                             "q is %s and k %s: targets and keys of a sequence must be fewer than 2^29, and sequences "
                             "than 2^31",
                             TFM__SHAPE(q), TFM__SHAPE(k));
    return TFM_OK;
}

/* The private copies of a key and the accumulators must fit on the stack of a CPU thread. */
static tfm_status check_widths(tfm_context *ctx, const tfm__attention *a) {
    const int64_t most = 65536;
    if (a->key_width > most || a->value_width > most || a->key_width + a->value_width > most)
        return tfm__op_error(ctx, "attention",
                             "a head of %" PRId64 " key and %" PRId64 " value columns is too wide: together "
                             "they are at most %" PRId64 ", so use more heads",
                             a->key_width, a->value_width, most);
    return TFM_OK;
}

static int64_t clamp_int64(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Target t is key t + past and sees keys t + from <= s < t + to. Limits beyond TFM__ATTENTION_UNBOUNDED equal no limit,
 * so the sums stay ints. */
static tfm_status read_range(tfm_context *ctx, tfm__attention *a, const tfm_attention_options *options) {
    const int64_t far = TFM__ATTENTION_UNBOUNDED, wide = INT64_C(1) << 40;
    const bool left = options->window && options->window_left >= 0,
               right = options->window && options->window_right >= 0;
    if (options->causal_bottom_right && options->past != 0)
        return tfm__op_error(ctx, "attention",
                             "past is %" PRId64
                             ", but causal_bottom_right has each sequence's length say it: give one of them",
                             options->past);
    const int64_t past = options->causal_bottom_right ? -a->targets : clamp_int64(options->past, -wide, wide);
    int64_t to = right ? past + clamp_int64(options->window_right, 0, wide) + 1 : far;
    if (options->causal && past + 1 < to)
        to = past + 1;
    a->bottom_right = options->causal_bottom_right;
    a->from = left ? clamp_int64(past - clamp_int64(options->window_left, 0, wide), -far, far) : -far;
    a->to = clamp_int64(to, -far, far);
    return TFM_OK;
}

/* Mask strides against (B, H, T, S), right-aligned; the last dimension may be shorter. */
static tfm_status read_mask(tfm_context *ctx, tfm__attention *a) {
    const tfm_tensor mask = a->mask;
    const int64_t dims[] = {a->q.dims[0], a->heads, a->targets, a->length};
    int64_t steps[4] = {0}, step = 1;
    a->columns = a->length;
    if (!mask.buffer)
        return TFM_OK;
    bool fits = mask.rank <= 4;
    for (int i = 3; fits && i >= 4 - mask.rank; i--) {
        const int64_t dim = mask.dims[i - 4 + mask.rank];
        fits = dim == 1 || dim == dims[i] || (i == 3 && dim < dims[i] && dim > 0);
        steps[i] = dim == 1 ? 0 : step;
        step *= dim;
        if (i == 3 && dim != 1)
            a->columns = dim;
    }
    if (!fits)
        return tfm__op_error(ctx, "attention",
                             "the mask is %s for %" PRId64 " sequences, %" PRId64 " heads, %" PRId64
                             " targets and %" PRId64
                             " keys: aligned at the last, its dims must be these, or 1, or fewer keys",
                             TFM__SHAPE(mask), dims[0], dims[1], dims[2], dims[3]);
    memcpy(a->mask_strides, steps, sizeof(steps));
    return TFM_OK;
}

tfm_status tfm__attention_setup(tfm_context *ctx, tfm__attention *a, const tfm_attention_options *options) {
    if (check_ranks(ctx, a) != TFM_OK || read_shape(ctx, a, options) != TFM_OK || check_batch(ctx, a) != TFM_OK ||
        check_widths(ctx, a) != TFM_OK || read_range(ctx, a, options) != TFM_OK || read_mask(ctx, a) != TFM_OK)
        return tfm_context_status(ctx);
    a->scale = options->scale != 0.0F ? options->scale : 1.0F / sqrtf((float)a->key_width);
    a->soft_cap = options->soft_cap;
    if (!(a->soft_cap >= 0.0F) || isinf(a->soft_cap))
        return tfm__op_error(ctx, "attention", "a soft cap of %g: it must be above 0, or 0 for none",
                             (double)a->soft_cap);
    return TFM_OK;
}
