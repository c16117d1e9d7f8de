/* What `tfm tune` has found best on this device: rows of a name and a setting, which the layers above give their
 * meaning. They are kept beside the cache's entries, under everything that a timing depends on, and read when a context
 * opens, so that what is run follows from device, shape and table, and never from a time measured in the run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "dev/cache.h"
#include "dev/choose.h"
#include "dev/cl.h"

/* Of the rows' meaning: a table of another format is under another key, and so is not found. */
#define FORMAT 1
/* Far above what there are shapes for: a larger table is none of ours. */
enum { MOST_ROWS = 4096 };

static char *table_key(const tfm_context *ctx) {
    char *device = tfm__device_identity(ctx->device), *key = NULL;
    if (device)
        key = tfm__format(TFM__CACHE_LASTING "tuning %d of variant %s\n%s", FORMAT, ctx->tuning.name, device);
    free(device);
    return key;
}

/* The place of a name in the rows, which are in order, or where it would be. */
static size_t place_of(const tfm_context *ctx, const char *name) {
    size_t low = 0, high = ctx->tuned_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(ctx->tuned[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const tfm__tuned_row *tfm__tuned_rows(const tfm_context *ctx, size_t *count) {
    *count = ctx->tuned_count;
    return ctx->tuned;
}

const char *tfm__tuned_find(const tfm_context *ctx, const char *name) {
    const size_t at = place_of(ctx, name);
    return at < ctx->tuned_count && strcmp(ctx->tuned[at].name, name) == 0 ? ctx->tuned[at].setting : NULL;
}

static bool writable(const char *text) {
    const size_t length = strlen(text);
    return length > 0 && length < TFM__TUNED_TEXT && strspn(text, TFM__TUNED_LETTERS) == length;
}

tfm_status tfm__tuned_set(tfm_context *ctx, const char *name, const char *setting) {
    if (!writable(name) || (setting && !writable(setting)))
        return tfm__fail(TFM_ERROR_FORMAT, "a row of a tuning table has other letters than those have, or more than %d",
                         TFM__TUNED_TEXT - 1);
    const size_t at = place_of(ctx, name);
    const bool there = at < ctx->tuned_count && strcmp(ctx->tuned[at].name, name) == 0;
    tfm__tuned_row *rows = ctx->tuned;
    if (!setting) {
        if (there) {
            memmove(rows + at, rows + at + 1, (ctx->tuned_count - at - 1) * sizeof(*rows));
            ctx->tuned_count--;
        }
        return TFM_OK;
    }
    if (!there) {
        if (ctx->tuned_count == MOST_ROWS)
            return tfm__fail(TFM_ERROR_FORMAT, "a tuning table has more than %d rows", MOST_ROWS);
        rows = tfm__realloc(rows, ctx->tuned_count + 1, sizeof(*rows));
        if (!rows)
            return TFM_ERROR_MEMORY;
        ctx->tuned = rows;
        memmove(rows + at + 1, rows + at, (ctx->tuned_count - at) * sizeof(*rows));
        memset(&rows[at], 0, sizeof(rows[at]));
        ctx->tuned_count++;
        memcpy(rows[at].name, name, strlen(name) + 1);
    }
    memset(rows[at].setting, 0, sizeof(rows[at].setting));
    memcpy(rows[at].setting, setting, strlen(setting) + 1);
    return TFM_OK;
}

void tfm__tuned_clear(tfm_context *ctx) {
    free(ctx->tuned);
    ctx->tuned = NULL;
    ctx->tuned_count = 0;
}

uint64_t tfm__tuned_hash(const tfm_context *ctx, const char *but) {
    tfm__hash hash = {.value = FORMAT};
    bool some = false;
    for (size_t i = 0; ctx && i < ctx->tuned_count; i++) {
        if (but && strncmp(ctx->tuned[i].name, but, strlen(but)) == 0)
            continue;
        some = true;
        tfm__hash_add(&hash, ctx->tuned[i].name, strlen(ctx->tuned[i].name) + 1);
        tfm__hash_add(&hash, ctx->tuned[i].setting, strlen(ctx->tuned[i].setting) + 1);
    }
    const uint64_t value = some ? tfm__hash_end(&hash) : 0;
    return some && !value ? 1 : value;
}

/* ---- Stored ---- */

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

static tfm_status take(tfm_context *ctx, const char *text, size_t bytes) {
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
        status = setting ? tfm__tuned_set(ctx, json_object_iter_key(at), setting)
                         : tfm__fail(TFM_ERROR_FORMAT, "its row '%.80s' is no text", json_object_iter_key(at));
    }
    json_decref(root);
    return status;
}

/* Without a table the device's own rules hold, so nothing here is a failure of the context. */
void tfm__tuned_load(tfm_context *ctx) {
    size_t bytes;
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
    ctx->group_by_rule = ctx->tuning.group;
    char *key = ctx->stands_in ? NULL : table_key(ctx), *text = key ? tfm__cache_get(key, &bytes) : NULL;
    if (text && take(ctx, text, bytes) != TFM_OK) {
        tfm__tuned_clear(ctx);
        tfm__log(TFM_LOG_WARNING, "the table of `tfm tune` for %s is not used, since %s: run `tfm tune` again",
                 ctx->info.name, tfm_error_message());
        tfm__cache_drop(key); /* one warning is enough */
    }
    free(text);
    free(key);
    tfm__error_restore(kept);
    tfm__tuned_apply(ctx);
}

static char *written(const tfm_context *ctx) {
    json_t *rows = json_object(),
           *root = json_pack("{s:i, s:s, s:O}", "format", FORMAT, "tfm", tfm_version(), "rows", rows);
    for (size_t i = 0; root && i < ctx->tuned_count; i++)
        json_object_set_new(rows, ctx->tuned[i].name, json_string(ctx->tuned[i].setting));
    char *text = root && json_object_size(rows) == ctx->tuned_count ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(rows);
    json_decref(root);
    if (!text)
        tfm__fail(TFM_ERROR_MEMORY, "tune: out of host memory for the table");
    return text;
}

tfm_status tfm__tuned_save(tfm_context *ctx) {
    char *key = table_key(ctx), *text = key ? written(ctx) : NULL;
    if (!text) {
        free(key);
        return TFM_ERROR_MEMORY;
    }
    if (ctx->tuned_count == 0)
        tfm__cache_drop(key);
    else
        tfm__cache_put(key, text, strlen(text));
    size_t bytes;
    char *stored = tfm__cache_get(key, &bytes);
    const bool right =
        ctx->tuned_count == 0 ? !stored : stored && bytes == strlen(text) && memcmp(stored, text, bytes) == 0;
    free(stored);
    free(text);
    free(key);
    return right ? TFM_OK
                 : tfm__fail(TFM_ERROR_IO, "tune: the table cannot be stored in the cache folder: give TFM_CACHE_DIR a "
                                           "folder that you own");
}
