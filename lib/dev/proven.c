/* What was tried once on a device and need not be again: a number under the kernel's text, the device and its driver,
 * kept in the disk cache. Without a cache each context tries anew. */
#include <inttypes.h>
#include <string.h>
#include "dev/cache.h"
#include "dev/choose.h"
#include "dev/cl.h"

#define BEGINNING "proof of "

static char *proof_key(tfm_context *ctx, const char *file, const char *what) {
    uint64_t text = 0;
    char *device = tfm__program_hash(ctx, &text, file) ? tfm__device_identity(ctx->device) : NULL, *key = NULL;
    if (device)
        key = tfm__format(BEGINNING "%s.cl, %s\ntext %016" PRIx64 "\n%s", file, what, text, device);
    free(device);
    return key;
}

bool tfm__proven_get(tfm_context *ctx, int *verdict, const char *file, const char *what) {
    size_t bytes = 0;
    char *key = ctx->collects ? NULL : proof_key(ctx, file, what); /* the trial's programs are wanted, too */
    unsigned char *kept = key ? tfm__cache_get(key, &bytes) : NULL;
    const bool known = kept && bytes == 1;
    if (known)
        *verdict = kept[0];
    free(kept);
    free(key);
    return known;
}

void tfm__proven_set(tfm_context *ctx, int verdict, const char *file, const char *what) {
    const unsigned char kept = (unsigned char)verdict;
    char *key = proof_key(ctx, file, what);
    if (key)
        tfm__cache_put(key, &kept, sizeof(kept));
    free(key);
}

/* Trials of this thread. They nest: one may launch a kernel that is itself still to be tried. */
static _Thread_local int under_way;

bool tfm__trial_begin(tfm__trial *trial, double seconds) {
    *trial = (tfm__trial){.lock = -1, .watch = -1};
    if (under_way == 0 && !tfm__cache_lock(&trial->lock, seconds))
        return false;
    under_way++;
    return true;
}

void tfm__trial_mark(tfm_context *ctx, tfm__trial *trial, int verdict, const char *file, const char *what) {
    char *key = proof_key(ctx, file, what);
    if (key) {
        tfm__cache_unwatch(trial->watch);
        trial->watch = tfm__cache_watch(key); /* before there is a mark, so that a signal finds it whenever it comes */
    }
    tfm__proven_set(ctx, verdict, file, what);
    free(key);
}

void tfm__trial_end(tfm__trial *trial) {
    under_way--;
    tfm__cache_unwatch(trial->watch);
    tfm__cache_unlock(trial->lock);
}

void tfm__trial_interrupted(void) {
    tfm__cache_drop_watched();
}

tfm_status tfm__proven_forget(tfm_context *ctx) {
    char *device = tfm__device_identity(ctx->device), *end = device ? tfm__format("\n%s", device) : NULL;
    free(device);
    if (!end)
        return tfm__fail(TFM_ERROR_MEMORY, "out of host memory for the name of %s", ctx->info.name);
    const bool all = tfm__cache_drop_all(BEGINNING, end);
    free(end);
    return all ? TFM_OK
               : tfm__fail(TFM_ERROR_IO,
                           "what was tried on %s cannot be forgotten: see to the access of the files in "
                           "the cache folder",
                           ctx->info.name);
}
