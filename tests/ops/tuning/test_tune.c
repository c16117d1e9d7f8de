/* The table of `tfm tune`: stored rows are loaded and obeyed, damaged tables and other devices' tables are not, and a
 * wrong kernel is never stored. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/cache/cache.h"
#include "dev/device/context_internal.h"
#include "ops/gemm/gemm.h"
#include "support/scratch.h"
#include "ops/tuning/tune.h"

static int warnings;
static char last_warning[1024];

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user;
    if (level > TFM_LOG_WARNING || !strstr(line, "tfm tune"))
        return;
    warnings++;
    snprintf(last_warning, sizeof(last_warning), "%s", line);
}

static int setup(void **state) {
    if (scratch_setup(state) != 0 || setenv("TFM_CACHE_DIR", scratch_root, 1) != 0 || harness_setup(state) != 0)
        return -1;
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    return 0;
}

/* The next context, without the build results of the last. */
static void again(void **state) {
    setenv("TFM_CACHE_DIR", harness_brief() ? "off" : scratch_root, 1); /* PoCL recompiles to return binaries */
    harness_teardown(state);
    setenv("TFM_CACHE_DIR", scratch_root, 1);
    assert_int_equal(harness_setup(state), 0);
}

static int teardown(void **state) {
    setenv("TFM_CACHE_DIR", harness_brief() ? "off" : scratch_root, 1);
    return harness_teardown(state) != 0 || scratch_teardown(state) != 0 ? -1 : 0;
}

/* Each test begins without a table in memory and on disk. */
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

/* The hash of the table that a new context loads. */
static uint64_t stored_hash(void) {
    tfm_context *ctx = opened();
    const uint64_t hash = tfm__tuning_db_hash(ctx);
    tfm_context_free(&ctx);
    return hash;
}

/* The rows of the table, as tfm_context_describe shows them. */
static bool join(void *user, const char *name, const char *setting) {
    char *all = user;
    if (strncmp(name, "tuned: ", 7) == 0)
        snprintf(all + strlen(all), 256 - strlen(all), "%s=%s;", name + 7, setting);
    return strcmp(name, "tuned: stop here") != 0;
}

static void test_tuning_table_is_stored_and_loaded(void **state) {
    (void)state;
    tfm_context *ctx = harness_context(), *other;
    char all[256] = "";
    assert_int_equal(tfm__tuning_db_hash(ctx), 0);
    assert_int_equal(stored_hash(), 0);
    harness_ok(tfm__tuning_db_set(ctx, "m", "2"));
    const uint64_t one = tfm__tuning_db_hash(ctx);
    harness_ok(tfm__tuning_db_set(ctx, "z", "3"));
    harness_ok(tfm__tuning_db_set(ctx, "a", "1"));
    const uint64_t three = tfm__tuning_db_hash(ctx);
    assert_true(one != 0 && three != 0 && one != three);
    assert_int_equal(stored_hash(), 0);
    harness_ok(tfm_tune_save(ctx));
    other = opened();
    assert_int_equal(tfm__tuning_db_hash(other), three);
    harness_ok(tfm_context_describe(other, join, all));
    assert_string_equal(all, "a=1;m=2;z=3;");
    assert_null(tfm__tuning_db_find(other, "b"));
    harness_ok(tfm__tuning_db_set(other, "a", NULL));
    harness_ok(tfm__tuning_db_set(other, "z", NULL));
    harness_ok(tfm__tuning_db_set(other, "never", NULL));
    assert_int_equal(tfm__tuning_db_hash(other), one);
    harness_ok(tfm__tuning_db_set(other, "stop here", "1"));
    scratch_refused(tfm_context_describe(other, join, all), TFM_ERROR_CANCELLED, "stopped");
    tfm_context_free(&other);
    tfm_tune_clear(ctx);
    harness_ok(tfm_tune_save(ctx));
    assert_int_equal(stored_hash(), 0);
    assert_int_equal(warnings, 0);
}

static void test_invalid_tuning_rows_are_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    static const char *const BAD[] = {"", "new\nline", "UPPER", "quote\"",
                                      "far too long for a row of a table, which has 47 letters"};
    for (size_t i = 0; i < TFM__COUNT(BAD); i++) {
        scratch_refused(tfm__tuning_db_set(ctx, BAD[i], "1"), TFM_ERROR_FORMAT, "a row of a tuning table");
        scratch_refused(tfm__tuning_db_set(ctx, "group", BAD[i]), TFM_ERROR_FORMAT, "a row of a tuning table");
    }
    assert_int_equal(tfm__tuning_db_hash(ctx), 0);
    assert_int_equal(tfm_context_status(ctx), TFM_OK);
}

