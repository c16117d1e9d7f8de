/* Fault injection in a fleet: whichever OpenCL call fails on one of several devices, the library call and the next ones
 * return the single-device results in order; a dropped device has a warning with its name; nothing leaks. If a device
 * fails before it is listed, the call fails with a sentence. If all devices fail, the call fails with one sentence.
 * TFM_FAULT_SAMPLE=N fails so many calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "fault/runs.h"
#include "support/harness.h"
#include "tfm/tfm.h"

/* Environment of such a run: the device list; workers per device; whether all may fail; the file with the single-device
 * scores and vectors; the file that gets a letter for each dropped device; only generation, or only translation. */
#define DEVICES "TFM_TEST_DEVICES"
#define WORKERS "TFM_TEST_WORKERS"
#define ALL_FAIL "TFM_TEST_ALL_FAIL"
#define NUMBERS "TFM_TEST_NUMBERS"
#define DROPS "TFM_TEST_DROPS"
#define TEXTS "TFM_TEST_TEXTS"
#define TRANSLATIONS "TFM_TEST_TRANSLATIONS"

#define EITHER (RUNS_RIGHT | RUNS_SENTENCE)
enum { LINES = 24, BYTES = 512, PROMPTS = 6, NEW = 8, MEMBERS = 4 /* at most */ };

/* ---- One run: four kinds of calls on a fleet -------------------------------------------------------------------- */

typedef struct run {
    tfm_fleet *fleet;
    tfm_model *model, *decoder;
    tfm_embedder *embedder;
    const char *lines[LINES];
    char words[LINES][BYTES], text[LINES][BYTES];
    size_t count; /* texts so far */
    double score[LINES];
    float *vectors;
    size_t vector_numbers;
    int32_t tokens[PROMPTS][NEW];
    int token_counts[PROMPTS];
    int warnings, returns;       /* devices that were out of memory and are retried */
    char warning[MEMBERS][2048]; /* last one of each device */
} run;

static const tfm_text_options BATCHES = {.batch_tokens = 64};

/* Reports a library bug, not a failure that the caller may see. */
static int wrong(const char *what, const char *more) {
    fprintf(stderr, "tfm: %s: %s\n", what, more);
    return 2;
}

/* Whether TFM_FAULT_DEVICE matches this device name; whether a sentence names such a device. */
static bool means(const char *failing, const char *name) {
    return failing[0] == '^' ? strncmp(name, failing + 1, strlen(failing + 1)) == 0 : strstr(name, failing) != NULL;
}

static bool names_device(const char *failing, const char *sentence) {
    return strstr(sentence, failing + (failing[0] == '^')) != NULL;
}

static void on_log(void *user, tfm_log_level level, const char *line) {
    run *r = user;
    size_t number;
    if (level <= TFM_LOG_WARNING) {
        r->warnings++;
        if (sscanf(line, "device %zu of the fleet", &number) == 1 && number >= 1 && number <= MEMBERS)
            snprintf(r->warning[number - 1], sizeof(r->warning[0]), "%s", line);
    }
    r->returns += strstr(line, "is tried again") != NULL;
}

/* Each dropped device must have a warning with its name and the reason, and must be one of the failing ones; no other
 * warnings. The last warning of each device counts: an out-of-memory device is retried two calls later, while another
 * one, which may have been reported before, stays dropped. */
static const char *judge_members(const run *r) {
    const char *failing = getenv("TFM_FAULT_DEVICE");
    int dropped = 0;
    for (size_t i = 0; i < tfm_fleet_count(r->fleet); i++) {
        const tfm_fleet_member *m = tfm_fleet_get_member(r->fleet, i);
        if (!m->dropped && m->reason[0])
            return "a device that is not left out has a reason for it";
        if (m->dropped && !m->reason[0])
            return "a device is left out without a reason";
        if (m->dropped && failing && m->context && !means(failing, tfm_context_device(m->context)->name))
            return "another device than the one that failed is left out";
        if (m->dropped && !strstr(r->warning[i], m->reason))
            return "a device is left out without a warning that says why";
        if (m->dropped && failing && !names_device(failing, r->warning[i]))
            return "the warning does not name the device that is left out";
        dropped += m->dropped;
    }
    return dropped + r->returns == r->warnings ? NULL : "there are not as many warnings as devices that are left out";
}

