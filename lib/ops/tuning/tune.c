/* The contest that finds a device's fastest settings, and the table that stores them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/random.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/kernel_validation.h"
#include "ops/tuning/tune.h"

/* Target duration of a turn, so that clock resolution and the final wait do not matter. */
static const double ROUND_SECONDS = 0.01;
/* Only candidates nearly as fast as the best continue after their first turn. */
static const double PRUNE_RATIO = 1.25;
enum { MAX_RUNS = 1000 };

void tfm__tuner_add(tfm__tuner *c, const char *format, ...) {
    if (c->count == TFM__MAX_CANDIDATES)
        return;
    tfm__candidate *candidate = &c->candidates[c->count++];
    *candidate = (tfm__candidate){0};
    va_list args;
    va_start(args, format);
    vsnprintf(candidate->setting, sizeof(candidate->setting), format, args);
    va_end(args);
}

float *tfm__tune_random_host(size_t count, uint64_t seed) {
    float *numbers = tfm__alloc(count, sizeof(*numbers));
    tfm__random random = tfm__random_new(seed, 0);
    uint64_t bits = 0;
    for (size_t i = 0; numbers && i < count; i++) {
        bits = i % 4 == 0 ? tfm__random_next(&random) : bits >> 16;
        const float size = 0.5f + (float)(bits & 0x7fff) * 0x1p-16f;
        numbers[i] = bits & 0x8000 ? -size : size;
    }
    return numbers;
}

tfm_tensor tfm__tune_random(tfm_context *ctx, int rank, const int64_t *dims, uint64_t seed) {
    tfm_tensor x = {0};
    if (tfm_tensor_new(ctx, &x, TFM_F32, rank, dims) != TFM_OK)
        return x;
    float *host = tfm__tune_random_host(tfm_tensor_count(x), seed);
    if (host)
        tfm_tensor_write(ctx, x, host);
    else
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    free(host);
    return x;
}

/* ---- Turns ---- */

static double time_round(tfm__tuner *c, int times) {
    const double start = tfm__seconds();
    for (int i = 0; i < times; i++)
        c->run(c->self);
    tfm_context_finish(c->ctx);
    return (tfm__seconds() - start) / times;
}

/* Whether the candidate failed: it is excluded and the context recovers, except for the first candidate's failure. */
static bool check_failed(tfm__tuner *c, tfm__candidate *candidate, int depth) {
    if (tfm_context_status(c->ctx) == TFM_OK)
        return false;
    if (candidate != c->candidates) {
        candidate->rejected = true;
        tfm__log(TFM_LOG_INFO, "tune: %s failed: %s", candidate->setting, tfm_context_error(c->ctx));
        tfm__context_recover(c->ctx, depth);
    }
    return true;
}

/* Builds, checks, and runs the first turn. */
static void first_round(tfm__tuner *c, tfm__candidate *candidate, double best) {
    const int depth = tfm__scope_depth(c->ctx);
    c->apply(c->self, candidate->setting);
    candidate->rejected = !c->validate(c->self, candidate);
    const double once = candidate->rejected ? 0 : time_round(c, 1);
    candidate->times = once >= ROUND_SECONDS             ? 1
                       : once * MAX_RUNS < ROUND_SECONDS ? MAX_RUNS
                                                         : (int)(ROUND_SECONDS / once) + 1;
    if (!candidate->rejected && once < 4 * best) /* slow candidates get no more turns */
        candidate->seconds[candidate->rounds++] = time_round(c, candidate->times);
    else if (!candidate->rejected)
        candidate->seconds[candidate->rounds++] = once;
    check_failed(c, candidate, depth);
}

