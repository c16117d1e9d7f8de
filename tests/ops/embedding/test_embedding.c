/* Embedding, with scale and positions. */
#include <math.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "ops/gemm/quantize.h"
#include "tfm/ops.h"

enum { VOCABULARY = 29, POSITIONS = 40 };

static void check(harness_random *random, int64_t batch, int64_t length, int64_t width, bool with_positions,
                  int64_t first) {
    tfm_context *ctx = harness_context();
    const size_t count = (size_t)(batch * length * width), table_count = (size_t)(VOCABULARY * width);
    const float scale = 1.75f;
    float *words = malloc(table_count * sizeof(float)), *places = malloc((size_t)(POSITIONS * width) * sizeof(float));
    int32_t *ids_host = malloc((size_t)(batch * length) * sizeof(int32_t));
    double *want = malloc(count * sizeof(double));
    assert_true(words && places && ids_host && want);
    harness_fill(random, words, table_count, 1);
    harness_fill(random, places, (size_t)(POSITIONS * width), 1);
    for (int64_t r = 0; r < batch * length; r++) {
        ids_host[r] = (int32_t)harness_range(random, 0, VOCABULARY - 1);
        for (int64_t c = 0; c < width; c++)
            want[r * width + c] = (double)scale * words[ids_host[r] * width + c] +
                                  (with_positions ? places[(first + r % length) * width + c] : 0);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor table = HARNESS_TENSOR(TFM_F32, words, VOCABULARY, width), positions = {0};
    tfm_tensor ids = HARNESS_TENSOR(TFM_I32, ids_host, batch, length);
    tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, batch, length, width);
    if (with_positions)
        positions = HARNESS_TENSOR(TFM_F32, places, POSITIONS, width);
    harness_ok(tfm_embedding(ctx, &y, table, ids, scale, positions, first));
    float *got = harness_floats(y);
    harness_close(got, want, count, 1e-6, "embedding");
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(words);
    free(places);
    free(ids_host);
    free(want);
}

static void test_embedding_with_positions_matches_host(void **state) {
    (void)state;
    const int64_t widths[] = {1, 3, 17, 65, 1000};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
        check(&random, 1, 1, widths[i], true, POSITIONS - 1);
        check(&random, 3, 17, widths[i], true, 0);
        check(&random, 3, 17, widths[i], true, POSITIONS - 17);
        check(&random, 5, 65, widths[i], false, 0);
    }
}

static void test_embedding_of_many_rows_matches_host(void **state) {
    (void)state;
    harness_random random = {2};
    check(&random, 2500, 40, 5, true, 0);
}

/* ids of one dimension, one outside the table: NaN in that row only. Memory around the table is not NaN, so that a read
 * outside it shows. */
static void test_embedding_of_id_outside_is_nan(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { WIDTH = 21, AROUND = 2 };
    const int32_t bad[] = {3, -1, 0, VOCABULARY, INT32_MAX, INT32_MIN, VOCABULARY - 1};
    float words[VOCABULARY + 2 * AROUND][WIDTH];
    harness_random random = {3};
    harness_fill(&random, words[0], sizeof(words) / sizeof(float), 1);
    tfm_tensor whole = HARNESS_TENSOR(TFM_F32, words, VOCABULARY + 2 * AROUND, WIDTH), table;
    tfm_tensor ids = HARNESS_TENSOR(TFM_I32, bad, 7), y = {0};
    harness_ok(tfm_tensor_rows(ctx, &table, whole, AROUND, VOCABULARY));
    harness_ok(tfm_embedding(ctx, &y, table, ids, 1, (tfm_tensor){0}, 0));
    assert_int_equal(y.rank, 2);
    float *got = harness_floats(y);
    for (int r = 0; r < 7; r++)
        for (int c = 0; c < WIDTH; c++) {
            if (bad[r] >= 0 && bad[r] < VOCABULARY)
                assert_true(got[r * WIDTH + c] == words[AROUND + bad[r]][c]);
            else
                assert_true(isnan(got[r * WIDTH + c]));
        }
    free(got);
    tfm_tensor_free(ctx, &y);
}

typedef struct backward_case {
    int64_t batch, length, width;
    const int32_t *ids;
    bool places;
} backward_case;

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    for (size_t i = 0; i < c->count; i++) {
        const int64_t row = (int64_t)i / b->width, column = (int64_t)i % b->width;
        y[i] = 1.75 * inputs[0][b->ids[row] * b->width + column] +
               (b->places ? inputs[1][(3 + row % b->length) * b->width + column] : 0);
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    tfm_tensor ids = HARNESS_TENSOR(TFM_I32, b->ids, b->batch, b->length);
    return tfm_embedding(ctx, y, inputs[0], ids, 1.75f, b->places ? inputs[1] : (tfm_tensor){0}, b->places ? 3 : 0);
}

/* Repeated and unused ids; learned positions that are used in part. */
static void test_embedding_gradients_match_double_precision(void **state) {
    (void)state;
    const int64_t widths[] = {1, 3, 17, 65, 1000};
    harness_random random = {7};
    float *words = malloc(VOCABULARY * 1000 * sizeof(float)), *places = malloc(POSITIONS * 1000 * sizeof(float));
    assert_true(words && places);
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++)
        for (int with = 0; with < 2; with++) {
            int32_t ids[3 * 17];
            const backward_case b = {3, widths[i] == 1000 ? 2 : 17, widths[i], ids, with};
            for (int k = 0; k < 3 * 17; k++)
                ids[k] = (int32_t)harness_range(&random, 0, VOCABULARY / 2);
            harness_fill(&random, words, (size_t)(VOCABULARY * widths[i]), 1);
            harness_fill(&random, places, (size_t)(POSITIONS * widths[i]), 1);
            gradient_check(&(gradient_case){
                .name = "embedding",
                .inputs = {{2, {VOCABULARY, widths[i]}, words, false}, {2, {POSITIONS, widths[i]}, places, !with}},
                .oracle = oracle_backward,
                .run = run_backward,
                .user = &b,
                .count = (size_t)(b.batch * b.length * b.width),
                .tolerance = 2e-6});
        }
    free(words);
    free(places);
}

