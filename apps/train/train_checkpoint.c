/* The state of a run on disk: its checkpoint, and snapshots of the parameters for the average. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "train/train.h"

/* ---- Snapshots ----------------------------------------------------------------------------------------- */

/* The path of the snapshot number `i`, for free(). */
static char *snapshot_path(const train_run *r, size_t i) {
    char name[64];
    snprintf(name, sizeof(name), "snapshots/%08" JSON_INTEGER_FORMAT ".safetensors",
             json_integer_value(json_array_get(r->at.snapshots, i)));
    return train_path(r->dir, name);
}

/* Whether the checkpoint lists a snapshot. */
static bool is_kept(const train_run *r, json_int_t update) {
    for (size_t i = 0; i < json_array_size(r->at.snapshots); i++)
        if (json_integer_value(json_array_get(r->at.snapshots, i)) == update)
            return true;
    return false;
}

/* Drops snapshots from the list that the average does not use. */
static void forget_snapshots(train_run *r) {
    const size_t most = r->recipe.average < 2 ? 0 : (size_t)r->recipe.average;
    while (json_array_size(r->at.snapshots) > most)
        json_array_remove(r->at.snapshots, 0);
}

int train_snapshot_write(train_run *r) {
    const int64_t update = tfm_trainer_updates(r->trainer);
    if (!is_kept(r, update))
        json_array_append_new(r->at.snapshots, json_integer(update));
    forget_snapshots(r);
    if (json_array_size(r->at.snapshots) == 0)
        return CLI_OK;
    char *path = snapshot_path(r, json_array_size(r->at.snapshots) - 1);
    int code = path ? CLI_OK : cli_fail("%s: out of memory", r->dir);
    if (code == CLI_OK && tfm_trainer_snapshot(r->trainer, path) != TFM_OK)
        code = cli_fail_library();
    free(path);
    return code;
}

/* The update of a snapshot's file name, or -1. */
static long long snapshot_number(const char *name) {
    char *end;
    const long long update = strtoll(name, &end, 10);
    return end > name && strcmp(end, ".safetensors") == 0 ? update : -1;
}

size_t train_snapshot_count(const char *dir) {
    char *path = train_path(dir, "snapshots");
    DIR *folder = path ? opendir(path) : NULL;
    size_t count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += snapshot_number(entry->d_name) >= 0;
    if (folder)
        closedir(folder);
    free(path);
    return count;
}

/* Drops listed snapshots without a file: the run reports that at its start rather than at its end. */
static int check_snapshots(train_run *r) {
    char *path = train_path(r->dir, "snapshots");
    int code = path && (mkdir(path, 0777) == 0 || errno == EEXIST)
                   ? CLI_OK
                   : cli_fail("cannot make the folder %s/snapshots: %s", r->dir, strerror(errno));
    free(path);
    for (size_t i = json_array_size(r->at.snapshots); code == CLI_OK && i-- > 0;) {
        path = snapshot_path(r, i);
        if (!path)
            code = cli_fail("%s: out of memory", r->dir);
        else if (access(path, R_OK) != 0) {
            train_print("%s is missing: the average will be without it", path);
            json_array_remove(r->at.snapshots, i);
        }
        free(path);
    }
    return code;
}

/* Removes the files of unlisted snapshots. */
static void clear_snapshots(const train_run *r) {
    char *path = train_path(r->dir, "snapshots");
    DIR *folder = path ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const long long update = snapshot_number(entry->d_name);
        if (update >= 0 && !is_kept(r, update))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
    free(path);
}

/* The average without damaged snapshots, which are reported. Takes ownership of the paths. */
static int average_readable(train_run *r, char **paths, size_t count) {
    size_t whole = 0;
    for (size_t i = 0; i < count; i++) {
        char *path = paths[i];
        paths[i] = NULL;
        if (tfm_trainer_average(r->trainer, (const char *const[]){path}, 1) == TFM_OK) {
            paths[whole++] = path;
            continue;
        }
        train_print("%s: the average will be without it", tfm_error_message());
        free(path);
    }
    return whole > 0 && tfm_trainer_average(r->trainer, (const char *const *)paths, whole) == TFM_OK
               ? CLI_OK
               : cli_fail_library();
}

int train_snapshot_average(train_run *r) {
    const size_t count = json_array_size(r->at.snapshots);
    char **paths = calloc(count, sizeof(*paths));
    bool good = paths != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = (paths[i] = snapshot_path(r, i)) != NULL;
    int code = good ? CLI_OK : cli_fail("%s: out of memory", r->dir);
    if (code == CLI_OK && tfm_trainer_average(r->trainer, (const char *const *)paths, count) != TFM_OK)
        code = average_readable(r, paths, count);
    for (size_t i = 0; paths && i < count; i++)
        free(paths[i]);
    free(paths);
    return code;
}

/* ---- Checkpoints --------------------------------------------------------------------------------------- */