static double median(const tfm__candidate *candidate) {
    double sorted[TFM__TUNE_ROUNDS] = {0};
    for (int i = 0; i < candidate->rounds; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > candidate->seconds[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = candidate->seconds[i];
    }
    return sorted[candidate->rounds / 2];
}

static double fastest(const tfm__candidate *candidate) {
    double least = candidate->seconds[0];
    for (int i = 1; i < candidate->rounds; i++)
        least = candidate->seconds[i] < least ? candidate->seconds[i] : least;
    return least;
}

void tfm__tuner_select(tfm__tuner *c, tfm_tune_record *record, size_t *winner) {
    *winner = 0;
    c->runner_up = c->count;
    record->baseline_seconds = median(&c->candidates[0]);
    const double rival = c->strict ? fastest(&c->candidates[0]) : record->baseline_seconds;
    double least = c->candidates[0].rejected ? INFINITY : rival / c->min_speedup;
    for (size_t i = 1; i < c->count; i++)
        if (!c->candidates[i].rejected && !c->candidates[i].excluded && c->candidates[i].rounds > 1 &&
            median(&c->candidates[i]) < least) {
            least = median(&c->candidates[i]);
            *winner = i;
        }
    record->best_seconds = median(&c->candidates[*winner]);
    for (size_t i = 0; i < c->count; i++)
        if (i != *winner && !c->candidates[i].rejected && !c->candidates[i].excluded &&
            (c->runner_up == c->count || median(&c->candidates[i]) < median(&c->candidates[c->runner_up])))
            c->runner_up = i;
    record->runner_up_seconds = c->runner_up < c->count ? median(&c->candidates[c->runner_up]) : 0;
}

/* One more turn of a candidate; false after a failure, which excludes it or is the context's. */
static bool another_round(tfm__tuner *c, tfm__candidate *candidate) {
    const int depth = tfm__scope_depth(c->ctx);
    c->apply(c->self, candidate->setting);
    const double seconds = time_round(c, candidate->times);
    if (check_failed(c, candidate, depth))
        return false;
    candidate->seconds[candidate->rounds++] = seconds;
    return true;
}

/* The fastest of many may owe that to chance, and the heuristic may have run while the machine was busy. So the two
 * compete again, with alternating order, and the reported times are those of this second contest. The winner must be
 * below all turns of the heuristic. */
static void confirm_winner(tfm__tuner *c, tfm_tune_record *record, size_t *winner) {
    const bool strict = c->strict;
    const size_t next = c->runner_up, rival = *winner;
    const double other = record->runner_up_seconds;
    tfm__candidate *pair[2] = {&c->candidates[0], &c->candidates[rival]};
    for (size_t i = 1; i < c->count; i++)
        c->candidates[i].excluded = i != rival;
    pair[0]->rounds = pair[1]->rounds = 0;
    for (int i = 0; i < 2 * TFM__TUNE_ROUNDS && tfm_context_status(c->ctx) == TFM_OK; i++)
        if (!another_round(c, pair[(i ^ i >> 1) & 1])) {
            record->candidates--;
            record->rejected++;
            break;
        }
    if (tfm_context_status(c->ctx) != TFM_OK)
        return;
    if (pair[1]->rejected) {
        *winner = 0;
        record->best_seconds = record->baseline_seconds;
        c->runner_up = next == 0 ? c->count : next;
        record->runner_up_seconds = next == 0 ? 0 : other;
        return;
    }
    c->strict = true;
    tfm__tuner_select(c, record, winner);
    c->strict = strict;
    if (*winner != 0) { /* the next candidate is compared with all others, not with the heuristic of this contest */
        c->runner_up = next;
        record->runner_up_seconds = next == 0 ? record->baseline_seconds : other;
    }
}

tfm_status tfm__tuner_run(tfm__tuner *c, tfm_tune_record *record, size_t *winner) {
    double best = INFINITY;
    for (size_t i = 0; i < c->count && tfm_context_status(c->ctx) == TFM_OK; i++) {
        tfm__candidate *candidate = &c->candidates[i];
        first_round(c, candidate, best);
        record->candidates += !candidate->rejected;
        record->rejected += candidate->rejected;
        if (!candidate->rejected && candidate->seconds[0] < best)
            best = candidate->seconds[0];
    }
    if (tfm_context_status(c->ctx) != TFM_OK)
        return tfm_context_status(c->ctx);
    for (int round = 1; round < TFM__TUNE_ROUNDS; round++)
        for (size_t i = 0; i < c->count && tfm_context_status(c->ctx) == TFM_OK; i++) {
            tfm__candidate *candidate = &c->candidates[i];
            /* The heuristic's choice is timed as often as the candidates, unless it is far behind. */
            const double slow = i == 0 ? 4 : PRUNE_RATIO;
            if (candidate->rejected || candidate->seconds[0] > slow * best)
                continue;
            if (!another_round(c, candidate) && i > 0) {
                record->candidates--;
                record->rejected++;
            }
        }
    tfm__tuner_select(c, record, winner);
    if (*winner > 0 && !c->candidates[0].rejected && tfm_context_status(c->ctx) == TFM_OK)
        confirm_winner(c, record, winner);
    c->apply(c->self, c->candidates[*winner].setting);
    return tfm_context_status(c->ctx);
}

/* ---- Row work-groups ---- */

/* A norm, a decode step's operations on logits and KV cache, and attention within sentences. */
enum { ROW_TASKS = 4 };

typedef struct rows {
    tfm_context *ctx;
    tfm_tensor x, gamma, logits, query, past, whole; /* (256, E), (E), (32, V), (32, 1, E), (32, 64, E), (8, 64, E) */
    tfm_tensor y[ROW_TASKS];
    float *want[ROW_TASKS]; /* result of the first candidate */
    int heads;
} rows;

static tfm_status apply_group(void *self, const char *setting) {
    rows *r = self;
    const tfm_status status = tfm__tuning_db_set(r->ctx, TFM__TUNING_WORKGROUP, setting[0] ? setting : NULL);
    tfm__tuning_db_apply(r->ctx);
    return status;
}

static tfm_status run_rows(void *self) {
    rows *r = self;
    tfm_layernorm(r->ctx, &r->y[0], NULL, r->x, (tfm_tensor){0}, r->gamma, r->gamma, 1e-5f);
    tfm_log_softmax(r->ctx, &r->y[1], r->logits);
    const tfm_attention_options options = {.heads = r->heads};
    tfm_attention(r->ctx, &r->y[2], r->query, r->past, r->past, &options);
    return tfm_attention(r->ctx, &r->y[3], r->whole, r->whole, r->whole, &options);
}

/* Group sizes change the order of sums, which changes the last bits; the self-test validates the first result. */
static bool close_to(const float *got, const float *want, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f * fmaxf(1, fabsf(want[i]))))
            return false;
    return true;
}

