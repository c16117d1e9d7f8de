/* The autograd tape: chains, shared and unused tensors, views, errors, and release of memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "ops/autograd/tape.h"
#include "tfm/selftest.h"

enum { N = 65 };

/* y = relu(x) + silu(relu(x)): a tensor that two ops read, created and freed inside a scope. */
static tfm_status run_diamond(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    tfm_tensor a = {0}, b = {0};
    (void)c;
    tfm_activate(ctx, &a, inputs[0], TFM_GELU);
    tfm_activate(ctx, &b, a, TFM_SILU);
    tfm_add(ctx, y, a, b);
    tfm_tensor_free(ctx, &a); /* the tape retains what it needs */
    return tfm_context_status(ctx);
}

static double gelu(double v) {
    return v * 0.5 * erfc(-v / sqrt(2));
}

static void oracle_diamond(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t i = 0; i < c->count; i++) {
        const double a = gelu(inputs[0][i]);
        y[i] = a + a / (1 + exp(-a));
    }
}

static void test_diamond_graph_sums_gradients(void **state) {
    (void)state;
    harness_random random = {3};
    float host[N];
    harness_fill(&random, host, N, 2);
    gradient_check(&(gradient_case){.name = "a diamond",
                                    .inputs = {{1, {N}, host, false}},
                                    .oracle = oracle_diamond,
                                    .run = run_diamond,
                                    .count = N,
                                    .tolerance = 2e-6});
}

/* y = silu(x[1..2]) + gelu(x[1..2] seen as (2, N)): views of a watched tensor, with other dims. */
static tfm_status run_views(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    tfm_tensor rows = {0}, flat = {0}, whole = {0}, again = {0}, part = {0};
    (void)c;
    tfm_tensor_reshape(ctx, &whole, inputs[0], 2, (int64_t[]){4, N});
    tfm_tensor_rows(ctx, &rows, whole, 1, 2);
    tfm_tensor_reshape(ctx, &flat, rows, 1, (int64_t[]){2 * N});
    tfm_activate(ctx, &again, flat, TFM_SILU); /* (2 N) */
    tfm_tensor_reshape(ctx, &part, again, 2, (int64_t[]){2, N});
    tfm_tensor_rows(ctx, &part, part, 1, 1); /* only the second row counts */
    return tfm_activate(ctx, y, part, TFM_GELU);
}

static void oracle_views(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t i = 0; i < c->count; i++) {
        const double v = inputs[0][2 * N + i];
        y[i] = gelu(v / (1 + exp(-v)));
    }
}

static void test_gradients_flow_through_views(void **state) {
    (void)state;
    harness_random random = {4};
    float host[4 * N];
    harness_fill(&random, host, 4 * N, 2);
    gradient_check(&(gradient_case){.name = "views",
                                    .inputs = {{1, {4 * N}, host, false}},
                                    .oracle = oracle_views,
                                    .run = run_views,
                                    .count = N,
                                    .tolerance = 2e-6});
}

static tfm_tensor ones(int64_t n) {
    float host[N];
    for (int i = 0; i < N; i++)
        host[i] = 1;
    tfm_tensor x = {0};
    harness_ok(tfm_tensor_new(harness_context(), &x, TFM_F32, 1, &n));
    harness_ok(tfm_tensor_write(harness_context(), x, host));
    return x;
}

/* A missing seed is one; tensors that do not lead to y get no gradient; without a tape nothing is retained. */
static void test_backward_starts_from_one_and_skips_unused(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = ones(N), z = ones(N), dx = ones(N), dz = ones(N), y = {0}, unused = {0};
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_ok(tfm_tape_watch(ctx, z, dz));
    harness_ok(tfm_activate(ctx, &y, x, TFM_RELU));
    harness_ok(tfm_activate(ctx, &unused, z, TFM_RELU));
    harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
    float *gx = harness_floats(dx), *gz = harness_floats(dz);
    for (int i = 0; i < N; i++) {
        assert_float_equal(gx[i], 2, 0);
        assert_float_equal(gz[i], 1, 0);
    }
    free(gx);
    free(gz);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* A matrix of two rows, and a view of one row as a vector. */
static tfm_tensor row_of(tfm_tensor rows, int64_t row) {
    tfm_tensor x = {0};
    harness_ok(tfm_tensor_rows(harness_context(), &x, rows, row, 1));
    harness_ok(tfm_tensor_reshape(harness_context(), &x, x, 1, (int64_t[]){N}));
    return x;
}

static void wants(tfm_tensor gradient, float want) {
    float *got = harness_floats(gradient);
    for (size_t i = 0; i < tfm_tensor_count(gradient); i++)
        assert_float_equal(got[i], want, 0);
    free(got);
}

/* A buffer may mix watched rows and op outputs; a partly watched tensor is rejected. */
static void test_partly_watched_tensor_is_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float zeros[2 * N] = {0};
    for (int watched = 0; watched < 2; watched++) {
        harness_ok(tfm_scope_open(ctx)); /* the rejection closes it */
        tfm_tensor rows = HARNESS_TENSOR(TFM_F32, zeros, 2, N), dx = HARNESS_TENSOR(TFM_F32, zeros, N), z = {0};
        tfm_tensor x = row_of(rows, watched), y = row_of(rows, !watched), k = ones(N);
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, dx));
        harness_ok(tfm_add(ctx, &y, x, k));
        harness_ok(tfm_add(ctx, &z, y, x));
        harness_ok(tfm_backward(ctx, z, (tfm_tensor){0}));
        wants(dx, 2);
        harness_guards(dx);
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, dx));
        z = (tfm_tensor){0};
        harness_refused(tfm_add(ctx, &z, rows, rows), TFM_ERROR_ARGUMENT, "overlaps a watched tensor in part");
    }
    tfm_tape_stop(ctx);
}

