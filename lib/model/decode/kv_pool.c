/* Slots of the shared KV cache: references, prefix lookup, compaction, eviction of idle runs. A run is found by its
 * tokens, not by a hash of blocks: a few hundred runs are compared in less time than a step takes. */
#include <string.h>
#include "model/decode/kv_pool.h"
#include "nn/kv_cache.h"
#include "ops/ops.h"

enum { FIRST_SLOTS = 1024 };

tfm_status tfm__kv_pool_begin(tfm__kv_pool *pool, tfm_model *model, int64_t most) {
    *pool = (tfm__kv_pool){.model = model, .most = most};
    pool->shares = tfm__model_rope_reusable(model, 1, model->info.max_positions);
    const tfm_status status = tfm__model_kv_cache_new(model, &pool->cache, most < FIRST_SLOTS ? most : FIRST_SLOTS);
    pool->cache.limit = most;
    return status;
}

static void run_free(tfm__kv_run *run) {
    free(run->ids);
    free(run->slots);
    free(run);
}

void tfm__kv_pool_free(tfm__kv_pool *pool) {
    for (tfm__kv_run *run = pool->runs, *next; run; run = next) {
        next = run->next;
        run_free(run);
    }
    free(pool->references);
    if (pool->model)
        tfm_kv_cache_free(pool->model->ctx, &pool->cache);
    *pool = (tfm__kv_pool){0};
}

/* ---- Runs ---------------------------------------------------------------------------------------------- */

bool tfm__kv_run_reserve(tfm__kv_run *run, int64_t room) {
    if (room <= run->room)
        return true;
    const int64_t larger = room > 2 * run->room ? room : 2 * run->room;
    int32_t *ids = realloc(run->ids, (size_t)larger * sizeof(*ids));
    run->ids = ids ? ids : run->ids;
    int32_t *slots = ids ? realloc(run->slots, (size_t)larger * sizeof(*slots)) : NULL;
    run->slots = slots ? slots : run->slots;
    if (!ids || !slots)
        return tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a sequence of %lld tokens", (long long)room), false;
    run->room = larger;
    return true;
}

tfm__kv_run *tfm__kv_pool_add(tfm__kv_pool *pool, const int32_t *ids, size_t count) {
    tfm__kv_run *run = tfm__alloc(1, sizeof(*run));
    if (!run)
        return NULL;
    *run = (tfm__kv_run){.next = pool->runs, .count = (int64_t)count};
    if (!tfm__kv_run_reserve(run, (int64_t)count + 1)) {
        run_free(run);
        return NULL;
    }
    memcpy(run->ids, ids, count * sizeof(*ids));
    return pool->runs = run;
}

bool tfm__kv_run_push(tfm__kv_run *run, int32_t id) {
    if (!tfm__kv_run_reserve(run, run->count + 1))
        return false;
    run->ids[run->count++] = id;
    return true;
}

/* Unlinks and frees a run without slots. */
static void remove_run(tfm__kv_pool *pool, tfm__kv_run *run) {
    tfm__kv_run **at = &pool->runs;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    run_free(run);
}

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Tokens of `run`, at most `most`, that begin `other` too and have slots there. */
static int64_t common_prefix(const tfm__kv_run *run, const tfm__kv_run *other, int64_t most) {
    const int64_t end = minimum(most, minimum(other->cached, other->count));
    int64_t same = 0;
    while (same < end && run->ids[same] == other->ids[same])
        same++;
    return same;
}

void tfm__kv_pool_share(tfm__kv_pool *pool, tfm__kv_run *run) {
    tfm__kv_run *best = NULL;
    int64_t most = 0;
    for (tfm__kv_run *other = pool->shares ? pool->runs : NULL; other; other = other->next) {
        const int64_t same = other != run ? common_prefix(run, other, run->count - 1) : 0;
        if (same > most) {
            most = same;
            best = other;
        }
    }
    if (!best)
        return;
    best->used = ++pool->clock;
    memcpy(run->slots, best->slots, (size_t)most * sizeof(*run->slots));
    for (int64_t i = 0; i < most; i++)
        pool->references[run->slots[i]]++;
    run->cached = most;
}

bool tfm__kv_pool_append(tfm__kv_pool *pool, tfm__kv_run *run, int64_t slot, int64_t count) {
    if (!tfm__kv_run_reserve(run, run->cached + count))
        return false;
    for (int64_t i = 0; i < count; i++) {
        run->slots[run->cached++] = (int32_t)(slot + i);
        pool->references[slot + i] = 1;
    }
    pool->used += count;
    return true;
}

void tfm__kv_pool_trim(tfm__kv_pool *pool, tfm__kv_run *run, int64_t cached) {
    while (run->cached > cached)
        pool->used -= --pool->references[run->slots[--run->cached]] == 0;
    while (pool->cache.slots > 0 && pool->references[pool->cache.slots - 1] == 0) /* the next ones are there again */
        pool->cache.slots--;
}

void tfm__kv_pool_drop(tfm__kv_pool *pool, tfm__kv_run *run) {
    tfm__kv_pool_trim(pool, run, 0);
}