/* Prints the failed check and the warnings about devices. */
static int wrong_members(const run *r, const char *fault) {
    char all_warnings[MEMBERS * sizeof(r->warning[0])] = "";
    for (size_t i = 0; i < MEMBERS; i++)
        snprintf(all_warnings + strlen(all_warnings), sizeof(all_warnings) - strlen(all_warnings), "%s%s",
                 i > 0 ? " / " : "", r->warning[i]);
    return wrong(fault, all_warnings);
}

/* The exit code for a failed call: accepted if all devices may fail. */
static int refused(const char *what) {
    if (!getenv(ALL_FAIL))
        return wrong(what, tfm_error_message());
    fprintf(stderr, "tfm: %s\n", tfm_error_message());
    return 1;
}

static bool keep(void *user, const tfm_translation *t) {
    run *r = user;
    if (t->line != r->count) /* in order */
        return false;
    snprintf(r->text[r->count++], BYTES, "%s", t->text);
    return true;
}

/* Translates, and compares with the result of an earlier call. */
static int translate(run *r) {
    char before[LINES][BYTES];
    const size_t had = r->count;
    memcpy(before, r->text, sizeof(before));
    r->count = 0;
    if (tfm_translate_lines(r->model, r->lines, LINES, &BATCHES, &(tfm_search_options){.beam_size = 1}, keep, r) !=
        TFM_OK)
        return refused("a translation failed");
    if (r->count != LINES)
        return wrong("a translation", "there are lines without one");
    for (size_t i = 0; i < had; i++)
        if (strcmp(before[i], r->text[i]) != 0)
            return wrong("the next call gives another text", r->text[i]);
    return 0;
}

static bool keep_score(void *user, size_t line, double log_prob, size_t tokens) {
    (void)tokens;
    ((run *)user)->score[line] = log_prob;
    return true;
}

static int score(run *r) {
    if (tfm_score(r->model, r->lines, r->lines, LINES, &BATCHES, keep_score, r) != TFM_OK)
        return refused("scoring failed");
    return 0;
}

static int embed(run *r) {
    const tfm_embed_options options = {.batch_tokens = 64};
    if (tfm_fleet_open_embedder(&r->embedder, r->fleet, TFM_ROOT "/tests/golden/embedder", NULL) != TFM_OK)
        return refused("an embedder cannot be opened");
    r->vector_numbers = LINES * (size_t)tfm_embedder_get_info(r->embedder)->width;
    r->vectors = calloc(r->vector_numbers, sizeof(*r->vectors));
    if (tfm_embed(r->embedder, r->vectors, r->lines, LINES, &options) != TFM_OK)
        return refused("embedding failed");
    return 0;
}

/* Each token is reported once and in order, from any device. */
static bool keep_token(void *user, size_t prompt, int best, int32_t id) {
    run *r = user;
    (void)best;
    if (r->token_counts[prompt] < NEW)
        r->tokens[prompt][r->token_counts[prompt]] = id;
    r->token_counts[prompt]++;
    return true;
}

static bool keep_generation(void *user, const tfm_generation *g) {
    const run *r = user;
    return (int)g->tokens.count == r->token_counts[g->prompt] &&
           memcmp(g->tokens.ids, r->tokens[g->prompt], g->tokens.count * sizeof(*g->tokens.ids)) == 0;
}

/* Generates with a token callback: one device at a time works. */
static int generate(run *r) {
    static const int32_t IDS[] = {11, 12, 13, 14, 15, 16, 17, 18};
    const tfm_generate_options options = {
        .max_new_tokens = NEW, .min_new_tokens = NEW, .batch_tokens = 24, .on_token = keep_token, .on_token_user = r};
    tfm_prompt prompts[PROMPTS];
    for (size_t i = 0; i < PROMPTS; i++)
        prompts[i] = (tfm_prompt){.ids = IDS + i, .count = 2 + i % 2};
    if (tfm_fleet_open_model(&r->decoder, r->fleet, TFM_ROOT "/tests/golden/families/gpt2-inner-untied-bf16",
                             &(tfm_model_options){.no_tokenizer = true}) != TFM_OK)
        return refused("a decoder cannot be opened");
    if (tfm_generate(r->decoder, prompts, PROMPTS, &options, keep_generation, r) != TFM_OK)
        return refused("generation failed");
    return 0;
}

