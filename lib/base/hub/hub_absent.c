/* Replaces the downloads if the library is built without libcurl and Nettle. */
#include "base/hub/hub.h"
#include "tfm/hub.h"

tfm_status tfm_hub_pull(char **path, const char *name, const tfm_hub_options *options) {
    TFM__CLEAR_OUT(path);
    if (TFM__NEEDS("hub_pull", name) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "hub_pull: %s", TFM__RESERVED_SET_MESSAGE);
    return tfm__fail(
        TFM_ERROR_UNSUPPORTED,
        "cannot download %s: this tfm was built without libcurl; download it with `hf download %s` of the "
        "Python package huggingface_hub, or install libcurl4-openssl-dev and nettle-dev and build it again",
        name, name);
}

bool tfm__hub_can_download(void) {
    return false;
}
