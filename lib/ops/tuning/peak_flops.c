/* Peak multiply-add throughput of a device: cl/tuning/peak_flops.cl. */
#include "ops/ops.h"

enum { CHAINS = 12, GROUPS = 64 }; /* groups a compute unit: enough to hide all latencies, and to finish together */

static tfm_status launch(tfm_context *ctx, tfm_tensor y, size_t items, int64_t rounds) {
    const int group = tfm__context_tuning(ctx)->group;
    return tfm__launch(ctx, tfm__kernel_get(ctx, "peak_flops", "peak_flops", ""), TFM__GRID_1D(items, (size_t)group),
                       TFM__ARGS(TFM__T(y), TFM__I(rounds), TFM__F_AS("a", 0.5f), TFM__F_AS("b", 0.25f)));
}

/* Repeats launches of about a tenth of a second; the fastest counts. */
static tfm_status measure(tfm_context *ctx, double *flops) {
    const double lasts = 0.1;
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const unsigned units = tfm_context_device(ctx)->compute_units;
    const size_t items = (size_t)(units > 0 ? units : 1) * GROUPS * (size_t)tuning->group;
    tfm_tensor y = {0};
    tfm_tensor_new(ctx, &y, TFM_F32, 1, (int64_t[]){(int64_t)items});
    int64_t rounds = 64;
    for (int left = 5; left > 0 && tfm_context_status(ctx) == TFM_OK;) {
        launch(ctx, y, items, rounds);
        tfm_context_finish(ctx); /* built, and the device clocked up */
        const double start = tfm__seconds();
        launch(ctx, y, items, rounds);
        tfm_context_finish(ctx);
        const double seconds = tfm__seconds() - start;
        const double rate =
            2.0 * CHAINS * tuning->width * (double)items * (double)rounds / (seconds > 0 ? seconds : 1e-9);
        if (seconds < lasts / 2 && rounds < INT64_C(1) << 40) {
            rounds *= 2;
            continue;
        }
        *flops = rate > *flops ? rate : *flops;
        left--;
    }
    return tfm_context_status(ctx);
}

tfm_status tfm_measure_peak_flops(tfm_context *ctx, double *flops) {
    if (TFM__NEEDS("measure_peak", ctx, flops) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *flops = 0;
    if (tfm__context_ready(ctx, "measure_peak") != TFM_OK)
        return tfm_context_status(ctx);
    const int depth = tfm__scope_depth(ctx);
    tfm_status status;
    do {
        tfm_scope_open(ctx);
        status = measure(ctx, flops);
    } while (tfm__context_retry(ctx, depth, status));
    return status == TFM_OK ? tfm_scope_close(ctx, 0, NULL) : status;
}
