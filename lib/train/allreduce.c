/* Gradients on their way from rank to rank.
 *
 * A block on the wire is its numbers, and before those, where they have 16 bits, 8 bytes with the F32 number that they
 * are to be multiplied by: a half has few exponents, and gradients many. The device divides by a 2^14th of the bucket's
 * norm, above which no number is, so that none overflows and those 2^28 times smaller than the norm still have all
 * their digits. A bfloat16 has the exponents of a float, and is multiplied by 1. */
#include <math.h>
#include <string.h>
#include "model/core/quantized_params.h"
#include "tfm/ops.h"
#include "train/process_group.h"
#include "train/allreduce.h"
#include "ops/autograd/tape.h"

enum { HEADER = 8 };

static size_t header_of(const tfm_trainer *t) {
    return t->wire_dtype == TFM_F32 ? 0 : HEADER;
}

static size_t bytes_of(const tfm_trainer *t, int64_t count) {
    return (size_t)count * tfm_dtype_size(t->wire_dtype);
}

/* ---- Room ---- */

tfm_status tfm__wire_open(tfm_trainer *t) {
    const int64_t buckets = tfm__buckets(&t->cuts);
    int64_t room = 0;
    for (int64_t k = 0; k < buckets; k++)
        room = tfm__bucket_room(&t->cuts, k) > room ? tfm__bucket_room(&t->cuts, k) : room;
    const size_t blocks = (size_t)t->cuts.world * ((size_t)room * sizeof(float) + HEADER);
    tfm__wire_close(t);
    t->shared = tfm__pinned_memory_new(t->ctx, &t->shared_room, (size_t)t->count * sizeof(*t->shared));
    t->sent = tfm__alloc(blocks, 1);
    t->received = tfm__alloc(blocks, 1);
    t->sum = tfm__alloc(2 * (size_t)room, sizeof(*t->sum));
    t->buckets = tfm__alloc((size_t)buckets, sizeof(*t->buckets));
    t->parts = tfm__alloc((size_t)buckets, sizeof(*t->parts));
    for (int64_t k = 0; t->parts && k < buckets; k++) {
        const tfm__stretch s = tfm__bucket(&t->cuts, k);
        t->parts[k] = (tfm__grad_range){s.at, s.count};
    }
    return t->shared && t->sent && t->received && t->sum && t->buckets && t->parts ? TFM_OK : TFM_ERROR_MEMORY;
}

void tfm__wire_close(tfm_trainer *t) {
    tfm__wire_forget(t);
    tfm__pinned_memory_free(t->ctx, &t->shared_room);
    void *const all[] = {t->sent, t->received, t->sum, t->buckets, t->parts};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
    t->shared = t->sum = NULL;
    t->sent = t->received = NULL;
    t->buckets = NULL;
    t->parts = NULL;
}

/* ---- From the device ---- */

/* Makes the bucket's numbers ones of 16 bits. */
static void narrow(tfm_trainer *t, tfm_tensor *out, tfm_tensor *scale, tfm_tensor x) {
    const float least = 1e-30f, part = 0x1p-14f; /* a bucket of zeros is divided by something */
    tfm_tensor norm = {0}, constants = {0}, one = {0}, other = {0}, most = {0}, divided = {0};
    if (t->wire_dtype == TFM_F16) {
        tfm_tensor_new(t->ctx, &constants, TFM_F32, 1, &(int64_t){2});
        tfm_tensor_rows(t->ctx, &one, constants, 0, 1);
        tfm_tensor_rows(t->ctx, &other, constants, 1, 1);
        tfm__tensor_fill(t->ctx, one, &least);
        tfm__tensor_fill(t->ctx, other, &part);
        tfm_l2_norm(t->ctx, &norm, x);
        tfm_max(t->ctx, &most, norm, one);
        tfm_mul(t->ctx, scale, most, other);
        tfm_div(t->ctx, &divided, x, *scale);
        x = divided;
    }
    tfm_cast(t->ctx, out, x, t->wire_dtype);
}

/* Starts to read a bucket of the gradient, as the tape tells. The queue is in order: what is freed here is not written
 * before it is read. */
