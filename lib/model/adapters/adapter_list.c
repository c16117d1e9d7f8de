/* Lists of adapters in options. */
#include <math.h>
#include "base/hub/hub.h"
#include "model/adapters/adapter.h"

tfm_status tfm__adapters_check(const tfm_adapter *adapters, size_t count) {
    if (count > 0 && !adapters)
        return tfm__fail(TFM_ERROR_ARGUMENT, "adapters: the list of %zu is NULL", count);
    for (size_t i = 0; i < count; i++)
        if (!adapters[i].dir || !isfinite(adapters[i].scale) || fabs(adapters[i].scale) > 1e6)
            return tfm__fail(TFM_ERROR_ARGUMENT, "adapters[%zu]: %s", i,
                             adapters[i].dir ? "its scale is not a number from -1e6 to 1e6" : "its directory is NULL");
    return TFM_OK;
}

tfm_status tfm__adapters_copy(tfm_adapter **out, const tfm_adapter *adapters, size_t count) {
    tfm_status status = tfm__adapters_check(adapters, count);
    *out = NULL;
    if (status != TFM_OK || count == 0)
        return status;
    tfm_adapter *copies = tfm__alloc(count, sizeof(*copies));
    if (!copies)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        char *path = NULL;
        status = tfm__hub_resolve(&path, adapters[i].dir);
        copies[i] = (tfm_adapter){path, adapters[i].scale};
    }
    if (status != TFM_OK)
        tfm__adapters_free(&copies, count);
    *out = copies;
    return status;
}

void tfm__adapters_free(tfm_adapter **adapters, size_t count) {
    for (size_t i = 0; *adapters && i < count; i++)
        free((char *)(uintptr_t)(*adapters)[i].dir);
    free(*adapters);
    *adapters = NULL;
}
