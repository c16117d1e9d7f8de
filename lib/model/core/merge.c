/* Writes a model with adapters merged into its weights. */
#include <string.h>
#include "base/hub/hub.h"
#include "model/adapters/adapter.h"
#include "model/core/quantize_dir.h"

static tfm_status merge_gguf(const char *out, const char *dir, const tfm_adapter *adapters, size_t count,
                             const char *type) {
    char *path = NULL;
    tfm_status status = tfm__hub_resolve(&path, dir);
    if (status == TFM_OK && strcmp(out, path) == 0)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "%s is the model itself: give another file to write to", out);
    if (status == TFM_OK)
        status = tfm__gguf_export(out, path, type ? type : "F16", adapters, count);
    free(path);
    return status;
}

tfm_status tfm_model_merge(const char *out, const char *dir, const tfm_adapter *adapters, size_t count,
                           const char *type) {
    if (TFM__NEEDS("model_merge", out, dir, adapters) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const size_t length = strlen(out);
    const bool gguf = length > 5 && strcmp(out + length - 5, ".gguf") == 0;
    if (count == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_merge: there is no adapter to merge");
    if (gguf)
        return merge_gguf(out, dir, adapters, count, type);
    if (type)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_merge: %.40s is a type of GGUF files, and %s is none: leave it out",
                         type, out);
    return tfm__quantize_dir(&(tfm__quantize_job){.adapters = adapters, .adapter_count = count}, out, dir);
}
