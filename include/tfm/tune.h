/* Finding out what a device is fastest with.
 *
 * Which kernels run follows from the device and from shapes, by rules that know kinds of device and not yours. Tuning
 * tries what else could run on this device, and keeps a table of what was faster:
 *
 *     tfm_tune_record record;
 *     if (tfm_tune_possible(ctx) && tfm_tune_product(ctx, &record, 64, 512, 512, false, true) == TFM_OK)
 *         printf("%s: %g s, %s: %g s\n", record.before, record.before_seconds, record.after, record.after_seconds);
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
    char before[64]; /* What runs without the table, such as "tiled". */
    char after[64];  /* What was fastest, such as "tiled 64x64x16/4"; the same as `before` if nothing was faster. */
    double before_seconds; /* The median time of a run, in seconds. */
    double after_seconds;  /* The same for `after`, from the same contest of those two alone. */
    char other[64];        /* What came next of all that was right; "" if nothing else was. */
    double other_seconds;  /* The same for `other`, from the contest of all; 0 if there is none. */
    int tried;             /* How many ways were timed, the one before included. */
    int wrong;             /* How many gave wrong results, or failed on this device; they are not used. */
} tfm_tune_record;

/* Whether there are products and work-groups to try: true on devices that run work-items side by side. On CPUs that
 * vectorise what one work-item says, all follows from the width of their vectors, and accelerators run the same
 * kernels. False for NULL. */
TFM_API bool tfm_tune_possible(const tfm_context *ctx);

/* Whether there are steps of decoding to try (tfm_tune_steps, model.h): true on devices with command buffers
 * (cl_khr_command_buffer), where the context compiles its kernels itself and does not profile them. False for NULL. */
TFM_API bool tfm_tune_steps_possible(const tfm_context *ctx);

/* Tries every way to multiply (m, k) by (k, n), either of them stored as its transpose or not. A way counts only if its
 * result is right, by comparison with the plain kernel. What is fastest of all, and then faster than the device's own
 * rule by more than the timings scatter when the two take turns once more, is used in this context from then on, for
 * all products whose m, n and k lie between the same powers of two. Takes seconds, most of them for building kernels.
 * TFM_ERROR_UNSUPPORTED if there is nothing to try (tfm_tune_possible), TFM_ERROR_ARGUMENT for sizes below 1 or from
 * 2^31 on. */
TFM_API tfm_status tfm_tune_product(tfm_context *ctx, tfm_tune_record *out, int64_t m, int64_t n, int64_t k,
                                    bool transpose_a, bool transpose_b);

/* The same of a product in 16 bits, `precision` being TFM_F16 or TFM_BF16: of a b that is `stored` so, as weights of a
 * model are that is opened with this precision, or else of floats that the product may round to it, as in training with
 * it. Matrix engines are among the ways, with their tiles, rings of tiles and parts, where the device has some; each is
 * proven as at its first use. Such products have rows of their own, "gemm bf16 nt 6 9 9" and "gemm as bf16 nt 6 9 9",
 * and those without one go by the device's rule, or where that has no engine, by the row of floats. */
TFM_API tfm_status tfm_tune_product_in(tfm_context *ctx, tfm_tune_record *out, int64_t m, int64_t n, int64_t k,
                                       bool transpose_a, bool transpose_b, tfm_dtype precision, bool stored);

/* Tries sizes of the work-groups that share a row of norms, softmax and attention, on rows of `width` and of
 * `vocabulary` numbers. Call it after the products are tried: a driver that refuses a large group makes this context's
 * smaller. Otherwise as tfm_tune_product. */
TFM_API tfm_status tfm_tune_groups(tfm_context *ctx, tfm_tune_record *out, int64_t width, int64_t vocabulary);

/* Forgets the table in this context, so that the device's own rules hold. What is stored stays until tfm_tune_save.
 * Does nothing for NULL. */
TFM_API void tfm_tune_clear(tfm_context *ctx);

/* Whether a table can be stored at all, to be asked before what takes its time: TFM_ERROR_IO with the sentence that
 * tfm_tune_save would give where the cache folder is none of the user's, is full, or can only be read. */
TFM_API tfm_status tfm_tune_storable(tfm_context *ctx);

/* Stores in the cache folder (TFM_CACHE_DIR) what this context has changed of its table since it opened or called this
 * last. The rows that another context has stored meanwhile, in this process or another, stay; where both have changed
 * the same row, the last one counts. Where there is no table by then, since another context has forgotten it, all rows
 * of this one are stored. After tfm_tune_clear nothing stays that was stored before. TFM_ERROR_IO if the table
 * cannot be kept there. */
TFM_API tfm_status tfm_tune_save(tfm_context *ctx);

/* Forgets the table, as tfm_tune_clear and tfm_tune_save do, and what trials on this device have come to: whether
 * recorded steps of decoding and matrix engines are right under this driver, or have ended the program. Contexts that
 * are open keep what they know of that; later ones try anew. TFM_ERROR_IO if something stays in the cache folder. */
TFM_API tfm_status tfm_tune_forget(tfm_context *ctx);

/* A hash of this context's table: 0 if it has none. Checkpoints of training record that of the rows that are not about
 * steps of decoding, since other ones may change the last bits of sums. 0 for NULL. */
TFM_API uint64_t tfm_tune_hash(const tfm_context *ctx);

/* Receives one row of the table: what it is for, such as "gemm nt 6 9 9", and what is used there. The strings are valid
 * only during the call. Return false to stop. */
typedef bool (*tfm_tune_fn)(void *user, const char *name, const char *setting);

/* Shows all rows of this context's table, on the calling thread. TFM_ERROR_CANCELLED if `show` stopped it. */
TFM_API tfm_status tfm_tune_rows(const tfm_context *ctx, tfm_tune_fn show, void *user);

/* Measures how many fp32 operations in a second the device does at most, in products and sums that never leave its
 * registers: what a matrix product is to be compared with. Takes about a second. */
TFM_API tfm_status tfm_measure_peak(tfm_context *ctx, double *flops);

#ifdef __cplusplus
}
#endif
#endif
