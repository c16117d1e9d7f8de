/* Checkpoints: a trainer's state as one safetensors file. It has the flat tensors (moments may be in shards).
 * __metadata__ has the update count, the device kind, the hash of the `tfm tune` table, the fitting micro-batch size,
 * the data position, the balance of batches, and the caller's note. Protected by a checksum. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "dev/tuning/tuning_db.h"
#include "model/weights/safetensors.h"
#include "model/weights/tensors_write.h"
#include "tfm/data.h"
#include "tfm/text.h"
#include "train/batch_split.h"
#include "train/process_group.h"
#include "train/sharded_optimizer.h"
#include "train/local_process_group.h"

enum { KIND_BYTES = 128, NUMBERS_BYTES = 128 };

/* Prefix of the bf16 GEMM instructions of the device, for runs in bf16. */
#define BF16_TAG " bf16: "

/* Describes the tuning, which determines the order of sums and so their last bits. */
static const char *device_kind(const tfm_trainer *t, char *text) {
    const tfm__tuning *tuning = tfm__context_tuning(t->ctx);
    const int used = snprintf(text, KIND_BYTES, "%s width %d group %d chunk %d fma %d gemm %dx%d clblast %d",
                              tuning->name, tuning->width, tuning->group, tuning->chunk, tuning->fma, tuning->gemm_mr,
                              tuning->gemm_nr_vectors, strcmp(tuning->gemm_order[0].provider, "clblast") == 0);
    if (t->options.precision == TFM_BF16 && used < KIND_BYTES)
        snprintf(text + used, (size_t)(KIND_BYTES - used), "%sengine %d dots %d tiles %d", BF16_TAG, (int)tuning->mma,
                 tuning->avx512_bf16, tuning->amx_bf16 && tfm__amx_allowed());
    return text;
}

/* Whether two kinds are equal. The bf16 part counts only if both runs use bf16. */
static bool same_kind(const char *a, const char *b) {
    const char *a_bf16 = strstr(a, BF16_TAG), *b_bf16 = strstr(b, BF16_TAG);
    const size_t a_bytes = a_bf16 ? (size_t)(a_bf16 - a) : strlen(a);
    const size_t b_bytes = b_bf16 ? (size_t)(b_bf16 - b) : strlen(b);
    return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0 && (!a_bf16 || !b_bf16 || strcmp(a_bf16, b_bf16) == 0);
}

/* The hash of the device's `tfm tune` table, which also determines the order of sums. "0" is none, as in early
 * checkpoints without this entry. */
static const char *tuning_hash(const tfm_trainer *t, char *text) {
    snprintf(text, NUMBERS_BYTES, "%" PRIx64, tfm__tuning_db_hash(t->ctx));
    return text;
}

/* ---- The caller's note ---- */

/* The note is a JSON string of the header, where some characters take more bytes. The rest of the header takes less
 * than the difference. */
enum { MAX_NOTE = 50000000, MAX_NOTE_JSON = (int)TFM__SAFETENSORS_HEADER - 1000000 };

/* The bytes of a text in JSON, as jansson writes it. */
static size_t json_bytes(const char *text) {
    size_t bytes = 0;
    for (const char *c = text; *c; c++)
        bytes += strchr("\"\\\b\f\n\r\t", *c) ? 2 : (unsigned char)*c < 0x20 ? 6 : 1;
    return bytes;
}

static tfm_status set_note(tfm_trainer *t, const char *note) {
    char *copy = note ? tfm__strdup(note) : NULL;
    if (note && !copy)
        return TFM_ERROR_MEMORY;
    free(t->note);
    t->note = copy;
    return TFM_OK;
}

tfm_status tfm_trainer_set_note(tfm_trainer *t, const char *note) {
    if (TFM__NEEDS("trainer_set_note", t) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const size_t bytes = note ? strlen(note) : 0;
    if (note && tfm_text_check(note, bytes) != TFM_OK)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_set_note: the note of %zu bytes is not UTF-8", bytes);
    if (bytes >= MAX_NOTE || (note && json_bytes(note) > MAX_NOTE_JSON))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer_set_note: the note has %zu bytes, and %zu as JSON in a checkpoint: it must have less "
                         "than %d, and at most %d as JSON",
                         bytes, json_bytes(note), MAX_NOTE, MAX_NOTE_JSON);
    return set_note(t, note);
}

