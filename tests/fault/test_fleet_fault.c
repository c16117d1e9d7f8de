/* Faults under a fleet: whichever OpenCL call fails on one of several devices, a call of the library gives what one
 * device alone gives, in order, and so do the next ones; a device that is left out has a warning that names it; and
 * nothing is left behind. Only where the device fails before it is listed is there none of its name, which is a
 * sentence. When all devices fail, so does the call, with one sentence. TFM_FAULT_SAMPLE=N fails so many calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "fault/runs.h"
#include "support/harness.h"
#include "tfm/tfm.h"

/* What such a run is told: the list of devices; how many workers there are on each; that all of them may fail; where
 * the numbers are that one device gives; where it adds a letter for each device that was left out; and that it
 * makes texts alone, or translations alone. */
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
    size_t count; /* of texts so far */
    double score[LINES];
    float *vectors;
    size_t vector_numbers;
    int32_t tokens[PROMPTS][NEW];
    int token_counts[PROMPTS];
    int warnings, returns;       /* of devices that had no room, and are tried again */
    char warning[MEMBERS][2048]; /* the last one of each device */
} run;

static const tfm_text_options BATCHES = {.batch_tokens = 64};

/* A run that shows a fault of the library, and no failure that its caller may see. */
static int wrong(const char *what, const char *more) {
    fprintf(stderr, "tfm: %s: %s\n", what, more);
    return 2;
}

/* Whether TFM_FAULT_DEVICE means the device of this name; and whether a sentence tells of one that it means. */
static bool means(const char *failing, const char *name) {
    return failing[0] == '^' ? strncmp(name, failing + 1, strlen(failing + 1)) == 0 : strstr(name, failing) != NULL;
}

static bool told_of(const char *failing, const char *sentence) {
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

/* Each device that is left out must have a warning that names it and says why, and be one of those that are to fail;
 * there are no other warnings. Each is judged by its own last warning: a device without room is tried again two
 * calls later, while another one, whose failure was of another kind and may have been reported before, stays left
 * out. */
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
        if (m->dropped && failing && !told_of(failing, r->warning[i]))
            return "the warning does not name the device that is left out";
        dropped += m->dropped;
    }
    return dropped + r->returns == r->warnings ? NULL : "there are not as many warnings as devices that are left out";
}

/* What a run is wrong with, and what it was told of its devices. */
static int wrong_members(const run *r, const char *fault) {
    char told[MEMBERS * sizeof(r->warning[0])] = "";
    for (size_t i = 0; i < MEMBERS; i++)
        snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s%s", i > 0 ? " / " : "", r->warning[i]);
    return wrong(fault, told);
}

/* What is made of a call's failure: a sentence, where all devices may fail. */
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

/* Translates, and compares with what an earlier call has given. */
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

/* A token is told of once, and in order, whatever device it comes from. */
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

/* Goes on with prompts while tokens are told of: one device at a time works. */
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

/* The numbers are those of one device but for rounding. The first run, on one device alone, leaves them. */
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
        if (failing && !told_of(failing, sentence))
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

/* What a run with the argument "again" does. */
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

/* PoCL's two kinds of devices for CPUs, which are unlike: all cores, and one. */
static const char *const KINDS[] = {"pthread", "basic"};
/* What a driver may say of any call; the first stands for what it usually says of that one. */
static const int CODES[] = {0, CL_OUT_OF_RESOURCES, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_DEVICE_NOT_AVAILABLE,
                            CL_OUT_OF_HOST_MEMORY};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* What each kind is asked in a run on both, without a fault. */
static runs_report plain[COUNT(KINDS)];
static char numbers[4300], drops[4300];
static unsigned turns; /* faults so far */

/* Whether a platform has a device of this kind, and its name, of 255 bytes at most, if that is not NULL. */
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

/* The kernels of each kind, and what it gives alone. */
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
    if (harness_brief()) { /* what else there is would be compiled for either kind of device */
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
        printf("%s is asked %lu times\n", KINDS[i], plain[i].calls);
    }
    return 0;
}

/* Fails the call of this number on a kind of device, or on any if that is NULL, and of this function if there is a
 * name. `more` are further settings, or NULL. */
static void fail_call(const char *kind, unsigned long number, const char *name, const char *const *more) {
    char title[128], call[64], device[300], only[96], code[64];
    const char *settings[12] = {call, code, device, only};
    int count = 4;
    const int as = CODES[turns++ % COUNT(CODES)];
    snprintf(title, sizeof(title), "%s: %s %lu fails with %d", kind ? kind : "any", name ? name : "call", number, as);
    snprintf(call, sizeof(call), "TFM_FAULT_CALL=%lu", number);
    snprintf(code, sizeof(code), "TFM_FAULT_CODE=%d", as);
    snprintf(device, sizeof(device), "TFM_FAULT_DEVICE=%s", kind ? kind : "");
    snprintf(only, sizeof(only), "TFM_FAULT_NAME=%s", name ? name : "");
    for (; more && *more; more++)
        settings[count++] = *more;
    runs_add_again(title, settings, EITHER);
}

/* The call of a turn: in the first half ever farther ones, for a device is listed and opened in the first hundreds;
 * then evenly to the end. */
