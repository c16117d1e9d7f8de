/* Which device is meant: the TFM_DEVICE grammar, the ranking where nothing is said, and the list that marks it. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "dev/choose.h"
#include "dev/pocl.h"

static const struct {
    const char *word;
    tfm_device_type type;
    const char *plural;
} KINDS[] = {{"gpu", TFM_DEVICE_GPU, "GPUs"},
             {"cpu", TFM_DEVICE_CPU, "CPUs"},
             {"accel", TFM_DEVICE_ACCELERATOR, "accelerators"}};

#define GRAMMAR "gpu, cpu, accel, an index (0), platform:device (1:0) or part of a name"

static bool usable(const tfm__device *device) {
    return device->device && !device->info.error[0];
}

/* 0 is best. A device without a compiler needs program binaries made for it, an emulator is slow: only by
 * name. */
static int rank(const tfm_device_info *info) {
    if (info->emulator)
        return 6;
    if (!info->compiler)
        return 5;
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

/* Whether a is to be taken before b. Within a platform the wider of two devices of one kind; compute units of
 * different vendors do not compare. */
static bool better(const tfm_device_info *a, const tfm_device_info *b) {
    if (rank(a) != rank(b))
        return rank(a) < rank(b);
    if (a->platform_index != b->platform_index)
        return a->platform_index < b->platform_index;
    if (a->compute_units != b->compute_units)
        return a->compute_units > b->compute_units;
    return a->device_index < b->device_index;
}

static int kind_of(const char *word) {
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++)
        if (strcasecmp(word, KINDS[i].word) == 0)
            return (int)i;
    return -1;
}

/* `wanted` as it is said in a sentence, and who said it. */
struct wish {
    const char *text;
    const char *source;
};

/* Appends to a bounded text. */
static void append(char *text, size_t size, const char *format, ...) TFM_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* Fails with `why` and the list of what there is, in one line. */
static tfm_status none(const tfm__device *devices, size_t count, const char *why) {
    char list[4096] = "";
    for (size_t i = 0; i < count; i++) {
        const tfm_device_info *info = &devices[i].info;
        const char *separator = i > 0 ? "; " : "";
        if (!devices[i].device)
            append(list, sizeof(list), "%sno device of %s: %s", separator, info->platform, info->error);
        else
            append(list, sizeof(list), "%s%d (%d:%d) %s, %s%s%s%s", separator, info->index, info->platform_index,
                   info->device_index, info->name, info->platform, info->error[0] ? " (cannot be used: " : "",
                   info->error, info->error[0] ? ")" : "");
    }
    return tfm__fail(TFM_ERROR_DEVICE, "%s; there is: %s", why, list);
}

/* Reads decimal digits up to `end`; -1 when there are none, or too many to be an index. */
static long digits(const char **at) {
    const char *start = *at;
    long value = 0;
    while (isdigit((unsigned char)**at)) {
        value = value > 99999 ? value : value * 10 + (**at - '0');
        (*at)++;
    }
    return *at == start ? -1 : value;
}

static bool named(const tfm__device *device, const char *part) {
    const tfm_device_info *info = &device->info;
    return tfm__contains(info->name, part) || tfm__contains(info->vendor, part) ||
           tfm__contains(info->platform, part) || tfm__contains(device->platform_vendor, part);
}

/* What a wish may be, once parsed: an index, a pair, a kind, or a part of a name. */
struct query {
    enum { BY_INDEX, BY_PAIR, BY_KIND, BY_NAME } by;
    long first, second;
    int kind;
    const char *part;
};

/* Whether the text is a number or begins like a pair: then it is never searched as a name. */
static tfm_status parse(struct query *out, const tfm__device *devices, size_t count, struct wish wish) {
    const char *at = wish.text;
    char why[512];
    *out = (struct query){.by = BY_NAME, .part = wish.text, .kind = kind_of(wish.text)};
    if (out->kind >= 0) {
        out->by = BY_KIND;
        return TFM_OK;
    }
    bool negative = at[0] == '-' && isdigit((unsigned char)at[1]);
    if (negative)
        at++;
    out->first = digits(&at);
    if (out->first < 0 || (*at && *at != ':'))
        return TFM_OK;
    out->by = *at ? BY_PAIR : BY_INDEX;
    if (*at == ':') {
        at++;
        out->second = digits(&at);
    }
    if (!negative && *at == 0 && out->second >= 0)
        return TFM_OK;
    snprintf(why, sizeof(why), "%s \"%.100s\" is not a device: give " GRAMMAR, wish.source, wish.text);
    return none(devices, count, why);
}

static bool matches(const tfm__device *device, const struct query *query) {
    const tfm_device_info *info = &device->info;
    switch (query->by) {
    case BY_INDEX:
        return device->device && info->index == query->first;
    case BY_PAIR:
        return device->device && info->platform_index == query->first && info->device_index == query->second;
    case BY_KIND:
        return usable(device) && info->type == KINDS[query->kind].type;
    default:
        return device->device && named(device, query->part);
    }
}

/* The best device that the wish matches. One that cannot be used is taken only when it is the only match, so
 * that its reason is told. */
