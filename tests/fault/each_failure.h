/* Calls with failing host allocations: each allocation site fails at its first and at its last execution in a call,
 * alone or with all later allocations. The call must fail with TFM_ERROR_MEMORY and a sentence, or succeed; leak no
 * block; and work afterwards. Link with fault/failing.c and `failing_wraps` of meson.build. Allocations of jansson do
 * not fail: it would abort. */
#ifndef TFM_TESTS_EACH_FAILURE_H
#define TFM_TESTS_EACH_FAILURE_H

#include <errno.h>
#include <math.h>
#include <string.h>
#include "support/harness.h"
#include "fault/failing.h"
#include "support/scratch.h"
#include "tfm/tfm.h"

/* A call's result: a hash, and a sum of values that may differ by rounding, because without memory batches are split.
 */
typedef struct failure_result {
    uint64_t hash;
    double sum;
} failure_result;

/* A call, or several related ones: *sum depends on all their results. */
typedef tfm_status (*work_fn)(const void *what, failure_result *sum);

static inline void add(failure_result *sum, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        sum->hash = (sum->hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
}

static inline bool same(const failure_result *a, const failure_result *b) {
    return a->hash == b->hash && fabs(a->sum - b->sum) <= 1e-5 * (1 + fabs(b->sum));
}

static inline void add_text(failure_result *sum, const char *text) {
    add(sum, text, strlen(text) + 1);
}

/* One try with a failure; 1 if it is bad. */
static inline int try(const char *name, work_fn work, const void *what, size_t number, bool stays,
                      const failure_result *want, bool may_keep) {
    failure_result sum = {0};
    failing_begin(number, stays);
    const tfm_status status = work(what, &sum);
    const size_t left = failing_end();
    const char *sentence = tfm_error_message(), *fault = NULL;
    if (status == TFM_OK && !same(&sum, want))
        fault = "it gives another result";
    else if (status != TFM_OK && status != TFM_ERROR_MEMORY)
        fault = "it fails in another way";
    else if (status != TFM_OK && (!strstr(sentence, "memory") || strchr(sentence, '\n')))
        fault = "its message does not mention memory";
    else if (left > 0 && !may_keep)
        fault = "it leaks";
    tfm_context_clear_error(harness_context());
    if (fault)
        print_error("%s: allocation %zu%s fails: %s (%s, %zu blocks left): %s\n", name, number,
                    stays ? " and all later" : "", fault, tfm_status_name(status), left, status ? sentence : "");
    if (fault)
        failing_print();
    return fault != NULL;
}

/* `may_keep`: a context may cache blocks for the next call and frees them at its end. */
static inline void each_failure(const char *name, work_fn work, const void *what, bool may_keep) {
    failure_result want = {0}, again = {0};
    const size_t *numbers, most = harness_brief() ? 40 : SIZE_MAX;
    int bad = 0;
    harness_ok(work(what, &want)); /* also fills one-time caches */
    failing_record();
    const tfm_status status = work(what, &again);
    const size_t count = failing_places(&numbers), step = count > most ? (count + most - 1) / most : 1;
    harness_ok(status);
    assert_true(same(&again, &want));
    assert_true(count > 0);
    bad += try(name, work, what, 0, false, &want, may_keep);
    for (size_t i = 0; i < count && bad < 20; i += step)
        for (int stays = 0; stays < 2; stays++)
            if (!harness_brief() || (size_t)stays == i / step % 2)
                bad += try(name, work, what, numbers[i], stays, &want, may_keep);
    if (bad)
        fail_msg("%s: %d bad runs", name, bad);
    printf("%s: %zu allocations failed\n", name, (count + step - 1) / step);
}

static inline int failure_setup(void **state) {
    if (scratch_setup(state) != 0)
        return -1;
    tfm_log_set(NULL, NULL, TFM_LOG_ERROR); /* there would be many warnings */
    return harness_setup(state);
}

static inline int failure_teardown(void **state) {
    harness_teardown(state);
    return scratch_teardown(state);
}

#endif