static void start(void *user, size_t k) {
    tfm_trainer *t = user;
    tfm__bucket_read *b = &t->buckets[k];
    tfm_tensor x = {0}, small = {0}, scale = {0};
    tfm_scope_open(t->ctx);
    tfm_tensor_rows(t->ctx, &x, t->gradient, t->parts[k].at, t->parts[k].count);
    b->scale = 1;
    if (t->wire_dtype != TFM_F32) {
        narrow(t, &small, &scale, x);
        x = small;
    }
    if (scale.buffer)
        tfm__async_read_into(t->ctx, &b->scale_read, &b->scale, scale);
    tfm__async_read_into(t->ctx, &b->read, t->shared + t->parts[k].at, x);
    t->last_read = b->read ? b->read : t->last_read;
    t->early += b->read != NULL;
    tfm_scope_close(t->ctx, 0, NULL);
}

void tfm__wire_listen(tfm_trainer *t) {
    t->early = 0;
    tfm__tape_on_grad_ready(t->ctx, t->value, (size_t)tfm__buckets(&t->cuts), t->parts, start, t);
}

void tfm__wire_forget(tfm_trainer *t) {
    for (int64_t k = 0; t->buckets && k < tfm__buckets(&t->cuts); k++) {
        tfm__async_read_free(t->ctx, &t->buckets[k].read);
        tfm__async_read_free(t->ctx, &t->buckets[k].scale_read);
    }
    t->last_read = NULL;
}

/* Waits until the bucket is in `shared`, unless no backward pass has begun to read it: the rank has no batch. */
static tfm_status wait_for(tfm_trainer *t, int64_t k) {
    const tfm__bucket_read *b = &t->buckets[k];
    if (b->scale_read)
        tfm__async_read_wait(t->ctx, b->scale_read);
    if (b->read)
        tfm__async_read_wait(t->ctx, b->read);
    return tfm_context_status(t->ctx);
}

/* ---- Between ranks ---- */

/* Sends, and counts. */
static bool call(tfm_trainer *t, bool to_each, void *in, const void *out, size_t bytes) {
    const tfm_ranks *r = &t->ranks;
    const bool early = t->last_read && !tfm__async_read_done(t->last_read);
    const double begun = tfm__seconds();
    const bool good = to_each ? r->exchange(r->user, in, out, bytes) : r->gather(r->user, in, out, bytes);
    const double ended = tfm__seconds(), seconds = ended - begun;
    tfm__context_span(t->ctx, to_each ? "wire: blocks to each rank" : "wire: sums to all ranks", begun, ended);
    t->counts.bytes += (uint64_t)bytes * (uint64_t)(r->world - 1);
    t->counts.seconds += seconds;
    t->counts.early_seconds += early ? seconds : 0;
    return good;
}

/* Puts a bucket into blocks for all ranks; zeros where there is nothing to add. */
static void pack(tfm_trainer *t, int64_t k, size_t block, bool nothing) {
    const unsigned char *from = (const unsigned char *)(t->shared + t->parts[k].at);
    const size_t header = header_of(t);
    if (nothing)
        memset(t->sent, 0, block * (size_t)t->cuts.world);
    for (int i = 0; i < t->cuts.world && !nothing; i++) {
        const tfm__stretch s = tfm__bucket_block(&t->cuts, k, i);
        const size_t end = header + bytes_of(t, s.count);
        unsigned char *to = t->sent + (size_t)i * block;
        memset(to, 0, header);
        if (header)
            memcpy(to, &t->buckets[k].scale, sizeof(float));
        memcpy(to + header, from + bytes_of(t, s.at - t->parts[k].at), bytes_of(t, s.count));
        memset(to + end, 0, block - end); /* the last ranks' blocks may be shorter */
    }
}

static void unpack(const tfm_trainer *t, float *out, const unsigned char *block, int64_t count) {
    float scale = 1;
    tfm__stored_to_floats(out, &(tfm__stored_tensor){.dtype = t->wire_dtype, .data = block + header_of(t)}, 0,
                          (size_t)count, 1);
    if (!header_of(t))
        return;
    memcpy(&scale, block, sizeof(scale));
    for (int64_t i = 0; i < count && scale != 1; i++)
        out[i] *= scale;
}

