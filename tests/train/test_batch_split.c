/* Load balancing by a fixed ratio: the rows of each rank, and the ratio in checkpoints. */
#include "train/batch_split.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "tfm/train.h"

enum { MOST_BATCHES = 6, MOST_ROWS = 40, MOST_WORLD = 9 };

/* Batches whose lengths are row numbers, counted over all of them. */
typedef struct random_batches {
    tfm_batch batches[MOST_BATCHES];
    size_t count;
    int32_t numbers[MOST_BATCHES * MOST_ROWS], ids[MOST_ROWS * 64];
    double tokens, widest;
    int64_t rows;
} random_batches;

static void fill_random(random_batches *d, harness_random *random, bool texts) {
    *d = (random_batches){.count = 1 + harness_next(random) % MOST_BATCHES};
    for (int32_t i = 0; i < MOST_BATCHES * MOST_ROWS; i++)
        d->numbers[i] = i;
    for (size_t i = 0; i < d->count; i++) {
        tfm_batch *b = &d->batches[i];
        *b = (tfm_batch){.count = 1 + (int64_t)(harness_next(random) % MOST_ROWS),
                         .source_width = texts ? 0 : 1 + (int64_t)(harness_next(random) % 30),
                         .target_width = 1 + (int64_t)(harness_next(random) % 30),
                         .targets = d->ids,
                         .target_lengths = d->numbers + d->rows};
        b->sources = texts ? NULL : d->ids;
        b->source_lengths = texts ? NULL : d->numbers + d->rows;
        d->rows += b->count;
        d->tokens += (double)(b->count * (b->source_width + b->target_width));
        d->widest = fmax(d->widest, (double)(b->source_width + b->target_width));
    }
}

/* Each row belongs to one rank, in order, and each rank has its share of the tokens up to one row at either end. */
static void test_split_rows_follow_the_shares(void **state) {
    (void)state;
    harness_random random = {11};
    random_batches *d = malloc(sizeof(*d));
    assert_non_null(d);
    for (int turn = 0; turn < 500; turn++) {
        const int world = 1 + (int)(harness_next(&random) % MOST_WORLD);
        double shares[MOST_WORLD], sum = 0;
        int32_t next = 0;
        fill_random(d, &random, turn % 5 == 0);
        for (int i = 0; i < world; i++) {
            shares[i] = i > 0 && harness_next(&random) % 4 == 0 ? 0 : 1 + (double)(harness_next(&random) % 50);
            sum += shares[i];
        }
        for (int rank = 0; rank < world; rank++) {
            tfm_batch own[MOST_BATCHES];
            size_t count = 99;
            double tokens = 0;
            harness_ok(tfm_batches_split(own, &count, d->batches, d->count, shares, world, rank));
            assert_true(count <= d->count);
            for (size_t i = 0; i < count; i++) {
                const tfm_batch *b = &own[i], *from = d->batches;
                assert_true(b->count > 0);
                while (from->target_lengths + from->count <= b->target_lengths)
                    from++;
                const int64_t first = b->target_lengths - from->target_lengths;
                assert_true(b->targets == from->targets + first * from->target_width);
                assert_true(!from->sources || b->sources == from->sources + first * from->source_width);
                assert_true(!from->sources || b->source_lengths == from->source_lengths + first);
                assert_true(b->source_width == from->source_width && b->target_width == from->target_width);
                for (int64_t k = 0; k < b->count; k++)
                    assert_int_equal(b->target_lengths[k], next++);
                tokens += (double)(b->count * (b->source_width + b->target_width));
            }
            assert_true(fabs(tokens - d->tokens * shares[rank] / sum) <= d->widest + 1e-6);
        }
        assert_int_equal(next, d->rows);
    }
    free(d);
}