/* Tensors are written once: an op that overwrites an op's result, a watched tensor or an input of a backward pass is
 * rejected before it writes, recorded or not. */
static void test_overwriting_a_recorded_tensor_is_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const char *made = "the result of a recorded op";
    tfm_tensor x = ones(N), k = ones(N), dx = ones(N), none = {0};
    for (int which = 0; which < 6; which++) {
        tfm_tensor y = {0}, z = {0};
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, dx));
        harness_ok(tfm_add(ctx, &y, x, k));
        harness_ok(which < 2 ? TFM_OK : tfm_glu(ctx, &z, y, k, TFM_SILU, 0));
        if (which == 0)
            harness_refused(tfm_add(ctx, &y, x, k), TFM_ERROR_ARGUMENT, made);
        else if (which == 1)
            harness_refused(tfm_add(ctx, &y, k, k), TFM_ERROR_ARGUMENT, made);
        else if (which == 2)
            harness_refused(tfm_add(ctx, &y, z, k), TFM_ERROR_ARGUMENT, made);
        else if (which == 3)
            harness_refused(tfm_softmax(ctx, &z, z), TFM_ERROR_ARGUMENT, made);
        else if (which == 4)
            harness_refused(tfm_add(ctx, &k, dx, dx), TFM_ERROR_ARGUMENT, "a tensor saved for the backward pass");
        else
            harness_refused(tfm_add(ctx, &x, k, k), TFM_ERROR_ARGUMENT, "a tensor that the tape watches");
        wants(k, 1);
        harness_ok(tfm_backward(ctx, y, none)); /* the tape is unchanged */
        wants(dx, (float)which + 2);
    }
    for (int which = 0; which < 2; which++) {
        tfm_tensor y = {0}, m = ones(N), v = ones(N);
        const tfm_adam_options adam = {.learning_rate = 1, .beta1 = 0.9, .beta2 = 0.9, .epsilon = 1, .step = 1};
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, dx));
        harness_ok(tfm_glu(ctx, &y, x, k, TFM_SILU, 0));
        harness_refused(tfm_adam(ctx, which ? x : k, dx, m, v, &adam), TFM_ERROR_ARGUMENT,
                        which ? "a tensor that the tape watches: run the backward"
                              : "a tensor saved for the backward pass");
        tfm_tape_stop(ctx);
    }
    wants(k, 1);
    harness_ok(tfm_activate(ctx, &x, k, TFM_RELU)); /* the tape is off */
}

/* Rows of one buffer are separate outputs, and the buffer is read as a whole. */
static void test_rows_of_one_buffer_are_separate_outputs(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = ones(N), k = ones(N), dx = ones(N), y = {0};
    tfm_tensor rows = HARNESS_TENSOR(TFM_F32, NULL, 3, N), first = row_of(rows, 0), second = row_of(rows, 1),
               third = row_of(rows, 2);
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_ok(tfm_softmax(ctx, &first, x));
    harness_ok(tfm_add(ctx, &second, x, k));
    harness_ok(tfm_add(ctx, &third, second, x));
    harness_refused(tfm_add(ctx, &second, k, k), TFM_ERROR_ARGUMENT, "the result of a recorded op");
    harness_ok(tfm_add(ctx, &y, rows, rows));
    harness_guards(rows);
    harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
    float *got = harness_floats(dx);
    for (int i = 0; i < N; i++) /* softmax has zero gradient for a seed of ones */
        assert_float_equal(got[i], 1 + 2 * 3, 1e-5);
    free(got);
}

