/* Devices that can do less: the same translation comes out of each of them, or one sentence says what is
 * missing. The fault layer makes one of whatever device there is. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "dev/cache.h"
#include "fault/runs.h"
#include "harness.h"

static void small(const char *lie, const char *refusal) {
    char setting[128], cache[4300];
    snprintf(setting, sizeof(setting), "TFM_FAULT_LIE=%s", lie);
    snprintf(cache, sizeof(cache), "TFM_CACHE_DIR=%s/small", runs_folder());
    const char *const settings[] = {setting, cache, NULL};
    if (refusal)
        runs_add_refused(lie, settings, refusal);
    else
        runs_add(lie, settings, RUNS_RIGHT);
}

/* Each of these compiles kernels of its own. */
static void test_small_devices(void **state) {
    (void)state;
    small("arg_info=0", NULL);
    if (!runs_slow()) {
        small("width=1", NULL);
        small("width=4", NULL);
        small("width=8,type=8", NULL);
        small("max_group=1", NULL);
        small("width=1,max_group=1,local=32768", NULL);
        small("width=1,max_group=16", NULL);
        small("width=1,local=32768", NULL);
        small("type=8", NULL);
    }
    small("max_alloc=4194304", NULL);
    small("max_alloc=1048576", "takes at most 1048576 bytes in one allocation");
    runs_finish("a device that can do less");
}

static char prebuilt[4200];

/* Takes the binary out of one entry of the disk cache and gives it the name that a device without a compiler
 * looks for: "program softmax OPTIONS\ntext HASH\n..." is softmax-HASH2.bin. */
static bool provide(const char *entry) {
    char *bytes, path[4600];
    size_t size;
    uint32_t key_bytes;
    harness_ok(tfm__file_read(&bytes, &size, entry));
    memcpy(&key_bytes, bytes + 12, sizeof(key_bytes));
    char *key = strndup(bytes + 32, key_bytes), *line_end = strchr(key, '\n'), *options;
    bool program = strncmp(key, "program ", 8) == 0 && line_end;
    uint64_t text;
    if (program) {
        *line_end = 0;
        options = strchr(key + 8, ' ') + 1;
        options[-1] = 0;
        assert_int_equal(sscanf(line_end + 1, "text %" SCNx64, &text), 1);
        snprintf(path, sizeof(path), "%s/%s-%016" PRIx64 ".bin", prebuilt, key + 8,
                 tfm__hash64(options, strlen(options), text));
        harness_ok(tfm__file_write(path, bytes + 32 + key_bytes, size - 32 - key_bytes));
    }
    free(key);
    free(bytes);
    return program;
}

/* The path of one binary that was provided. */
static void any_binary(char *out, size_t size) {
    DIR *listing = opendir(prebuilt);
    assert_non_null(listing);
    out[0] = 0;
    for (struct dirent *next; (next = readdir(listing));)
        if (strstr(next->d_name, ".bin"))
            snprintf(out, size, "%s/%s", prebuilt, next->d_name);
    closedir(listing);
    assert_true(out[0]);
}

static void test_prebuilt(void **state) {
    (void)state;
    char directory[4300], path[4500], away[4600];
    int count = 0;
    snprintf(prebuilt, sizeof(prebuilt), "%s/prebuilt", runs_folder());
    snprintf(directory, sizeof(directory), "TFM_CL_DIR=%s", prebuilt);
    assert_int_equal(mkdir(prebuilt, 0700), 0);
    const char *const bare[] = {"TFM_FAULT_LIE=compiler=0", NULL};
    const char *const settings[] = {"TFM_FAULT_LIE=compiler=0", directory, NULL};
    const char *const forced[] = {"TFM_FAULT_LIE=compiler=0", directory, "TFM_GEMM=clblast", NULL};
    runs_add_refused("no compiler and no directory", bare, ".bin is missing: build prelude.cl + ");
    runs_add_refused("no compiler and no binaries", settings, prebuilt);
    runs_finish("no compiler");
    DIR *listing = opendir(runs_cache());
    assert_non_null(listing);
    for (struct dirent *next; (next = readdir(listing));) {
        snprintf(path, sizeof(path), "%s/%s", runs_cache(), next->d_name);
        if (next->d_name[0] != '.')
            count += provide(path);
    }
    closedir(listing);
    assert_true(count > 3);
    runs_add("no compiler, but binaries", settings, RUNS_RIGHT);
    runs_add("no compiler, binaries, and CLBlast is wished for", forced, RUNS_RIGHT);
    runs_finish("binaries");
    any_binary(path, sizeof(path));
    snprintf(away, sizeof(away), "%s.away", path);
    assert_int_equal(rename(path, away), 0);
    runs_add_refused("one binary is missing", settings, strrchr(path, '/') + 1);
    runs_finish("one binary is missing");
    harness_ok(tfm__file_write(path, "", 0));
    runs_add_refused("one binary is empty", settings, "no binary for it");
    runs_finish("one binary is empty");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_devices),
        cmocka_unit_test(test_prebuilt),
    };
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
