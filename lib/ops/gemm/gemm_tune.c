/* Tuning of GEMM: tries each provider that accepts the task, with each of its settings. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ops/gemm/gemm.h"
#include "ops/tuning/tune.h"

typedef struct gemm_case {
    tfm_context *ctx;
    tfm__gemm_task task;
    char row[TFM__TUNING_TEXT_MAX];
    const tfm__gemm_provider *provider; /* in force */
    tfm_dtype stored, inputs;           /* of b; dtype that inputs may round to */
    tfm_tensor x, y;                    /* (n, 1), (m, 1) */
    float *want;                        /* [m]: a (b x) */
} gemm_case;

static tfm_status use(void *self, const char *setting) {
    gemm_case *p = self;
    const tfm_status status = tfm__tuning_db_set(p->ctx, p->row, setting[0] ? setting : NULL);
    tfm__gemm_reload_tuning(p->ctx);
    p->provider = tfm__gemm_select(p->ctx, &p->task);
    return status;
}

static tfm_status multiply(void *self) {
    gemm_case *p = self;
    return tfm__gemm_dispatch(p->ctx, p->provider, &p->task);
}

static tfm_tensor matrix(tfm_tensor x, int64_t rows, int64_t columns) {
    x.rank = 2;
    x.dims[0] = rows;
    x.dims[1] = columns;
    return x;
}

/* y = a x by the reference kernel, for one column x. */
static void times_column(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor x, bool transposed) {
    tfm__gemm_with(ctx, &tfm__gemm_reference, NULL, y, a, x, &(tfm_gemm_options){.transpose_a = transposed});
}

/* Whether the candidate's provider ran, since it may decline by now; the heuristic may pick any provider. */
static bool names(const tfm__candidate *candidate, const tfm__gemm_provider *provider) {
    const size_t length = strcspn(candidate->setting, " ");
    return length == 0 ||
           (strlen(provider->name) == length && strncmp(candidate->setting, provider->name, length) == 0);
}

/* Freivalds' check: c x is a (b x) for a random x; covers all of c at the cost of reading it ("Probabilistic machines
 * can use less running time", 1977). A wrong number in a row of c, or sums of less than fp32 precision, change the
 * row's value far more than rounding does. */
static bool right(void *self, const tfm__candidate *candidate) {
    gemm_case *p = self;
    const tfm__gemm_task *task = &p->task;
    const float poison = NAN;
    const double scale = sqrt((double)task->k * (double)task->n) * 1e-4;
    float *got = tfm__alloc((size_t)task->m, sizeof(*got));
    if (!got)
        return false;
    tfm__tensor_fill(p->ctx, task->c, &poison);
    multiply(p);
    times_column(p->ctx, &p->y, task->c, p->x, false);
    bool same = tfm_tensor_read(p->ctx, got, p->y) == TFM_OK && !tfm__gemm_declines(p->ctx, p->provider, task) &&
                names(candidate, p->provider) && tfm__gemm_uses_setting(p->ctx, p->provider, task);
    for (int64_t i = 0; i < task->m && same; i++)
        same = fabs((double)got[i] - (double)p->want[i]) <= scale;
    free(got);
    if (!same)
        tfm__log(TFM_LOG_INFO, "tune: %s: '%s' is left out: %s", p->row, candidate->setting,
                 tfm_context_status(p->ctx) != TFM_OK ? tfm_context_error(p->ctx)
                                                      : "its result is wrong, or another one computed it");
    return same;
}

/* Values that are exact in the rounding dtype, so Freivalds' check is as strict for providers that round. */
static tfm_tensor operand(gemm_case *p, const int64_t dims[2], uint64_t seed) {
    tfm_tensor x = tfm__tune_random(p->ctx, 2, dims, seed), narrow = {0}, wide = {0};
    if (p->inputs == TFM_F32)
        return x;
    tfm_cast(p->ctx, &narrow, x, p->inputs);
    tfm_cast(p->ctx, &wide, narrow, TFM_F32);
    return wide;
}