/* Writes a sum as a block to be sent; `sum` becomes what others will read there, so that all have the same. */
static void pack_sum(const tfm_trainer *t, unsigned char *block, float *sum, int64_t count) {
    float most = 0, scale = 1;
    if (t->wire_dtype == TFM_F32) {
        memcpy(block, sum, (size_t)count * sizeof(*sum));
        return;
    }
    for (int64_t i = 0; i < count && t->wire_dtype == TFM_F16; i++)
        most = fabsf(sum[i]) > most ? fabsf(sum[i]) : most;
    if (most > 0 && isfinite(most))
        scale = fmaxf(ldexpf(1, ilogbf(most) - 14), 0x1p-126f);
    memcpy(block, &scale, sizeof(scale));
    const float inverse = 1 / scale; /* of a power of 2, so nothing is lost */
    for (int64_t i = 0; i < count; i++) {
        const uint16_t half = tfm__float_to_half(sum[i] * inverse, t->wire_dtype);
        memcpy(block + HEADER + 2 * i, &half, sizeof(half));
    }
    unpack(t, sum, block, count);
}

/* In a few sums side by side, which a compiler can make of vectors: always the same ones. */
static double squares_of(const float *x, int64_t count) {
    enum { SIDE = 8 };
    double sums[SIDE] = {0}, all = 0;
    for (int64_t i = 0; i < count; i++)
        sums[i % SIDE] += (double)x[i] * (double)x[i];
    for (int i = 0; i < SIDE; i++)
        all += sums[i];
    return all;
}

/* Each rank adds up one block of the bucket, and all get all blocks: twice the bucket goes over the wire, however many
 * ranks there are, and the order of a sum is always that of the ranks. */
static bool sum_bucket(tfm_trainer *t, double *squares, int64_t k, bool nothing) {
    const int world = t->cuts.world;
    const int64_t room = tfm__bucket_room(&t->cuts, k);
    const size_t block = header_of(t) + bytes_of(t, room);
    const tfm__stretch own = tfm__bucket_block(&t->cuts, k, t->ranks.rank);
    float *sum = t->sum, *other = t->sum + room;
    pack(t, k, block, nothing);
    if (!call(t, true, t->received, t->sent, block))
        return false;
    unpack(t, sum, t->received, room);
    for (int i = 1; i < world; i++) {
        unpack(t, other, t->received + (size_t)i * block, room);
        for (int64_t j = 0; j < room; j++)
            sum[j] += other[j];
    }
    pack_sum(t, t->sent, sum, room);
    *squares += squares_of(sum, own.count);
    if (t->sharded) {
        memcpy(t->shared + own.at, sum, (size_t)own.count * sizeof(*sum));
        return true;
    }
    if (!call(t, false, t->received, t->sent, block))
        return false;
    for (int i = 0; i < world; i++) {
        const tfm__stretch s = tfm__bucket_block(&t->cuts, k, i);
        unpack(t, t->shared + s.at, t->received + (size_t)i * block, s.count);
    }
    return true;
}

bool tfm__wire_sum(tfm_trainer *t, double *squares, tfm_status *status) {
    *squares = 0;
    for (int64_t i = 0; i < tfm__buckets(&t->cuts); i++) {
        const int64_t k = tfm__bucket_sent(&t->cuts, i);
        if (*status == TFM_OK)
            *status = wait_for(t, k);
        if (!sum_bucket(t, squares, k, *status != TFM_OK || !t->buckets[k].read))
            return false;
    }
    return true;
}

bool tfm__wire_gather(tfm_trainer *t) {
    for (int64_t k = 0; k < tfm__buckets(&t->cuts); k++) {
        const tfm__stretch own = tfm__bucket_block(&t->cuts, k, t->ranks.rank);
        const size_t block = (size_t)tfm__bucket_room(&t->cuts, k) * sizeof(float);
        memcpy(t->sent, t->shared + own.at, (size_t)own.count * sizeof(float));
        if (!call(t, false, t->received, t->sent, block))
            return false;
        for (int i = 0; i < t->cuts.world; i++) {
            const tfm__stretch s = tfm__bucket_block(&t->cuts, k, i);
            memcpy(t->shared + s.at, t->received + (size_t)i * block, (size_t)s.count * sizeof(float));
        }
    }
    return true;
}
