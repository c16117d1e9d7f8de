/* Words that name devices, as TFM_DEVICE has them: parsed, matched and refused (device_filter.c). */
#ifndef TFM_LIB_DEV_DEVICE_FILTER_H
#define TFM_LIB_DEV_DEVICE_FILTER_H

#include "dev/device/device_select.h"

/* From this rank on a device is taken only by its name, and is not one of `all`. */
enum { TFM__BY_NAME_ALONE = 5 };

bool tfm__device_usable(const tfm__device *device);
/* 0 is best. A device without a compiler needs program binaries made for it, an emulator is slow: only by name. */
int tfm__device_rank(const tfm_device_info *info);
/* Whether a is to be taken before b. Within a platform the wider of two devices of one kind; compute units of different
 * vendors do not compare. */
bool tfm__device_better(const tfm_device_info *a, const tfm_device_info *b);
/* Whether a device is one of those. */
bool tfm__devices_among(const tfm__device *const *taken, size_t count, const tfm__device *device);

/* What is wished for as it is said in a sentence, and who said it. */
typedef struct tfm__wish {
    const char *text;
    const char *source;
} tfm__wish;

/* What a wish may be, once parsed: an index, a pair, a kind, or a part of a name. */
typedef struct tfm__query {
    enum { TFM__BY_INDEX, TFM__BY_PAIR, TFM__BY_KIND, TFM__BY_NAME } by;
    long first, second;
    int kind;
    const char *part;
} tfm__query;

/* Whether a text is `all` or has a comma. */
bool tfm__wish_may_list(const char *text);
/* Whether a text lists devices: it is `all`, or has commas that are not of a device's name. */
bool tfm__wish_lists(const char *text, const tfm__device *devices, size_t count);
/* Whether the text is a number or begins like a pair: then it is never searched as a name. */
tfm_status tfm__wish_parse(tfm__query *out, const tfm__device *devices, size_t count, tfm__wish wish);
/* The best match that is not among those taken, or NULL. One that cannot be used is taken only when it is the only
 * match, so that its reason is told. */
const tfm__device *tfm__wish_match(const tfm__device *devices, size_t count, const tfm__query *query,
                                   const tfm__device *const *taken, size_t taken_count);
/* Says why a wish comes to no device, or to `best`, which cannot be used. */
tfm_status tfm__wish_refuse(const tfm__device *devices, size_t count, tfm__wish wish, const tfm__query *query,
                            const tfm__device *best);
/* Fails with `why` and the list of what there is, in one line. */
tfm_status tfm__wish_none(const tfm__device *devices, size_t count, const char *why);

/* Appends to a bounded text. */
void tfm__text_append(char *text, size_t size, const char *format, ...) TFM_PRINTF(3, 4);

#endif