/* A tensor is watched once, and is no op's output; a neighboring row may be watched too. */
static void test_watching_a_tensor_twice_is_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float zeros[2 * N] = {0};
    tfm_tensor rows = HARNESS_TENSOR(TFM_F32, zeros, 2, N), dx = HARNESS_TENSOR(TFM_F32, zeros, 2, N), none = {0};
    tfm_tensor x = row_of(rows, 0), neighbor = row_of(rows, 1), g0 = row_of(dx, 0), g1 = row_of(dx, 1), y = {0},
               z = {0};
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, g0));
    harness_ok(tfm_tape_watch(ctx, x, g0)); /* the same again */
    harness_refused(tfm_tape_watch(ctx, x, g1), TFM_ERROR_ARGUMENT, "overlaps a watched tensor: watch it once");
    harness_ok(tfm_add(ctx, &y, x, x));
    harness_refused(tfm_tape_watch(ctx, y, g1), TFM_ERROR_ARGUMENT, "is the result of a recorded op");
    harness_ok(tfm_tape_watch(ctx, neighbor, g1));
    harness_ok(tfm_add(ctx, &z, y, neighbor));
    harness_ok(tfm_backward(ctx, z, none));
    wants(g0, 2);
    wants(g1, 1);
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, g0));
    harness_refused(tfm_tape_watch(ctx, rows, dx), TFM_ERROR_ARGUMENT, "overlaps a watched tensor: watch it once");
    tfm_tape_stop(ctx);
}

/* A backward pass starts at a recorded op's output, also at a view of it. */
static void test_backward_starts_only_from_a_recorded_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = ones(N), k = ones(N), dx = ones(N), y = {0}, none = {0};
    tfm_tensor rows = HARNESS_TENSOR(TFM_F32, NULL, 300, N), first = row_of(rows, 0), last = row_of(rows, 299);
    tfm_tape_stop(ctx);
    harness_refused(tfm_backward(ctx, x, none), TFM_ERROR_ARGUMENT, "the tape is empty");
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_add(ctx, &y, x, k));
    harness_refused(tfm_backward(ctx, y, none), TFM_ERROR_ARGUMENT, "the tape watches nothing");
    for (int which = 0; which < 5; which++) {
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, dx));
        harness_ok(tfm_add(ctx, which == 4 ? &last : &first, x, k));
        if (which == 0) {
            harness_ok(tfm_backward(ctx, first, none));
            harness_refused(tfm_backward(ctx, first, none), TFM_ERROR_ARGUMENT, "the tape is empty, as every");
        } else if (which == 1)
            harness_refused(tfm_backward(ctx, x, none), TFM_ERROR_ARGUMENT, "y (65) F32 overlaps a watched tensor");
        else if (which == 2)
            harness_refused(tfm_backward(ctx, last, none), TFM_ERROR_ARGUMENT, "no recorded op");
        else
            harness_ok(tfm_backward(ctx, rows, none));
    }
    wants(dx, 4);
}

/* An error that would invalidate a backward pass is rejected, and the tape can be restarted. */
static void test_tape_rejects_misuse_and_restarts(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = ones(N), dx = ones(N), y = {0}, short_one = ones(3);
    tfm_tape_stop(ctx);
    harness_refused(tfm_tape_watch(ctx, x, dx), TFM_ERROR_ARGUMENT, "call tfm_tape_start first");
    harness_ok(tfm_tape_start(ctx));
    harness_refused(tfm_tape_watch(ctx, x, short_one), TFM_ERROR_ARGUMENT, "as large");
    harness_refused(tfm_tape_watch(ctx, x, x), TFM_ERROR_ARGUMENT, "in other memory");
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_refused(tfm_activate(ctx, &x, x, TFM_RELU), TFM_ERROR_ARGUMENT, "a tensor that the tape watches");
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_ok(tfm_activate(ctx, &y, x, TFM_RELU));
    harness_refused(tfm_activate(ctx, &y, dx, TFM_RELU), TFM_ERROR_ARGUMENT, "the result of a recorded op");
    harness_refused(tfm_backward(ctx, dx, (tfm_tensor){0}), TFM_ERROR_ARGUMENT, "no recorded op");
    harness_ok(tfm_activate(ctx, &y, dx, TFM_RELU)); /* which emptied it */
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    tfm_tensor z = {0};
    harness_ok(tfm_activate(ctx, &z, x, TFM_RELU));
    harness_refused(tfm_backward(ctx, z, short_one), TFM_ERROR_ARGUMENT, "dy is (3)");
    tfm_tensor_free(ctx, &x);
    tfm_tensor_free(ctx, &dx);
    tfm_tensor_free(ctx, &y);
    tfm_tensor_free(ctx, &z);
    tfm_tensor_free(ctx, &short_one);
}