/* The path of the only table in the folder; NULL without one. */
static const char *table_path(void) {
    DIR *listing = opendir(scratch_root);
    const char *path = NULL;
    assert_non_null(listing);
    for (struct dirent *next; (next = readdir(listing));)
        if (strstr(next->d_name, ".table"))
            path = scratch_path(next->d_name);
    closedir(listing);
    return path;
}

static void store_one_row(void) {
    harness_ok(tfm__tuning_db_set(harness_context(), "group", "4"));
    harness_ok(tfm_tune_save(harness_context()));
}

static void test_damaged_tuning_table_is_ignored_with_a_warning(void **state) {
    (void)state;
    char *bytes;
    size_t size;
    harness_random random = {3};
    store_one_row();
    harness_ok(tfm__file_read(&bytes, &size, table_path()));
    for (int i = 0; i < 40; i++) {
        unsigned char *harmed = malloc(size);
        size_t harmed_size = size;
        assert_non_null(harmed);
        memcpy(harmed, bytes, size);
        scratch_damage(&random, harmed, &harmed_size);
        const bool changed = harmed_size != size || memcmp(harmed, bytes, size) != 0;
        store_one_row();
        scratch_write(strrchr(table_path(), '/') + 1, harmed, harmed_size);
        free(harmed);
        warnings = 0;
        assert_int_equal(stored_hash() == 0, changed);
        assert_int_equal(warnings, changed);
        assert_int_equal(stored_hash() == 0, changed); /* it is deleted, with one warning */
        assert_int_equal(warnings, changed);
    }
    free(bytes);
}

/* The key of the stored table, from its envelope; for free(). */
static char *stored_key(void) {
    char *bytes, *key;
    size_t size;
    harness_ok(tfm__file_read(&bytes, &size, table_path()));
    const size_t length = (unsigned char)bytes[12] + 256u * (unsigned char)bytes[13];
    assert_true(size > 32 + length);
    key = calloc(1, length + 2);
    assert_non_null(key);
    memcpy(key, bytes + 32, length);
    free(bytes);
    return key;
}

/* A valid envelope without a table. */
static void test_file_that_is_no_tuning_table_is_ignored(void **state) {
    (void)state;
    static const char *const TEXTS[] = {"",
                                        "no JSON",
                                        "[]",
                                        "{}",
                                        "{\"rows\": []}",
                                        "{\"rows\": {\"group\": 4}}",
                                        "{\"rows\": {\"group\": \"\\n\"}}",
                                        "{\"rows\": {\"group\": \"4\", \"GROUP\": \"4\"}}"};
    store_one_row();
    char *key = stored_key();
    for (size_t i = 0; i < TFM__COUNT(TEXTS); i++) {
        tfm__cache_put(key, TEXTS[i], strlen(TEXTS[i]));
        warnings = 0;
        assert_int_equal(stored_hash(), 0);
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(last_warning, "run `tfm tune` again"));
        assert_int_equal(stored_hash(), 0);
        assert_int_equal(warnings, 1);
    }
    free(key);
}

/* Another driver's table has another name; under this driver's name its key reveals it. */
static void test_tuning_table_of_another_driver_is_ignored(void **state) {
    (void)state;
    store_one_row();
    const uint64_t own = stored_hash();
    char *key = stored_key(), *content, *path = strdup(table_path());
    size_t size;
    key[strlen(key)] = '1';
    tfm__cache_put(key, "{\"rows\": {\"group\": \"8\"}}", 24);
    assert_int_equal(stored_hash(), own);
    tfm__cache_drop(key);
    /* Both envelopes are valid. */
    harness_ok(tfm__file_read(&content, &size, path));
    assert_int_equal(remove(path), 0);
    tfm__cache_put(key, "{\"rows\": {\"group\": \"8\"}}", 24);
    assert_int_equal(rename(table_path(), path), 0);
    assert_int_equal(stored_hash(), 0);
    assert_int_equal(warnings, 0);
    free(content);
    free(path);
    free(key);
}

