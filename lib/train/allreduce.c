/* The all-reduce of gradients.
 *
 * A block is sent as its elements; a 16-bit block begins with 8 bytes that hold an F32 scale. FP16 has a small exponent
 * range: the device divides by 2^-14 times the bucket's norm, which no element exceeds, so nothing overflows, and
 * elements 2^28 times smaller than the norm keep full precision. BF16 has the exponents of F32; its scale is 1. */
#include <math.h>
#include <string.h>
#include "model/core/quantized_params.h"
#include "tfm/ops.h"
#include "train/process_group.h"
#include "train/allreduce.h"
#include "ops/autograd/tape.h"

enum { HEADER = 8 };

static size_t header_bytes(const tfm_trainer *t) {
    return t->comm_dtype == TFM_F32 ? 0 : HEADER;
}

static size_t payload_bytes(const tfm_trainer *t, int64_t count) {
    return (size_t)count * tfm_dtype_size(t->comm_dtype);
}

/* ---- Buffers ---- */

tfm_status tfm__allreduce_open(tfm_trainer *t) {
    const int64_t buckets = tfm__bucket_count(&t->bucket_layout);
    int64_t longest = 0;
    for (int64_t k = 0; k < buckets; k++)
        longest = tfm__bucket_shard_max(&t->bucket_layout, k) > longest ? tfm__bucket_shard_max(&t->bucket_layout, k)
                                                                        : longest;
    const size_t blocks = (size_t)t->bucket_layout.world * ((size_t)longest * sizeof(float) + HEADER);
    tfm__allreduce_close(t);
    t->host_buffer = tfm__pinned_memory_new(t->ctx, &t->pinned_memory, (size_t)t->count * sizeof(*t->host_buffer));
    t->send_buffer = tfm__alloc(blocks, 1);
    t->recv_buffer = tfm__alloc(blocks, 1);
    t->reduce_buffer = tfm__alloc(2 * (size_t)longest, sizeof(*t->reduce_buffer));
    t->bucket_reads = tfm__alloc((size_t)buckets, sizeof(*t->bucket_reads));
    t->bucket_parts = tfm__alloc((size_t)buckets, sizeof(*t->bucket_parts));
    for (int64_t k = 0; t->bucket_parts && k < buckets; k++) {
        const tfm__flat_range s = tfm__bucket_range(&t->bucket_layout, k);
        t->bucket_parts[k] = (tfm__grad_range){s.at, s.count};
    }
    return t->host_buffer && t->send_buffer && t->recv_buffer && t->reduce_buffer && t->bucket_reads && t->bucket_parts
               ? TFM_OK
               : TFM_ERROR_MEMORY;
}

void tfm__allreduce_close(tfm_trainer *t) {
    tfm__allreduce_reset(t);
    tfm__pinned_memory_free(t->ctx, &t->pinned_memory);
    void *const all[] = {t->send_buffer, t->recv_buffer, t->reduce_buffer, t->bucket_reads, t->bucket_parts};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
    t->host_buffer = t->reduce_buffer = NULL;
    t->send_buffer = t->recv_buffer = NULL;
    t->bucket_reads = NULL;
    t->bucket_parts = NULL;
}

/* ---- Reads from the device ---- */

