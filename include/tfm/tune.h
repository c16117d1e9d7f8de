/* Autotuning: finds the fastest kernels for a device.
 *
 * By default, rules for each kind of device and the shapes select the kernels. Tuning times the alternatives on this
 * device and stores the faster ones in a table:
 *
 *     tfm_tune_record record;
 *     if (tfm_tune_gemm(ctx, &record, 64, 512, 512, false, true) == TFM_OK)
 *         printf("%s: %g s, %s: %g s\n", record.baseline, record.baseline_seconds, record.best, record.best_seconds);
 *     tfm_tune_save(ctx);
 *
 * The stored table is for one device, driver and kind of device; contexts opened on them later read it. Nothing is
 * timed unless a program calls these functions, so results are reproducible as long as the table does not change. */
#ifndef TFM_TUNE_H
#define TFM_TUNE_H

#include "device.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The result of tuning. */
typedef struct tfm_tune_record {
    char baseline[64]; /* The choice without the table, such as "gpu-tiled". */
    char best[64]; /* The fastest candidate, such as "gpu-tiled 64x64x16/4"; equal to `baseline` if none was faster. */
    double baseline_seconds;  /* The median time of a run, in seconds. */
    double best_seconds;      /* The same for `best`, from a final comparison with `baseline`. */
    char runner_up[64];       /* The second of all correct candidates; "" if there is none. */
    double runner_up_seconds; /* The same for `runner_up`, from the comparison of all; 0 if there is none. */
    int candidates;           /* Candidates that were timed, with the baseline. */
    int rejected;             /* Candidates with wrong results or failures on this device; not used. */
} tfm_tune_record;

/* Times all candidates for an (m, k) by (k, n) GEMM, with either matrix transposed or not. A candidate must agree with
 * the reference kernel. The fastest is used in this context from then on for all GEMMs with m, n and k between the same
 * powers of two, if a second, alternating comparison with the device's heuristic confirms it beyond the scatter of the
 * timings. Takes seconds, mostly for building kernels.
 *
 * TFM_ERROR_UNSUPPORTED if there is nothing to tune: on CPUs, whose kernels depend only on the vector width, and on
 * accelerators with the same kernels. TFM_ERROR_ARGUMENT for sizes below 1 or from 2^31 on. */
TFM_API tfm_status tfm_tune_gemm(tfm_context *ctx, tfm_tune_record *out, int64_t m, int64_t n, int64_t k,
                                 bool transpose_a, bool transpose_b);

/* The same in half precision, with `precision` TFM_F16 or TFM_BF16. If `stored`, b is stored in it, as weights of a
 * model opened with this precision are; otherwise the inputs are fp32 that the GEMM may round to it, as in
 * mixed-precision training. Candidates include matrix cores if the device has them; each kernel is validated as at its
 * first use. The table has separate rows for such GEMMs, "gemm bf16 nt 6 9 9" and "gemm as bf16 nt 6 9 9". Without one,
 * the device's heuristic decides, or on devices without matrix cores the fp32 row. */
TFM_API tfm_status tfm_tune_gemm_half(tfm_context *ctx, tfm_tune_record *out, int64_t m, int64_t n, int64_t k,
                                      bool transpose_a, bool transpose_b, tfm_dtype precision, bool stored);

/* Times work-group sizes for the row-wise kernels of norms, softmax and attention, on rows of `width` and of
 * `vocabulary` elements. Call it after tuning GEMMs: a driver that refuses a large group makes this context use smaller
 * ones. Errors as of tfm_tune_gemm. */
TFM_API tfm_status tfm_tune_workgroups(tfm_context *ctx, tfm_tune_record *out, int64_t width, int64_t vocabulary);

/* Stores the context's changes to the table since it opened or last called this, in the cache folder (TFM_CACHE_DIR).
 * Rows stored meanwhile by other contexts or processes stay; for the same row, the last writer wins. If the table was
 * removed meanwhile, all rows of this context are stored. After tfm_tune_clear, all stored rows are replaced.
 * TFM_ERROR_IO if the table cannot be stored there, also without changes: call this before tuning to check. */
TFM_API tfm_status tfm_tune_save(tfm_context *ctx);

/* Discards the table in this context, so that the device's heuristics apply. The stored table stays until the next
 * tfm_tune_save, which then also removes the stored results of kernel validation for this device (whether kernels for
 * matrix cores and similar features are correct under this driver, or have ended the program); contexts opened later
 * validate again. Does nothing for NULL. */
TFM_API void tfm_tune_clear(tfm_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