/* An op without backward pass would silently break the chain: it is rejected if the tape needs its gradient. */
static void test_op_without_backward_pass_is_rejected_on_the_tape(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, N), dx = HARNESS_TENSOR(TFM_F32, NULL, 2, N), y = {0}, ids = {0};
    for (int i = 0; i < 2; i++) {
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, dx));
        harness_refused(i ? tfm_sample(ctx, &ids, NULL, x, NULL) : tfm_topk(ctx, &y, &ids, NULL, x, 3),
                        TFM_ERROR_ARGUMENT, i ? "sample: it has no backward pass" : "topk: it has no backward pass");
        tfm_tape_stop(ctx);
    }
    harness_ok(tfm_topk(ctx, &y, &ids, NULL, x, 3));
    tfm_tensor_free(ctx, &y);
    tfm_tensor_free(ctx, &ids);
}

/* A tensor retained only by the tape is released after its op's backward pass: a hundred passes need the memory of one,
 * measured by reused buffers. */
static void test_backward_frees_tensors_that_only_the_tape_holds(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_buffer *seen[64];
    size_t count = 0;
    for (int pass = 0; pass < 100; pass++) {
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor x = ones(N), dx = ones(N), y = {0};
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, dx));
        harness_ok(tfm_scope_open(ctx));
        harness_ok(tfm_activate(ctx, &y, x, TFM_SILU));
        for (int i = 0; i < 8; i++) {
            tfm_tensor next = {0};
            harness_ok(tfm_activate(ctx, &next, y, TFM_SILU));
            size_t at = 0;
            while (at < count && seen[at] != next.buffer)
                at++;
            assert_true(at < 64);
            seen[at] = next.buffer;
            count += at == count;
            y = next;
        }
        harness_ok(tfm_scope_close(ctx, 1, (tfm_tensor *[]){&y}));
        harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    assert_true(count < 32);
}

/* Internal tensors saved for the backward pass are released with it, also without a scope: pre-GELU activations, norm
 * statistics and sum, and a loss's precomputed gradient. */
static void test_backward_frees_saved_intermediate_tensors(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int32_t ids[] = {1, 0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, N), w = HARNESS_TENSOR(TFM_F32, NULL, N, N),
               dw = HARNESS_TENSOR(TFM_F32, NULL, N, N), targets = HARNESS_TENSOR(TFM_I32, ids, 2);
    tfm_param weight = {.value = w};
    const float zero = 0;
    uint64_t memory = 0;
    harness_ok(tfm__tensor_fill(ctx, x, &zero));
    harness_ok(tfm__tensor_fill(ctx, w, &zero));
    for (int pass = 0; pass < 40; pass++) {
        tfm_tensor y = {0}, z = {0}, loss = {0};
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, w, dw));
        harness_ok(tfm_linear(ctx, &y, x, &weight, (tfm_tensor){0}, TFM_GELU));
        harness_ok(tfm_layernorm(ctx, &z, NULL, y, x, (tfm_tensor){0}, (tfm_tensor){0}, 1e-5f));
        harness_ok(tfm_linear_cross_entropy(ctx, &loss, NULL, z, &weight, (tfm_tensor){0}, targets, NULL));
        harness_ok(tfm_backward(ctx, loss, (tfm_tensor){0}));
        tfm_tensor_free(ctx, &y);
        tfm_tensor_free(ctx, &z);
        tfm_tensor_free(ctx, &loss);
        if (pass == 2)
            memory = tfm_context_peak_memory(ctx);
    }
    assert_int_equal(tfm_context_peak_memory(ctx), memory);
    tfm_param_free(ctx, &weight);
    tfm_tensor_free(ctx, &x);
    tfm_tensor_free(ctx, &dw);
    tfm_tensor_free(ctx, &targets);
}

static bool stop(void *user, const tfm_selftest_record *record) {
    *(int *)user += record->state == TFM_SELFTEST_PASS;
    return false;
}

/* A self-test in between records nothing, and the caller's recording stays. */
static void test_selftest_leaves_the_recorded_tape_unchanged(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    int passed = 0;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, ((float[]){1, 2, 3}), 3), dx = HARNESS_TENSOR(TFM_F32, ((float[3]){0}), 3);
    tfm_tensor y = {0};
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_ok(tfm_add(ctx, &y, x, x));
    assert_int_equal(tfm_selftest(ctx, NULL, stop, &passed), TFM_ERROR_CANCELLED);
    assert_int_equal(passed, 1);
    harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
    float *got = harness_floats(dx);
    for (int i = 0; i < 3; i++)
        assert_true(got[i] == 2);
    free(got);
}

