/* What `tfm tune` has found best on this device: rows of a name and a setting, which the layers above give their
 * meaning. They are kept beside the cache's entries, under everything that a timing depends on, and read when a context
 * opens, so that what is run follows from device, shape and table, and never from a time measured in the run.
 *
 * Several programs may tune at a time, so what is stored is not what one of them has: each puts what it has changed
 * into the table that is there by then, under a lock. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "dev/cache/cache.h"
#include "dev/cache/cache_folder.h"
#include "dev/device/device_select.h"
#include "dev/device/context_internal.h"

/* Of the rows' meaning: a table of another format is under another key, and so is not found. */
#define FORMAT 1
/* Far above what there are shapes for: a larger table is none of ours. */
enum { MOST_ROWS = 4096 };
/* Seconds to wait for another program that stores its rows, which takes it no time. */
enum { PATIENCE = 20 };

static char *table_key(const tfm_context *ctx) {
    char *device = tfm__device_identity(ctx->device), *key = NULL;
    if (device)
        key = tfm__format(TFM__CACHE_LASTING "tuning %d of variant %s\n%s", FORMAT, ctx->tuning.name, device);
    free(device);
    return key;
}

/* ---- Tables ---- */

/* The place of a name in the rows, which are in order, or where it would be. */
static size_t place_of(const tfm__tuned_table *table, const char *name) {
    size_t low = 0, high = table->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(table->rows[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const char *find(const tfm__tuned_table *table, const char *name) {
    const size_t at = place_of(table, name);
    return at < table->count && strcmp(table->rows[at].name, name) == 0 ? table->rows[at].setting : NULL;
}

static bool writable(const char *text) {
    const size_t length = strlen(text);
    return length > 0 && length < TFM__TUNED_TEXT && strspn(text, TFM__TUNED_LETTERS) == length;
}

static tfm_status set(tfm__tuned_table *table, const char *name, const char *setting) {
    if (!writable(name) || (setting && !writable(setting)))
        return tfm__fail(TFM_ERROR_FORMAT, "a row of a tuning table has other letters than those have, or more than %d",
                         TFM__TUNED_TEXT - 1);
    const size_t at = place_of(table, name);
    const bool there = find(table, name) != NULL;
    tfm__tuned_row *rows = table->rows;
    if (!setting) {
        if (there) {
            memmove(rows + at, rows + at + 1, (table->count - at - 1) * sizeof(*rows));
            table->count--;
        }
        return TFM_OK;
    }
    if (!there) {
        if (table->count == MOST_ROWS)
            return tfm__fail(TFM_ERROR_FORMAT, "a tuning table has more than %d rows", MOST_ROWS);
        rows = tfm__realloc(rows, table->count + 1, sizeof(*rows));
        if (!rows)
            return TFM_ERROR_MEMORY;
        table->rows = rows;
        memmove(rows + at + 1, rows + at, (table->count - at) * sizeof(*rows));
        memset(&rows[at], 0, sizeof(rows[at]));
        table->count++;
        memcpy(rows[at].name, name, strlen(name) + 1);
    }
    if (setting != rows[at].setting) {
        memset(rows[at].setting, 0, sizeof(rows[at].setting));
        memcpy(rows[at].setting, setting, strlen(setting) + 1);
    }
    return TFM_OK;
}

static void empty(tfm__tuned_table *table) {
    free(table->rows);
    *table = (tfm__tuned_table){0};
}

static tfm_status copy(tfm__tuned_table *out, const tfm__tuned_table *from) {
    empty(out);
    out->rows = from->count > 0 ? tfm__alloc(from->count, sizeof(*out->rows)) : NULL;
    if (from->count > 0 && !out->rows)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < from->count; i++)
        out->rows[i] = from->rows[i];
    out->count = from->count;
    return TFM_OK;
}

/* `out`, which is what is stored, with what has changed from `before` to `now`. */
static tfm_status change(tfm__tuned_table *out, const tfm__tuned_table *before, const tfm__tuned_table *now) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < before->count && status == TFM_OK; i++)
        if (!find(now, before->rows[i].name))
            status = set(out, before->rows[i].name, NULL);
    for (size_t i = 0; i < now->count && status == TFM_OK; i++) {
        const char *was = find(before, now->rows[i].name);
        if (!was || strcmp(was, now->rows[i].setting) != 0)
            status = set(out, now->rows[i].name, now->rows[i].setting);
    }
    return status;
}

