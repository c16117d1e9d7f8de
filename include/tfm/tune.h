/* Finding out what a device is fastest with.
 *
 * Which kernels run follows from the device and from shapes, by rules that know kinds of device and not yours. Tuning
 * tries what else could run on this device, and keeps a table of what was faster:
 *
 *     tfm_tune_record record;
 *     if (tfm_tune_gemm(ctx, &record, 64, 512, 512, false, true) == TFM_OK)
 *         printf("%s: %g s, %s: %g s\n", record.baseline, record.baseline_seconds, record.best, record.best_seconds);
 *     tfm_tune_save(ctx);
 *
 * The stored table is of one device, driver and kind of device, and each context that opens on those from then on reads
 * it. Nothing is timed unless a program calls these functions, so results repeat as long as the table stays the same.
 */
#ifndef TFM_TUNE_H
#define TFM_TUNE_H

#include "device.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What trying came to. */
typedef struct tfm_tune_record {
    char baseline[64]; /* What runs without the table, such as "gpu-tiled". */
    char best[64]; /* What was fastest, such as "gpu-tiled 64x64x16/4"; the same as `baseline` if nothing was faster. */
    double baseline_seconds;  /* The median time of a run, in seconds. */
    double best_seconds;      /* The same for `best`, from the same contest of those two alone. */
    char runner_up[64];       /* What came next of all that was right; "" if nothing else was. */
    double runner_up_seconds; /* The same for `runner_up`, from the contest of all; 0 if there is none. */
    int candidates;           /* How many ways were timed, the one before included. */
    int rejected;             /* How many gave wrong results, or failed on this device; they are not used. */
} tfm_tune_record;

/* Times every way to multiply (m, k) by (k, n), either of them stored as its transpose or not. A way counts only if its
 * result agrees with the reference kernel's. The fastest, if it is then faster than the device's own heuristic by more
 * than the timings scatter when the two take turns once more, is used in this context from then on, for all GEMMs whose
 * m, n and k lie between the same powers of two. Takes seconds, most of them for building kernels.
 *
 * TFM_ERROR_UNSUPPORTED where there is nothing to tune: on CPUs, whose kernels follow from the width of their vectors,
 * and on accelerators that run the same kernels. TFM_ERROR_ARGUMENT for sizes below 1 or from 2^31 on. */
TFM_API tfm_status tfm_tune_gemm(tfm_context *ctx, tfm_tune_record *out, int64_t m, int64_t n, int64_t k,
                                 bool transpose_a, bool transpose_b);

/* The same in half precision, `precision` being TFM_F16 or TFM_BF16: of a b that is `stored` so, as weights of a model
 * opened with this precision are, or else of floats that the GEMM may round to it, as mixed-precision training does.
 * Matrix cores are among the ways where the device has some; each kernel is validated as at its first use. Such GEMMs
 * have rows of their own, "gemm bf16 nt 6 9 9" and "gemm as bf16 nt 6 9 9"; without one the device's heuristic counts,
 * or where that has no matrix cores, the row of floats. */
TFM_API tfm_status tfm_tune_gemm_half(tfm_context *ctx, tfm_tune_record *out, int64_t m, int64_t n, int64_t k,
                                      bool transpose_a, bool transpose_b, tfm_dtype precision, bool stored);

/* Times sizes of the work-groups that share a row in norms, softmax and attention, on rows of `width` and of
 * `vocabulary` numbers. Call it after the GEMMs: a driver that refuses a large group makes this context's smaller.
 * Errors as of tfm_tune_gemm. */
TFM_API tfm_status tfm_tune_workgroups(tfm_context *ctx, tfm_tune_record *out, int64_t width, int64_t vocabulary);

/* Stores in the cache folder (TFM_CACHE_DIR) what this context has changed of its table since it opened or called this
 * last. Rows that another context has stored meanwhile, in this process or another, stay; where both have changed the
 * same row, the last one counts. Where there is no table by then, since another context has removed it, all rows of
 * this one are stored. After tfm_tune_clear nothing stays that was stored before. TFM_ERROR_IO if the table cannot be
 * kept there, also where nothing has changed: ask before you tune. */
TFM_API tfm_status tfm_tune_save(tfm_context *ctx);

/* Forgets the table in this context, so that the device's own heuristics hold. What is stored stays until the next
 * tfm_tune_save, which then also removes the stored verdicts of kernel validation on this device (whether kernels for
 * matrix cores and the like are right under this driver, or have ended the program); contexts that open later validate
 * again. Does nothing for NULL. */
TFM_API void tfm_tune_clear(tfm_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
