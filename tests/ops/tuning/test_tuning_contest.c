/* The two comparisons of `tfm tune`: the winner among all candidates must beat the heuristic again, and is reported by
 * that second time. */
#include <string.h>
#include <time.h>
#include "support/harness.h"
#include "ops/tuning/tune.h"

/* Candidates with fixed run times in the first and second comparison. In the first a run takes no less than a slot, so
 * a slot is a run. Sleep may take longer than requested, so mostly lower bounds are checked. */
enum { WAYS = 3 };
typedef struct ways {
    double first[WAYS], second[WAYS]; /* milliseconds */
    int fails;                        /* this candidate fails in the second; 0: none */
    double once;                      /* time of the heuristic's first run in the second, if not 0 */
    const tfm__tuner *contest;
    int now, runs[WAYS]; /* in the second */
} ways;

static tfm_status choose(void *self, const char *setting) {
    ways *w = self;
    w->now = setting[0] ? setting[0] - '0' : 0;
    return TFM_OK;
}

static tfm_status take_turn(void *self) {
    ways *w = self;
    bool second = false;
    for (size_t i = 1; i < w->contest->count; i++)
        second = second || w->contest->candidates[i].excluded;
    w->runs[w->now] += second;
    const double all = second ? w->second[w->now] : w->first[w->now];
    const double milliseconds = second && w->now == 0 && w->runs[0] == 1 && w->once > 0 ? w->once : all;
    if (second && w->fails && w->fails == w->now)
        return tfm__context_fail(harness_context(), TFM_ERROR_DEVICE, "a test");
    nanosleep(&(struct timespec){.tv_nsec = (long)(milliseconds * 1e6)}, NULL);
    return TFM_OK;
}

static bool agree(void *self, const tfm__candidate *candidate) {
    (void)self, (void)candidate;
    return true;
}

static size_t hold(ways *w, tfm__tuner *c, tfm_tune_record *r) {
    size_t winner;
    *r = (tfm_tune_record){0};
    w->contest = c;
    *c = (tfm__tuner){.ctx = harness_context(),
                      .self = w,
                      .apply = choose,
                      .run = take_turn,
                      .validate = agree,
                      .min_speedup = TFM__TUNE_MIN_SPEEDUP};
    tfm__tuner_add(c, "%s", "");
    tfm__tuner_add(c, "1");
    tfm__tuner_add(c, "2");
    harness_ok(tfm__tuner_run(c, r, &winner));
    assert_int_equal(w->now, (int)winner); /* it is in force */
    return winner;
}

/* The heuristic was timed while the machine was busy. */
static void test_noise_in_the_first_round_does_not_win(void **state) {
    (void)state;
    ways w = {.first = {40, 12, 60}, .second = {2, 30, 60}};
    tfm__tuner c;
    tfm_tune_record r;
    assert_int_equal(hold(&w, &c, &r), 0);
    assert_true(r.baseline_seconds < 0.03 && r.best_seconds == r.baseline_seconds);
    assert_int_equal(c.runner_up, 1);
    assert_true(r.runner_up_seconds >= 0.03);
    assert_int_equal(r.candidates, 3);
    assert_int_equal(r.rejected, 0);
}

/* The faster one wins both, and is reported by its time in the second. */
static void test_faster_candidate_wins_both_rounds(void **state) {
    (void)state;
    ways w = {.first = {40, 12, 14}, .second = {200, 50, 50}};
    tfm__tuner c;
    tfm_tune_record r;
    const size_t winner = hold(&w, &c, &r);
    assert_true(winner == 1 || winner == 2);
    assert_true(r.baseline_seconds >= 0.2 && r.best_seconds >= 0.05 && r.best_seconds < r.baseline_seconds);
    assert_int_equal(c.runner_up, 3 - winner);
    assert_true(r.runner_up_seconds >= 0.012);
    assert_int_equal(w.runs[winner], TFM__TUNE_ROUNDS);
    assert_int_equal(w.runs[0], TFM__TUNE_ROUNDS);
    assert_int_equal(w.runs[3 - winner], 0);
}

/* A heuristic that was as fast once is slower by noise only. */
static void test_scattered_times_do_not_win(void **state) {
    (void)state;
    ways w = {.first = {90, 40, 100}, .second = {90, 40, 100}, .once = 5};
    tfm__tuner c;
    tfm_tune_record r;
    assert_int_equal(hold(&w, &c, &r), 0);
    assert_true(r.baseline_seconds >= 0.09 && r.best_seconds == r.baseline_seconds);
    assert_int_equal(c.runner_up, 1);
    assert_true(r.runner_up_seconds >= 0.04);
}

/* A candidate that fails in the second is excluded, as in the first. */
static void test_candidate_failing_in_second_round_is_out(void **state) {
    (void)state;
    ways w = {.first = {90, 12, 60}, .second = {90, 12, 60}, .fails = 1};
    tfm__tuner c;
    tfm_tune_record r;
    assert_int_equal(hold(&w, &c, &r), 0);
    assert_true(r.baseline_seconds >= 0.09 && r.best_seconds == r.baseline_seconds);
    assert_int_equal(r.candidates, 2);
    assert_int_equal(r.rejected, 1);
    assert_int_equal(c.runner_up, 2);
    assert_int_equal(tfm_context_status(harness_context()), TFM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_noise_in_the_first_round_does_not_win),
                                       cmocka_unit_test(test_faster_candidate_wins_both_rounds),
                                       cmocka_unit_test(test_scattered_times_do_not_win),
                                       cmocka_unit_test(test_candidate_failing_in_second_round_is_out)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
