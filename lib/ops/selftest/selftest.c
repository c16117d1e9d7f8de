/* tfm_selftest: runs the checks of every op. */
#include <stdio.h>
#include <string.h>
#include "op_list.h"
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"
#include "tfm/selftest.h"

/* fp32 sums of a few hundred terms stay far below; a wrong index or half-precision arithmetic does not. */
static const double TOLERANCE = 2e-5;

static void free_allocations(tfm__check *c) {
    for (size_t i = 0; i < c->allocation_count; i++)
        free(c->allocations[i]);
}

static bool run_check(tfm_context *ctx, const tfm__check_entry *entry, tfm_selftest_fn report, void *user) {
    tfm__check c = {0};
    char message[1024] = "";
    const int depth = tfm__scope_depth(ctx);
    const bool recorded = tfm__tape_pause(ctx); /* the caller's tape resumes afterwards */
    do {
        free_allocations(&c);
        c = (tfm__check){.ctx = ctx, .form = entry->form, .number = entry->number, .random = 2017};
        tfm_scope_open(ctx);
        entry->run(&c);
    } while (tfm__context_retry(ctx, depth, tfm_context_status(ctx)));
    tfm_selftest_record record = {entry->op, entry->form, TFM_SELFTEST_PASS, c.error, message};
    if (tfm_context_status(ctx) != TFM_OK) {
        record.state = TFM_SELFTEST_FAIL;
        snprintf(message, sizeof(message), "%s", tfm_context_error(ctx));
        tfm__context_recover(ctx, depth);
    } else {
        tfm_scope_close(ctx, 0, NULL);
        if (!(c.error <= TOLERANCE)) { /* also if another part of it was unavailable */
            record.state = TFM_SELFTEST_FAIL;
            snprintf(message, sizeof(message), "error %.1e, at most %.0e is right", c.error, TOLERANCE);
        } else if (c.skip_reason) {
            record.state = TFM_SELFTEST_UNAVAILABLE;
            snprintf(message, sizeof(message), "%s", c.skip_reason);
        }
    }
    free_allocations(&c);
    tfm__tape_resume(ctx, recorded);
    return report(user, &record);
}

/* TFM__OPS is meson.build's list: X(activate) X(add) ... */
#define DECLARE(op) extern const tfm__check_entry tfm__selftest_##op[];
#define NAME(op) tfm__selftest_##op,
TFM__OPS(DECLARE)
#define TEXT(op) #op,
static const tfm__check_entry *const OPS[] = {TFM__OPS(NAME)};
static const char *const FILES[] = {TFM__OPS(TEXT)};

/* Whether a check belongs to an op, named by its file or, if a file has several ops, by the function. */
static bool belongs(const char *op, size_t file, const tfm__check_entry *entry) {
    return !op || strcmp(op, FILES[file]) == 0 || strcmp(op, entry->op) == 0;
}

tfm_status tfm_selftest(tfm_context *ctx, const char *op, tfm_selftest_fn report, void *user) {
    if (TFM__NEEDS("selftest", ctx, report ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__context_ready(ctx, "selftest") != TFM_OK)
        return tfm_context_status(ctx);
    bool any = false;
    for (size_t i = 0; i < TFM__COUNT(OPS); i++)
        for (const tfm__check_entry *entry = OPS[i]; entry->op; entry++) {
            if (!belongs(op, i, entry))
                continue;
            any = true;
            if (!run_check(ctx, entry, report, user))
                return tfm__fail(TFM_ERROR_CANCELLED, "selftest: stopped after %s %s", entry->op, entry->form);
        }
    return any ? TFM_OK
               : tfm__fail(TFM_ERROR_ARGUMENT,
                           "selftest: there is no op \"%.40s\": give a name from the first column of a whole "
                           "self-test, such as softmax",
                           op);
}
