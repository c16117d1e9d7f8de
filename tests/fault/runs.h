/* Runs of `tfm translate` of one short sentence under the fault layer, or of a test's own program, two at a time, each
 * in a process of its own.
 *
 *     runs_setup(state);                                       // a warm cache, and the right answer
 *     runs_add("call 17", (const char *[]){"TFM_FAULT_CALL=17", NULL}, RUNS_RIGHT | RUNS_SENTENCE);
 *     runs_finish();                                           // waits; fails the test if any run was bad
 *
 * Every run is judged: it ends by itself before it counts as hanging, with the right translation and exit 0, or
 * with exit 1 and one sentence on standard error; no OpenCL object outlives it, and none is released twice. */
#ifndef TFM_TESTS_RUNS_H
#define TFM_TESTS_RUNS_H

#include <stdbool.h>

/* How a run may end. */
enum { RUNS_RIGHT = 1, RUNS_SENTENCE = 2 };

/* What the layer reported of one run. */
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

/* The first half of the setup, for a test whose runs are its own program's alone: a folder, and no run. */
int runs_begin(void **state);

/* Gives the runs from here on a copy of what other tests have had compiled, where it is brief and there is such a
 * folder (TFM_TEST_BINARIES); before any of them, or after runs_add_alone. */
void runs_copy_binaries(void);

/* The run that ended last, which was a good one, is what the later ones are judged by: they are to write what it wrote,
 * as long as one of them takes is how long that took, and runs_plain is what the layer reported of it. */
void runs_take_plain(void);

/* Of the run that the setup made, with a warm cache and no fault. */
const runs_report *runs_plain(void);

/* Whether a run takes long here, as on an emulator or under a sanitizer: then a test makes fewer. Not where the
 * environment's TFM_FAULT_SAMPLE says how many calls are to fail; runs_sample is that number, or 0. */
bool runs_slow(void);
unsigned runs_sample(void);

/* The folder of the test, and the cache folder in it that the setup has filled. */
const char *runs_folder(void);
const char *runs_cache(void);

/* Starts a run as soon as one of the two places is free. `settings` are NAME=value, ending in NULL: the
 * environment, over what all runs have. */
void runs_add(const char *title, const char *const *settings, int may_end);

/* The same, for a run that must end with a sentence that has `part` in it. */
void runs_add_refused(const char *title, const char *const *settings, const char *part);

/* A run of the test's own program with the argument "again" instead of `tfm`, for what only the library can
 * do; the second argument is how many tokens the translation may have. */
void runs_add_again(const char *title, const char *const *settings, int may_end);

/* A run without a fault that no other is beside: the next begins when it is over. */
void runs_add_alone(const char *title, const char *const *settings);

/* Waits for all; fails the test with the first bad runs, and prints how many ended in which way. */
void runs_finish(const char *what);

/* How often the runs from now on have the line to translate in their input; 1 at first. */
void runs_lines(int count);

/* The runs from now on translate one word, in three steps: on kernels for GPUs that are compiled without optimization
 * each takes long. runs_lines() ends it. */
void runs_short(void);

/* How PoCL is asked to compile so: a quarter of the time for what GPUs are given, and half for vectors. */
#define RUNS_HASTY "POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable"

/* The sentence of the run that ended last. */
const char *runs_sentence(void);

#endif
