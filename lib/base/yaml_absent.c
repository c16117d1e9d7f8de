/* Replaces yaml.c if the library is built without libyaml. */
#include "base/yaml.h"

tfm_status tfm__yaml_parse(json_t **out, const char *text, size_t bytes, const char *name) {
    (void)text, (void)bytes;
    *out = NULL;
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: this tfm was built without libyaml and reads no YAML: install libyaml-dev and build it again",
                     name);
}

tfm_status tfm__yaml_load(json_t **out, const char *path) {
    return tfm__yaml_parse(out, "", 0, path);
}