static void test_embedding_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_tensor none = {0};
    tfm_tensor table = HARNESS_TENSOR(TFM_F32, NULL, 7, 4), flat = HARNESS_TENSOR(TFM_F32, NULL, 28), y = {0};
    tfm_tensor ids = HARNESS_TENSOR(TFM_I32, NULL, 2, 5), deep = HARNESS_TENSOR(TFM_I32, NULL, 1, 1, 1, 1, 1, 1, 1, 5);
    tfm_tensor positions = HARNESS_TENSOR(TFM_F32, NULL, 6, 4), narrow = HARNESS_TENSOR(TFM_F32, NULL, 6, 3);
    harness_refused(tfm_embedding(ctx, &y, flat, ids, 1, none, 0), TFM_ERROR_ARGUMENT, "embedding: table is (28) F32");
    harness_refused(tfm_embedding(ctx, &y, table, table, 1, none, 0), TFM_ERROR_ARGUMENT, "embedding: input 2");
    harness_refused(tfm_embedding(ctx, &y, table, deep, 1, none, 0), TFM_ERROR_ARGUMENT, "embedding: ids is");
    harness_refused(tfm_embedding(ctx, &y, table, ids, 1, narrow, 0), TFM_ERROR_ARGUMENT, "positions is (6, 3) F32");
    harness_refused(tfm_embedding(ctx, &y, table, ids, 1, positions, 2), TFM_ERROR_ARGUMENT, "embedding: 5 positions");
    harness_refused(tfm_embedding(ctx, &y, table, ids, 1, positions, -1), TFM_ERROR_ARGUMENT, "embedding: 5 positions");
    harness_refused(tfm_embedding(ctx, &y, table, ids, 1, positions, INT64_MAX), TFM_ERROR_ARGUMENT, "embedding: 5");
    harness_refused(tfm_embedding(ctx, &table, table, ids, 1, positions, 0), TFM_ERROR_ARGUMENT,
                    "embedding: the output");
    assert_null(y.buffer);
}

static void test_embedding_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    const tfm_tensor none = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), z = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), over = x;
    tfm_tensor ids = HARNESS_TENSOR(TFM_I32, NULL, 4);
    over.offset += 3;
    harness_refused(tfm_embedding(ctx, &over, x, ids, 1, none, 0), no, why);
    harness_refused(tfm_embedding(ctx, &x, z, ids, 1, x, 0), no, why);
}

/* Tokens without a position, from a table with a row before the first. */
static void test_embedding_skips_positions_of_padding(void **state) {
    (void)state;
    enum { WIDTH = 9, BATCH = 3, LENGTH = 7, SKIPPED = 4, FIRST = 2 };
    tfm_context *ctx = harness_context();
    float words[VOCABULARY][WIDTH], places[POSITIONS][WIDTH];
    const int32_t host[BATCH][LENGTH] = {{4, 1, 2, 4, 4, 3, 5}, {0, 1, 2, 3, 5, 6, 4}, {7, 4, 4, 4, 4, 4, 8}};
    harness_random random = {5};
    harness_fill(&random, words[0], sizeof(words) / sizeof(float), 1);
    harness_fill(&random, places[0], sizeof(places) / sizeof(float), 1);
    harness_ok(tfm_scope_open(ctx));
    const tfm_param table = {.value = HARNESS_TENSOR(TFM_F32, words, VOCABULARY, WIDTH)};
    tfm_tensor whole = HARNESS_TENSOR(TFM_F32, places, POSITIONS, WIDTH), positions = {0};
    tfm_tensor ids = HARNESS_TENSOR(TFM_I32, host, BATCH, LENGTH);
    harness_ok(tfm_tensor_rows(ctx, &positions, whole, 1, POSITIONS - 1));
    for (int form = 0; form < 4; form++) {
        const tfm__padding_token skip = {.id = SKIPPED, .counted = form % 2, .blank = form / 2};
        double want[BATCH * LENGTH * WIDTH];
        tfm_tensor y = {0};
        for (int r = 0; r < BATCH * LENGTH; r++) {
            const int32_t id = host[r / LENGTH][r % LENGTH];
            int row = 1 + FIRST + r % LENGTH;
            for (int k = 0; skip.counted && k < r % LENGTH; k++)
                row -= host[r / LENGTH][k] == SKIPPED;
            row = id == SKIPPED ? 0 : row;
            for (int c = 0; c < WIDTH; c++)
                want[r * WIDTH + c] =
                    0.5 * (double)words[id][c] + (id == SKIPPED && skip.blank ? 0 : (double)places[row][c]);
        }
        harness_ok(tfm__embedding_param(ctx, &y, &table, ids, 0.5f, positions, FIRST, &skip));
        float *got = harness_floats(y);
        harness_close(got, want, BATCH * LENGTH * WIDTH, 1e-6, "skipped");
        free(got);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_with_positions_matches_host),
        cmocka_unit_test(test_embedding_of_many_rows_matches_host),
        cmocka_unit_test(test_embedding_of_id_outside_is_nan),
        cmocka_unit_test(test_embedding_gradients_match_double_precision),
        cmocka_unit_test(test_embedding_rejects_bad_arguments),
        cmocka_unit_test(test_embedding_rejects_overlapping_output),
        cmocka_unit_test(test_embedding_skips_positions_of_padding),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