static bool validate_rows(void *self, const tfm__candidate *candidate) {
    (void)candidate;
    rows *r = self;
    const float poison = NAN;
    bool right = true;
    for (int i = 0; i < ROW_TASKS && r->y[i].buffer; i++)
        tfm__tensor_fill(r->ctx, r->y[i], &poison);
    run_rows(r);
    for (int i = 0; i < ROW_TASKS && right; i++) {
        const size_t count = tfm_tensor_count(r->y[i]);
        float *got = tfm__alloc(count, sizeof(*got));
        right =
            got && tfm_tensor_read(r->ctx, got, r->y[i]) == TFM_OK && (!r->want[i] || close_to(got, r->want[i], count));
        if (right && !r->want[i])
            r->want[i] = got;
        else
            free(got);
    }
    return right;
}

static tfm_status tune_group_size(tfm_context *ctx, tfm_tune_record *out, int64_t width, int64_t vocabulary) {
    enum { ROWS = 256, SENTENCES = 32, PAST = 64, HEAD = 64, LARGEST = 256 };
    rows r = {.ctx = ctx, .heads = width % HEAD == 0 ? (int)(width / HEAD) : 1};
    tfm__tuner c = {.ctx = ctx,
                    .self = &r,
                    .apply = apply_group,
                    .run = run_rows,
                    .validate = validate_rows,
                    .min_speedup = TFM__TUNE_MIN_SPEEDUP};
    size_t winner = 0;
    r.x = tfm__tune_random(ctx, 2, (int64_t[]){ROWS, width}, 1);
    r.gamma = tfm__tune_random(ctx, 1, &width, 2);
    r.logits = tfm__tune_random(ctx, 2, (int64_t[]){SENTENCES, vocabulary}, 3);
    r.query = tfm__tune_random(ctx, 3, (int64_t[]){SENTENCES, 1, width}, 4);
    r.past = tfm__tune_random(ctx, 3, (int64_t[]){SENTENCES, PAST, width}, 5);
    r.whole = tfm__tune_random(ctx, 3, (int64_t[]){SENTENCES / 4, PAST, width}, 6);
    const char *now = tfm__tuning_db_find(ctx, TFM__TUNING_WORKGROUP);
    char before[TFM__TUNING_TEXT_MAX];
    snprintf(before, sizeof(before), "%s", now ? now : "");
    apply_group(&r, "");
    const int own = tfm__context_tuning(ctx)->group;
    const tfm__limits limits = *tfm__context_limits(ctx);
    tfm__tuner_add(&c, "%s", "");
    for (int group = 16; group <= LARGEST && (size_t)group <= limits.max_group && (size_t)group <= limits.max_items[0];
         group *= 2)
        if (group != own)
            tfm__tuner_add(&c, "%d", group);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__tuner_run(&c, out, &winner);
    if (tfm_context_status(ctx) != TFM_OK) /* the previous row stays */
        apply_group(&r, before);
    for (int i = 0; i < ROW_TASKS; i++)
        free(r.want[i]);
    snprintf(out->baseline, sizeof(out->baseline), "groups of %d", own);
    snprintf(out->best, sizeof(out->best), "groups of %s", c.candidates[winner].setting);
    if (winner == 0)
        snprintf(out->best, sizeof(out->best), "%s", out->baseline);
    if (c.runner_up == 0)
        snprintf(out->runner_up, sizeof(out->runner_up), "%s", out->baseline);
    else if (c.runner_up < c.count)
        snprintf(out->runner_up, sizeof(out->runner_up), "groups of %s", c.candidates[c.runner_up].setting);
    return tfm_context_status(ctx);
}