/* ---- A context's ---- */

const tfm__tuned_row *tfm__tuned_rows(const tfm_context *ctx, size_t *count) {
    *count = ctx->tuned.count;
    return ctx->tuned.rows;
}

const char *tfm__tuned_find(const tfm_context *ctx, const char *name) {
    return find(&ctx->tuned, name);
}

tfm_status tfm__tuned_set(tfm_context *ctx, const char *name, const char *setting) {
    return set(&ctx->tuned, name, setting);
}

void tfm__tuned_clear(tfm_context *ctx) {
    empty(&ctx->tuned);
    ctx->tuned_cleared = true;
}

void tfm__tuned_free(tfm_context *ctx) {
    empty(&ctx->tuned);
    empty(&ctx->tuned_before);
}

uint64_t tfm__tuned_hash(const tfm_context *ctx) {
    tfm__hash hash = {.value = FORMAT};
    bool some = false;
    for (size_t i = 0; ctx && i < ctx->tuned.count; i++) {
        some = true;
        tfm__hash_add(&hash, ctx->tuned.rows[i].name, strlen(ctx->tuned.rows[i].name) + 1);
        tfm__hash_add(&hash, ctx->tuned.rows[i].setting, strlen(ctx->tuned.rows[i].setting) + 1);
    }
    const uint64_t value = some ? tfm__hash_end(&hash) : 0;
    return some && !value ? 1 : value;
}

/* ---- Stored ---- */

bool tfm__tuned_is_cleared(const tfm_context *ctx) {
    return ctx->tuned_cleared;
}

/* The work-group that rows share is read by kernels of all layers, so it is set here. */
void tfm__tuned_apply(tfm_context *ctx) {
    const tfm__limits *limits = &ctx->limits;
    const size_t most = limits->max_group < limits->max_items[0] ? limits->max_group : limits->max_items[0];
    const char *text = tfm__tuned_find(ctx, TFM__TUNED_GROUP);
    char *end = NULL;
    const long asked = text ? strtol(text, &end, 10) : 0;
    if (ctx->tuning.class != TFM__SIMT)
        return;
    const bool sensible = text && !*end && asked > 0 && asked <= 1 << 16 && (asked & (asked - 1)) == 0;
    ctx->tuning.group = sensible ? (int)asked : ctx->group_by_rule;
    while ((size_t)ctx->tuning.group > most && ctx->tuning.group > 1)
        ctx->tuning.group /= 2;
}

static tfm_status take(tfm__tuned_table *table, const char *text, size_t bytes) {
    json_t *root = NULL;
    tfm_status status = tfm__json_parse(&root, text, bytes, "the table");
    if (status != TFM_OK)
        return status;
    const json_t *rows = json_object_get(root, "rows");
    if (!json_is_object(rows))
        status = tfm__fail(TFM_ERROR_FORMAT, "it has no rows");
    for (void *at = json_object_iter((json_t *)rows); at && status == TFM_OK;
         at = json_object_iter_next((json_t *)rows, at)) {
        const char *setting = json_string_value(json_object_iter_value(at));
        status = setting ? set(table, json_object_iter_key(at), setting)
                         : tfm__fail(TFM_ERROR_FORMAT, "its row '%.80s' is no text", json_object_iter_key(at));
    }
    json_decref(root);
    if (status != TFM_OK)
        empty(table);
    return status;
}

/* Without a table the device's own rules hold, so nothing here is a failure of the context. */
void tfm__tuned_load(tfm_context *ctx) {
    size_t bytes;
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
    ctx->group_by_rule = ctx->tuning.group;
    char *key = ctx->stands_in ? NULL : table_key(ctx), *text = key ? tfm__cache_get(key, &bytes) : NULL;
    if (text && (take(&ctx->tuned, text, bytes) != TFM_OK || copy(&ctx->tuned_before, &ctx->tuned) != TFM_OK)) {
        empty(&ctx->tuned);
        tfm__log(TFM_LOG_WARNING, "the table of `tfm tune` for %s is not used, since %s: run `tfm tune` again",
                 ctx->info.name, tfm_error_message());
        tfm__cache_drop(key); /* one warning is enough */
    }
    free(text);
    free(key);
    tfm__error_restore(kept);
    tfm__tuned_apply(ctx);
}

