/* Is every op right on this device?
 *
 *     static bool report(void *user, const tfm_selftest_record *record) {
 *         return printf("%s %s: %s\n", record->op, record->variant, record->message) > 0;
 *     }
 *     tfm_selftest(ctx, report, NULL);
 *
 * Each op runs on small odd shapes and is compared with double precision on the host; matrix multiplication
 * by each of its providers. */
#ifndef TFM_SELFTEST_H
#define TFM_SELFTEST_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tfm_selftest_state {
    TFM_SELFTEST_PASS,
    TFM_SELFTEST_FAIL,
    TFM_SELFTEST_UNAVAILABLE
} tfm_selftest_state;

/* One check; all of it is borrowed for the call. */
typedef struct tfm_selftest_record {
    const char *op;      /* "gemm" */
    const char *variant; /* the provider, "packed", or what of the op was asked, "causal" */
    tfm_selftest_state state;
    double error;        /* the largest |got - want| over max(1, root mean square of what was wanted) */
    const char *message; /* why it failed or is not available; "" after a pass */
} tfm_selftest_record;

/* Return false to stop. */
typedef bool (*tfm_selftest_fn)(void *user, const tfm_selftest_record *record);

/* Runs all checks; each is reported as it ends. A failed check leaves the context fit for use. TFM_OK when
 * all ran, whatever they found; TFM_ERROR_CANCELLED when `report` stopped them; the context's error if it had
 * failed before. */
TFM_API tfm_status tfm_selftest(tfm_context *ctx, tfm_selftest_fn report, void *user);

#ifdef __cplusplus
}
#endif
#endif
