/* Device selection: the TFM_DEVICE grammar, the default ranking, and the list that marks the selected devices. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "dev/device/device_select.h"
#include "dev/pocl/env.h"
#include "dev/device/device_filter.h"

static tfm_status fail_empty_selector(tfm__device_selector selector) {
    return tfm__fail(TFM_ERROR_DEVICE, "%s is a list of devices with an empty item: put one device between two commas",
                     selector.source);
}

static tfm_status select_by_selector(const tfm__device **out, const tfm__device *devices, size_t count,
                                     tfm__device_selector selector) {
    tfm__device_filter query;
    if (strchr(selector.text, ',') && !selector.text[strspn(selector.text, ", ")])
        return fail_empty_selector(selector);
    if (tfm__selector_is_list(selector.text, devices, count)) {
        char why[512];
        snprintf(why, sizeof(why), "%s \"%.100s\" lists several devices, and here one is taken: name that one",
                 selector.source, selector.text);
        return tfm__fail_with_device_list(devices, count, why);
    }
    tfm_status status = tfm__selector_parse(&query, devices, count, selector);
    if (status != TFM_OK)
        return status;
    const tfm__device *best = tfm__device_filter_match(devices, count, &query, NULL, 0);
    if (!best || !tfm__device_usable(best))
        return tfm__selector_fail(devices, count, selector, &query, best);
    *out = best;
    return TFM_OK;
}

/* The best usable device. A single candidate is not probed: there is no alternative, and compiling the probe is a large
 * part of a warm start. */
static tfm_status select_ranked(const tfm__device **out, const tfm__device *devices, size_t count) {
    size_t candidates = 0;
    bool pocl = false;
    for (size_t i = 0; i < count; i++) {
        candidates += tfm__device_usable(&devices[i]);
        pocl = pocl || strcmp(devices[i].info.platform, TFM__POCL) == 0;
    }
    if (candidates == 0) /* lists what an installed PoCL lacks */
        return tfm__fail_with_device_list(
            devices, count,
            pocl ? "no OpenCL device can be used"
                 : "no OpenCL device can be used: for CPUs install the Debian package pocl-opencl-icd, for a "
                   "GPU its vendor's OpenCL driver");
    const tfm__device *last = NULL;
    char failures[1024] = "", saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (size_t turn = 0; turn < candidates; turn++) {
        const tfm__device *best = NULL;
        for (size_t i = 0; i < count; i++)
            if (tfm__device_usable(&devices[i]) && (!last || tfm__device_better(&last->info, &devices[i].info)) &&
                (!best || tfm__device_better(&devices[i].info, &best->info)))
                best = &devices[i];
        if (!best)
            break;
        if (candidates == 1 || tfm__device_probe(best) == TFM_OK) {
            *out = best;
            tfm__error_restore(saved_message);
            return TFM_OK;
        }
        tfm__text_append(failures, sizeof(failures), "%s%s", failures[0] ? "; " : "", tfm_error_message());
        tfm__log(TFM_LOG_WARNING, "device %d is skipped: %s", best->info.index, tfm_error_message());
        last = best;
    }
    char why[1280];
    snprintf(why, sizeof(why), "no OpenCL device passes the probe kernel (%s): set TFM_DEVICE to use one anyway",
             failures);
    return tfm__fail_with_device_list(devices, count, why);
}

static tfm__device_selector read_selector(const char *wanted) {
    return wanted && wanted[0] ? (tfm__device_selector){wanted, "the device"}
                               : (tfm__device_selector){getenv("TFM_DEVICE"), "TFM_DEVICE"};
}

tfm_status tfm__device_select(const tfm__device **out, const tfm__device *devices, size_t count, const char *wanted) {
    const tfm__device_selector selector = read_selector(wanted);
    *out = NULL;
    if (selector.text && selector.text[0])
        return select_by_selector(out, devices, count, selector);
    return select_ranked(out, devices, count);
}

/* ---- Several devices ------------------------------------------------------------------------------------------- */

bool tfm__devices_is_list(const char *wanted) {
    const char *text = read_selector(wanted).text;
    return text && tfm__selector_may_be_list(text);
}

/* Adds all remaining devices, best first, except unusable ones and those selected only by name. */
static void add_all(const tfm__device **taken, size_t *taken_count, const tfm__device *devices, size_t count) {
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (const tfm__device *last = NULL, *best;; last = best) {
        best = NULL;
        for (size_t i = 0; i < count; i++)
            if (tfm__device_usable(&devices[i]) && tfm__device_rank(&devices[i].info) < TFM__RANK_BY_NAME_ONLY &&
                (!last || tfm__device_better(&last->info, &devices[i].info)) &&
                (!best || tfm__device_better(&devices[i].info, &best->info)))
                best = &devices[i];
        if (!best)
            return;
        if (tfm__devices_contain(taken, *taken_count, best))
            continue;
        if (tfm__device_probe(best) == TFM_OK)
            taken[(*taken_count)++] = best;
        else
            tfm__log(TFM_LOG_WARNING, "device %d is skipped: %s", best->info.index, tfm_error_message());
        tfm__error_restore(saved_message);
    }
}