/* Numbers equal the single-device ones within rounding. The first run, on one device, writes them. */
static int compare(const run *r) {
    FILE *file = fopen(getenv(NUMBERS), "r");
    const bool first = file == NULL;
    int code = 0;
    if (first)
        file = fopen(getenv(NUMBERS), "w");
    for (size_t i = 0; i < LINES + r->vector_numbers && code == 0; i++) {
        const double number = i < LINES ? r->score[i] : (double)r->vectors[i - LINES];
        double other;
        if (first)
            fprintf(file, "%.9g\n", number);
        else if (fscanf(file, "%lf", &other) != 1 || !(fabs(number - other) < 1e-4 * (1 + fabs(other))))
            code = wrong("a number", i < LINES ? "a score is another" : "a vector is another");
    }
    fclose(file);
    return code;
}

static int call_all(run *r) {
    const char *workers = getenv(WORKERS);
    if (tfm_fleet_open(&r->fleet, &(tfm_fleet_options){.devices = getenv(DEVICES),
                                                       .workers = workers ? atoi(workers) : 1}) != TFM_OK) {
        const char *failing = getenv("TFM_FAULT_DEVICE"), *sentence = tfm_error_message();
        if (failing && !names_device(failing, sentence))
            return wrong("the sentence does not name the device", sentence);
        fprintf(stderr, "tfm: %s\n", sentence);
        return 1;
    }
    if (tfm_fleet_open_model(&r->model, r->fleet, TFM_ROOT "/apps/demo", NULL) != TFM_OK)
        return refused("a model cannot be opened");
    static int (*const CALLS[])(run *) = {translate, score, embed, generate, translate};
    for (size_t i = 0; i < sizeof(CALLS) / sizeof(*CALLS); i++) {
        if (CALLS[i] != translate && (getenv(TRANSLATIONS) || (getenv(TEXTS) && CALLS[i] != generate)))
            continue;
        const int code = CALLS[i](r);
        const char *fault = judge_members(r);
        if (fault)
            return wrong_members(r, fault);
        if (code != 0)
            return code;
    }
    return getenv(TEXTS) ? 0 : compare(r);
}

/* Argument "again". */
static int again(void) {
    run *r = calloc(1, sizeof(*r));
    FILE *file = fopen(TFM_ROOT "/apps/demo/test.de", "r"), *drops = NULL;
    for (int i = 0; i < LINES; i++) {
        if (i % 20 == 0)
            rewind(file);
        if (!fgets(r->words[i], BYTES, file))
            return wrong("test.de", "it has fewer than 20 lines");
        r->words[i][strcspn(r->words[i], "\n")] = 0;
        r->lines[i] = r->words[i];
    }
    fclose(file);
    tfm_log_set(on_log, r, TFM_LOG_INFO);
    const int code = call_all(r);
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    for (int i = 0; i < LINES && code == 0; i++)
        puts(r->text[i]);
    for (int i = 0; i < PROMPTS && r->decoder && code == 0; i++)
        for (int k = 0; k < NEW; k++)
            printf("%d%c", (int)r->tokens[i][k], k + 1 < NEW ? ' ' : '\n');
    if (getenv(DROPS) && (drops = fopen(getenv(DROPS), "a"))) {
        fprintf(drops, "%.*s", r->warnings, "xxxxxxxx");
        fclose(drops);
    }
    tfm_embedder_free(&r->embedder);
    tfm_model_free(&r->decoder);
    tfm_model_free(&r->model);
    tfm_fleet_free(&r->fleet);
    free(r->vectors);
    free(r);
    return code;
}

/* ---- Many runs --------------------------------------------------------------------------------------------------- */

/* PoCL's two unlike kinds of CPU devices: all cores, and one. */
static const char *const KINDS[] = {"pthread", "basic"};
/* Error codes of any call; the first stands for the call's usual one. */
static const int CODES[] = {0, CL_OUT_OF_RESOURCES, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_DEVICE_NOT_AVAILABLE,
                            CL_OUT_OF_HOST_MEMORY};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Fault-free report of each kind in a run on both. */
static runs_report plain[COUNT(KINDS)];
static char numbers[4300], drops[4300];
static unsigned fault_count; /* faults so far */

