/* Self-test: checks the results of every op on a device.
 *
 *     static bool report(void *user, const tfm_selftest_record *record) {
 *         return printf("%s %s: %s\n", record->op, record->form, record->message) > 0;
 *     }
 *     tfm_selftest(ctx, NULL, report, NULL);
 *
 * Each op runs on small odd shapes, and its results are compared with double precision on the host. GEMM is checked
 * with each provider. "cpu-bf16" is checked by the linear layers with BF16 weights, on devices that use it for them. */
#ifndef TFM_SELFTEST_H
#define TFM_SELFTEST_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a check: correct, wrong, or not possible on this device or in this build. */
typedef enum tfm_selftest_state { TFM_SELFTEST_PASS, TFM_SELFTEST_FAIL, TFM_SELFTEST_UNAVAILABLE } tfm_selftest_state;

/* The outcome of one check. Its strings are valid only during the callback. */
typedef struct tfm_selftest_record {
    const char *op;   /* The op, such as "gemm". */
    const char *form; /* The provider, such as "cpu-packed", or the variant of the op, such as "causal"; "" if it has no
                         name. */
    tfm_selftest_state state;
    double error;        /* The largest |got - want|, divided by max(1, root mean square of all `want`). */
    const char *message; /* Why the check failed or cannot be run; "" after a pass. */
} tfm_selftest_record;

/* Receives the outcome of one check, on the thread that called tfm_selftest. Return false to stop. */
typedef bool (*tfm_selftest_fn)(void *user, const tfm_selftest_record *record);

/* Runs the checks of one op, such as "softmax", or of all ops if `op` is NULL, and reports each as it ends.
 * TFM_ERROR_ARGUMENT for an op without checks. The context stays usable after a failed check. Returns TFM_OK when all
 * checks ran, even if some failed; TFM_ERROR_CANCELLED if `report` stopped them; the context's error if it had failed
 * before. */
TFM_API tfm_status tfm_selftest(tfm_context *ctx, const char *op, tfm_selftest_fn report, void *user);

#ifdef __cplusplus
}
#endif
#endif
