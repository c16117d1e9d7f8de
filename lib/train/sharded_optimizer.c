/* Sharded optimizer state (ZeRO-1) in files. Names contain checkpoint and update, so the previous checkpoint's shards
 * stay until the new one is complete. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "model/weights/tensors_write.h"
#include "train/sharded_optimizer.h"

const char *const tfm__moment_names[TFM__MOMENTS] = {"first_moments", "second_moments"};

/* Suffix of the checkpoint's name for its shards. */
#define SHARD "-%08" PRId64 "-%d-of-%d"

static char *shard_path(const char *path, int64_t update, int rank, int world) {
    return tfm__format("%s" SHARD, path, update, rank, world);
}

void tfm__shards_format(char *text, const tfm_trainer *t) {
    snprintf(text, TFM__SHARDS_TEXT, "%d %" PRId64, t->bucket_layout.world, t->bucket_layout.bucket_size);
}

/* ---- Saving ---- */

tfm_status tfm__shard_write(tfm_trainer *t, const char *path) {
    const tfm_tensor moments[] = {t->m, t->v};
    char update[32];
    tfm__tensor_entry entries[TFM__MOMENTS] = {0};
    const tfm__metadata_entry metadata = {"update", update};
    char *name = shard_path(path, t->update, t->group.rank, t->bucket_layout.world);
    if (!name)
        return TFM_ERROR_MEMORY;
    snprintf(update, sizeof(update), "%" PRId64, t->update);
    for (int i = 0; i < TFM__MOMENTS; i++) {
        entries[i] = (tfm__tensor_entry){.x = moments[i], .dtype = TFM_F32};
        snprintf(entries[i].name, sizeof(entries[i].name), "%s", tfm__moment_names[i]);
    }
    const tfm_status status = tfm__tensors_write(t->ctx, name, entries, TFM__MOMENTS, &metadata, 1, true);
    free(name);
    return status;
}

/* Whether `name` is a shard of the checkpoint `base`; then also its update and world size. */
static bool is_shard(const char *name, const char *base, int64_t *update, int *world) {
    const size_t length = strlen(base);
    char again[64];
    int rank;
    if (strncmp(name, base, length) != 0 || sscanf(name + length, "-%" SCNd64 "-%d-of-%d", update, &rank, world) != 3)
        return false;
    snprintf(again, sizeof(again), SHARD, *update, rank, *world);
    return strcmp(name + length, again) == 0;
}

void tfm__shards_remove_old(const tfm_trainer *t, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *dir = slash ? tfm__format("%.*s", (int)(slash - path) + 1, path) : tfm__strdup(".");
    char **names = NULL;
    size_t count = 0;
    if (!dir || tfm__dir_list(&names, &count, dir) != TFM_OK)
        count = 0; /* they stay, harmlessly */
    for (size_t i = 0; i < count; i++) {
        int64_t update;
        int world;
        if (!is_shard(names[i], base, &update, &world) ||
            (t->sharded && update == t->update && world == t->bucket_layout.world))
            continue;
        char *one = tfm__path_join(dir, names[i]);
        if (one)
            unlink(one);
        free(one);
    }
    tfm__names_free(names, count);
    free(dir);
}

/* ---- Loading ---- */

static tfm_status open_shard(tfm__shards *s, const tfm_trainer *t, const char *path, int64_t update, int rank) {
    char expected[32];
    char *name = shard_path(path, update, rank, s->layout.world);
    tfm_status status = name ? tfm__weights_open_written(&s->files[rank], name) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__weights_verify(s->files[rank]);
    snprintf(expected, sizeof(expected), "%" PRId64, update);
    const char *metadata = status == TFM_OK ? tfm__weights_metadata(s->files[rank], "update") : NULL;
    bool good = metadata && strcmp(metadata, expected) == 0;
    for (int i = 0; i < TFM__MOMENTS && good; i++) {
        const tfm__stored_tensor *p = tfm__weights_find(s->files[rank], tfm__moment_names[i]);
        good = p && p->usable && p->dtype == TFM_F32 && p->rank == 1 &&
               p->dims[0] == tfm__shard_capacity(&s->layout, rank);
    }
    if (status == TFM_OK && !good)
        status = tfm__fail(TFM_ERROR_FORMAT,
                           "%s is not a shard of the checkpoint %s of this model, which has %" PRId64 " numbers", name,
                           path, t->count);
    free(name);
    return status;
}