void tfm__kv_pool_retire(tfm__kv_pool *pool, tfm__kv_run *run) {
    run->idle = true;
    run->used = ++pool->clock;
    tfm__kv_pool_trim(pool, run, run->count); /* a token that was not wanted any more */
    for (tfm__kv_run *other = pool->runs, *next; other; other = next) {
        next = other->next;
        if (other != run && other->idle && common_prefix(run, other, run->cached) == other->cached) {
            tfm__kv_pool_drop(pool, other); /* the new one has all of its tokens */
            remove_run(pool, other);
        }
    }
    if (!pool->shares || run->cached == 0) {
        tfm__kv_pool_drop(pool, run);
        remove_run(pool, run);
    }
}

/* ---- Room ---------------------------------------------------------------------------------------------- */

/* The idle run that was used longest ago. */
static tfm__kv_run *oldest(const tfm__kv_pool *pool) {
    tfm__kv_run *found = NULL;
    for (tfm__kv_run *run = pool->runs; run; run = run->next)
        if (run->idle && (!found || run->used < found->used))
            found = run;
    return found;
}

/* Grows the cache and the counts of references. */
static tfm_status grow(tfm__kv_pool *pool, int64_t count) {
    const tfm_status status = tfm_kv_cache_reserve(pool->model->ctx, &pool->cache, count);
    const int64_t room = pool->cache.capacity;
    if (status != TFM_OK || room <= pool->room)
        return status;
    int32_t *larger = realloc(pool->references, (size_t)room * sizeof(*larger));
    if (!larger)
        return tfm__context_fail(pool->model->ctx, TFM_ERROR_MEMORY, "out of host memory for %lld slots",
                                 (long long)room);
    memset(larger + pool->room, 0, (size_t)(room - pool->room) * sizeof(*larger));
    pool->references = larger;
    pool->room = room;
    return TFM_OK;
}

/* Moves the slots in use to the front of the cache. */
static tfm_status compact(tfm__kv_pool *pool) {
    tfm_context *ctx = pool->model->ctx;
    const int64_t had = pool->cache.slots, kept = pool->used;
    int32_t *list = tfm__alloc((size_t)kept + 1, sizeof(*list)), *moved = tfm__alloc((size_t)had + 1, sizeof(*moved));
    tfm_tensor tensor = {0};
    tfm_scope_open(ctx);
    if (list && moved) {
        for (int64_t i = 0, at = 0; i < had; i++)
            if (pool->references[i] > 0) {
                moved[i] = (int32_t)at;
                list[at++] = (int32_t)i;
            }
        pool->cache.slots = 0;
        if (kept > 0) {
            tfm_tensor_new(ctx, &tensor, TFM_I32, 1, &kept);
            tfm_tensor_write(ctx, tensor, list);
            const int depth = tfm__scope_depth(ctx);
            while (tfm__context_retry(ctx, depth, tfm__kv_cache_compact(ctx, &pool->cache, tensor)))
                continue; /* refused before anything was copied */
        }
        for (int64_t i = 0; i < had; i++) /* list[i] >= i: in order, nothing is overwritten before it is read */
            pool->references[i] = i < kept ? pool->references[list[i]] : 0;
        for (tfm__kv_run *run = pool->runs; run; run = run->next)
            for (int64_t i = 0; i < run->cached; i++)
                run->slots[i] = moved[run->slots[i]];
    } else {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "out of host memory for %lld slots", (long long)had);
    }
    free(list);
    free(moved);
    return tfm_scope_close(ctx, 0, NULL);
}

/* Grows the cache. Without device memory it stays as large as it is from now on. */
static tfm_status grow_or_settle(tfm__kv_pool *pool, int64_t count) {
    tfm_context *ctx = pool->model->ctx;
    const int depth = tfm__scope_depth(ctx);
    const tfm_status status = grow(pool, count);
    if (status != TFM_ERROR_MEMORY)
        return status;
    tfm__context_recover(ctx, depth); /* the cache is unchanged */
    pool->most = pool->cache.limit = pool->cache.capacity;
    return TFM_OK;
}

tfm_status tfm__kv_pool_reserve(tfm__kv_pool *pool, int64_t count, bool *enough) {
    const tfm_kv_cache *cache = &pool->cache;
    tfm_status status = grow(pool, 0); /* the first time, the counts of references */
    *enough = true;
    while (status == TFM_OK && cache->slots + count > cache->capacity) {
        const bool wastes = cache->slots > pool->used && cache->slots - pool->used >= cache->capacity / 4;
        if (!wastes && cache->slots + count <= pool->most) {
            status = grow_or_settle(pool, count);
            continue;
        }
        if (pool->used + count > pool->most) /* some more, so that this is rare */
            for (tfm__kv_run *run; pool->used + count > pool->most - pool->most / 8 && (run = oldest(pool));) {
                tfm__kv_pool_drop(pool, run);
                remove_run(pool, run);
            }
        *enough = pool->used + count <= pool->most;
        if (!*enough)
            return TFM_OK;
        status = compact(pool);
    }
    return status;
}
