/* Device selectors, as in TFM_DEVICE: parse, match, report errors (device_filter.c). */
#ifndef TFM_LIB_DEV_DEVICE_FILTER_H
#define TFM_LIB_DEV_DEVICE_FILTER_H

#include "dev/device/device_select.h"

/* Devices of this rank or more are selected only by name, and are not part of `all`. */
enum { TFM__RANK_BY_NAME_ONLY = 5 };

bool tfm__device_usable(const tfm__device *device);
/* 0 is best. Devices without a compiler (they need a pack) and emulators (slow) are selected only by name. */
int tfm__device_rank(const tfm_device_info *info);
/* Whether to prefer a to b. Within a platform, of two devices of one kind the wider one; compute units of different
 * vendors are not comparable. */
bool tfm__device_better(const tfm_device_info *a, const tfm_device_info *b);
/* Whether the list contains the device. */
bool tfm__devices_contain(const tfm__device *const *taken, size_t count, const tfm__device *device);

/* The selector's text, and its source for error messages. */
typedef struct tfm__device_selector {
    const char *text;
    const char *source;
} tfm__device_selector;

/* A parsed selector: an index, a pair, a kind, or a part of a name. */
typedef struct tfm__device_filter {
    enum { TFM__BY_INDEX, TFM__BY_PAIR, TFM__BY_KIND, TFM__BY_NAME } by;
    long first, second;
    int kind;
    const char *part;
} tfm__device_filter;

/* Whether the text is `all` or contains a comma. */
bool tfm__selector_may_be_list(const char *text);
/* Whether the text is a list of devices: `all`, or with commas that are not part of a device's name. */
bool tfm__selector_is_list(const char *text, const tfm__device *devices, size_t count);
/* A number, or text that begins like a pair, is never searched as a name. */
tfm_status tfm__selector_parse(tfm__device_filter *out, const tfm__device *devices, size_t count,
                               tfm__device_selector selector);
/* The best match that is not yet taken, or NULL. An unusable device is returned only if nothing else matches, so that
 * its error can be reported. */
const tfm__device *tfm__device_filter_match(const tfm__device *devices, size_t count, const tfm__device_filter *query,
                                            const tfm__device *const *taken, size_t taken_count);
/* Reports why a selector matches no device, or only the unusable `best`. */
tfm_status tfm__selector_fail(const tfm__device *devices, size_t count, tfm__device_selector selector,
                              const tfm__device_filter *query, const tfm__device *best);
/* Fails with `why` and the list of devices, in one line. */
tfm_status tfm__fail_with_device_list(const tfm__device *devices, size_t count, const char *why);

/* Appends to a bounded text. */
void tfm__text_append(char *text, size_t size, const char *format, ...) TFM_PRINTF(3, 4);

#endif