/* Operands, and the reference result. */
static bool set_up(gemm_case *p, const int64_t sizes[3], bool transpose_a, bool transpose_b) {
    tfm_context *ctx = p->ctx;
    const int64_t m = sizes[0], n = sizes[1], k = sizes[2];
    tfm_tensor column = {0}, result = {0};
    tfm__gemm_task *task = &p->task;
    *task = (tfm__gemm_task){.batch = 1,
                             .m = m,
                             .n = n,
                             .k = k,
                             .alpha = 1,
                             .shared_b = true,
                             .transpose_a = transpose_a,
                             .transpose_b = transpose_b};
    task->a = operand(p, transpose_a ? (int64_t[]){k, m} : (int64_t[]){m, k}, 1);
    task->b = operand(p, transpose_b ? (int64_t[]){n, k} : (int64_t[]){k, n}, 2);
    p->x = tfm__tune_random(ctx, 2, (int64_t[]){n, 1}, 3);
    tfm_tensor_new(ctx, &task->c, TFM_F32, 2, (int64_t[]){m, n});
    times_column(ctx, &column, task->b, p->x, transpose_b);
    times_column(ctx, &result, task->a, matrix(column, k, 1), transpose_a);
    if (p->stored != TFM_F32) {
        tfm_tensor narrow = {0};
        tfm_cast(ctx, &narrow, task->b, p->stored);
        task->b = narrow;
    }
    if (!tfm__gemm_tuning_key(p->row, task, p->inputs))
        return false;
    p->want = tfm__alloc((size_t)m, sizeof(*p->want));
    return p->want ? tfm_tensor_read(ctx, p->want, result) == TFM_OK
                   : tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message()) == TFM_OK;
}

/* The first candidate is the heuristic's choice, whose setting is among the others too: it never wins against itself.
 * It has run by then, because matrix cores are validated at their first GEMM and skipped if that fails. Settings are
 * tried one by one, since a provider with a failing heuristic choice may be right with another. */
static void add_candidates(tfm__tuner *c, gemm_case *p) {
    char setting[TFM__TUNING_TEXT_MAX], row[TFM__TUNING_TEXT_MAX];
    tfm__tuner_add(c, "%s", "");
    use(p, "");
    multiply(p);
    use(p, "");
    const tfm__gemm_provider *by_rule = p->provider;
    /* A candidate must pay for its launches besides the GEMM. */
    c->min_speedup = by_rule && by_rule->fuses_norm ? 1.3 : TFM__TUNE_MIN_SPEEDUP;
    for (size_t i = 0; i < TFM__GEMM_PROVIDERS; i++) {
        const tfm__gemm_provider *provider = tfm__gemm_providers[i];
        if (!provider->candidate && provider != by_rule && !tfm__gemm_declines(p->ctx, provider, &p->task)) {
            use(p, provider->name);
            if (p->provider == provider) /* else TFM_GEMM excludes it */
                tfm__tuner_add(c, "%s", provider->name);
        }
        for (size_t k = 0; provider->candidate && provider->candidate(p->ctx, &p->task, k, setting); k++) {
            if (!setting[0] || snprintf(row, sizeof(row), "%s %s", provider->name, setting) >= (int)sizeof(row))
                continue;
            use(p, row);
            if (p->provider == provider)
                tfm__tuner_add(c, "%s", row);
        }
    }
    use(p, "");
}