/* ---- Public functions ---- */

bool tfm__tune_supported(const tfm_context *ctx) {
    return tfm__context_tuning(ctx)->class == TFM__CLASS_GPU;
}

tfm_status tfm__tune_begin(tfm_context *ctx, const char *call, tfm_tune_record *out) {
    if (TFM__NEEDS(call, ctx, out) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *out = (tfm_tune_record){0};
    if (tfm__context_ready(ctx, call) != TFM_OK)
        return tfm_context_status(ctx);
    return tfm__tune_supported(ctx)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "%s: there is nothing to tune on %s: its kernels depend only on its vector width", call,
                           tfm_context_device(ctx)->name);
}

tfm_status tfm_tune_workgroups(tfm_context *ctx, tfm_tune_record *out, int64_t width, int64_t vocabulary) {
    tfm_status status = tfm__tune_begin(ctx, "tune_workgroups", out);
    if (status != TFM_OK)
        return status;
    if (width < 1 || vocabulary < 1)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "tune_workgroups: the width is %lld and the vocabulary %lld: both must be 1 or more",
                         (long long)width, (long long)vocabulary);
    const int depth = tfm__scope_depth(ctx);
    const bool recorded = tfm__tape_pause(ctx);
    do {
        *out = (tfm_tune_record){0};
        tfm_scope_open(ctx);
        status = tune_group_size(ctx, out, width, vocabulary);
    } while (tfm__context_retry(ctx, depth, status));
    if (status == TFM_OK)
        tfm_scope_close(ctx, 0, NULL);
    tfm__tape_resume(ctx, recorded);
    return status;
}

void tfm_tune_clear(tfm_context *ctx) {
    if (!ctx)
        return;
    tfm__tuning_db_clear(ctx);
    tfm__tuning_db_apply(ctx);
    tfm__gemm_reload_tuning(ctx);
}

tfm_status tfm_tune_save(tfm_context *ctx) {
    if (TFM__NEEDS("tune_save", ctx) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const bool cleared = tfm__tuning_db_is_cleared(ctx);
    tfm_status status = cleared ? TFM_OK : tfm__tuning_db_check_writable(ctx);
    if (status == TFM_OK)
        status = tfm__tuning_db_save(ctx);
    return status == TFM_OK && cleared ? tfm__validation_forget(ctx) : status;
}