/* Converts the bucket to the 16-bit communication dtype. */
static void cast_bucket(tfm_trainer *t, tfm_tensor *out, tfm_tensor *scale, tfm_tensor x) {
    const float least = 1e-30f, part = 0x1p-14f; /* avoids a division by zero for a zero bucket */
    tfm_tensor norm = {0}, constants = {0}, one = {0}, other = {0}, most = {0}, divided = {0};
    if (t->comm_dtype == TFM_F16) {
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
    tfm_cast(t->ctx, out, x, t->comm_dtype);
}

/* Starts to read a gradient bucket; a callback of the tape. The queue is in order, so memory freed here is not
 * overwritten before it is read. */
static void read_bucket(void *user, size_t k) {
    tfm_trainer *t = user;
    tfm__bucket_read *b = &t->bucket_reads[k];
    tfm_tensor x = {0}, small = {0}, scale = {0};
    tfm_scope_open(t->ctx);
    tfm_tensor_rows(t->ctx, &x, t->gradient, t->bucket_parts[k].at, t->bucket_parts[k].count);
    b->scale = 1;
    if (t->comm_dtype != TFM_F32) {
        cast_bucket(t, &small, &scale, x);
        x = small;
    }
    if (scale.buffer)
        tfm__async_read_into(t->ctx, &b->scale_read, &b->scale, scale);
    tfm__async_read_into(t->ctx, &b->read, t->host_buffer + t->bucket_parts[k].at, x);
    t->last_read = b->read ? b->read : t->last_read;
    t->early_reads += b->read != NULL;
    tfm_scope_close(t->ctx, 0, NULL);
}

void tfm__allreduce_prepare_backward(tfm_trainer *t) {
    t->early_reads = 0;
    tfm__tape_on_grad_ready(t->ctx, t->value, (size_t)tfm__bucket_count(&t->bucket_layout), t->bucket_parts,
                            read_bucket, t);
}

void tfm__allreduce_reset(tfm_trainer *t) {
    for (int64_t k = 0; t->bucket_reads && k < tfm__bucket_count(&t->bucket_layout); k++) {
        tfm__async_read_free(t->ctx, &t->bucket_reads[k].read);
        tfm__async_read_free(t->ctx, &t->bucket_reads[k].scale_read);
    }
    t->last_read = NULL;
}

/* Waits until the bucket is in `shared`, unless no backward pass has begun to read it: the rank has no batch. */
static tfm_status wait_for_bucket(tfm_trainer *t, int64_t k) {
    const tfm__bucket_read *b = &t->bucket_reads[k];
    if (b->scale_read)
        tfm__async_read_wait(t->ctx, b->scale_read);
    if (b->read)
        tfm__async_read_wait(t->ctx, b->read);
    return tfm_context_status(t->ctx);
}

/* ---- Between ranks ---- */

/* Runs a collective and updates the statistics. */
static bool communicate(tfm_trainer *t, bool all_to_all, void *in, const void *out, size_t bytes) {
    const tfm_process_group *r = &t->group;
    const bool early = t->last_read && !tfm__async_read_done(t->last_read);
    const double begun = tfm__seconds();
    const bool good = all_to_all ? r->all_to_all(r->user, in, out, bytes) : r->all_gather(r->user, in, out, bytes);
    const double ended = tfm__seconds(), seconds = ended - begun;
    tfm__context_span(t->ctx, all_to_all ? "all-reduce: reduce-scatter" : "all-reduce: all-gather", begun, ended);
    t->comm_stats.bytes += (uint64_t)bytes * (uint64_t)(r->world_size - 1);
    t->comm_stats.seconds += seconds;
    t->comm_stats.overlapped_seconds += early ? seconds : 0;
    return good;
}

/* Packs a bucket into a block per rank; zeros if this rank has nothing to add. */
static void pack_bucket(tfm_trainer *t, int64_t k, size_t block, bool nothing) {
    const unsigned char *from = (const unsigned char *)(t->host_buffer + t->bucket_parts[k].at);
    const size_t header = header_bytes(t);
    if (nothing)
        memset(t->send_buffer, 0, block * (size_t)t->bucket_layout.world);
    for (int i = 0; i < t->bucket_layout.world && !nothing; i++) {
        const tfm__flat_range s = tfm__bucket_shard(&t->bucket_layout, k, i);
        const size_t end = header + payload_bytes(t, s.count);
        unsigned char *to = t->send_buffer + (size_t)i * block;
        memset(to, 0, header);
        if (header)
            memcpy(to, &t->bucket_reads[k].scale, sizeof(float));
        memcpy(to + header, from + payload_bytes(t, s.at - t->bucket_parts[k].at), payload_bytes(t, s.count));
        memset(to + end, 0, block - end); /* the last ranks' blocks may be shorter */
    }
}

static void unpack_block(const tfm_trainer *t, float *out, const unsigned char *block, int64_t count) {
    float scale = 1;
    tfm__stored_to_floats(out, &(tfm__stored_tensor){.dtype = t->comm_dtype, .data = block + header_bytes(t)}, 0,
                          (size_t)count, 1);
    if (!header_bytes(t))
        return;
    memcpy(&scale, block, sizeof(scale));
    for (int64_t i = 0; i < count && scale != 1; i++)
        out[i] *= scale;
}

/* Packs a sum as a block; `sum` gets the rounded values that the others read, so that all ranks agree. */
static void pack_reduced(const tfm_trainer *t, unsigned char *block, float *sum, int64_t count) {
    float most = 0, scale = 1;
    if (t->comm_dtype == TFM_F32) {
        memcpy(block, sum, (size_t)count * sizeof(*sum));
        return;
    }
    for (int64_t i = 0; i < count && t->comm_dtype == TFM_F16; i++)
        most = fabsf(sum[i]) > most ? fabsf(sum[i]) : most;
    if (most > 0 && isfinite(most))
        scale = fmaxf(ldexpf(1, ilogbf(most) - 14), 0x1p-126f);
    memcpy(block, &scale, sizeof(scale));
    const float inverse = 1 / scale; /* of a power of 2, so exact */
    for (int64_t i = 0; i < count; i++) {
        const uint16_t half = tfm__float_to_half(sum[i] * inverse, t->comm_dtype);
        memcpy(block + HEADER + 2 * i, &half, sizeof(half));
    }
    unpack_block(t, sum, block, count);
}

/* In several accumulators, which compilers vectorize: a fixed order. */
static double sum_of_squares(const float *x, int64_t count) {
    enum { SIDE = 8 };
    double sums[SIDE] = {0}, all = 0;
    for (int64_t i = 0; i < count; i++)
        sums[i % SIDE] += (double)x[i] * (double)x[i];
    for (int i = 0; i < SIDE; i++)
        all += sums[i];
    return all;
}

/* Reduce-scatter and all-gather: each rank sums one block, then all get all blocks. Twice the bucket is sent, for any
 * number of ranks, and sums always run in rank order. */
static bool reduce_bucket(tfm_trainer *t, double *squares, int64_t k, bool nothing) {
    const int world = t->bucket_layout.world;
    const int64_t longest = tfm__bucket_shard_max(&t->bucket_layout, k);
    const size_t block = header_bytes(t) + payload_bytes(t, longest);
    const tfm__flat_range own = tfm__bucket_shard(&t->bucket_layout, k, t->group.rank);
    float *sum = t->reduce_buffer, *other = t->reduce_buffer + longest;
    pack_bucket(t, k, block, nothing);
    if (!communicate(t, true, t->recv_buffer, t->send_buffer, block))
        return false;
    unpack_block(t, sum, t->recv_buffer, longest);
    for (int i = 1; i < world; i++) {
        unpack_block(t, other, t->recv_buffer + (size_t)i * block, longest);
        for (int64_t j = 0; j < longest; j++)
            sum[j] += other[j];
    }
    pack_reduced(t, t->send_buffer, sum, longest);
    *squares += sum_of_squares(sum, own.count);
    if (t->sharded) {
        memcpy(t->host_buffer + own.at, sum, (size_t)own.count * sizeof(*sum));
        return true;
    }
    if (!communicate(t, false, t->recv_buffer, t->send_buffer, block))
        return false;
    for (int i = 0; i < world; i++) {
        const tfm__flat_range s = tfm__bucket_shard(&t->bucket_layout, k, i);
        unpack_block(t, t->host_buffer + s.at, t->recv_buffer + (size_t)i * block, s.count);
    }
    return true;
}

bool tfm__allreduce_gradients(tfm_trainer *t, double *squares, tfm_status *status) {
    *squares = 0;
    for (int64_t i = 0; i < tfm__bucket_count(&t->bucket_layout); i++) {
        const int64_t k = tfm__bucket_send_order(&t->bucket_layout, i);
        if (*status == TFM_OK)
            *status = wait_for_bucket(t, k);
        if (!reduce_bucket(t, squares, k, *status != TFM_OK || !t->bucket_reads[k].read))
            return false;
    }
    return true;
}

bool tfm__allgather_params(tfm_trainer *t) {
    for (int64_t k = 0; k < tfm__bucket_count(&t->bucket_layout); k++) {
        const tfm__flat_range own = tfm__bucket_shard(&t->bucket_layout, k, t->group.rank);
        const size_t block = (size_t)tfm__bucket_shard_max(&t->bucket_layout, k) * sizeof(float);
        memcpy(t->send_buffer, t->host_buffer + own.at, (size_t)own.count * sizeof(float));
        if (!communicate(t, false, t->recv_buffer, t->send_buffer, block))
            return false;
        for (int i = 0; i < t->bucket_layout.world; i++) {
            const tfm__flat_range s = tfm__bucket_shard(&t->bucket_layout, k, i);
            memcpy(t->host_buffer + s.at, t->recv_buffer + (size_t)i * block, (size_t)s.count * sizeof(float));
        }
    }
    return true;
}