static tfm_status select_wanted(const tfm__device **out, const tfm__device *devices, size_t count, struct wish wish) {
    struct query query;
    tfm_status status = parse(&query, devices, count, wish);
    if (status != TFM_OK)
        return status;
    const tfm__device *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const tfm__device *device = &devices[i];
        if (!matches(device, &query))
            continue;
        if (!best || usable(device) > usable(best) ||
            (usable(device) == usable(best) && better(&device->info, &best->info)))
            best = device;
    }
    char why[1024];
    if (best && usable(best)) {
        *out = best;
        return TFM_OK;
    }
    if (best)
        snprintf(why, sizeof(why), "%s \"%.100s\" is %s, which cannot be used: %s", wish.source, wish.text,
                 best->info.name, best->info.error);
    else if (query.by == BY_KIND)
        snprintf(why, sizeof(why), "%s is \"%.100s\" and there are no %s here", wish.source, wish.text,
                 KINDS[query.kind].plural);
    else
        snprintf(why, sizeof(why), "%s \"%.100s\" matches no device: give " GRAMMAR, wish.source, wish.text);
    return none(devices, count, why);
}

/* The best device that computes. A single candidate is not probed: there is nothing else to take, and the
 * probe's compilation is a good part of a warm start. */
static tfm_status select_ranked(const tfm__device **out, const tfm__device *devices, size_t count) {
    size_t candidates = 0;
    bool pocl = false;
    for (size_t i = 0; i < count; i++) {
        candidates += usable(&devices[i]);
        pocl = pocl || strcmp(devices[i].info.platform, TFM__POCL) == 0;
    }
    if (candidates == 0) /* where PoCL is installed, the list says what it lacks */
        return none(devices, count,
                    pocl ? "no OpenCL device can be used"
                         : "no OpenCL device can be used: for CPUs install the Debian package pocl-opencl-icd, for a "
                           "GPU its vendor's OpenCL driver");
    const tfm__device *last = NULL;
    char failures[1024] = "";
    for (size_t turn = 0; turn < candidates; turn++) {
        const tfm__device *best = NULL;
        for (size_t i = 0; i < count; i++)
            if (usable(&devices[i]) && (!last || better(&last->info, &devices[i].info)) &&
                (!best || better(&devices[i].info, &best->info)))
                best = &devices[i];
        if (!best)
            break;
        if (candidates == 1 || tfm__device_probe(best) == TFM_OK) {
            *out = best;
            return TFM_OK;
        }
        append(failures, sizeof(failures), "%s%s", failures[0] ? "; " : "", tfm_error_message());
        tfm__log(TFM_LOG_WARNING, "device %d is passed over: %s", best->info.index, tfm_error_message());
        last = best;
    }
    char why[1280];
    snprintf(why, sizeof(why), "no OpenCL device computes a small kernel right (%s): set TFM_DEVICE to take one anyway",
             failures);
    return none(devices, count, why);
}

tfm_status tfm__device_select(const tfm__device **out, const tfm__device *devices, size_t count, const char *wanted) {
    *out = NULL;
    struct wish wish = {wanted, "the device"};
    if (!wanted || !wanted[0])
        wish.text = getenv("TFM_DEVICE"), wish.source = "TFM_DEVICE";
    if (wish.text && wish.text[0])
        return select_wanted(out, devices, count, wish);
    return select_ranked(out, devices, count);
}

tfm_status tfm__device_choose(tfm_device_info *chosen, cl_platform_id *platform, cl_device_id *device,
                              const char *wanted) {
    tfm__device *devices;
    const tfm__device *taken;
    size_t count;
    tfm_status status = tfm__devices_find(&devices, &count);
    if (status != TFM_OK)
        return status;
    status = tfm__device_select(&taken, devices, count, wanted);
    if (status == TFM_OK) {
        *chosen = taken->info;
        *platform = taken->platform;
        *device = taken->device;
        const tfm_device_info *info = &taken->info;
        tfm__log(TFM_LOG_INFO, "device %d (%d:%d): %s, %s, driver %s", info->index, info->platform_index,
                 info->device_index, info->name, info->platform, info->driver);
    }
    free(devices);
    return status;
}

tfm_status tfm_devices_list(tfm_device_info **out, size_t *count) {
    if (TFM__NEEDS("devices_list", out, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__device *rows;
    const tfm__device *chosen = NULL;
    *out = NULL;
    *count = 0;
    size_t found;
    tfm_status status = tfm__devices_find(&rows, &found);
    if (status != TFM_OK)
        return status;
    *out = tfm__alloc(found, sizeof(**out));
    if (!*out) {
        free(rows);
        return TFM_ERROR_MEMORY;
    }
    /* A TFM_DEVICE that matches nothing does not keep one from seeing what there is: then no row is chosen.
     */
    bool any = tfm__device_select(&chosen, rows, found, NULL) == TFM_OK;
    for (size_t i = 0; i < found; i++) {
        (*out)[i] = rows[i].info;
        (*out)[i].chosen = any && chosen == &rows[i];
    }
    *count = found;
    free(rows);
    return TFM_OK;
}

void tfm_devices_free(tfm_device_info **devices) {
    if (!devices)
        return;
    free(*devices);
    *devices = NULL;
}