/* Whether a platform has a device of this kind; its name (at most 255 bytes) if `name` is not NULL. */
static bool listed(const char *kind, const char *platform, char *name) {
    char line[1024];
    bool there = false;
    FILE *list = popen("'" TFM_PROGRAM "' devices 2>/dev/null", "r");
    while (list && fgets(line, sizeof(line), list)) {
        const char *of = strstr(line, platform), *from = strstr(line, "GiB  ");
        if (there || !of || !strstr(line, kind))
            continue;
        there = true;
        if (name)
            snprintf(name, 256, "%.*s", from && from + 6 < of ? (int)(of - from - 6) : 0, from ? from + 5 : "");
    }
    if (list)
        pclose(list);
    return there;
}

/* Compiles the kernels of each kind, and records its single-device results. */
static void run_alone(void) {
    for (size_t i = 0; i < COUNT(KINDS); i++) {
        char devices[64], own[4400];
        snprintf(devices, sizeof(devices), DEVICES "=%s", KINDS[i]);
        snprintf(own, sizeof(own), NUMBERS "=%s/%s", runs_folder(), KINDS[i]);
        runs_add_again("one device", (const char *const[]){devices, own, NULL}, RUNS_RIGHT);
    }
    runs_finish("one device alone");
    runs_take_plain();
}

static int setup(void **state) {
    if (runs_begin(state) != 0)
        return -1;
    snprintf(numbers, sizeof(numbers), "%s/%s", runs_folder(), KINDS[0]);
    snprintf(drops, sizeof(drops), "%s/drops", runs_folder());
    setenv(DROPS, drops, 1);
    if (harness_brief()) { /* other drivers would compile for either kind of device */
        setenv(TEXTS, "1", 1);
        setenv(TRANSLATIONS, "1", 1);
    }
    runs_copy_binaries();
    run_alone();
    setenv(NUMBERS, numbers, 1);
    setenv(DEVICES, "pthread,basic", 1);
    for (size_t i = 0; i < COUNT(KINDS); i++) {
        char only[64];
        snprintf(only, sizeof(only), "TFM_FAULT_DEVICE=%s", KINDS[i]);
        runs_add_again("no fault", (const char *const[]){only, NULL}, RUNS_RIGHT);
        runs_finish("two devices");
        runs_take_plain();
        plain[i] = *runs_plain();
        printf("%s gets %lu calls\n", KINDS[i], plain[i].calls);
    }
    return 0;
}

/* Fails call `number` on a kind of device (NULL: any), of function `name` unless NULL. `more`: further settings, or
 * NULL. */
static void fail_call(const char *kind, unsigned long number, const char *name, const char *const *more) {
    char title[128], call[64], device[300], only[96], code[64];
    const char *settings[12] = {call, code, device, only};
    int count = 4;
    const int as = CODES[fault_count++ % COUNT(CODES)];
    snprintf(title, sizeof(title), "%s: %s %lu fails with %d", kind ? kind : "any", name ? name : "call", number, as);
    snprintf(call, sizeof(call), "TFM_FAULT_CALL=%lu", number);
    snprintf(code, sizeof(code), "TFM_FAULT_CODE=%d", as);
    snprintf(device, sizeof(device), "TFM_FAULT_DEVICE=%s", kind ? kind : "");
    snprintf(only, sizeof(only), "TFM_FAULT_NAME=%s", name ? name : "");
    for (; more && *more; more++)
        settings[count++] = *more;
    runs_add_again(title, settings, EITHER);
}

/* The call number of sample i: the first half in growing steps, because listing and opening take the first hundreds of
 * calls; then evenly to the end. */
static unsigned long sampled(unsigned turn, unsigned sample, unsigned long calls) {
    const unsigned half = (sample + 1) / 2;
    if (turn < half)
        return (unsigned long)pow((double)calls, (double)(turn + 1) / (half + 1));
    return calls * (turn - half + 1) / (sample - half);
}

/* Number of calls to fail for each kind; few in brief runs and under sanitizers. */
static unsigned sample_of(unsigned most, unsigned brief) {
    return runs_slow() || harness_brief() ? brief : most;
}

/* Number of dropped devices since the last call; at least one, or nothing was tested. */
static void finish(const char *what) {
    long count = 0;
    runs_finish(what);
    FILE *file = fopen(drops, "r");
    while (file && fgetc(file) != EOF)
        count++;
    if (file)
        fclose(file);
    remove(drops);
    printf("%s: %ld devices were left out\n", what, count);
    assert_true(count > 0);
}