static tfm_status tune_case(gemm_case *p, tfm_tune_record *out, const int64_t sizes[3], bool transpose_a,
                            bool transpose_b) {
    tfm_context *ctx = p->ctx;
    tfm__tuner *c = tfm__alloc(1, sizeof(*c));
    char before[TFM__TUNING_TEXT_MAX];
    size_t winner = 0;
    if (c && set_up(p, sizes, transpose_a, transpose_b)) {
        const char *now = tfm__tuning_db_find(ctx, p->row);
        snprintf(before, sizeof(before), "%s", now ? now : "");
        *c = (tfm__tuner){.ctx = ctx, .self = p, .apply = use, .run = multiply, .validate = right};
        add_candidates(c, p);
        snprintf(out->baseline, sizeof(out->baseline), "%s", p->provider ? p->provider->name : "");
        tfm__tuner_run(c, out, &winner);
        snprintf(out->best, sizeof(out->best), "%s", winner > 0 ? c->candidates[winner].setting : out->baseline);
        if (c->runner_up < c->count)
            snprintf(out->runner_up, sizeof(out->runner_up), "%s",
                     c->runner_up > 0 ? c->candidates[c->runner_up].setting : out->baseline);
        if (tfm_context_status(ctx) != TFM_OK) { /* the previous row stays */
            tfm__tuning_db_set(ctx, p->row, before[0] ? before : NULL);
            tfm__gemm_reload_tuning(ctx);
        }
    } else if (!c) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    }
    free(p->want);
    free(c);
    return tfm_context_status(ctx);
}

/* For a b stored in this dtype, and for fp32 that may be rounded to it. */
static tfm_status tune(tfm_context *ctx, const char *call, tfm_tune_record *out, const int64_t sizes[3],
                       bool transpose_a, bool transpose_b, tfm_dtype stored, tfm_dtype rounded) {
    tfm_status status = tfm__tune_begin(ctx, call, out);
    if (status != TFM_OK)
        return status;
    for (int i = 0; i < 3; i++)
        if (sizes[i] < 1 || sizes[i] > INT32_MAX)
            return tfm__fail(TFM_ERROR_ARGUMENT,
                             "%s: the sizes are %" PRId64 ", %" PRId64 " and %" PRId64
                             ": each must be 1 or more, and stay below 2^31",
                             call, sizes[0], sizes[1], sizes[2]);
    const int depth = tfm__scope_depth(ctx);
    const bool recorded = tfm__tape_pause(ctx);
    const tfm_dtype before = tfm__context_set_gemm_input_dtype(ctx, rounded);
    do {
        gemm_case p = {.ctx = ctx, .stored = stored, .inputs = stored != TFM_F32 ? stored : rounded};
        *out = (tfm_tune_record){0};
        tfm_scope_open(ctx);
        status = tune_case(&p, out, sizes, transpose_a, transpose_b);
    } while (tfm__context_retry(ctx, depth, status));
    if (status == TFM_OK)
        tfm_scope_close(ctx, 0, NULL);
    tfm__context_set_gemm_input_dtype(ctx, before);
    tfm__tape_resume(ctx, recorded);
    return status;
}

tfm_status tfm_tune_gemm(tfm_context *ctx, tfm_tune_record *out, int64_t m, int64_t n, int64_t k, bool transpose_a,
                         bool transpose_b) {
    return tune(ctx, "tune_gemm", out, (int64_t[]){m, n, k}, transpose_a, transpose_b, TFM_F32, TFM_F32);
}

tfm_status tfm_tune_gemm_half(tfm_context *ctx, tfm_tune_record *out, int64_t m, int64_t n, int64_t k, bool transpose_a,
                              bool transpose_b, tfm_dtype precision, bool stored) {
    if (precision != TFM_F16 && precision != TFM_BF16)
        return TFM__NEEDS("tune_gemm_half", ctx, out) != TFM_OK
                   ? TFM_ERROR_ARGUMENT
                   : tfm__fail(TFM_ERROR_ARGUMENT, "tune_gemm_half: the precision is neither F16 nor BF16");
    return tune(ctx, "tune_gemm_half", out, (int64_t[]){m, n, k}, transpose_a, transpose_b,
                stored ? precision : TFM_F32, stored ? TFM_F32 : precision);
}