const char *tfm_trainer_note(const tfm_trainer *t) {
    if (!t)
        return NULL;
    return t->note;
}

/* ---- Saving ---- */

static tfm_status check_context(const tfm_trainer *t, const char *path) {
    return tfm__context_ready(t->ctx, path);
}

/* The file: the whole state, or without the moments if they are sharded. */
static tfm_status write_file(tfm_trainer *t, const tfm_data *data, const char *path) {
    char kind[KIND_BYTES], update[NUMBERS_BYTES], room[NUMBERS_BYTES], position[NUMBERS_BYTES], table[NUMBERS_BYTES];
    char shards[TFM__SHARDS_TEXT], shares[TFM__BALANCE_TEXT];
    const tfm__tensor_entry entries[] = {
        {.name = "parameters", .x = t->value, .dtype = TFM_F32},
        {.name = "first_moments", .x = t->m, .dtype = TFM_F32},
        {.name = "second_moments", .x = t->v, .dtype = TFM_F32},
    };
    tfm__metadata_entry metadata_entries[8] = {
        {"update", update}, {"device", device_kind(t, kind)}, {"tuned", tuning_hash(t, table)}, {"room", room}};
    size_t count = 4;
    snprintf(update, sizeof(update), "%" PRId64, t->update);
    snprintf(room, sizeof(room), "%" PRId64, t->micro_batch_tokens);
    if (data) {
        const tfm_data_position at = tfm_data_tell(data);
        snprintf(position, sizeof(position), "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
                 at.epoch, at.batch, at.line, at.source_offset, at.target_offset, at.subword_alpha_e9);
        metadata_entries[count++] = (tfm__metadata_entry){"data", position};
    }
    tfm__balance_format(shares, t);
    if (shares[0])
        metadata_entries[count++] = (tfm__metadata_entry){"dealt", shares};
    if (t->note)
        metadata_entries[count++] = (tfm__metadata_entry){"note", t->note};
    if (t->sharded) {
        tfm__shards_format(shards, t);
        metadata_entries[count++] = (tfm__metadata_entry){"shards", shards};
    }
    return tfm__tensors_write(t->ctx, path, entries, t->sharded ? 1 : TFM__COUNT(entries), metadata_entries, count,
                              true);
}

/* All ranks write their shards, then rank 0 the file that refers to them. */
static tfm_status save_sharded(tfm_trainer *t, const tfm_data *data, const char *path) {
    const tfm__rank_report mine = {.update = t->update};
    tfm__rank_report all;
    tfm_status status = check_context(t, path) == TFM_OK ? tfm__shard_write(t, path) : tfm_context_status(t->ctx);
    status = tfm__process_group_agree(t, &all, mine, status, path);
    if (status != TFM_OK) /* on all ranks: nobody waits */
        return status;
    if (t->group.rank == 0)
        status = write_file(t, data, path);
    return tfm__process_group_agree(t, &all, mine, status, path);
}

tfm_status tfm__trainer_save_rank(tfm_trainer *t, const tfm_data *data, const char *path) {
    tfm_status status = TFM_OK;
    if (t->sharded)
        status = save_sharded(t, data, path);
    else
        status = check_context(t, path) == TFM_OK ? write_file(t, data, path) : tfm_context_status(t->ctx);
    if (status == TFM_OK && t->group.rank == 0)
        tfm__shards_remove_old(t, path);
    return status;
}

