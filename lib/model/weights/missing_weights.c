/* Diagnoses a directory without supported weights: what was found, and what to do. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/hub/hub.h"
#include "model/weights/weight_file.h"
#include "model/weights/weight_reader.h"

static const char ADAPTER[] = "adapter_config.json";

static bool has(const char *dir, const char *name) {
    char *path = tfm__path_join(dir, name);
    const bool there = path && tfm__file_exists(path);
    free(path);
    return there;
}

tfm_status tfm__weights_check_unsupported(const char *dir) {
    if (has(dir, ADAPTER))
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "%s has an adapter (%s), and not a model: open its base model with it (--adapter), or merge it "
            "into that with tfm merge",
            dir, ADAPTER);
    return TFM_OK;
}

/* Whether a file has a supported format but another name: a shard of a model, or another dtype. */
static tfm_status diagnose_weights(const char *dir, const char *name, const tfm__weights_reader *const *readers) {
    for (; *readers && (*readers)->single; readers++) {
        const tfm__weights_reader *reader = *readers;
        char part[64], other[64];
        const char *end = strrchr(reader->single, '.');
        snprintf(part, sizeof(part), "*model*-[0-9]*-of-[0-9]*%s", end);
        snprintf(other, sizeof(other), "*model*%s", end);
        if (fnmatch(part, name, 0) == 0)
            return tfm__fail(TFM_ERROR_IO, "%s has %s, but no %s, the index of its parts: download that file, too", dir,
                             name, reader->index);
        if (fnmatch(other, name, 0) == 0)
            return tfm__fail(TFM_ERROR_IO,
                             "%s has no model.safetensors and no pytorch_model.bin, but %s: if these are the model's "
                             "weights, give the file the name %s",
                             dir, name, reader->single);
    }
    return TFM_OK;
}

static tfm_status diagnose_names(const char *dir, const tfm__weights_reader *const *readers) {
    char **names = NULL;
    size_t count = 0;
    tfm_status status = tfm__file_exists(dir) ? tfm__dir_list(&names, &count, dir) : TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = diagnose_weights(dir, names[i], readers);
    tfm__names_free(names, count);
    return status;
}

tfm_status tfm__weights_report_missing(const char *dir, const tfm__weights_reader *const *readers) {
    static const char *const OTHERS[] = {"tf_model.h5", "flax_model.msgpack", "model.npz", "pytorch_model.pt"};
    tfm_status status = tfm__weights_check_unsupported(dir);
    if (status == TFM_OK)
        status = diagnose_names(dir, readers);
    for (size_t i = 0; i < TFM__COUNT(OTHERS) && status == TFM_OK; i++)
        if (has(dir, OTHERS[i]))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s has neither model.safetensors nor pytorch_model.bin, and %s is not supported: "
                             "download one of those two",
                             dir, OTHERS[i]);
    if (status != TFM_OK)
        return status;
    char hint[1024];
    if (tfm__hub_completion(hint, sizeof(hint), dir)) /* huggingface_hub downloads single files, too */
        return tfm__fail(TFM_ERROR_IO, "%s has no model.safetensors and no pytorch_model.bin: %s", dir, hint);
    return tfm__fail(TFM_ERROR_IO, "%s has no model.safetensors and no pytorch_model.bin%s", dir,
                     tfm__file_exists(dir) ? "" : "; there is no such folder");
}

void tfm__weights_warn_adapter(const char *dir) {
    if (has(dir, ADAPTER))
        tfm__log(TFM_LOG_WARNING,
                 "%s has an adapter (%s) next to the model, which is ignored: to use both, give the directory as an "
                 "adapter, too (--adapter)",
                 dir, ADAPTER);
}