static void test_split_rejects_bad_arguments(void **state) {
    (void)state;
    int32_t ids[4] = {0}, lengths[2] = {1, 1};
    const tfm_batch good = {2, 1, 1, ids, ids, lengths, lengths};
    tfm_batch own[1], bad = good;
    size_t count = 0;
    const double shares[] = {1, 2}, none[] = {0, 0}, negative[] = {2, -1}, nan[] = {1, NAN}, huge[] = {1e308, 1e308};
    harness_refused(tfm_batches_split(own, &count, &good, 1, shares, 2, 2), TFM_ERROR_ARGUMENT, "rank 2 of 2");
    harness_refused(tfm_batches_split(own, &count, &good, 1, shares, 0, 0), TFM_ERROR_ARGUMENT, "rank 0 of 0");
    harness_refused(tfm_batches_split(own, &count, &good, 1, none, 2, 0), TFM_ERROR_ARGUMENT, "shares");
    harness_refused(tfm_batches_split(own, &count, &good, 1, negative, 2, 0), TFM_ERROR_ARGUMENT, "shares");
    harness_refused(tfm_batches_split(own, &count, &good, 1, nan, 2, 0), TFM_ERROR_ARGUMENT, "shares");
    harness_refused(tfm_batches_split(own, &count, &good, 1, huge, 2, 0), TFM_ERROR_ARGUMENT, "shares");
    bad.count = 0;
    harness_refused(tfm_batches_split(own, &count, &bad, 1, shares, 2, 0), TFM_ERROR_ARGUMENT, "batch 1");
    bad = good;
    bad.sources = NULL;
    harness_refused(tfm_batches_split(own, &count, &bad, 1, shares, 2, 0), TFM_ERROR_ARGUMENT,
                    "array of batch 1 is NULL");
    bad = good;
    bad.target_width = bad.source_width = 0;
    harness_refused(tfm_batches_split(own, &count, &bad, 1, shares, 2, 0), TFM_ERROR_ARGUMENT, "batch 1");
    harness_ok(tfm_batches_split(own, &count, &good, 0, shares, 2, 0));
    assert_int_equal(count, 0);
}

/* A trainer of so many ranks, as far as load balancing reads it. */
static tfm_trainer made(int world) {
    tfm_trainer t = {.group = {.world_size = world}};
    harness_ok(tfm__balance_init(&t, world));
    return t;
}

static void test_trainer_shares_are_set_and_cleared(void **state) {
    (void)state;
    const double shares[] = {0.3, 0.1, 0}, negative[] = {1, 1, -1};
    tfm_trainer t = made(3);
    harness_refused(tfm_trainer_set_balance(&t, shares, 2), TFM_ERROR_ARGUMENT, "2 shares for 3");
    harness_refused(tfm_trainer_set_balance(&t, negative, 3), TFM_ERROR_ARGUMENT, "shares");
    harness_ok(tfm_trainer_set_balance(&t, shares, 3));
    const double *got = tfm_trainer_balance(&t);
    assert_true(got && got[0] == 65536 && got[1] == round(65536 / 3.0) && got[2] == 0);
    harness_ok(tfm_trainer_set_balance(&t, NULL, 0));
    assert_null(tfm_trainer_balance(&t));
    tfm__balance_free(&t);
}

/* A checkpoint restores the ratio; a ratio for another number of ranks, or a damaged one, becomes equal shares. */
static void test_shares_are_saved_and_loaded_as_text(void **state) {
    (void)state;
    static const char *const BAD[] = {"", "1", "1 2 3 4", "1 2 x", "1 2 -3", "0 0 0", "1  2 3 ", "a b c"};
    const double shares[] = {3, 1, 2};
    char text[TFM__BALANCE_TEXT];
    tfm_trainer t = made(3), other = made(3);
    tfm__balance_format(text, &t);
    assert_string_equal(text, "");
    harness_ok(tfm_trainer_set_balance(&t, shares, 3));
    tfm__balance_format(text, &t);
    tfm__balance_parse(&other, text);
    assert_memory_equal(tfm_trainer_balance(&other), tfm_trainer_balance(&t), sizeof(shares));
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        tfm__balance_parse(&other, BAD[i]);
        assert_null(tfm_trainer_balance(&other));
        tfm__balance_parse(&other, text);
        assert_non_null(tfm_trainer_balance(&other));
    }
    tfm__balance_parse(&other, NULL);
    assert_null(tfm_trainer_balance(&other));
    tfm__balance_parse(&other, "614 1 154"); /* as measured and written by older versions */
    assert_true(tfm_trainer_balance(&other) && other.balance.shares[2] == 154);
    harness_ok(tfm_trainer_set_balance(&t, NULL, 0));
    tfm__balance_format(text, &t);
    assert_string_equal(text, "");
    tfm__balance_free(&t);
    tfm__balance_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_rows_follow_the_shares),
        cmocka_unit_test(test_split_rejects_bad_arguments),
        cmocka_unit_test(test_trainer_shares_are_set_and_cleared),
        cmocka_unit_test(test_shares_are_saved_and_loaded_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
