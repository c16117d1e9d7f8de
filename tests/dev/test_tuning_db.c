/* The stored table of `tfm tune` with several writing contexts, and with write errors. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include "dev/cache/cache.h"
#include "dev/device/context_internal.h"
#include "support/scratch.h"
#include "ops/tuning/tune.h"

static int warnings;

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user;
    warnings += level <= TFM_LOG_WARNING && strstr(line, "tfm tune") != NULL;
}

static int setup(void **state) {
    if (scratch_setup(state) != 0 || setenv("TFM_CACHE_DIR", scratch_root, 1) != 0 || harness_setup(state) != 0)
        return -1;
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    return 0;
}

static int teardown(void **state) {
    setenv("TFM_CACHE_DIR", harness_brief() ? "off" : scratch_root, 1);
    return harness_teardown(state) != 0 || scratch_teardown(state) != 0 ? -1 : 0;
}

static int empty(void **state) {
    (void)state;
    tfm_tune_clear(harness_context());
    harness_ok(tfm_tune_save(harness_context()));
    warnings = 0;
    return 0;
}

static tfm_context *opened(void) {
    tfm_context *ctx = NULL;
    harness_ok(tfm_context_open(&ctx, NULL));
    return ctx;
}

static bool join(void *user, const char *name, const char *setting) {
    char *all = user;
    if (strncmp(name, "tuned: ", 7) == 0)
        snprintf(all + strlen(all), 1024 - strlen(all), "%s=%s;", name + 7, setting);
    return true;
}

/* The table that a new context reads. */
static const char *stored(void) {
    static char all[1024];
    tfm_context *ctx = opened();
    all[0] = 0;
    harness_ok(tfm_context_describe(ctx, join, all));
    tfm_context_free(&ctx);
    return all;
}

/* Each writer merges its changes into the stored table, and keeps the other's rows. */
static void test_two_contexts_merge_their_tuning_rows(void **state) {
    (void)state;
    harness_ok(tfm__tuning_db_set(harness_context(), "both", "0"));
    harness_ok(tfm__tuning_db_set(harness_context(), "old", "0"));
    harness_ok(tfm_tune_save(harness_context()));
    tfm_context *a = opened(), *b = opened();
    harness_ok(tfm__tuning_db_set(a, "a", "1"));
    harness_ok(tfm__tuning_db_set(b, "b", "1"));
    harness_ok(tfm_tune_save(a));
    harness_ok(tfm_tune_save(b));
    assert_string_equal(stored(), "a=1;b=1;both=0;old=0;");
    assert_null(tfm__tuning_db_find(a, "b")); /* an open context changes by its own rows only */
    harness_ok(tfm__tuning_db_set(a, "both", "2"));
    harness_ok(tfm__tuning_db_set(a, "old", NULL));
    harness_ok(tfm_tune_save(a));
    assert_string_equal(stored(), "a=1;b=1;both=2;");
    harness_ok(tfm__tuning_db_set(b, "c", "3")); /* its `both` and `old` are unchanged since loaded */
    harness_ok(tfm_tune_save(b));
    assert_string_equal(stored(), "a=1;b=1;both=2;c=3;");
    harness_ok(tfm_tune_save(a));
    harness_ok(tfm_tune_save(b)); /* nor are the rows that each has stored itself */
    assert_string_equal(stored(), "a=1;b=1;both=2;c=3;");
    tfm_tune_clear(a);
    harness_ok(tfm__tuning_db_set(a, "d", "4"));
    harness_ok(tfm_tune_save(a));
    assert_string_equal(stored(), "d=4;");
    tfm_tune_clear(a);
    harness_ok(tfm_tune_save(a));
    assert_string_equal(stored(), "");
    harness_ok(tfm_tune_save(b)); /* a deleted table is restored */
    assert_string_equal(stored(), "b=1;both=0;c=3;old=0;");
    tfm_context_free(&a);
    tfm_context_free(&b);
    assert_int_equal(warnings, 0);
}

typedef struct writer {
    tfm_context *ctx;
    char letter;
    tfm_status status;
} writer;

enum { ROWS = 25 };

static void *write_rows(void *user) {
    writer *w = user;
    for (int i = 0; i < ROWS && w->status == TFM_OK; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%c%02d", w->letter, i);
        w->status = tfm__tuning_db_set(w->ctx, name, "1");
        if (w->status == TFM_OK)
            w->status = tfm_tune_save(w->ctx);
    }
    return NULL;
}

