/* Devices with reduced limits: each gives the same translation, or one sentence names the missing feature. The fault
 * layer reduces the limits of the available device. */
#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "dev/cache/cache.h"
#include "fault/runs.h"
#include "support/harness.h"
#include "tfm/tfm.h"

static void small(const char *lie, const char *refusal) {
    char setting[128];
    snprintf(setting, sizeof(setting), "TFM_FAULT_LIE=%s", lie);
    const char *const settings[] = {setting, "TFM_CACHE_DIR=off", NULL};
    if (refusal)
        runs_add_refused(lie, settings, refusal);
    else
        runs_add(lie, settings, RUNS_RIGHT);
}

static void test_small_devices_translate_or_name_what_is_missing(void **state) {
    (void)state;
    small("arg_info=0", NULL);
    small("max_alloc=6291456", NULL); /* the demo's embeddings, and little more */
    small("max_alloc=1048576", "takes at most 1048576 bytes in one allocation");
    small("little=0", "its byte order is different from the host's");
    small("c_version=11", "its compiler takes OpenCL C 1.1 at most");
    small("embedded=1", "without 64-bit integers (cles_khr_int64), which tfm needs");
    small("embedded=2,fp_config=4", "without infinity and NaN (CL_FP_INF_NAN), which tfm needs");
    small("embedded=2,local=8192", "512 bytes of arguments and 16 KiB of local memory");
    small("embedded=2", NULL);
    runs_finish("a device that can do less");
}

/* Each compiles its kernels once; storing them would double the time. */
static void test_narrow_devices_give_the_same_translation(void **state) {
    (void)state;
    static const struct {
        const char *lie;
        bool brief; /* also in brief runs */
    } DEVICES[] = {{"TFM_FAULT_LIE=width=1", false},
                   {"TFM_FAULT_LIE=width=4", false},
                   {"TFM_FAULT_LIE=width=8,type=8", true},
                   {"TFM_FAULT_LIE=max_group=1", false},
                   {"TFM_FAULT_LIE=width=1,max_group=1,local=32768", true},
                   {"TFM_FAULT_LIE=width=1,max_group=16", false},
                   {"TFM_FAULT_LIE=width=1,local=32768", false},
                   {"TFM_FAULT_LIE=width=1,max_items=8", false},
                   {"TFM_FAULT_LIE=type=8", false}};
    if (runs_slow())
        skip();
    if (harness_brief())
        runs_short();
    for (size_t i = 0; i < sizeof(DEVICES) / sizeof(*DEVICES); i++)
        if (DEVICES[i].brief || !harness_brief())
            runs_add(
                DEVICES[i].lie,
                (const char *const[]){DEVICES[i].lie, "TFM_CACHE_DIR=off", harness_brief() ? RUNS_HASTY : NULL, NULL},
                RUNS_RIGHT);
    runs_finish("a device that runs other kernels");
    runs_lines(1);
}

/* ---- Many lines -------------------------------------------------------------------------------------- */

enum { LINES = 160, TEXT = 512 }; /* as one batch, its feed-forward activations exceed 4 MiB */

typedef struct translation {
    char text[LINES][TEXT];
    size_t count;
} translation;

static bool keep(void *user, size_t line, int best, const char *text, double score) {
    translation *t = user;
    (void)best, (void)score;
    snprintf(t->text[line], TEXT, "%s", text);
    t->count++;
    return true;
}

static bool keep_translation(void *user, const tfm_translation *t) {
    return keep(user, t->line, t->rank, t->text, t->score);
}

static void count_splits(void *user, tfm_log_level level, const char *line) {
    (void)level;
    *(int *)user += strstr(line, "does not fit and is split") != NULL;
}

/* The demo's lines repeatedly, with a number in front so that no two are equal. */
static void many_lines(char lines[LINES][TEXT]) {
    FILE *file = fopen(TFM_ROOT "/apps/demo/test.de", "r");
    char line[TEXT - 24];
    for (size_t i = 0; file && i < LINES; i++) {
        if (!fgets(line, sizeof(line), file)) {
            rewind(file);
            if (!fgets(line, sizeof(line), file))
                break;
        }
        line[strcspn(line, "\n")] = 0;
        snprintf(lines[i], TEXT, "%zu %s", i, line);
    }
    if (file)
        fclose(file);
}

/* Argument "again" on a device with a small allocation limit: a default batch of many lines must be split, and must
 * give the text of small batches. */
static int again(void) {
    static char lines[LINES][TEXT];
    static translation whole, small_batches, first;
    const char *pointers[LINES];
    int splits = 0, splits_small = 0;
    tfm_context *ctx = NULL;
    tfm_model *model = NULL;
    many_lines(lines);
    for (size_t i = 0; i < LINES; i++)
        pointers[i] = lines[i];
    tfm_status status = tfm_context_open(&ctx, NULL);
    if (status == TFM_OK)
        status = tfm_model_open(&model, ctx, TFM_ROOT "/apps/demo", NULL);
    const tfm_search_options greedy = {.beam_size = 1}, beam = {.beam_size = 4};
    const tfm_text_options few = {.batch_tokens = 512};
    tfm_log_set(count_splits, &splits, TFM_LOG_INFO);
    if (status == TFM_OK)
        status = tfm_translate(model, pointers, LINES, &greedy, keep, &whole);
    tfm_log_set(count_splits, &splits_small, TFM_LOG_INFO);
    if (status == TFM_OK)
        status = tfm_translate_lines(model, pointers, LINES, &few, &greedy, keep_translation, &small_batches);
    char *original = strchr(lines[0], ' ') + 1; /* the line of the expected translation */
    if (status == TFM_OK)
        status = tfm_translate(model, (const char *[]){original}, 1, &beam, keep, &first);
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    if (status != TFM_OK)
        fprintf(stderr, "tfm: %s\n", tfm_error_message());
    if (splits == 0 || splits_small > 0)
        fprintf(stderr, "tfm: %d batches were split, and %d of the small ones\n", splits, splits_small);
    for (size_t i = 0; i < LINES; i++)
        if (strcmp(whole.text[i], small_batches.text[i]) != 0)
            fprintf(stderr, "tfm: line %zu is \"%s\", in a small batch \"%s\"\n", i + 1, whole.text[i],
                    small_batches.text[i]);
    if (whole.count == LINES && small_batches.count == LINES)
        puts(first.text[0]);
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return status == TFM_OK ? 0 : 1;
}

