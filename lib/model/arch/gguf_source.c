/* Metadata of a GGUF file by key, and keys of the config.json that they become. */
#include <math.h>
#include <stdio.h>
#include "model/arch/config_keys.h"
#include "model/arch/gguf_arch.h"

bool tfm__gguf_refuse(tfm__gguf_source *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (s->status == TFM_OK)
        s->status = tfm__vfail(TFM_ERROR_UNSUPPORTED, format, args);
    va_end(args);
    return false;
}

const tfm__gguf_value *tfm__gguf_read_value(const tfm__gguf_source *s, const char *key) {
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", s->arch->name, key);
    return tfm__gguf_find(s->gguf, name);
}

bool tfm__gguf_wrong_kind(tfm__gguf_source *s, const char *key, const char *needed) {
    if (s->status == TFM_OK)
        s->status = tfm__fail(TFM_ERROR_FORMAT, "%s: `%s.%s` is no %s: download the file again", s->path, s->arch->name,
                              key, needed);
    return false;
}

bool tfm__gguf_read_int(tfm__gguf_source *s, const char *key, int64_t *out) {
    const tfm__gguf_value *value = tfm__gguf_read_value(s, key);
    int64_t first = 0, other;
    if (!value || value->count == 0)
        return false;
    for (size_t i = 0; i < value->count; i++) {
        if (!tfm__gguf_i64(&other, value, i))
            return tfm__gguf_wrong_kind(s, key, "integer");
        first = i == 0 ? other : first;
        if (other != first)
            return tfm__gguf_refuse(s, "%s: `%s.%s` differs between layers, which is not supported", s->path,
                                    s->arch->name, key);
    }
    *out = first;
    return true;
}

bool tfm__gguf_read_number(tfm__gguf_source *s, const char *key, double *out) {
    const tfm__gguf_value *value = tfm__gguf_read_value(s, key);
    double number;
    if (!value)
        return false;
    if (!tfm__gguf_f64(&number, value, 0) || !isfinite(number))
        return tfm__gguf_wrong_kind(s, key, "number");
    *out = value->kind == TFM__GGUF_FLOAT32 ? tfm__short_number((float)number) : number;
    return true;
}

void tfm__gguf_set(tfm__gguf_source *s, const char *key, json_t *value) {
    if (json_object_set_new(s->out, key, value) != 0 && s->status == TFM_OK)
        s->status = tfm__fail(TFM_ERROR_MEMORY, "%s: no host memory for its configuration", s->path);
}