static void test_tuning_without_cache_directory_is_an_error(void **state) {
    (void)state;
    store_one_row();
    setenv("TFM_CACHE_DIR", "off", 1);
    assert_int_equal(stored_hash(), 0);
    scratch_refused(tfm_tune_save(harness_context()), TFM_ERROR_IO, "TFM_CACHE_DIR");
    setenv("TFM_CACHE_DIR", scratch_root, 1);
    assert_true(stored_hash() != 0);
}

/* The choice follows the rows; invalid rows are ignored. */
static void test_gemm_selection_follows_tuning_rows(void **state) {
    (void)state;
    tfm_context *ctx = harness_context(), *other;
    const char *own = tfm_gemm_select(ctx, 70, 100, 200);
    harness_ok(tfm__tuning_db_set(ctx, "gemm nn 6 6 7", "reference"));
    harness_ok(tfm__tuning_db_set(ctx, "gemm nn 5 6 7", "nobody"));
    harness_ok(tfm__tuning_db_set(ctx, "gemm nn 4 6 7", "reference 64x64x16"));
    harness_ok(tfm__tuning_db_set(ctx, "gemm nn 6 6 99", "reference"));
    harness_ok(tfm__tuning_db_set(ctx, "gemm", "reference"));
    harness_ok(tfm_tune_save(ctx));
    other = opened();
    assert_string_equal(tfm_gemm_select(other, 70, 100, 200), "reference");
    assert_string_equal(tfm_gemm_select(other, 127, 64, 255), "reference");
    assert_string_equal(tfm_gemm_select(other, 128, 100, 200), tfm_gemm_select(ctx, 128, 100, 200));
    assert_string_equal(tfm_gemm_select(other, 40, 100, 200), tfm_gemm_select(ctx, 40, 100, 200));
    assert_string_equal(tfm_gemm_select(other, 20, 100, 200), tfm_gemm_select(ctx, 20, 100, 200));
    tfm_tune_clear(other);
    assert_string_equal(tfm_gemm_select(other, 70, 100, 200), own);
    tfm_context_free(&other);
}

static void test_workgroup_size_follows_tuning_row(void **state) {
    (void)state;
    const int own = tfm__context_tuning(harness_context())->group;
    static const struct {
        const char *setting;
        int group; /* 0: the heuristic's */
    } CASES[] = {{"8", 8}, {"12", 0}, {"0", 0}, {"-8", 0}, {"8x", 0}, {"99999999999999999999", 0}};
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        harness_ok(tfm__tuning_db_set(harness_context(), "group", CASES[i].setting));
        harness_ok(tfm_tune_save(harness_context()));
        tfm_context *ctx = opened();
        const bool shared = tfm__context_tuning(ctx)->class == TFM__CLASS_GPU;
        assert_int_equal(tfm__context_tuning(ctx)->group, shared && CASES[i].group ? CASES[i].group : own);
        tfm_context_free(&ctx);
    }
}

static void test_cpu_device_has_nothing_to_tune(void **state) {
    (void)state;
    tfm_context *ctx = NULL;
    tfm_tune_record record;
    if (tfm__tune_supported(harness_context()))
        skip();
    harness_ok(tfm_context_open(&ctx, NULL));
    scratch_refused(tfm_tune_gemm(ctx, &record, 4, 4, 4, false, true), TFM_ERROR_UNSUPPORTED, "nothing to tune");
    scratch_refused(tfm_tune_workgroups(ctx, &record, 4, 4), TFM_ERROR_UNSUPPORTED, "nothing to tune");
    assert_int_equal(tfm_context_status(ctx), TFM_OK);
    tfm_context_free(&ctx);
}

/* A device with small groups has fewer candidates; PoCL builds each in a second. */
static tfm_context *small_device(void) {
    tfm_context *ctx = harness_context();
    ctx->limits.max_group = 64;
    return ctx;
}

