/* Batches that exceed memory: run in parts, with the result of the whole; and one too large even alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/small_model.h"

/* Pairs as wide as they are long, with independent lengths on each side. */
typedef struct batch {
    int32_t sources[24 * 20], targets[24 * 20], source_lengths[24], target_lengths[24];
    tfm_batch pairs;
} batch;

static void fill_batch(batch *b, int64_t count, int64_t source_width, int64_t target_width, uint64_t seed) {
    harness_random random = {seed};
    for (int64_t i = 0; i < count; i++) {
        b->source_lengths[i] = (int32_t)harness_range(&random, 1, source_width);
        b->target_lengths[i] = (int32_t)harness_range(&random, 1, target_width);
    }
    b->source_lengths[count / 2] = (int32_t)source_width;
    b->target_lengths[count / 3] = (int32_t)target_width;
    for (int64_t i = 0; i < count * source_width; i++)
        b->sources[i] = (int32_t)harness_range(&random, 0, 18);
    for (int64_t i = 0; i < count * target_width; i++)
        b->targets[i] = (int32_t)harness_range(&random, 0, 18);
    b->pairs =
        (tfm_batch){count, source_width, target_width, b->sources, b->targets, b->source_lengths, b->target_lengths};
}

typedef struct run {
    tfm_context *ctx;
    tfm_model *model;
    tfm_trainer *trainer;
    uint64_t most; /* the largest allocation, to be restored */
    int warnings;
} run;

static void count_line(void *user, tfm_log_level level, const char *line) {
    run *r = user;
    if (level <= TFM_LOG_WARNING && strstr(line, "does not fit into the device's memory"))
        r->warnings++;
}

static void open_run(run *r) {
    const tfm_trainer_options o = plain_options();
    *r = (run){0};
    r->ctx = harness_context();
    r->most = r->ctx->limits.max_alloc;
    harness_ok(tfm_model_new(&r->model, r->ctx, &SMALL));
    harness_ok(tfm_trainer_new(&r->trainer, r->model, &o));
    tfm_log_set(count_line, r, TFM_LOG_WARNING);
}

static void close_run(run *r) {
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    tfm_trainer_free(&r->trainer);
    tfm_model_free(&r->model);
    r->ctx->limits.max_alloc = r->most;
}

static double *doubles(const float *x, int64_t count) {
    double *y = calloc((size_t)count, sizeof(*y));
    assert_non_null(y);
    for (int64_t i = 0; i < count; i++)
        y[i] = (double)x[i];
    return y;
}

/* Three updates, of one batch and of two, and an evaluation, on a device whose largest allocation is `most`; followed
 * by the first moments, which are sums of gradients. */
static float *train(run *r, uint64_t most, double *losses, batch *batches) {
    if (most)
        r->ctx->limits.max_alloc = most;
    for (int i = 0; i < 3; i++) {
        tfm_update_report report;
        const tfm_batch pairs[] = {batches[i].pairs, batches[(i + 1) % 3].pairs};
        harness_ok(tfm_trainer_update(r->trainer, &report, pairs, i == 1 ? 2 : 1));
        losses[i] = report.loss;
    }
    uint64_t tokens;
    harness_ok(tfm_trainer_evaluate(r->trainer, &losses[3], &tokens, &batches[0].pairs));
    return harness_floats(r->trainer->m);
}

