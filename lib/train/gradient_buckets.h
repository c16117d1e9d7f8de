/* Layout of a trainer's flat tensors: buckets, which are communicated one after another, and a block per rank in each
 * bucket. The rank sums its block and, with sharded state, owns it. */
#ifndef TFM_LIB_GRADIENT_BUCKETS_H
#define TFM_LIB_GRADIENT_BUCKETS_H

#include <stdint.h>

/* Most elements of a bucket. */
enum { TFM__BUCKET_SIZE = 1 << 20 };
/* Parameters, buckets and blocks begin at multiples of this many elements. */
enum { TFM__PARAM_ALIGN = 64 };

/* Parameters of the layout. No bucket mixes elements with and without weight decay. */
typedef struct tfm__bucket_layout {
    int64_t count, decayed; /* of the flat tensors; elements with weight decay come first */
    int64_t bucket_size;    /* most elements of a bucket: a multiple of TFM__PARAM_ALIGN */
    int world;
} tfm__bucket_layout;

/* A range of the flat tensors. */
typedef struct tfm__flat_range {
    int64_t at, count;
} tfm__flat_range;

int64_t tfm__bucket_count(const tfm__bucket_layout *layout);
tfm__flat_range tfm__bucket_range(const tfm__bucket_layout *layout, int64_t bucket);
/* A rank's block; those of the last ranks may be shorter or empty. */
tfm__flat_range tfm__bucket_shard(const tfm__bucket_layout *layout, int64_t bucket, int rank);
/* Elements of the longest block of a bucket, the first one. */
int64_t tfm__bucket_shard_max(const tfm__bucket_layout *layout, int64_t bucket);
/* Elements that a rank owns: its blocks of all buckets, contiguous in its shard. */
int64_t tfm__shard_size(const tfm__bucket_layout *layout, int rank);
/* Allocated elements of a rank's shard: as many, or a few if it owns none, since no tensor is empty. */
int64_t tfm__shard_capacity(const tfm__bucket_layout *layout, int rank);
/* The i-th bucket to send, roughly in the order in which the backward pass completes them: matrices from the last layer
 * back to the embeddings, then norms and biases of all layers. */
int64_t tfm__bucket_send_order(const tfm__bucket_layout *layout, int64_t i);

#endif