/* ---- Gradient callbacks ------------ */

enum { PARTS = 5 };

typedef struct listener {
    tfm_context *ctx;
    tfm_tensor gradient;
    const tfm__grad_range *parts;
    float then[PARTS][2 * N], sums[PARTS]; /* a view's gradient when its callback runs, and the final value */
    int order[PARTS], count;
} listener;

static void hear(void *user, size_t part) {
    listener *l = user;
    float all[4 * N];
    tfm_tensor x = {0};
    tfm_tensor_rows(l->ctx, &x, l->gradient, l->parts[part].at, l->parts[part].count);
    tfm_tensor_read(l->ctx, l->then[part], x);
    tfm_tensor_read(l->ctx, all, l->gradient);
    for (int i = 0; i < 4 * N; i++)
        l->sums[part] += all[i];
    l->order[l->count++] = (int)part;
}

/* y = ((x0 + x1) + x2) + x1 on four rows of one tensor, the last unused: each callback runs once its gradient is
 * complete, and before later ops add theirs. */
static void test_gradient_callbacks_come_when_a_part_is_complete(void **state) {
    (void)state;
    static const tfm__grad_range parts[PARTS] = {{0, N}, {N, N}, {2 * N, N}, {3 * N, N}, {N, 2 * N}};
    static const int order[PARTS] = {3, 2, 0, 1, 4};
    static const float sums[PARTS] = {4 * N, 4 * N, 2 * N, 0, 4 * N};
    tfm_context *ctx = harness_context();
    harness_random random = {3};
    float host[4 * N];
    listener l = {.ctx = ctx, .parts = parts};
    tfm_tensor w = {0}, x[3] = {{0}}, y[3] = {{0}};
    harness_fill(&random, host, 4 * N, 2);
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &w, TFM_F32, 1, &(int64_t){4 * N});
    tfm_tensor_new(ctx, &l.gradient, TFM_F32, 1, &(int64_t){4 * N});
    tfm_tensor_write(ctx, w, host);
    tfm__tensor_fill(ctx, l.gradient, &(float){0});
    for (int i = 0; i < 3; i++)
        tfm_tensor_rows(ctx, &x[i], w, i * N, N);
    for (int pass = 1; pass <= 2; pass++) { /* without a callback */
        tfm_tape_start(ctx);
        tfm_tape_watch(ctx, w, l.gradient);
        if (pass == 1)
            tfm__tape_on_grad_ready(ctx, w, PARTS, parts, hear, &l);
        for (int i = 0; i < 3; i++)
            y[i] = (tfm_tensor){0};
        tfm_add(ctx, &y[0], x[0], x[1]);
        tfm_add(ctx, &y[1], y[0], x[2]);
        tfm_add(ctx, &y[2], y[1], x[1]);
        harness_ok(tfm_backward(ctx, y[2], (tfm_tensor){0}));
        assert_int_equal(l.count, PARTS);
    }
    for (int k = 0; k < PARTS; k++) {
        assert_int_equal(l.order[k], order[k]);
        assert_true(l.sums[k] == sums[k]);
        for (int64_t i = 0; i < parts[k].count; i++) {
            const int64_t row = (parts[k].at + i) / N;
            assert_true(l.then[k][i] == (row == 3 ? 0 : row == 1 ? 2 : 1));
        }
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selftest_leaves_the_recorded_tape_unchanged),
        cmocka_unit_test(test_diamond_graph_sums_gradients),
        cmocka_unit_test(test_gradients_flow_through_views),
        cmocka_unit_test(test_backward_starts_from_one_and_skips_unused),
        cmocka_unit_test(test_partly_watched_tensor_is_rejected),
        cmocka_unit_test(test_overwriting_a_recorded_tensor_is_rejected),
        cmocka_unit_test(test_rows_of_one_buffer_are_separate_outputs),
        cmocka_unit_test(test_watching_a_tensor_twice_is_rejected),
        cmocka_unit_test(test_backward_starts_only_from_a_recorded_output),
        cmocka_unit_test(test_tape_rejects_misuse_and_restarts),
        cmocka_unit_test(test_backward_frees_tensors_that_only_the_tape_holds),
        cmocka_unit_test(test_backward_frees_saved_intermediate_tensors),
        cmocka_unit_test(test_gradient_callbacks_come_when_a_part_is_complete),
        cmocka_unit_test(test_op_without_backward_pass_is_rejected_on_the_tape),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