static void test_tuning_tries_candidates_and_keeps_the_fastest(void **state) {
    (void)state;
    tfm_context *ctx = small_device();
    tfm_tune_record r;
    if (!tfm__tune_supported(ctx))
        skip();
    scratch_refused(tfm_tune_gemm(ctx, &r, 0, 4, 4, false, true), TFM_ERROR_ARGUMENT, "1 or more");
    scratch_refused(tfm_tune_workgroups(ctx, &r, 4, 0), TFM_ERROR_ARGUMENT, "1 or more");
    for (int i = 0; i < 2; i++) {
        harness_ok(tfm_tune_gemm(ctx, &r, 33, 40, 130, i == 1, i != 1));
        assert_true(r.candidates >= 2);
        assert_int_equal(r.rejected, 0);
        assert_true(r.baseline_seconds > 0 && r.best_seconds > 0 && r.best_seconds <= r.baseline_seconds);
        char row[TFM__TUNING_TEXT_MAX];
        snprintf(row, sizeof(row), "gemm %c%c 5 5 7", i == 1 ? 't' : 'n', i != 1 ? 't' : 'n');
        const char *setting = tfm__tuning_db_find(ctx, row);
        assert_string_equal(setting ? setting : r.baseline, r.best);
    }
    harness_ok(tfm_tune_workgroups(ctx, &r, 64, 300));
    assert_true(r.candidates >= 2);
    assert_int_equal(r.rejected, 0);
    assert_int_equal(tfm__scope_depth(ctx), 0);
}

/* All tiles are wrong: they are not chosen, whatever their speed. */
static void test_wrong_kernels_never_win_tuning(void **state) {
    tfm_tune_record r;
    if (!tfm__tune_supported(harness_context()))
        skip();
    size_t size;
    int changed = 0;
    char *text = scratch_source("cl/gemm/gemm_gpu_tiled.cl", &size);
    static const char *const RIGHT[] = {"sum[i][j] = 0.0f;", "(tfm_vec)(alpha)"};
    static const char *const WRONG[] = {"sum[i][j] = 0.1f;", "(tfm_vec)(1.01f)"};
    for (int i = 0; i < 2; i++)
        for (char *at = text; (at = strstr(at, RIGHT[i])) != NULL; changed++)
            memcpy(at, WRONG[i], strlen(WRONG[i]));
    assert_int_equal(changed, 2);
    scratch_write("gemm_gpu_tiled.cl", text, size);
    free(text);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    again(state);
    harness_ok(tfm_tune_gemm(small_device(), &r, 33, 40, 130, false, true));
    assert_true(r.rejected >= 1);
    assert_true(r.candidates >= 1);
    assert_null(strstr(r.best, "gpu-tiled"));
    assert_int_equal(tfm_context_status(harness_context()), TFM_OK);
    unsetenv("TFM_CL_DIR");
    again(state);
}

static bool until_named(void *user, const char *name, const char *text) {
    const char *wanted = user;
    assert_true(name[0] != 0);
    return strcmp(name, wanted) != 0 || strlen(text) == 0;
}

static void test_device_report_and_peak_flops_are_measured(void **state) {
    (void)state;
    static const char *const NAMES[] = {
        "platform", "device", "driver", "extensions", "largest work-group", "tuning", "hash of the tuning table"};
    double flops = -1;
    char none[] = "none";
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s", NAMES[i]);
        scratch_refused(tfm_context_describe(harness_context(), until_named, name), TFM_ERROR_CANCELLED, "stopped");
    }
    harness_ok(tfm_context_describe(harness_context(), until_named, none));
    harness_ok(tfm_measure_peak_flops(harness_context(), &flops));
    assert_true(flops > 1e6);
    assert_int_equal(tfm__scope_depth(harness_context()), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_tuning_table_is_stored_and_loaded, empty),
        cmocka_unit_test_setup(test_invalid_tuning_rows_are_rejected, empty),
        cmocka_unit_test_setup(test_damaged_tuning_table_is_ignored_with_a_warning, empty),
        cmocka_unit_test_setup(test_file_that_is_no_tuning_table_is_ignored, empty),
        cmocka_unit_test_setup(test_tuning_table_of_another_driver_is_ignored, empty),
        cmocka_unit_test_setup(test_tuning_without_cache_directory_is_an_error, empty),
        cmocka_unit_test_setup(test_gemm_selection_follows_tuning_rows, empty),
        cmocka_unit_test_setup(test_workgroup_size_follows_tuning_row, empty),
        cmocka_unit_test_setup(test_cpu_device_has_nothing_to_tune, empty),
        cmocka_unit_test_setup(test_tuning_tries_candidates_and_keeps_the_fastest, empty),
        cmocka_unit_test_setup(test_wrong_kernels_never_win_tuning, empty),
        cmocka_unit_test(test_device_report_and_peak_flops_are_measured),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