static void test_any_failing_call_on_one_device_is_done_by_the_other(void **state) {
    (void)state;
    const unsigned sample = runs_sample() ? (runs_sample() + 1) / 2 : sample_of(60, 4);
    for (unsigned turn = 0; turn < sample; turn++)
        for (size_t i = 0; i < COUNT(KINDS); i++)
            fail_call(KINDS[i], sampled(turn, sample, plain[i].calls), NULL, NULL);
    finish("one call fails on one device");
}

/* Most calls set a kernel's arguments: so a middle one of each function too, and the last. */
static void test_failing_function_on_one_device_is_done_by_the_other(void **state) {
    (void)state;
    const int step = runs_sample() == 0 && (runs_slow() || harness_brief()) ? 8 : 1;
    for (size_t i = 0; i < COUNT(KINDS); i++) {
        for (int f = (int)i; f < plain[i].function_count; f += step) {
            const unsigned long calls = plain[i].functions[f].calls;
            fail_call(KINDS[i], (calls + 1) / 2, plain[i].functions[f].name, NULL);
            if (step == 1 && calls > 1)
                fail_call(KINDS[i], calls, plain[i].functions[f].name, NULL);
        }
    }
    finish("one call of a function fails on one device");
}

/* One device cannot build a program. */
static void test_failing_build_on_one_device_is_done_by_the_other(void **state) {
    (void)state;
    static const char *const NAMES[] = {"clBuildProgram", "clCreateProgramWithSource"};
    const unsigned long last = runs_slow() || harness_brief() ? 7 : 31;
    for (unsigned long number = 7; number <= last; number += 8)
        for (size_t i = 0; i < COUNT(KINDS); i++)
            fail_call(KINDS[i], number, NAMES[(number / 8 + i) % 2], (const char *const[]){"TFM_CACHE_DIR=off", NULL});
    finish("one device does not build a program");
}

static void test_lost_device_is_replaced_by_the_other(void **state) {
    (void)state;
    const unsigned sample = sample_of(20, 2);
    for (unsigned turn = 0; turn < sample; turn++)
        for (size_t i = 0; i < COUNT(KINDS); i++)
            fail_call(KINDS[i], sampled(turn, sample, plain[i].calls * 9 / 10), NULL,
                      (const char *const[]){"TFM_FAULT_DEAD=1", NULL});
    finish("one device is gone from a call on");
}

/* Two of three devices fail: the last one does all the work. */
static void test_last_of_three_devices_does_all_work(void **state) {
    (void)state;
    static const char *const THREE[] = {"POCL_DEVICES=pthread basic pthread", DEVICES "=pthread,basic,pthread",
                                        "TFM_FAULT_DEAD=1", NULL};
    const unsigned sample = sample_of(20, 2);
    for (unsigned turn = 0; turn < sample; turn++)
        fail_call(KINDS[turn % 2], 1000 + sampled(turn, sample, plain[0].calls / 2), NULL, THREE);
    finish("of three devices one is gone, or two");
}

/* All devices fail: the call reports the last failure. */
static void test_loss_of_all_devices_is_the_calls_error(void **state) {
    (void)state;
    const unsigned sample = sample_of(20, 2);
    const unsigned long calls = plain[0].calls + plain[1].calls;
    for (unsigned turn = 0; turn < sample; turn++)
        fail_call(NULL, sampled(turn, sample, calls * 9 / 10), NULL,
                  (const char *const[]){"TFM_FAULT_DEAD=1", ALL_FAIL "=1", NULL});
    finish("all devices are gone from a call on");
}

/* Several contexts on one device, with shared resources. */
static void test_failing_call_of_one_worker_is_done_by_the_other(void **state) {
    (void)state;
    static const char *const TWO[] = {DEVICES "=pthread", WORKERS "=2", NULL};
    const unsigned sample = sample_of(40, 2);
    for (unsigned turn = 0; turn < sample; turn++)
        fail_call(NULL, 1000 + sampled(turn, sample, plain[0].calls), NULL, TWO);
    for (unsigned long launch = 40; launch <= 80; launch += 40) /* a worker does not survive this */
        fail_call(NULL, launch, "clEnqueueNDRangeKernel", TWO);
    finish("one call fails under two workers");
}

/* Another driver next to PoCL's two kinds: its calls or PoCL's fail, and the fleet continues without that device.
 * `selector` names it in a list, and its device name begins with `name`. */
