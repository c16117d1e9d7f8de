/* Validation of kernels before their first use. */
#include "ops/gemm/kernel_validation.h"
#include <inttypes.h>
#include "dev/cache/cache.h"
#include "dev/device/device_select.h"
#include "dev/device/context_internal.h"
#include "ops/autograd/tape.h"

/* Seconds to wait for another program's validation, which compiles kernels. */
enum { PATIENCE = 20 };

/* ---- Stored verdicts ---- */

#define KEY_PREFIX "validation of "

static char *key_of(tfm_context *ctx, const char *program, const char *what) {
    uint64_t text = 0;
    char *device = tfm__program_hash(ctx, &text, program) ? tfm__device_fingerprint_text(ctx->device) : NULL,
         *key = NULL;
    if (device)
        key = tfm__format(KEY_PREFIX "%s.cl, %s\ntext %016" PRIx64 "\n%s", program, what, text, device);
    free(device);
    return key;
}

static bool verdict_load(tfm_context *ctx, int *verdict, const char *program, const char *what) {
    size_t bytes = 0;
    char *key = ctx->exports ? NULL : key_of(ctx, program, what); /* also the programs of a validation */
    unsigned char *stored = key ? tfm__cache_get(key, &bytes) : NULL;
    const bool known = stored && bytes == 1;
    if (known)
        *verdict = stored[0];
    free(stored);
    free(key);
    return known;
}

static void verdict_store(tfm_context *ctx, int verdict, const char *program, const char *what) {
    const unsigned char stored = (unsigned char)verdict;
    char *key = key_of(ctx, program, what);
    if (key)
        tfm__cache_put(key, &stored, sizeof(stored));
    free(key);
}

tfm_status tfm__validation_forget(tfm_context *ctx) {
    char *device = tfm__device_fingerprint_text(ctx->device), *end = device ? tfm__format("\n%s", device) : NULL;
    free(device);
    if (!end)
        return tfm__fail(TFM_ERROR_MEMORY, "out of host memory for the name of %s", ctx->info.name);
    const bool all = tfm__cache_drop_all(KEY_PREFIX, end);
    free(end);
    return all ? TFM_OK
               : tfm__fail(TFM_ERROR_IO,
                           "cannot remove the kernel verdicts of %s: check the permissions of the files in the cache "
                           "folder",
                           ctx->info.name);
}

/* Validations of this thread. They nest: one may launch a kernel that needs validation too. */
static _Thread_local int nesting;

static bool lock_validations(int *lock, double seconds) {
    *lock = -1;
    if (nesting == 0 && !tfm__cache_lock(lock, seconds))
        return false;
    nesting++;
    return true;
}

static void unlock_validations(int lock) {
    nesting--;
    tfm__cache_unlock(lock);
}

/* ---- The validation ---- */

static void log_verdict(tfm_context *ctx, const tfm__validation *v, tfm__verdict verdict, tfm_log_level level) {
    tfm__log(level, "%s: %s (%s): continuing without %s", tfm_context_device(ctx)->name, v->describe(verdict), v->what,
             v->without);
}

static tfm__verdict compare(tfm_context *ctx, const tfm__validation *v) {
    const int depth = tfm__scope_depth(ctx);
    const bool recorded = tfm__tape_pause(ctx);
    tfm__verdict verdict = TFM__UNTESTED;
    if (tfm_scope_open(ctx) == TFM_OK)
        verdict = v->compare(ctx, v->form);
    const tfm_status status = tfm_context_status(ctx);
    if (status == TFM_OK) {
        tfm_scope_close(ctx, 0, NULL);
    } else if (status == TFM_ERROR_BUILD || status == TFM_ERROR_DEVICE) {
        verdict = status == TFM_ERROR_BUILD ? TFM__NOT_BUILT : TFM__WRONG;
        tfm__context_recover(ctx, depth);
    } else {
        verdict = TFM__UNTESTED;
    }
    tfm__tape_resume(ctx, recorded);
    if (verdict > TFM__VALID)
        log_verdict(ctx, v, verdict, verdict == TFM__NOT_BUILT && v->optional ? TFM_LOG_INFO : TFM_LOG_WARNING);
    return verdict;
}

static tfm__verdict stored(tfm_context *ctx, const tfm__validation *v) {
    int verdict = TFM__UNTESTED;
    return verdict_load(ctx, &verdict, v->program, v->what) && verdict > TFM__UNTESTED && verdict < TFM__BUSY
               ? (tfm__verdict)verdict
               : TFM__UNTESTED;
}

static tfm__verdict compare_and_store(tfm_context *ctx, const tfm__validation *v) {
    const tfm__verdict verdict = compare(ctx, v);
    verdict_store(ctx, verdict, v->program, v->what);
    return verdict;
}

/* With the lock held, unless a verdict is stored by now. A driver may crash the program; it gets one more chance,
 * because the user may have ended the first run. */
static tfm__verdict compare_marked(tfm_context *ctx, const tfm__validation *v) {
    const tfm__verdict last = stored(ctx, v);
    if (last != TFM__UNTESTED && last != TFM__CRASHED_ONCE)
        return last;
    verdict_store(ctx, last == TFM__CRASHED_ONCE ? TFM__CRASHED : TFM__CRASHED_ONCE, v->program, v->what);
    return compare_and_store(ctx, v);
}

/* The stored verdict may be the mark of another program that is validating: wait for it. */
static tfm__verdict validate(tfm_context *ctx, const tfm__validation *v) {
    int lock;
    if (!v->program)
        return compare(ctx, v);
    const tfm__verdict last = stored(ctx, v);
    if (last != TFM__UNTESTED && last < TFM__CRASHED_ONCE)
        return last;
    if (!v->waited)
        return compare_and_store(ctx, v);
    if (lock_validations(&lock, *v->waited ? 0 : PATIENCE)) {
        const tfm__verdict verdict = compare_marked(ctx, v);
        unlock_validations(lock);
        return verdict;
    }
    log_verdict(ctx, v, TFM__BUSY, *v->waited ? TFM_LOG_INFO : TFM_LOG_WARNING);
    *v->waited = true;
    return TFM__BUSY;
}

tfm__verdict tfm__validate(tfm_context *ctx, unsigned char *known, const tfm__validation *v) {
    if (*known == TFM__UNTESTED)
        *known = (unsigned char)validate(ctx, v);
    return (tfm__verdict)*known;
}
