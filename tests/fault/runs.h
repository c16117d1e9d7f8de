/* Runs `tfm translate` on one short sentence under the fault layer, or a test's own program: two at a time, each in a
 * separate process.
 *
 *     runs_setup(state);                                       // a warm cache, and the right answer
 *     runs_add("call 17", (const char *[]){"TFM_FAULT_CALL=17", NULL}, RUNS_RIGHT | RUNS_SENTENCE);
 *     runs_finish();                                           // waits; fails the test if any run was bad
 *
 * A run is good if it exits before the timeout with the right translation and exit code 0, or with exit code 1 and one
 * sentence on standard error; if no OpenCL object leaks, and none is released twice. */
#ifndef TFM_TESTS_RUNS_H
#define TFM_TESTS_RUNS_H

#include <stdbool.h>

/* Accepted outcomes of a run. */
enum { RUNS_RIGHT = 1, RUNS_SENTENCE = 2 };

/* The layer's report of one run. */
typedef struct runs_report {
    unsigned long calls;
    struct {
        char name[64];
        unsigned long calls;
    } functions[128];
    int function_count;
} runs_report;

/* Group fixtures. */
int runs_setup(void **state);
int runs_teardown(void **state);

/* First half of the setup (only the folder, no run), for tests that only run their own program. */
int runs_begin(void **state);

/* Gives later runs a copy of the shared kernel cache (TFM_TEST_BINARIES) in brief runs, if it exists. Call it before
 * the first run, or after runs_add_alone. */
void runs_copy_binaries(void);

/* Makes the last finished run, a good one, the reference of later ones: its output, its duration and its report
 * (runs_plain). */
void runs_take_plain(void);

/* Report of the setup's fault-free run with a warm cache. */
const runs_report *runs_plain(void);

/* Whether runs are slow here (emulator, sanitizer), so that tests make fewer. False if TFM_FAULT_SAMPLE sets the number
 * of failing calls; runs_sample is that number, or 0. */
bool runs_slow(void);
unsigned runs_sample(void);

/* The folder of the test; its cache folder, filled by the setup. */
const char *runs_folder(void);
const char *runs_cache(void);

/* Starts a run as soon as a slot is free. `settings`: NAME=value strings, ending in NULL, added to the environment of
 * all runs. */
void runs_add(const char *title, const char *const *settings, int may_end);

/* The same, for a run that must fail with a sentence that contains `part`. */
void runs_add_refused(const char *title, const char *const *settings, const char *part);

/* Runs the test's own program with the argument "again" instead of `tfm`; the second argument is the maximum number of
 * tokens of the translation. */
void runs_add_again(const char *title, const char *const *settings, int may_end);

/* A fault-free run, with no other run at the same time. */
void runs_add_alone(const char *title, const char *const *settings);

/* Waits for all; fails the test with the first bad runs, and prints the outcomes. */
void runs_finish(const char *what);

/* How often the input of later runs repeats the line; 1 at first. */
void runs_lines(int count);

/* Later runs translate one word in three steps, because unoptimized GPU kernels are slow. runs_lines() ends it. */
void runs_short(void);

/* Makes PoCL compile without optimization: a quarter of the time for GPU kernels, half for CPU kernels. */
#define RUNS_HASTY "POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable"

/* The error sentence of the run that ended last. */
const char *runs_sentence(void);

#endif