static unsigned long sampled(unsigned turn, unsigned sample, unsigned long calls) {
    const unsigned half = (sample + 1) / 2;
    if (turn < half)
        return (unsigned long)pow((double)calls, (double)(turn + 1) / (half + 1));
    return calls * (turn - half + 1) / (sample - half);
}

/* How many calls of a kind are to fail, of which run.sh and the sanitizers fail few. */
static unsigned sample_of(unsigned most, unsigned brief) {
    return runs_slow() || harness_brief() ? brief : most;
}

/* So many devices have been left out since the last time; at least one, or nothing was tried. */
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

/* A program that one device does not build. */
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

/* Two of three: the last one does all. */
static void test_last_of_three_devices_does_all_work(void **state) {
    (void)state;
    static const char *const THREE[] = {"POCL_DEVICES=pthread basic pthread", DEVICES "=pthread,basic,pthread",
                                        "TFM_FAULT_DEAD=1", NULL};
    const unsigned sample = sample_of(20, 2);
    for (unsigned turn = 0; turn < sample; turn++)
        fail_call(KINDS[turn % 2], 1000 + sampled(turn, sample, plain[0].calls / 2), NULL, THREE);
    finish("of three devices one is gone, or two");
}

/* All of them: the failure of the last one is the call's. */
static void test_loss_of_all_devices_is_the_calls_error(void **state) {
    (void)state;
    const unsigned sample = sample_of(20, 2);
    const unsigned long calls = plain[0].calls + plain[1].calls;
    for (unsigned turn = 0; turn < sample; turn++)
        fail_call(NULL, sampled(turn, sample, calls * 9 / 10), NULL,
                  (const char *const[]){"TFM_FAULT_DEAD=1", ALL_FAIL "=1", NULL});
    finish("all devices are gone from a call on");
}

/* Several contexts on one device, which share what they can. */
static void test_failing_call_of_one_worker_is_done_by_the_other(void **state) {
    (void)state;
    static const char *const TWO[] = {DEVICES "=pthread", WORKERS "=2", NULL};
    const unsigned sample = sample_of(40, 2);
    for (unsigned turn = 0; turn < sample; turn++)
        fail_call(NULL, 1000 + sampled(turn, sample, plain[0].calls), NULL, TWO);
    for (unsigned long launch = 40; launch <= 80; launch += 40) /* which a worker does not survive */
        fail_call(NULL, launch, "clEnqueueNDRangeKernel", TWO);
    finish("one call fails under two workers");
}

/* Another driver beside PoCL's two kinds: calls of it fail, or of PoCL, and the fleet goes on without that device.
 * `wish` names it in a list, and its device's name begins with `name`. */
static void fail_beside(const char *wish, const char *name, const char *what) {
    char lists[2][128], only[300], failing[256];
    static const char *const WAYS[] = {"X=" /* nothing more */, "TFM_FAULT_DEAD=1"};
    const bool brief = runs_slow() || harness_brief();
    const unsigned sample = runs_sample() ? (runs_sample() + 9) / 10 : 6;
    snprintf(lists[0], sizeof(lists[0]), DEVICES "=pthread,%s", wish);
    snprintf(lists[1], sizeof(lists[1]), DEVICES "=pthread,basic,%s", wish);
    snprintf(failing, sizeof(failing), "^%s", name);
    snprintf(only, sizeof(only), "TFM_FAULT_DEVICE=%s", failing);
    if (brief) { /* a run without a fault takes as long as one with it */
        fail_call(failing, 3, "clEnqueueNDRangeKernel", (const char *const[]){lists[0], TEXTS "=1", WAYS[1], NULL});
        finish(what);
        return;
    }
    for (int i = 0; i < 2; i++) {
        runs_add_again(what, (const char *const[]){lists[i], TEXTS "=1", only, NULL}, RUNS_RIGHT);
        runs_finish(what);
        runs_take_plain();
        const unsigned long calls = runs_plain()->calls;
        printf("%s is asked %lu times in %s\n", name, calls, lists[i]);
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

/* Mesa's llvmpipe, which is slow, and listed where it is asked for by name. */
static void test_llvmpipe_next_to_pocl_survives_faults(void **state) {
    (void)state;
    setenv("RUSTICL_ENABLE", "llvmpipe", 1);
    const bool there = listed("llvmpipe", "(rusticl)", NULL);
    if (there)
        fail_beside("llvmpipe", "llvmpipe", "llvmpipe beside PoCL");
    unsetenv("RUSTICL_ENABLE");
    if (!there) {
        print_message("skipped: no llvmpipe (Debian package mesa-opencl-icd)\n");
        skip();
    }
}

/* Intel's runtime for CPUs, whose device has the processor's name, which PoCL's have behind their own. */
static void test_intel_runtime_next_to_pocl_survives_faults(void **state) {
    (void)state;
    char processor[256] = "";
    if (!listed("cpu", "(Intel(R) OpenCL)", processor)) {
        print_message("skipped: no runtime of Intel's for CPUs (tests/platforms.sh unpacks one)\n");
        skip();
    }
    fail_beside("Intel(R) OpenCL", processor, "Intel's runtime beside PoCL");
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
