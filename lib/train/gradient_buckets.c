/* How flat tensors are cut, for the wire and for shards. */
#include "train/gradient_buckets.h"
#include "base/base.h"

static int64_t decayed_buckets(const tfm__cuts *c) {
    return tfm__ceil_div(c->decayed, c->bucket);
}

int64_t tfm__buckets(const tfm__cuts *c) {
    return decayed_buckets(c) + tfm__ceil_div(c->count - c->decayed, c->bucket);
}

tfm__stretch tfm__bucket(const tfm__cuts *c, int64_t bucket) {
    const int64_t decayed = decayed_buckets(c);
    const int64_t begin = bucket < decayed ? bucket * c->bucket : c->decayed + (bucket - decayed) * c->bucket;
    const int64_t end = bucket < decayed ? c->decayed : c->count;
    return (tfm__stretch){begin, end - begin < c->bucket ? end - begin : c->bucket};
}

int64_t tfm__bucket_room(const tfm__cuts *c, int64_t bucket) {
    return tfm__ceil_div(tfm__ceil_div(tfm__bucket(c, bucket).count, TFM__ALIGNED), c->world) * TFM__ALIGNED;
}

tfm__stretch tfm__bucket_block(const tfm__cuts *c, int64_t bucket, int rank) {
    const tfm__stretch whole = tfm__bucket(c, bucket);
    const int64_t room = tfm__bucket_room(c, bucket), before = rank * room;
    const int64_t begin = before < whole.count ? before : whole.count, left = whole.count - begin;
    return (tfm__stretch){whole.at + begin, left < room ? left : room};
}

int64_t tfm__bucket_shard(const tfm__cuts *c, int rank) {
    int64_t sum = 0;
    for (int64_t k = 0; k < tfm__buckets(c); k++)
        sum += tfm__bucket_block(c, k, rank).count;
    return sum;
}

int64_t tfm__shard_room(const tfm__cuts *c, int rank) {
    const int64_t owned = tfm__bucket_shard(c, rank);
    return owned > 0 ? owned : TFM__ALIGNED;
}

int64_t tfm__bucket_sent(const tfm__cuts *c, int64_t i) {
    const int64_t decayed = decayed_buckets(c), all = tfm__buckets(c);
    return i < decayed ? decayed - 1 - i : all - 1 - (i - decayed);
}