static void fail_next_to(const char *selector, const char *name, const char *what) {
    char lists[2][128], only[300], failing[256];
    static const char *const WAYS[] = {"X=" /* no further setting */, "TFM_FAULT_DEAD=1"};
    const bool brief = runs_slow() || harness_brief();
    const unsigned sample = runs_sample() ? (runs_sample() + 9) / 10 : 6;
    snprintf(lists[0], sizeof(lists[0]), DEVICES "=pthread,%s", selector);
    snprintf(lists[1], sizeof(lists[1]), DEVICES "=pthread,basic,%s", selector);
    snprintf(failing, sizeof(failing), "^%s", name);
    snprintf(only, sizeof(only), "TFM_FAULT_DEVICE=%s", failing);
    if (brief) { /* a fault-free run takes as long */
        fail_call(failing, 3, "clEnqueueNDRangeKernel", (const char *const[]){lists[0], TEXTS "=1", WAYS[1], NULL});
        finish(what);
        return;
    }
    for (int i = 0; i < 2; i++) {
        runs_add_again(what, (const char *const[]){lists[i], TEXTS "=1", only, NULL}, RUNS_RIGHT);
        runs_finish(what);
        runs_take_plain();
        const unsigned long calls = runs_plain()->calls;
        printf("%s gets %lu calls in %s\n", name, calls, lists[i]);
        for (unsigned turn = 0; turn < 2 * sample; turn++) {
            const char *const more[] = {lists[i], TEXTS "=1", WAYS[turn / 2 % 2], NULL};
            if (turn % 2 == 0)
                fail_call(failing, sampled(turn / 2, sample, calls), NULL, more);
            else
                fail_call(KINDS[0], sampled(turn / 2, sample, plain[0].calls / 2), NULL, more);
        }
        finish(what);
    }
}

/* Mesa's llvmpipe is slow, and only listed if selected by name. */
static void test_llvmpipe_next_to_pocl_survives_faults(void **state) {
    (void)state;
    setenv("RUSTICL_ENABLE", "llvmpipe", 1);
    const bool there = listed("llvmpipe", "(rusticl)", NULL);
    if (there)
        fail_next_to("llvmpipe", "llvmpipe", "llvmpipe next to PoCL");
    unsetenv("RUSTICL_ENABLE");
    if (!there) {
        print_message("skipped: no llvmpipe (Debian package mesa-opencl-icd)\n");
        skip();
    }
}

/* Intel's CPU runtime: its device has the processor's name; PoCL's devices have it after their own prefix. */
static void test_intel_runtime_next_to_pocl_survives_faults(void **state) {
    (void)state;
    char processor[256] = "";
    if (!listed("cpu", "(Intel(R) OpenCL)", processor)) {
        print_message("skipped: no runtime of Intel's for CPUs (tests/platforms.sh unpacks one)\n");
        skip();
    }
    fail_next_to("Intel(R) OpenCL", processor, "Intel's runtime next to PoCL");
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "again") == 0)
        return again();
    if (count > 1)
        cmocka_set_test_filter(arguments[1]); /* test_intel_runtime_next_to_pocl_survives_faults, or test_t* */
    setenv("POCL_DEVICES", "pthread basic", 1);
    unsetenv("TFM_DEVICE");
    if (!listed(KINDS[0], "(Portable Computing Language)", NULL) ||
        !listed(KINDS[1], "(Portable Computing Language)", NULL)) {
        printf("ok 1 - a fleet # SKIP PoCL does not list its devices for all cores and for one here\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_failing_call_on_one_device_is_done_by_the_other),
        cmocka_unit_test(test_failing_function_on_one_device_is_done_by_the_other),
        cmocka_unit_test(test_failing_build_on_one_device_is_done_by_the_other),
        cmocka_unit_test(test_lost_device_is_replaced_by_the_other),
        cmocka_unit_test(test_last_of_three_devices_does_all_work),
        cmocka_unit_test(test_loss_of_all_devices_is_the_calls_error),
        cmocka_unit_test(test_failing_call_of_one_worker_is_done_by_the_other),
        cmocka_unit_test(test_intel_runtime_next_to_pocl_survives_faults),
        cmocka_unit_test(test_llvmpipe_next_to_pocl_survives_faults),
    };
    return cmocka_run_group_tests(tests, setup, runs_teardown);
}
