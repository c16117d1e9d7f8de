/* The self-test of every op once more, forward and then backward, for races.sh, which looks on with oclgrind: as on a
 * GPU, and what matrix engines take by each of them, emulated.
 *     races NAME...          ops and engines; without a name it lists them
 * Gradients are made, and nothing is said of their values: tests of each op do that. Prints a line for each check. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/cl.h"
#include "op_list.h"
#include "ops/selftest.h"
#include "ops/tape.h"

#define DECLARE(op) extern const tfm__check_entry tfm__selftest_##op[];
#define NAME(op) tfm__selftest_##op,
TFM__OPS(DECLARE)
#define QUOTED(op) #op,
static const tfm__check_entry *const OPS[] = {TFM__OPS(NAME)};
static const char *const NAMES[] = {TFM__OPS(QUOTED)};
static const char *const ENGINES[TFM__ENGINES] = {
    [TFM__ENGINE_MMA] = "mma", [TFM__ENGINE_MMA_8] = "mma_8", [TFM__ENGINE_WMMA] = "wmma", [TFM__ENGINE_MFMA] = "mfma"};

static int failed, backwards, ran;

static bool by_engine(const tfm__check_entry *entry) {
    return strncmp(entry->form, "engine", 6) == 0;
}

/* The linker puts these two in the place of those that checks call (meson.build): every input is watched, and what is
 * judged goes backward. */
tfm_tensor __real_tfm__check_fill(tfm__check *c, void *host, tfm_dtype dtype, int rank, const int64_t *dims, int below);
tfm_tensor __wrap_tfm__check_fill(tfm__check *c, void *host, tfm_dtype dtype, int rank, const int64_t *dims, int below);
void __real_tfm__check_judge(tfm__check *c, tfm_tensor got, const double *want);
void __wrap_tfm__check_judge(tfm__check *c, tfm_tensor got, const double *want);

/* Random numbers that the check knows nothing of. */
static tfm_tensor numbers(tfm_context *ctx, int rank, const int64_t *dims) {
    tfm__check own = {.ctx = ctx, .random = 2027};
    float *host;
    const tfm_tensor x = __real_tfm__check_fill(&own, &host, TFM_F32, rank, dims, 0);
    free(host);
    return x;
}

tfm_tensor __wrap_tfm__check_fill(tfm__check *c, void *host, tfm_dtype dtype, int rank, const int64_t *dims,
                                  int below) {
    const tfm_tensor x = __real_tfm__check_fill(c, host, dtype, rank, dims, below);
    if (dtype == TFM_F32 && tfm__tape_on(c->ctx))
        tfm_tape_watch(c->ctx, x, numbers(c->ctx, rank, dims));
    return x;
}

void __wrap_tfm__check_judge(tfm__check *c, tfm_tensor got, const double *want) {
    __real_tfm__check_judge(c, got, want);
    if (!tfm__tape_on(c->ctx))
        return;
    const bool loss = tfm_tensor_count(got) == 1; /* from which one walks back with a one */
    const tfm_tensor dy = loss ? (tfm_tensor){0} : numbers(c->ctx, got.rank, got.dims);
    backwards += tfm_backward(c->ctx, got, dy) == TFM_OK;
    tfm_tape_start(c->ctx); /* for what else it judges */
}

/* What has no backward pass is refused while the tape records, and is none of the failures. */
static void run(tfm_context *ctx, const tfm__check_entry *entry, bool taped, const char *by) {
    tfm__check c = {.ctx = ctx, .number = entry->number, .random = 2017};
    const int depth = tfm__scope_depth(ctx), before = backwards;
    tfm_scope_open(ctx);
    if (taped)
        tfm_tape_start(ctx);
    entry->run(&c);
    const tfm_status status = tfm_context_status(ctx);
    const bool right = (status == TFM_OK || (taped && status == TFM_ERROR_ARGUMENT)) && (c.why || c.error <= 2e-5);
    if (status != TFM_OK)
        tfm__context_recover(ctx, depth);
    else
        tfm_scope_close(ctx, 0, NULL);
    tfm_tape_stop(ctx);
    for (size_t i = 0; i < c.block_count; i++)
        free(c.blocks[i]);
    const bool counts = !taped || backwards > before;
    if (c.why && !taped)
        printf("%s %s %s: not here, %s\n", entry->op, entry->form, by, c.why);
    else if (counts)
        printf("%s %s %s: %s%s\n", entry->op, entry->form, by, taped ? "backward" : "forward", right ? "" : ", wrong");
    fflush(stdout);
    ran += counts && !c.why;
    failed += counts && !right;
}

/* The checks of the op of this name. */
static void run_op(tfm_context *ctx, const char *name) {
    for (size_t i = 0; i < TFM__COUNT(OPS); i++)
        for (const tfm__check_entry *entry = OPS[i]; entry->op; entry++)
            if (strcmp(NAMES[i], name) == 0 && !by_engine(entry) && strncmp(entry->form, "clblast", 7) != 0)
                for (int taped = 0; taped < 2; taped++)
                    run(ctx, entry, taped, "");
}

/* The checks of the engine of this name. */
static void run_engine(tfm_context *ctx, const char *name) {
    ctx->tuning.engine_emulated = true;
    for (tfm__engine e = TFM__ENGINE_MMA; e < TFM__ENGINES; e++)
        for (const tfm__check_entry *entry = tfm__selftest_gemm; strcmp(ENGINES[e], name) == 0 && entry->op; entry++)
            if (by_engine(entry)) {
                ctx->tuning.engine = e;
                run(ctx, entry, false, name);
            }
    ctx->tuning.engine = TFM__NO_ENGINE;
}

int main(int count, char **arguments) {
    if (count == 1) {
        for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
            puts(NAMES[i]);
        for (tfm__engine e = TFM__ENGINE_MMA; e < TFM__ENGINES; e++)
            puts(ENGINES[e]);
        return 0;
    }
    tfm_context *ctx = NULL;
    if (tfm_context_open(&ctx, &(tfm_context_options){.variant = "gpu"}) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        return 1;
    }
    for (int i = 1; i < count; i++) {
        run_op(ctx, arguments[i]);
        run_engine(ctx, arguments[i]);
    }
    tfm_context_free(&ctx);
    return failed > 0 || ran == 0;
}