static void test_batch_beyond_max_allocation_is_split(void **state) {
    (void)state;
    runs_add_again("many lines", (const char *const[]){"TFM_FAULT_LIE=max_alloc=6291456", "TFM_CACHE_DIR=off", NULL},
                   RUNS_RIGHT);
    runs_finish("a batch that does not fit");
}

/* ---- No compiler ------------------------------------------------------------------------------------- */

static char exported[4200];

/* Runs `tfm ARGUMENTS` in the shell, without faults. */
static void tfm(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tfm(const char *format, ...) {
    char arguments[16384], line[20480];
    va_list args;
    va_start(args, format);
    vsnprintf(arguments, sizeof(arguments), format, args);
    va_end(args);
    snprintf(line, sizeof(line), "TFM_CACHE_DIR='%s' '%s' %s 2>'%s/err'", runs_cache(), TFM_PROGRAM, arguments,
             runs_folder());
    assert_int_equal(system(line), 0);
}

/* Extracts the binary of one disk cache entry, as from an offline compiler: for "program softmax OPTIONS\ntext
 * HASH\n..." softmax-HASH2.bin next to softmax-HASH2.cl. */
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
        snprintf(path, sizeof(path), "%s/%s-%016" PRIx64 ".bin", exported, key + 8,
                 tfm__hash64(options, strlen(options), text));
        harness_ok(tfm__file_write(path, bytes + 32 + key_bytes, size - 32 - key_bytes));
    }
    free(key);
    free(bytes);
    return program;
}

/* Removes the first program from the manifest; returns its name. */
static void forget_one(char *out, size_t size) {
    char path[4300];
    snprintf(path, sizeof(path), "%s/manifest.json", exported);
    json_t *manifest = json_load_file(path, 0, NULL), *programs = json_object_get(manifest, "programs");
    const char *name = json_string_value(json_object_get(json_array_get(programs, 0), "name"));
    assert_non_null(name);
    snprintf(out, size, "%s", name);
    assert_int_equal(json_array_remove(programs, 0), 0);
    assert_int_equal(json_dump_file(manifest, path, 0), 0);
    json_decref(manifest);
}

static void test_kernel_pack_runs_without_compiler(void **state) {
    (void)state;
    char path[4500], setting[4500], name[128] = "", *pack;
    size_t size;
    int count = 0;
    snprintf(exported, sizeof(exported), "%s/exported", runs_folder());
    snprintf(setting, sizeof(setting), "TFM_KERNELS=%s/kernels.pack", runs_folder());
    const char *const bare[] = {"TFM_FAULT_LIE=compiler=0", NULL};
    const char *const settings[] = {"TFM_FAULT_LIE=compiler=0", setting, NULL};
    const char *const forced[] = {"TFM_FAULT_LIE=compiler=0", setting, "TFM_GEMM=clblast", NULL};
    runs_add_refused("no compiler and no pack", bare, "has no compiler: set TFM_KERNELS to a pack of its kernels");
    runs_add_refused("no compiler, and a pack that is not there", settings, "kernels.pack");
    runs_finish("no compiler");
    tfm("kernels --export '%s' -- translate -m '%s/apps/demo' --beam-size 4 -i '%s/in' -o '%s/translated'", exported,
        TFM_ROOT, runs_folder(), runs_folder());
    DIR *listing = opendir(runs_cache());
    assert_non_null(listing);
    for (struct dirent *next; (next = readdir(listing));) {
        snprintf(path, sizeof(path), "%s/%s", runs_cache(), next->d_name);
        const char *suffix = strrchr(next->d_name, '.');
        if (suffix && strcmp(suffix, ".tfm") == 0) /* no tuning database */
            count += provide(path);
    }
    closedir(listing);
    assert_true(count > 3);
    tfm("kernels --pack '%s' -o '%s'", exported, strchr(setting, '=') + 1);
    runs_add("no compiler, but a pack", settings, RUNS_RIGHT);
    runs_add("no compiler, a pack, and TFM_GEMM=clblast", forced, RUNS_RIGHT);
    runs_finish("a pack");
    harness_ok(tfm__file_read(&pack, &size, strchr(setting, '=') + 1));
    pack[64] ^= 1;
    harness_ok(tfm__file_write(strchr(setting, '=') + 1, pack, size));
    free(pack);
    runs_add_refused("the pack is damaged", settings, "is not a complete kernel pack: its list is damaged");
    runs_finish("a damaged pack");
    forget_one(name, sizeof(name));
    tfm("kernels --pack '%s' -o '%s'", exported, strchr(setting, '=') + 1);
    runs_add_refused("one program is missing", settings, name);
    runs_finish("one program is missing");
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "again") == 0)
        return again();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_devices_translate_or_name_what_is_missing),
        cmocka_unit_test(test_narrow_devices_give_the_same_translation),
        cmocka_unit_test(test_batch_beyond_max_allocation_is_split),
        cmocka_unit_test(test_kernel_pack_runs_without_compiler),
    };
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
