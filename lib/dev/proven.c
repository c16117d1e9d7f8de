/* What was tried once on a device and need not be again: a number under the kernel's text, the device and its driver,
 * kept in the disk cache. Without a cache each context tries anew. */
#include <inttypes.h>
#include <string.h>
#include "dev/cache.h"
#include "dev/choose.h"
#include "dev/cl.h"

static char *proof_key(tfm_context *ctx, const char *file, const char *what) {
    uint64_t text = 0;
    char *device = tfm__program_hash(ctx, &text, file) ? tfm__device_identity(ctx->device) : NULL, *key = NULL;
    if (device)
        key = tfm__format("proof of %s.cl, %s\ntext %016" PRIx64 "\n%s", file, what, text, device);
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