int train_checkpoint_write(train_run *r) {
    const int64_t update = tfm_trainer_updates(r->trainer);
    r->at.seconds = cli_seconds() - r->begun;
    if (train_log_sync(&r->log, &r->at.log_bytes) != CLI_OK)
        return CLI_FAILED;
    json_t *note = json_pack("{s:f, s:f, s:f, s:I, s:i, s:s, s:I, s:f, s:I, s:[I, f, f], s:O, s:O}", "best_nll",
                             r->at.best_nll, "best_bleu", r->at.best_bleu, "best_ppl", fmin(r->at.best_ppl, DBL_MAX),
                             "best_update", (json_int_t)r->at.best_update, "since_best", r->at.since_best, "measure",
                             r->measure, "milestone", (json_int_t)r->at.milestone, "seconds", r->at.seconds,
                             "log_bytes", (json_int_t)r->at.log_bytes, "sums", (json_int_t)r->at.targets, r->at.loss,
                             r->at.nll, "snapshots", r->at.snapshots, "corpus", r->corpus);
    char *text = note ? json_dumps(note, JSON_COMPACT) : NULL;
    json_decref(note);
    if (!text)
        return cli_fail("%s: out of memory", r->checkpoint);
    tfm_status status = tfm_trainer_set_note(r->trainer, text);
    free(text);
    if (status == TFM_OK && train_sharded(r))
        train_ranks_request_save(r);
    if (status == TFM_OK)
        status = tfm_trainer_save(r->trainer, r->data, r->checkpoint);
    if (status == TFM_ERROR_CANCELLED) /* another rank prints the reason */
        return CLI_FAILED;
    if (status != TFM_OK)
        return train_save_failed(r);
    r->saved = update;
    clear_snapshots(r);
    return CLI_OK;
}

int train_checkpoint_rewrite(train_run *r) {
    return tfm_trainer_load(r->trainer, NULL, r->checkpoint) == TFM_OK ? train_checkpoint_write(r) : cli_fail_library();
}

/* The best model so far may be missing, unlike the checkpoint: then the next validation chooses the best again. */
static void check_model(train_run *r) {
    char *path = train_path(r->dir, "model.safetensors");
    if (path && r->at.best_update > 0 && access(path, F_OK) != 0) {
        train_print("%s is missing: the next validation chooses the best model again", path);
        r->at.best_update = r->at.milestone = 0;
        r->at.since_best = 0;
        r->revalidate = false;
    }
    free(path);
}

/* The update of the first checkpoint, by the stored recipe. */
static int64_t first_checkpoint(const train_run *r) {
    const json_t *every = json_object_get(r->recipe.stored, "eval-steps");
    return every ? json_integer_value(every) : r->recipe.eval_steps;
}

/* Without a checkpoint: the run was stopped before its first one, or the file is lost. */
static int begin_without_checkpoint(train_run *r) {
    bool ended, resumed;
    const int64_t last = train_log_last(&r->log, &ended, &resumed);
    if (ended || resumed || last > first_checkpoint(r) || train_snapshot_count(r->dir) > 1)
        return cli_fail("%s holds a run that came to %s%" PRId64
                        ", but no checkpoint.safetensors to resume: begin a new run, which --vocab %s gives the "
                        "same vocabulary",
                        r->dir, ended ? "its end at update " : "update ", last, r->dir);
    if (r->recipe.resume)
        train_print("%s has no checkpoint: the run begins again", r->dir);
    return CLI_OK;
}

/* Restores the checkpoint's note. Older checkpoints lack the last three entries and the best nll. */
static int read_note(train_run *r, json_t *note) {
    r->at.best_nll = NAN;
    json_int_t best_update, log_bytes, targets = 0, milestone = tfm_trainer_updates(r->trainer);
    const char *measure = NULL;
    json_t *corpus = NULL, *snapshots = NULL;
    if (!note || json_unpack(note, "{s?F, s:F, s:F, s:I, s:i, s?s, s?I, s:F, s:I, s?[I, F, F], s:o, s:o}", "best_nll",
                             &r->at.best_nll, "best_bleu", &r->at.best_bleu, "best_ppl", &r->at.best_ppl, "best_update",
                             &best_update, "since_best", &r->at.since_best, "measure", &measure, "milestone",
                             &milestone, "seconds", &r->at.seconds, "log_bytes", &log_bytes, "sums", &targets,
                             &r->at.loss, &r->at.nll, "snapshots", &snapshots, "corpus", &corpus) != 0)
        return cli_fail("%s was not written by tfm train", r->checkpoint);
    if (!train_corpus_same(corpus, r->corpus))
        return cli_fail("the training files have changed since %s was written: restore them, a run is resumed only on "
                        "the same text",
                        r->checkpoint);
    r->at.best_update = best_update;
    if (isnan(r->at.best_nll))
        r->at.best_nll = r->at.best_ppl > 0 ? log(r->at.best_ppl) : 0;
    r->at.milestone = milestone;
    r->at.targets = targets;
    r->at.log_bytes = (long)log_bytes;
    json_decref(r->at.snapshots);
    r->at.snapshots = json_incref(snapshots);
    r->saved = tfm_trainer_updates(r->trainer);
    r->revalidate =
        best_update > 0 && r->valid.count > 0 && (measure ? strcmp(measure, r->measure) != 0 : r->at.best_ppl == 0);
    return CLI_OK;
}

int train_checkpoint_read(train_run *r) {
    json_t *now = train_corpus_read(&r->recipe);
    const bool still = train_corpus_same(now, r->corpus);
    json_decref(now);
    if (!still)
        return cli_fail("the training files have changed while %s was prepared: run the command again once they "
                        "no longer change",
                        r->dir);
    if (r->valid.count > 0)
        snprintf(r->measure, sizeof(r->measure), "%016" PRIx64, train_validation_hash(&r->valid));
    if (access(r->checkpoint, F_OK) != 0)
        return begin_without_checkpoint(r);
    if (tfm_trainer_load(r->trainer, r->data, r->checkpoint) != TFM_OK)
        return cli_fail_library();
    const char *text = tfm_trainer_note(r->trainer);
    char why[CLI_REASON];
    json_t *note = text ? cli_json_parse(text, strlen(text), why) : NULL;
    int code = read_note(r, note);
    json_decref(note);
    if (code != CLI_OK)
        return code;
    clear_snapshots(r); /* a killed run may have missed it */
    forget_snapshots(r);
    check_model(r);
    return check_snapshots(r);
}
