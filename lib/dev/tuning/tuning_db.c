/* Results of `tfm tune` for this device: rows of a name and a setting, interpreted by the layers above. They are stored
 * in the cache folder, under everything that a timing depends on, and read when a context opens. So kernel selection
 * depends on device, shape and table, never on a timing of the current run.
 *
 * Several programs may tune at once: each merges its changes into the stored table under a lock. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "dev/cache/cache.h"
#include "dev/cache/cache_folder.h"
#include "dev/device/device_select.h"
#include "dev/device/context_internal.h"

/* Version of the rows' meaning: part of the key, so that tables of another version are not found. */
#define FORMAT 2
/* Far more than there are shapes for: a larger table is not ours. */
enum { MAX_ENTRIES = 4096 };
/* Seconds to wait for another program that stores its rows, which is quick. */
enum { LOCK_TIMEOUT = 20 };

static char *table_key(const tfm_context *ctx) {
    char *device = tfm__device_fingerprint_text(ctx->device), *key = NULL;
    if (device)
        key = tfm__format(TFM__CACHE_PERSISTENT "tuning %d of variant %s\n%s", FORMAT, ctx->tuning.name, device);
    free(device);
    return key;
}

/* ---- Tables ---- */

/* The index of a name in the sorted rows, or its insertion point. */
static size_t lower_bound(const tfm__tuning_db *table, const char *name) {
    size_t low = 0, high = table->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(table->entries[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const char *find(const tfm__tuning_db *table, const char *name) {
    const size_t at = lower_bound(table, name);
    return at < table->count && strcmp(table->entries[at].name, name) == 0 ? table->entries[at].setting : NULL;
}

static bool is_valid_text(const char *text) {
    const size_t length = strlen(text);
    return length > 0 && length < TFM__TUNING_TEXT_MAX && strspn(text, TFM__TUNING_CHARSET) == length;
}

static tfm_status set(tfm__tuning_db *table, const char *name, const char *setting) {
    if (!is_valid_text(name) || (setting && !is_valid_text(setting)))
        return tfm__fail(TFM_ERROR_FORMAT, "a row of a tuning table has invalid characters, or more than %d",
                         TFM__TUNING_TEXT_MAX - 1);
    const size_t at = lower_bound(table, name);
    const bool there = find(table, name) != NULL;
    tfm__tuning_entry *rows = table->entries;
    if (!setting) {
        if (there) {
            memmove(rows + at, rows + at + 1, (table->count - at - 1) * sizeof(*rows));
            table->count--;
        }
        return TFM_OK;
    }
    if (!there) {
        if (table->count == MAX_ENTRIES)
            return tfm__fail(TFM_ERROR_FORMAT, "a tuning table has more than %d rows", MAX_ENTRIES);
        rows = tfm__realloc(rows, table->count + 1, sizeof(*rows));
        if (!rows)
            return TFM_ERROR_MEMORY;
        table->entries = rows;
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

static void clear_table(tfm__tuning_db *table) {
    free(table->entries);
    *table = (tfm__tuning_db){0};
}

static tfm_status copy_table(tfm__tuning_db *out, const tfm__tuning_db *from) {
    clear_table(out);
    out->entries = from->count > 0 ? tfm__alloc(from->count, sizeof(*out->entries)) : NULL;
    if (from->count > 0 && !out->entries)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < from->count; i++)
        out->entries[i] = from->entries[i];
    out->count = from->count;
    return TFM_OK;
}

/* Applies the changes from `before` to `now` to `out`, the stored table. */
static tfm_status apply_changes(tfm__tuning_db *out, const tfm__tuning_db *before, const tfm__tuning_db *now) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < before->count && status == TFM_OK; i++)
        if (!find(now, before->entries[i].name))
            status = set(out, before->entries[i].name, NULL);
    for (size_t i = 0; i < now->count && status == TFM_OK; i++) {
        const char *was = find(before, now->entries[i].name);
        if (!was || strcmp(was, now->entries[i].setting) != 0)
            status = set(out, now->entries[i].name, now->entries[i].setting);
    }
    return status;
}

/* ---- The table of a context ---- */

const tfm__tuning_entry *tfm__tuning_db_entries(const tfm_context *ctx, size_t *count) {
    *count = ctx->tuning_db.count;
    return ctx->tuning_db.entries;
}

const char *tfm__tuning_db_find(const tfm_context *ctx, const char *name) {
    return find(&ctx->tuning_db, name);
}

tfm_status tfm__tuning_db_set(tfm_context *ctx, const char *name, const char *setting) {
    return set(&ctx->tuning_db, name, setting);
}

void tfm__tuning_db_clear(tfm_context *ctx) {
    clear_table(&ctx->tuning_db);
    ctx->tuning_db_cleared = true;
}

void tfm__tuning_db_free(tfm_context *ctx) {
    clear_table(&ctx->tuning_db);
    clear_table(&ctx->tuning_db_stored);
}

uint64_t tfm__tuning_db_hash(const tfm_context *ctx) {
    tfm__hash hash = {.value = FORMAT};
    bool some = false;
    for (size_t i = 0; ctx && i < ctx->tuning_db.count; i++) {
        some = true;
        tfm__hash_add(&hash, ctx->tuning_db.entries[i].name, strlen(ctx->tuning_db.entries[i].name) + 1);
        tfm__hash_add(&hash, ctx->tuning_db.entries[i].setting, strlen(ctx->tuning_db.entries[i].setting) + 1);
    }
    const uint64_t value = some ? tfm__hash_finish(&hash) : 0;
    return some && !value ? 1 : value;
}

/* ---- Stored table ---- */

bool tfm__tuning_db_is_cleared(const tfm_context *ctx) {
    return ctx->tuning_db_cleared;
}

/* Kernels of all layers use the work-group for shared rows, so it is set here. */
void tfm__tuning_db_apply(tfm_context *ctx) {
    const tfm__limits *limits = &ctx->limits;
    const size_t most = limits->max_group < limits->max_items[0] ? limits->max_group : limits->max_items[0];
    const char *text = tfm__tuning_db_find(ctx, TFM__TUNING_WORKGROUP);
    char *end = NULL;
    const long asked = text ? strtol(text, &end, 10) : 0;
    if (ctx->tuning.class != TFM__CLASS_GPU)
        return;
    const bool sensible = text && !*end && asked > 0 && asked <= 1 << 16 && (asked & (asked - 1)) == 0;
    ctx->tuning.group = sensible ? (int)asked : ctx->default_group;
    while ((size_t)ctx->tuning.group > most && ctx->tuning.group > 1)
        ctx->tuning.group /= 2;
}

static tfm_status parse_entries(tfm__tuning_db *table, const char *text, size_t bytes) {
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
                         : tfm__fail(TFM_ERROR_FORMAT, "its row '%.80s' is not a string", json_object_iter_key(at));
    }
    json_decref(root);
    if (status != TFM_OK)
        clear_table(table);
    return status;
}

/* Without a table the device's defaults apply, so nothing here fails the context. */
void tfm__tuning_db_load(tfm_context *ctx) {
    size_t bytes;
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    ctx->default_group = ctx->tuning.group;
    char *key = ctx->is_export_proxy ? NULL : table_key(ctx), *text = key ? tfm__cache_get(key, &bytes) : NULL;
    if (text && (parse_entries(&ctx->tuning_db, text, bytes) != TFM_OK ||
                 copy_table(&ctx->tuning_db_stored, &ctx->tuning_db) != TFM_OK)) {
        clear_table(&ctx->tuning_db);
        tfm__log(TFM_LOG_WARNING, "the table of `tfm tune` for %s is not used, since %s: run `tfm tune` again",
                 ctx->info.name, tfm_error_message());
        tfm__cache_drop(key); /* one warning is enough */
    }
    free(text);
    free(key);
    tfm__error_restore(saved_message);
    tfm__tuning_db_apply(ctx);
}

static char *format_entries(const tfm__tuning_db *table) {
    json_t *rows = json_object(),
           *root = json_pack("{s:i, s:s, s:O}", "format", FORMAT, "tfm", tfm_version(), "rows", rows);
    for (size_t i = 0; root && i < table->count; i++)
        json_object_set_new(rows, table->entries[i].name, json_string(table->entries[i].setting));
    char *text = root && json_object_size(rows) == table->count ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(rows);
    json_decref(root);
    if (!text)
        tfm__fail(TFM_ERROR_MEMORY, "tune: out of host memory for the table");
    return text;
}

static tfm_status fail_not_stored(const char *key) {
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

/* The stored table, if valid, with this context's changes. If there is none, all rows of this context: restores a lost
 * table. */
static tfm_status merge_with_stored(tfm__tuning_db *out, const tfm_context *ctx, const char *key) {
    size_t bytes;
    char *text = ctx->tuning_db_cleared ? NULL : tfm__cache_get(key, &bytes);
    const bool there = text && parse_entries(out, text, bytes) == TFM_OK;
    free(text);
    return there ? apply_changes(out, &ctx->tuning_db_stored, &ctx->tuning_db) : copy_table(out, &ctx->tuning_db);
}

static tfm_status store_table(const tfm__tuning_db *table, const char *key) {
    if (table->count == 0)
        return tfm__cache_drop(key) ? TFM_OK : fail_not_stored(key);
    char *text = format_entries(table);
    if (!text)
        return TFM_ERROR_MEMORY;
    size_t bytes;
    tfm__cache_put(key, text, strlen(text));
    char *stored = tfm__cache_get(key, &bytes);
    const bool right = stored && bytes == strlen(text) && memcmp(stored, text, bytes) == 0;
    free(stored);
    free(text);
    return right ? TFM_OK : fail_not_stored(key);
}

tfm_status tfm__tuning_db_save(tfm_context *ctx) {
    tfm__tuning_db all = {0};
    char *key = table_key(ctx);
    int lock;
    tfm_status status = key ? TFM_OK : TFM_ERROR_MEMORY;
    if (key && !tfm__cache_lock_table(&lock, LOCK_TIMEOUT))
        status = tfm__fail(TFM_ERROR_IO,
                           "tune: the table cannot be stored: another program has held its lock "
                           "for %d seconds",
                           LOCK_TIMEOUT);
    else if (key) {
        status = merge_with_stored(&all, ctx, key);
        if (status == TFM_OK)
            status = store_table(&all, key);
        tfm__cache_unlock(lock);
    }
    if (status == TFM_OK)
        status = copy_table(&ctx->tuning_db_stored, &ctx->tuning_db);
    ctx->tuning_db_cleared = ctx->tuning_db_cleared && status != TFM_OK;
    clear_table(&all);
    free(key);
    return status;
}

/* A test entry next to the table's detects full or read-only folders. */
tfm_status tfm__tuning_db_check_writable(tfm_context *ctx) {
    static const char TEXT[] = "a test";
    char *key = table_key(ctx);
    /* Contexts may save at the same time: each uses its own test entry. */
    char *test_key = key ? tfm__format("test by %ld, %p of %s", (long)getpid(), (void *)ctx, key) : NULL;
    tfm_status status = test_key ? TFM_OK : TFM_ERROR_MEMORY;
    if (test_key && (!tfm__cache_usable() || tfm__cache_blocked(key))) {
        status = fail_not_stored(key);
    } else if (test_key) {
        size_t bytes;
        tfm__cache_put(test_key, TEXT, sizeof(TEXT));
        char *stored = tfm__cache_get(test_key, &bytes);
        if (!stored || bytes != sizeof(TEXT))
            status = fail_not_stored(key);
        free(stored);
        tfm__cache_drop(test_key);
    }
    free(test_key);
    free(key);
    return status;
}