tfm_status tfm_trainer_snapshot(tfm_trainer *t, const char *path) {
    if (TFM__NEEDS("trainer_snapshot", t, path) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    char update[NUMBERS_BYTES];
    const tfm__tensor_entry entry = {.name = "parameters", .x = t->value, .dtype = TFM_F32};
    const tfm__metadata_entry metadata = {"update", update};
    snprintf(update, sizeof(update), "%" PRId64, t->update);
    return check_context(t, path) == TFM_OK ? tfm__tensors_write(t->ctx, path, &entry, 1, &metadata, 1, true)
                                            : tfm_context_status(t->ctx);
}

/* ---- Loading ---- */

/* The content of a file, validated before the trainer changes. */
typedef struct checkpoint {
    tfm__weights *file;
    const tfm__stored_tensor *parameters, *moments[TFM__MOMENTS]; /* moments are NULL if sharded */
    tfm__shards shards;
    int64_t update, micro_batch_tokens;
    tfm_data_position position;
    bool has_position;
} checkpoint;

static tfm_status open_verified(tfm__weights **file, const char *path) {
    const tfm_status status = tfm__weights_open_written(file, path);
    return status == TFM_OK ? tfm__weights_verify(*file) : status;
}

/* Parses exactly `count` numbers, not negative and small enough that counting on does not overflow. */
static bool read_numbers(int64_t *out, size_t count, const char *text) {
    for (size_t i = 0; i < count; i++) {
        char *end = NULL;
        errno = 0;
        out[i] = text ? strtoll(text, &end, 10) : -1;
        if (out[i] < 0 || out[i] > INT64_MAX / 2 || errno || end == text || *end != (i + 1 < count ? ' ' : 0))
            return false;
        text = end + 1;
    }
    return true;
}

/* A flat tensor, or NULL if it is missing or has another shape. */
static const tfm__stored_tensor *find_flat(const tfm_trainer *t, const tfm__weights *file, const char *name) {
    const tfm__stored_tensor *p = tfm__weights_find(file, name);
    return p && p->usable && p->dtype == TFM_F32 && p->rank == 1 && p->dims[0] == t->count ? p : NULL;
}

static void invalidate_packed(tfm_trainer *t) {
    for (size_t i = 0; i < t->param_count; i++)
        t->params[i]->version++;
}

static tfm_status read_checkpoint(checkpoint *c, const tfm_trainer *t, const char *path) {
    tfm_status status = open_verified(&c->file, path);
    if (status != TFM_OK)
        return status;
    const char *shards = tfm__weights_metadata(c->file, "shards");
    bool whole = read_numbers(&c->update, 1, tfm__weights_metadata(c->file, "update"));
    whole &= (c->parameters = find_flat(t, c->file, "parameters")) != NULL;
    for (int i = 0; i < TFM__MOMENTS && !shards; i++)
        whole &= (c->moments[i] = find_flat(t, c->file, tfm__moment_names[i])) != NULL;
    if (!whole)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is not a checkpoint of this model, which has %" PRId64 " numbers", path,
                         t->count);
    if (shards && (status = tfm__shards_open(&c->shards, t, shards, path, c->update)) != TFM_OK)
        return status;
    if (!read_numbers(&c->micro_batch_tokens, 1, tfm__weights_metadata(c->file, "room")))
        c->micro_batch_tokens = 0; /* Early checkpoints lack it. */
    const char *position = tfm__weights_metadata(c->file, "data");
    int64_t n[6] = {0};
    c->has_position = position != NULL;
    if (position && !read_numbers(n, 6, position) && !read_numbers(n, 5, position)) /* a format without `cut` */
        return tfm__fail(TFM_ERROR_FORMAT, "%s: its data position is \"%.100s\", not six numbers", path, position);
    if (position)
        c->position = (tfm_data_position){n[0], n[1], n[2], n[3], n[4], n[5]};
    return TFM_OK;
}

static tfm_status restore(tfm_trainer *t, const checkpoint *c, const char *path) {
    char kind[KIND_BYTES], table[NUMBERS_BYTES];
    const char *device = tfm__weights_metadata(c->file, "device"), *tuned = tfm__weights_metadata(c->file, "tuned");
    tfm_status status = set_note(t, tfm__weights_metadata(c->file, "note"));
    if (status == TFM_OK)
        status = tfm_tensor_write(t->ctx, t->value, c->parameters->data);
    for (int i = 0; i < TFM__MOMENTS && status == TFM_OK; i++)
        status = c->moments[i] ? tfm__moment_load_range(t, i, (tfm__flat_range){0, t->count}, c->moments[i]->data)
                               : tfm__shards_load_moment(t, &c->shards, i);
    if (status != TFM_OK)
        return status;
    const bool retuned = strcmp(tuning_hash(t, table), tuned ? tuned : "0") != 0;
    const bool other = retuned || !device || !same_kind(device_kind(t, kind), device);
    if (retuned && !t->is_replica)
        tfm__log(TFM_LOG_WARNING,
                 "%s was written with another table of `tfm tune`, or none: the run continues, but not bit-identically",
                 path);
    else if (other && !t->is_replica)
        tfm__log(TFM_LOG_WARNING,
                 "%s was written on another kind of device: the run continues, but not bit-identically", path);
    t->micro_batch_tokens = other ? 0 : c->micro_batch_tokens; /* Micro-batches must stay the same, or bits differ. */
    t->update = c->update;
    tfm__balance_parse(t, tfm__weights_metadata(c->file, "dealt"));
    invalidate_packed(t);
    return TFM_OK;
}

