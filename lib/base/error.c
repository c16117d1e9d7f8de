#include <stdio.h>
#include <string.h>
#include "base/base.h"

static _Thread_local char message[TFM__MESSAGE_MAX];

static const char *const NAMES[] = {
    [TFM_OK] = "TFM_OK",
    [TFM_ERROR_ARGUMENT] = "TFM_ERROR_ARGUMENT",
    [TFM_ERROR_MEMORY] = "TFM_ERROR_MEMORY",
    [TFM_ERROR_IO] = "TFM_ERROR_IO",
    [TFM_ERROR_FORMAT] = "TFM_ERROR_FORMAT",
    [TFM_ERROR_UNSUPPORTED] = "TFM_ERROR_UNSUPPORTED",
    [TFM_ERROR_DEVICE] = "TFM_ERROR_DEVICE",
    [TFM_ERROR_BUILD] = "TFM_ERROR_BUILD",
    [TFM_ERROR_INPUT] = "TFM_ERROR_INPUT",
    [TFM_ERROR_CANCELLED] = "TFM_ERROR_CANCELLED",
    [TFM_ERROR_NUMERIC] = "TFM_ERROR_NUMERIC",
    [TFM_ERROR_AGAIN] = "TFM_ERROR_AGAIN",
};

const char *tfm_status_name(tfm_status status) {
    size_t i = (size_t)status;
    return i < TFM__COUNT(NAMES) ? NAMES[i] : "unknown status";
}

const char *tfm_error_message(void) {
    return message;
}

tfm_status tfm__vfail(tfm_status status, const char *format, va_list args) {
    /* The arguments may point into the old message, so the new one has another buffer. */
    char fresh[sizeof(message)];
    vsnprintf(fresh, sizeof(fresh), format, args);
    snprintf(message, sizeof(message), "%s", fresh);
    return status;
}

tfm_status tfm__fail(tfm_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tfm__vfail(status, format, args);
    va_end(args);
    return status;
}

tfm_status tfm__needs(const char *call, const char *names, size_t count, const void *const *pointers) {
    for (size_t i = 0; i < count; i++) {
        names += strspn(names, ", ");
        if (!pointers[i])
            return tfm__fail(TFM_ERROR_ARGUMENT, "%s: %.*s is NULL", call, (int)strcspn(names, ", "), names);
        names += strcspn(names, ",");
    }
    return TFM_OK;
}

tfm_status tfm__needs_texts(const char *call, const char *name, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!texts[i])
            return tfm__fail(TFM_ERROR_ARGUMENT, "%s: %s[%zu] is NULL", call, name, i);
    return TFM_OK;
}

void tfm__error_save(char saved_message[TFM__MESSAGE_MAX]) {
    snprintf(saved_message, TFM__MESSAGE_MAX, "%s", message);
}

void tfm__error_restore(const char *saved_message) {
    snprintf(message, sizeof(message), "%s", saved_message);
}

const char *tfm_version(void) {
    return TFM_VERSION_BUILT;
}