static void test_split_batches_train_to_the_same_parameters(void **state) {
    (void)state;
    static batch batches[3];
    fill_batch(&batches[0], 24, 20, 17, 1);
    fill_batch(&batches[1], 7, 5, 13, 2);
    fill_batch(&batches[2], 23, 20, 20, 3);
    run whole;
    double want_losses[4], *want;
    open_run(&whole);
    float *moments = train(&whole, 0, want_losses, batches);
    want = doubles(moments, whole.trainer->count);
    assert_int_equal(whole.warnings, 0);
    assert_int_equal(whole.trainer->micro_batch_tokens, 0);
    free(moments);
    int64_t last = INT64_MAX;
    for (uint64_t most = 96 << 10; most >= 12 << 10; most /= 2) {
        run pieces;
        double losses[4];
        open_run(&pieces);
        float *got = train(&pieces, most, losses, batches);
        harness_close(got, want, (size_t)pieces.trainer->count, 2e-6, "moments");
        for (int i = 0; i < 4; i++)
            assert_true(fabs(losses[i] / want_losses[i] - 1) < 1e-5);
        assert_int_equal(pieces.warnings, 1);
        assert_true(pieces.trainer->micro_batch_tokens < last);
        last = pieces.trainer->micro_batch_tokens;
        free(got);
        close_run(&pieces);
    }
    assert_true(last < 3 * 37); /* one pair or two at a time */
    free(want);
    close_run(&whole);
}

/* Nothing fits: an error with the pair's lengths, and unchanged parameters; with more memory, the same update as
 * without the error. */
static void test_pair_beyond_memory_is_an_error_without_change(void **state) {
    (void)state;
    static batch b;
    tfm_update_report want, got;
    run r, other;
    fill_batch(&b, 4, 20, 17, 1);
    open_run(&other);
    harness_ok(tfm_trainer_update(other.trainer, &want, &b.pairs, 1));
    close_run(&other);
    open_run(&r);
    float *before = harness_floats(r.trainer->value);
    for (int again = 0; again < 2; again++) {
        char lengths[80];
        r.ctx->limits.max_alloc = 600;
        assert_int_equal(tfm_trainer_update(r.trainer, &got, &b.pairs, 1), TFM_ERROR_MEMORY);
        snprintf(lengths, sizeof(lengths), "a pair of %d and %d tokens does not fit even alone", b.source_lengths[0],
                 b.target_lengths[0]);
        assert_non_null(strstr(tfm_error_message(), "update 1: "));
        assert_non_null(strstr(tfm_error_message(), lengths));
        assert_int_equal(tfm_trainer_updates(r.trainer), 0);
        harness_ok(tfm_context_status(r.ctx));
        double nll;
        uint64_t tokens;
        assert_int_equal(tfm_trainer_evaluate(r.trainer, &nll, &tokens, &b.pairs), TFM_ERROR_MEMORY);
        assert_non_null(strstr(tfm_error_message(), "evaluation: "));
        r.ctx->limits.max_alloc = r.most;
        float *after = harness_floats(r.trainer->value);
        assert_memory_equal(after, before, (size_t)r.trainer->count * sizeof(float));
        free(after);
    }
    harness_ok(tfm_trainer_update(r.trainer, &got, &b.pairs, 1));
    assert_true(got.loss == want.loss && got.grad_norm == want.grad_norm);
    free(before);
    close_run(&r);
}

/* The caller's earlier error is kept. */
static void test_trainer_rejects_a_context_that_failed_before(void **state) {
    (void)state;
    static batch b;
    run r;
    fill_batch(&b, 4, 20, 17, 1);
    open_run(&r);
    tfm_tensor x = {0};
    assert_int_equal(tfm_tensor_new(r.ctx, &x, TFM_F32, 9, (int64_t[]){1}), TFM_ERROR_ARGUMENT);
    assert_int_equal(tfm_trainer_update(r.trainer, NULL, &b.pairs, 1), TFM_ERROR_ARGUMENT);
    assert_non_null(strstr(tfm_error_message(), "has failed before"));
    tfm_context_clear_error(r.ctx);
    harness_ok(tfm_trainer_update(r.trainer, NULL, &b.pairs, 1));
    close_run(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_batches_train_to_the_same_parameters),
        cmocka_unit_test(test_pair_beyond_memory_is_an_error_without_change),
        cmocka_unit_test(test_trainer_rejects_a_context_that_failed_before),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
