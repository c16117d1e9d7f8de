/* Device selectors: parsing, matching and ranking. */
#include "dev/device/device_filter.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word;
    tfm_device_type type;
    const char *plural;
} KINDS[] = {{"gpu", TFM_DEVICE_GPU, "GPUs"},
             {"cpu", TFM_DEVICE_CPU, "CPUs"},
             {"accel", TFM_DEVICE_ACCELERATOR, "accelerators"}};

#define GRAMMAR "gpu, cpu, accel, an index (0), platform:device (1:0) or part of a name"

bool tfm__device_usable(const tfm__device *device) {
    return device->device && !device->info.error[0];
}

int tfm__device_rank(const tfm_device_info *info) {
    if (info->emulator)
        return TFM__RANK_BY_NAME_ONLY + 1;
    if (!info->compiler)
        return TFM__RANK_BY_NAME_ONLY;
    switch (info->type) {
    case TFM_DEVICE_GPU:
        return info->integrated ? 1 : 0;
    case TFM_DEVICE_ACCELERATOR:
        return 2;
    case TFM_DEVICE_CPU:
        return 3;
    default:
        return 4;
    }
}

bool tfm__device_better(const tfm_device_info *a, const tfm_device_info *b) {
    if (tfm__device_rank(a) != tfm__device_rank(b))
        return tfm__device_rank(a) < tfm__device_rank(b);
    if (a->platform_index != b->platform_index)
        return a->platform_index < b->platform_index;
    if (a->compute_units != b->compute_units)
        return a->compute_units > b->compute_units;
    return a->device_index < b->device_index;
}

static int device_kind(const char *word) {
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++)
        if (strcasecmp(word, KINDS[i].word) == 0)
            return (int)i;
    return -1;
}

void tfm__text_append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

tfm_status tfm__fail_with_device_list(const tfm__device *devices, size_t count, const char *why) {
    char list[4096] = "";
    for (size_t i = 0; i < count; i++) {
        const tfm_device_info *info = &devices[i].info;
        const char *separator = i > 0 ? "; " : "";
        if (!devices[i].device)
            tfm__text_append(list, sizeof(list), "%sno device of %s: %s", separator, info->platform, info->error);
        else
            tfm__text_append(list, sizeof(list), "%s%d (%d:%d) %s, %s%s%s%s", separator, info->index,
                             info->platform_index, info->device_index, info->name, info->platform,
                             info->error[0] ? " (cannot be used: " : "", info->error, info->error[0] ? ")" : "");
    }
    return tfm__fail(TFM_ERROR_DEVICE, "%s; devices: %s", why, list);
}

/* Reads decimal digits; -1 if there are none or too many for an index. */
static long parse_digits(const char **at) {
    const char *start = *at;
    long value = 0;
    while (isdigit((unsigned char)**at)) {
        value = value > 99999 ? value : value * 10 + (**at - '0');
        (*at)++;
    }
    return *at == start ? -1 : value;
}

static bool name_matches(const tfm__device *device, const char *part) {
    const tfm_device_info *info = &device->info;
    return tfm__contains(info->name, part) || tfm__contains(info->vendor, part) ||
           tfm__contains(info->platform, part) || tfm__contains(device->platform_vendor, part);
}

/* A number, or text that begins like a pair, is never searched as a name. */
tfm_status tfm__selector_parse(tfm__device_filter *out, const tfm__device *devices, size_t count,
                               tfm__device_selector selector) {
    const char *at = selector.text;
    char why[512];
    *out = (tfm__device_filter){.by = TFM__BY_NAME, .part = selector.text, .kind = device_kind(selector.text)};
    if (out->kind >= 0) {
        out->by = TFM__BY_KIND;
        return TFM_OK;
    }
    bool negative = at[0] == '-' && isdigit((unsigned char)at[1]);
    if (negative)
        at++;
    out->first = parse_digits(&at);
    if (out->first < 0 || (*at && *at != ':'))
        return TFM_OK;
    out->by = *at ? TFM__BY_PAIR : TFM__BY_INDEX;
    if (*at == ':') {
        at++;
        out->second = parse_digits(&at);
    }
    if (!negative && *at == 0 && out->second >= 0)
        return TFM_OK;
    snprintf(why, sizeof(why), "%s \"%.100s\" is not a device selector: use " GRAMMAR, selector.source, selector.text);
    return tfm__fail_with_device_list(devices, count, why);
}

static bool matches(const tfm__device *device, const tfm__device_filter *query) {
    const tfm_device_info *info = &device->info;
    switch (query->by) {
    case TFM__BY_INDEX:
        return device->device && info->index == query->first;
    case TFM__BY_PAIR:
        return device->device && info->platform_index == query->first && info->device_index == query->second;
    case TFM__BY_KIND:
        return tfm__device_usable(device) && info->type == KINDS[query->kind].type;
    default:
        return device->device && name_matches(device, query->part);
    }
}

bool tfm__selector_may_be_list(const char *text) {
    if (strchr(text, ','))
        return true;
    text += strspn(text, " ");
    return strncasecmp(text, "all", 3) == 0 && text[3 + strspn(text + 3, " ")] == 0;
}

bool tfm__selector_is_list(const char *text, const tfm__device *devices, size_t count) {
    if (!tfm__selector_may_be_list(text))
        return false;
    if (!text[strspn(text, ", ")]) /* only separators: an empty list, though a device name may contain them */
        return true;
    for (size_t i = 0; i < count && strchr(text, ','); i++)
        if (devices[i].device && name_matches(&devices[i], text))
            return false;
    return true;
}

bool tfm__devices_contain(const tfm__device *const *taken, size_t count, const tfm__device *device) {
    for (size_t i = 0; i < count; i++)
        if (taken[i] == device)
            return true;
    return false;
}

const tfm__device *tfm__device_filter_match(const tfm__device *devices, size_t count, const tfm__device_filter *query,
                                            const tfm__device *const *taken, size_t taken_count) {
    const tfm__device *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const tfm__device *device = &devices[i];
        if (!matches(device, query) || tfm__devices_contain(taken, taken_count, device))
            continue;
        if (!best || tfm__device_usable(device) > tfm__device_usable(best) ||
            (tfm__device_usable(device) == tfm__device_usable(best) && tfm__device_better(&device->info, &best->info)))
            best = device;
    }
    return best;
}

tfm_status tfm__selector_fail(const tfm__device *devices, size_t count, tfm__device_selector selector,
                              const tfm__device_filter *query, const tfm__device *best) {
    char why[1024];
    if (best)
        snprintf(why, sizeof(why), "%s \"%.100s\" is %s, which cannot be used: %s", selector.source, selector.text,
                 best->info.name, best->info.error);
    else if (query->by == TFM__BY_KIND)
        snprintf(why, sizeof(why), "%s is \"%.100s\" but there are no %s", selector.source, selector.text,
                 KINDS[query->kind].plural);
    else
        snprintf(why, sizeof(why), "%s \"%.100s\" matches no device: use " GRAMMAR, selector.source, selector.text);
    return tfm__fail_with_device_list(devices, count, why);
}
