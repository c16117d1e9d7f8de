/* Words that name devices, as TFM_DEVICE has them: parsed, matched and refused (device_filter.c). */
#ifndef TFM_LIB_DEV_DEVICE_FILTER_H
#define TFM_LIB_DEV_DEVICE_FILTER_H

#include "dev/device/device_select.h"

/* From this rank on a device is taken only by its name, and is not one of `all`. */
enum { TFM__RANK_BY_NAME_ONLY = 5 };

bool tfm__device_usable(const tfm__device *device);
/* 0 is best. A device without a compiler needs program binaries made for it, an emulator is slow: only by name. */
int tfm__device_rank(const tfm_device_info *info);
/* Whether a is to be taken before b. Within a platform the wider of two devices of one kind; compute units of different
 * vendors do not compare. */
bool tfm__device_better(const tfm_device_info *a, const tfm_device_info *b);
/* Whether a device is one of those. */
bool tfm__devices_contain(const tfm__device *const *taken, size_t count, const tfm__device *device);

/* What is wished for as it is said in a sentence, and who said it. */
typedef struct tfm__device_selector {
    const char *text;
    const char *source;
} tfm__device_selector;

/* What a selector may be, once parsed: an index, a pair, a kind, or a part of a name. */
typedef struct tfm__device_filter {
    enum { TFM__BY_INDEX, TFM__BY_PAIR, TFM__BY_KIND, TFM__BY_NAME } by;
    long first, second;
    int kind;
    const char *part;
} tfm__device_filter;

/* Whether a text is `all` or has a comma. */
bool tfm__selector_may_be_list(const char *text);
/* Whether a text lists devices: it is `all`, or has commas that are not of a device's name. */
bool tfm__selector_is_list(const char *text, const tfm__device *devices, size_t count);
/* Whether the text is a number or begins like a pair: then it is never searched as a name. */
tfm_status tfm__selector_parse(tfm__device_filter *out, const tfm__device *devices, size_t count,
                               tfm__device_selector selector);
/* The best match that is not among those taken, or NULL. One that cannot be used is taken only when it is the only
 * match, so that its reason is told. */
const tfm__device *tfm__device_filter_match(const tfm__device *devices, size_t count, const tfm__device_filter *query,
                                            const tfm__device *const *taken, size_t taken_count);
/* Says why a selector comes to no device, or to `best`, which cannot be used. */
tfm_status tfm__selector_fail(const tfm__device *devices, size_t count, tfm__device_selector selector,
                              const tfm__device_filter *query, const tfm__device *best);
/* Fails with `why` and the list of what there is, in one line. */
tfm_status tfm__fail_with_device_list(const tfm__device *devices, size_t count, const char *why);

/* Appends to a bounded text. */
void tfm__text_append(char *text, size_t size, const char *format, ...) TFM_PRINTF(3, 4);

#endif