/* Two contexts that store row after row concurrently. */
static void test_concurrent_writers_keep_all_rows(void **state) {
    (void)state;
    writer w[2] = {{opened(), 'a', TFM_OK}, {opened(), 'b', TFM_OK}};
    pthread_t threads[2];
    size_t count = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_rows, &w[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w[i].status, TFM_OK);
        tfm_context_free(&w[i].ctx);
    }
    for (const char *at = stored(); (at = strchr(at, ';')) != NULL; at++)
        count++;
    assert_int_equal(count, 2 * ROWS);
}

static void *save(void *user) {
    writer *w = user;
    w->status = tfm_tune_save(w->ctx);
    return NULL;
}

/* A writer waits for the current one. */
static void test_writer_waits_for_the_table_lock(void **state) {
    (void)state;
    writer w = {.ctx = opened()};
    pthread_t thread;
    int lock;
    harness_ok(tfm__tuning_db_set(w.ctx, "a", "1"));
    assert_true(tfm__cache_lock_table(&lock, 0) && lock >= 0);
    assert_int_equal(pthread_create(&thread, NULL, save, &w), 0);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    assert_string_equal(stored(), "");
    tfm__cache_unlock(lock);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, TFM_OK);
    assert_string_equal(stored(), "a=1;");
    assert_true(tfm__cache_lock(&lock, 0) && lock >= 0); /* validation has a separate lock */
    harness_ok(tfm__tuning_db_set(w.ctx, "b", "1"));
    harness_ok(tfm_tune_save(w.ctx));
    tfm__cache_unlock(lock);
    tfm_context_free(&w.ctx);
}

/* The path of the only table in the folder. */
static const char *table_path(void) {
    DIR *listing = opendir(scratch_root);
    const char *path = NULL;
    assert_non_null(listing);
    for (struct dirent *next; (next = readdir(listing));)
        if (strstr(next->d_name, ".table"))
            path = scratch_path(next->d_name);
    closedir(listing);
    assert_non_null(path);
    return path;
}

/* A folder in place of the table is ignored at startup; storing reports an error. */
static void test_directory_in_place_of_table_is_reported(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_ok(tfm_tune_save(ctx));
    harness_ok(tfm__tuning_db_set(ctx, "a", "1"));
    harness_ok(tfm_tune_save(ctx));
    char *path = strdup(table_path());
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_string_equal(stored(), "");
    assert_int_equal(warnings, 0);
    scratch_refused(tfm_tune_save(ctx), TFM_ERROR_IO, "a folder is in its place");
    scratch_refused(tfm_tune_save(ctx), TFM_ERROR_IO, strrchr(path, '/') + 1);
    tfm_tune_clear(ctx);
    scratch_refused(tfm_tune_save(ctx), TFM_ERROR_IO, "a folder is in its place");
    assert_int_equal(remove(path), 0);
    harness_ok(tfm_tune_save(ctx));
    free(path);
}

static void test_unwritable_cache_directory_is_reported(void **state) {
    (void)state;
    char path[4200];
    setenv("TFM_CACHE_DIR", "off", 1);
    scratch_refused(tfm__tuning_db_check_writable(harness_context()), TFM_ERROR_IO, "TFM_CACHE_DIR");
    snprintf(path, sizeof(path), "%s/read-only", scratch_root);
    assert_int_equal(mkdir(path, 0500), 0);
    setenv("TFM_CACHE_DIR", path, 1);
    if (access(path, W_OK) != 0) /* root may write anywhere */
        scratch_refused(tfm__tuning_db_check_writable(harness_context()), TFM_ERROR_IO, "TFM_CACHE_DIR");
    assert_int_equal(chmod(path, 0777), 0);
    scratch_refused(tfm__tuning_db_check_writable(harness_context()), TFM_ERROR_IO, "TFM_CACHE_DIR");
    assert_int_equal(chmod(path, 0700), 0);
    harness_ok(tfm__tuning_db_check_writable(harness_context()));
    /* A file size limit of 0, as on a full disk. */
    struct rlimit own;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &own), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_max = own.rlim_max}), 0);
    const tfm_status full = tfm__tuning_db_check_writable(harness_context());
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &own), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(full, TFM_ERROR_IO);
    assert_int_equal(rmdir(path), 0); /* no validation file is left */
    setenv("TFM_CACHE_DIR", scratch_root, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_two_contexts_merge_their_tuning_rows, empty),
        cmocka_unit_test_setup(test_concurrent_writers_keep_all_rows, empty),
        cmocka_unit_test_setup(test_writer_waits_for_the_table_lock, empty),
        cmocka_unit_test_setup(test_directory_in_place_of_table_is_reported, empty),
        cmocka_unit_test_setup(test_unwritable_cache_directory_is_reported, empty),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