static tfm_status load(tfm_trainer *t, tfm_data *data, const char *path) {
    checkpoint c = {0};
    tfm_status status = read_checkpoint(&c, t, path);
    if (status == TFM_OK && data && !c.has_position)
        status = tfm__fail(TFM_ERROR_FORMAT,
                           "%s has no data position: restart the data from its beginning, or use another "
                           "checkpoint",
                           path);
    if (status == TFM_OK && data)
        status = tfm_data_seek(data, c.position);
    if (status == TFM_OK)
        status = restore(t, &c, path);
    tfm__shards_close(&c.shards);
    tfm__weights_free(&c.file);
    return status;
}

tfm_status tfm_trainer_load(tfm_trainer *t, tfm_data *data, const char *path) {
    if (TFM__NEEDS("trainer_load", t, path) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < tfm__trainer_replica_count(t) && status == TFM_OK; i++)
        status = load(tfm__trainer_replica(t, i), i == 0 ? data : NULL, path);
    return status;
}

/* ---- Averages ---- */

/* Elements averaged at a time. */
enum { CHUNK = 1 << 20 };

/* Writes the mean over the files to the device, in chunks. sum and mean have space for CHUNK elements. */
static tfm_status write_means(tfm_trainer *t, const tfm__stored_tensor *const *stored, size_t count, double *sum,
                              float *mean) {
    tfm_status status = TFM_OK;
    for (int64_t at = 0; at < t->count && status == TFM_OK; at += CHUNK) {
        const int64_t n = t->count - at < CHUNK ? t->count - at : CHUNK;
        tfm_tensor part = {0};
        memset(sum, 0, (size_t)n * sizeof(*sum));
        for (size_t i = 0; i < count; i++) {
            memcpy(mean, stored[i]->data + (size_t)at * sizeof(*mean), (size_t)n * sizeof(*mean));
            for (int64_t k = 0; k < n; k++)
                sum[k] += (double)mean[k];
        }
        for (int64_t k = 0; k < n; k++)
            mean[k] = (float)(sum[k] / (double)count);
        tfm_tensor_rows(t->ctx, &part, t->value, at, n);
        status = tfm_tensor_write(t->ctx, part, mean);
    }
    invalidate_packed(t);
    return status;
}

tfm_status tfm_trainer_average(tfm_trainer *t, const char *const *paths, size_t count) {
    if (TFM__NEEDS("trainer_average", t, paths) != TFM_OK ||
        tfm__needs_texts("trainer_average", "paths", paths, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__weights **files = tfm__alloc(count, sizeof(*files));
    const tfm__stored_tensor **stored = tfm__alloc(count, sizeof(*stored));
    double *sum = tfm__alloc(CHUNK, sizeof(*sum));
    float *mean = tfm__alloc(CHUNK, sizeof(*mean));
    tfm_status status = files && stored && sum && mean ? TFM_OK : TFM_ERROR_MEMORY;
    if (count == 0)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "trainer_average: it needs at least one file");
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        status = open_verified(&files[i], paths[i]);
        if (status == TFM_OK && !(stored[i] = find_flat(t, files[i], "parameters")))
            status = tfm__fail(TFM_ERROR_FORMAT,
                               "%s is not a snapshot or checkpoint of this model, which has %" PRId64 " numbers",
                               paths[i], t->count);
    }
    for (size_t i = 0; i < tfm__trainer_replica_count(t) && status == TFM_OK; i++)
        status = write_means(tfm__trainer_replica(t, i), stored, count, sum, mean);
    for (size_t i = 0; files && i < count; i++)
        tfm__weights_free(&files[i]);
    free(files);
    free(stored);
    free(sum);
    free(mean);
    return status;
}
