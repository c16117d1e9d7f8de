/* Layout of flat tensors as buckets and shards. */
#include "train/gradient_buckets.h"
#include "base/base.h"

static int64_t decayed_buckets(const tfm__bucket_layout *c) {
    return tfm__ceil_div(c->decayed, c->bucket_size);
}

int64_t tfm__bucket_count(const tfm__bucket_layout *c) {
    return decayed_buckets(c) + tfm__ceil_div(c->count - c->decayed, c->bucket_size);
}

tfm__flat_range tfm__bucket_range(const tfm__bucket_layout *c, int64_t bucket) {
    const int64_t decayed = decayed_buckets(c);
    const int64_t begin = bucket < decayed ? bucket * c->bucket_size : c->decayed + (bucket - decayed) * c->bucket_size;
    const int64_t end = bucket < decayed ? c->decayed : c->count;
    return (tfm__flat_range){begin, end - begin < c->bucket_size ? end - begin : c->bucket_size};
}

int64_t tfm__bucket_shard_max(const tfm__bucket_layout *c, int64_t bucket) {
    return tfm__ceil_div(tfm__ceil_div(tfm__bucket_range(c, bucket).count, TFM__PARAM_ALIGN), c->world) *
           TFM__PARAM_ALIGN;
}

tfm__flat_range tfm__bucket_shard(const tfm__bucket_layout *c, int64_t bucket, int rank) {
    const tfm__flat_range whole = tfm__bucket_range(c, bucket);
    const int64_t longest = tfm__bucket_shard_max(c, bucket), before = rank * longest;
    const int64_t begin = before < whole.count ? before : whole.count, left = whole.count - begin;
    return (tfm__flat_range){whole.at + begin, left < longest ? left : longest};
}

int64_t tfm__shard_size(const tfm__bucket_layout *c, int rank) {
    int64_t sum = 0;
    for (int64_t k = 0; k < tfm__bucket_count(c); k++)
        sum += tfm__bucket_shard(c, k, rank).count;
    return sum;
}

int64_t tfm__shard_capacity(const tfm__bucket_layout *c, int rank) {
    const int64_t owned = tfm__shard_size(c, rank);
    return owned > 0 ? owned : TFM__PARAM_ALIGN;
}

int64_t tfm__bucket_send_order(const tfm__bucket_layout *c, int64_t i) {
    const int64_t decayed = decayed_buckets(c), all = tfm__bucket_count(c);
    return i < decayed ? decayed - 1 - i : all - 1 - (i - decayed);
}