static char *written(const tfm__tuned_table *table) {
    json_t *rows = json_object(),
           *root = json_pack("{s:i, s:s, s:O}", "format", FORMAT, "tfm", tfm_version(), "rows", rows);
    for (size_t i = 0; root && i < table->count; i++)
        json_object_set_new(rows, table->rows[i].name, json_string(table->rows[i].setting));
    char *text = root && json_object_size(rows) == table->count ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(rows);
    json_decref(root);
    if (!text)
        tfm__fail(TFM_ERROR_MEMORY, "tune: out of host memory for the table");
    return text;
}

static tfm_status not_stored(const char *key) {
    char name[TFM__CACHE_NAME];
    tfm__cache_name(name, key);
    return tfm__cache_blocked(key)
               ? tfm__fail(TFM_ERROR_IO,
                           "tune: the table cannot be stored in the cache folder: a folder is in its "
                           "place: remove %s there",
                           name)
               : tfm__fail(TFM_ERROR_IO, "tune: the table cannot be stored in the cache folder: give TFM_CACHE_DIR a "
                                         "folder that you own");
}

/* What is stored, if that is a table, with this context's changes. Where there is none by now, all that this context
 * has is there: a table that was lost comes back. */
static tfm_status merge(tfm__tuned_table *out, const tfm_context *ctx, const char *key) {
    size_t bytes;
    char *text = ctx->tuned_cleared ? NULL : tfm__cache_get(key, &bytes);
    const bool there = text && take(out, text, bytes) == TFM_OK;
    free(text);
    return there ? change(out, &ctx->tuned_before, &ctx->tuned) : copy(out, &ctx->tuned);
}

static tfm_status store(const tfm__tuned_table *table, const char *key) {
    if (table->count == 0)
        return tfm__cache_drop(key) ? TFM_OK : not_stored(key);
    char *text = written(table);
    if (!text)
        return TFM_ERROR_MEMORY;
    size_t bytes;
    tfm__cache_put(key, text, strlen(text));
    char *stored = tfm__cache_get(key, &bytes);
    const bool right = stored && bytes == strlen(text) && memcmp(stored, text, bytes) == 0;
    free(stored);
    free(text);
    return right ? TFM_OK : not_stored(key);
}

tfm_status tfm__tuned_save(tfm_context *ctx) {
    tfm__tuned_table all = {0};
    char *key = table_key(ctx);
    int lock;
    tfm_status status = key ? TFM_OK : TFM_ERROR_MEMORY;
    if (key && !tfm__cache_lock_table(&lock, PATIENCE))
        status = tfm__fail(TFM_ERROR_IO,
                           "tune: the table cannot be stored: another program has been at it for %d "
                           "seconds",
                           PATIENCE);
    else if (key) {
        status = merge(&all, ctx, key);
        if (status == TFM_OK)
            status = store(&all, key);
        tfm__cache_unlock(lock);
    }
    if (status == TFM_OK)
        status = copy(&ctx->tuned_before, &ctx->tuned);
    ctx->tuned_cleared = ctx->tuned_cleared && status != TFM_OK;
    empty(&all);
    free(key);
    return status;
}

/* An entry beside the table's tells of folders that are full or can only be read. */
tfm_status tfm__tuned_storable(tfm_context *ctx) {
    static const char TEXT[] = "a trial";
    char *key = table_key(ctx);
    /* Contexts may save at the same time: each has a trial of its own. */
    char *beside = key ? tfm__format("trial by %ld, %p of %s", (long)getpid(), (void *)ctx, key) : NULL;
    tfm_status status = beside ? TFM_OK : TFM_ERROR_MEMORY;
    if (beside && (!tfm__cache_usable() || tfm__cache_blocked(key))) {
        status = not_stored(key);
    } else if (beside) {
        size_t bytes;
        tfm__cache_put(beside, TEXT, sizeof(TEXT));
        char *stored = tfm__cache_get(beside, &bytes);
        if (!stored || bytes != sizeof(TEXT))
            status = not_stored(key);
        free(stored);
        tfm__cache_drop(beside);
    }
    free(beside);
    free(key);
    return status;
}
