/* How the flat tensors of a trainer are cut: into buckets, which go over the wire one after another, and each bucket
 * into a block for each rank, which adds it up and, where the state is sharded, owns it. */
#ifndef TFM_LIB_GRADIENT_BUCKETS_H
#define TFM_LIB_GRADIENT_BUCKETS_H

#include <stdint.h>

/* Numbers, at most, of a bucket. */
enum { TFM__BUCKET_SIZE = 1 << 20 };
/* Parameters, and so buckets and blocks, begin at a multiple of this many numbers. */
enum { TFM__PARAM_ALIGN = 64 };

/* What the layout is a function of. No bucket has both numbers that decay and numbers that do not. */
typedef struct tfm__bucket_layout {
    int64_t count, decayed; /* of the flat tensors; the first of them, which decay */
    int64_t bucket_size;    /* numbers, at most, of a bucket: a multiple of TFM__PARAM_ALIGN */
    int world;
} tfm__bucket_layout;

/* Some of the flat tensors' numbers, from `at` on. */
typedef struct tfm__flat_range {
    int64_t at, count;
} tfm__flat_range;

int64_t tfm__bucket_count(const tfm__bucket_layout *layout);
tfm__flat_range tfm__bucket_range(const tfm__bucket_layout *layout, int64_t bucket);
/* The block of a rank; those of the last ranks may be shorter, or empty. */
tfm__flat_range tfm__bucket_shard(const tfm__bucket_layout *layout, int64_t bucket, int rank);
/* Numbers of the longest block of a bucket, the first one. */
int64_t tfm__bucket_shard_max(const tfm__bucket_layout *layout, int64_t bucket);
/* How many numbers a rank owns: its blocks of all buckets, which lie one after another in its shard. */
int64_t tfm__shard_size(const tfm__bucket_layout *layout, int rank);
/* Numbers that a rank's shard has room for, since no tensor is empty: as many, or a few where it owns none. */
int64_t tfm__shard_capacity(const tfm__bucket_layout *layout, int rank);
/* The bucket that is sent as number `i`, in the order in which a backward pass is done with them, about: matrices from
 * the last layer back to the tables, then norms and biases, which belong to all layers. */
int64_t tfm__bucket_send_order(const tfm__bucket_layout *layout, int64_t i);

#endif