tfm_status tfm__shards_open(tfm__shards *out, const tfm_trainer *t, const char *text, const char *path,
                            int64_t update) {
    enum { MAX_RANKS = 1 << 16 };
    long long world = 0, bucket = 0;
    char again[TFM__SHARDS_TEXT] = "";
    *out = (tfm__shards){0};
    if (sscanf(text, "%lld %lld", &world, &bucket) == 2)
        snprintf(again, sizeof(again), "%lld %lld", world, bucket);
    if (strcmp(text, again) != 0 || world < 2 || world > MAX_RANKS || bucket < TFM__PARAM_ALIGN ||
        bucket % TFM__PARAM_ALIGN != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: its shards are \"%.100s\", not a number of ranks and a bucket size",
                         path, text);
    out->files = tfm__alloc((size_t)world, sizeof(*out->files));
    if (!out->files)
        return TFM_ERROR_MEMORY;
    out->layout = (tfm__bucket_layout){t->count, t->decayed, bucket, (int)world};
    tfm_status status = TFM_OK;
    for (int i = 0; i < out->layout.world && status == TFM_OK; i++)
        status = open_shard(out, t, path, update, i);
    return status;
}

void tfm__shards_close(tfm__shards *s) {
    for (int i = 0; s->files && i < s->layout.world; i++)
        tfm__weights_free(&s->files[i]);
    free(s->files);
    *s = (tfm__shards){0};
}

/* Copies the intersection of two ranges; the moment holds the second one from `place` on. */
static tfm_status put_common(tfm_trainer *t, tfm_tensor moment, tfm__flat_range from, const unsigned char *numbers,
                             tfm__flat_range to, int64_t place) {
    const int64_t begin = from.at > to.at ? from.at : to.at;
    const int64_t ends[] = {from.at + from.count, to.at + to.count}, end = ends[0] < ends[1] ? ends[0] : ends[1];
    tfm_tensor part = {0};
    if (begin >= end)
        return TFM_OK;
    tfm_tensor_rows(t->ctx, &part, moment, place + begin - to.at, end - begin);
    return tfm_tensor_write(t->ctx, part, numbers + (size_t)(begin - from.at) * sizeof(float));
}

tfm_status tfm__moment_load_range(tfm_trainer *t, int moment, tfm__flat_range span, const unsigned char *numbers) {
    const tfm_tensor x = moment == 0 ? t->m : t->v;
    tfm_status status = TFM_OK;
    int64_t place = 0;
    if (!t->sharded)
        return put_common(t, x, span, numbers, (tfm__flat_range){0, t->count}, 0);
    for (int64_t k = 0; k < tfm__bucket_count(&t->bucket_layout) && status == TFM_OK; k++) {
        const tfm__flat_range own = tfm__bucket_shard(&t->bucket_layout, k, t->group.rank);
        status = put_common(t, x, span, numbers, own, place);
        place += own.count;
    }
    return status;
}

tfm_status tfm__shards_load_moment(tfm_trainer *t, const tfm__shards *s, int moment) {
    tfm_status status = TFM_OK;
    for (int i = 0; i < s->layout.world; i++) {
        const unsigned char *numbers = tfm__weights_find(s->files[i], tfm__moment_names[moment])->data;
        for (int64_t k = 0; k < tfm__bucket_count(&s->layout) && status == TFM_OK; k++) {
            const tfm__flat_range block = tfm__bucket_shard(&s->layout, k, i);
            status = tfm__moment_load_range(t, moment, block, numbers);
            numbers += (size_t)block.count * sizeof(float);
        }
    }
    return status;
}