/* Adds the device that one item of a list names: the best match that is not yet taken. */
static tfm_status add_one(const tfm__device **taken, size_t *taken_count, const tfm__device *devices, size_t count,
                          tfm__device_selector selector) {
    tfm__device_filter query;
    tfm_status status = tfm__selector_parse(&query, devices, count, selector);
    if (status != TFM_OK)
        return status;
    const tfm__device *best = tfm__device_filter_match(devices, count, &query, taken, *taken_count);
    if (!best && tfm__device_filter_match(devices, count, &query, NULL, 0)) {
        char why[512];
        snprintf(why, sizeof(why),
                 "%s lists \"%.100s\", and the words before it already take each such device: leave it out",
                 selector.source, selector.text);
        return tfm__fail_with_device_list(devices, count, why);
    }
    if (!best || !tfm__device_usable(best))
        return tfm__selector_fail(devices, count, selector, &query, best);
    taken[(*taken_count)++] = best;
    return TFM_OK;
}

/* Adds the items of the comma-separated `text`, which is modified. */
static tfm_status add_listed(const tfm__device **taken, size_t *taken_count, const tfm__device *devices, size_t count,
                             char *text, const char *source) {
    tfm_status status = TFM_OK;
    for (char *word = text, *next; word && status == TFM_OK; word = next) {
        next = strchr(word, ',');
        if (next)
            *next++ = 0;
        word += strspn(word, " ");
        for (size_t end = strlen(word); end > 0 && word[end - 1] == ' '; end--)
            word[end - 1] = 0;
        if (!word[0])
            status = fail_empty_selector((tfm__device_selector){word, source});
        else if (strcasecmp(word, "all") == 0)
            add_all(taken, taken_count, devices, count);
        else
            status = add_one(taken, taken_count, devices, count, (tfm__device_selector){word, source});
    }
    if (status == TFM_OK && *taken_count == 0)
        status = tfm__fail_with_device_list(devices, count, "no OpenCL device can be used except by name");
    return status;
}

tfm_status tfm__devices_select(const tfm__device **out, size_t *taken, const tfm__device *devices, size_t count,
                               const char *wanted) {
    const tfm__device_selector selector = read_selector(wanted);
    *taken = 0;
    if (!selector.text || !selector.text[0] || !tfm__selector_is_list(selector.text, devices, count)) {
        const tfm_status status = tfm__device_select(out, devices, count, wanted);
        *taken = status == TFM_OK;
        return status;
    }
    char *text = tfm__strdup(selector.text);
    if (!text)
        return TFM_ERROR_MEMORY;
    const tfm_status status = add_listed(out, taken, devices, count, text, selector.source);
    free(text);
    return status;
}

tfm_status tfm__devices_choose(tfm__device **out, size_t *count, const char *wanted) {
    tfm__device *devices;
    size_t found;
    *out = NULL;
    *count = 0;
    tfm_status status = tfm__devices_find(&devices, &found);
    if (status != TFM_OK)
        return status;
    const tfm__device **taken = tfm__alloc(found, sizeof(*taken));
    *out = tfm__alloc(found, sizeof(**out));
    status = taken && *out ? tfm__devices_select(taken, count, devices, found, wanted) : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < *count && status == TFM_OK; i++)
        (*out)[i] = *taken[i];
    if (status != TFM_OK) {
        free(*out);
        *out = NULL;
        *count = 0;
    }
    free(taken);
    free(devices);
    return status;
}

/* ---- One device, and the list of all --------------------------------------------------------------------------- */

void tfm__device_log(const tfm_device_info *info) {
    tfm__log(TFM_LOG_INFO, "device %d (%d:%d): %s, %s, driver %s", info->index, info->platform_index,
             info->device_index, info->name, info->platform, info->driver);
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
        tfm__device_log(chosen);
    }
    free(devices);
    return status;
}

tfm_status tfm_devices_list(tfm_device_info **out, size_t *count) {
    if (TFM__NEEDS("devices_list", out, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__device *rows;
    *out = NULL;
    *count = 0;
    size_t found, chosen = 0;
    tfm_status status = tfm__devices_find(&rows, &found);
    if (status != TFM_OK)
        return status;
    const tfm__device **taken = tfm__alloc(found, sizeof(*taken));
    *out = tfm__alloc(found, sizeof(**out));
    if (!*out || !taken) {
        free(*out);
        free(taken);
        free(rows);
        *out = NULL;
        return TFM_ERROR_MEMORY;
    }
    /* The list works even if TFM_DEVICE matches nothing: then no row is marked, and the error message is restored. */
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    const bool any = tfm__devices_select(taken, &chosen, rows, found, NULL) == TFM_OK;
    tfm__error_restore(saved_message);
    for (size_t i = 0; i < found; i++) {
        (*out)[i] = rows[i].info;
        (*out)[i].chosen = any && tfm__devices_contain(taken, chosen, &rows[i]);
    }
    *count = found;
    free(taken);
    free(rows);
    return TFM_OK;
}

void tfm_devices_free(tfm_device_info **devices) {
    if (!devices)
        return;
    free(*devices);
    *devices = NULL;
}
