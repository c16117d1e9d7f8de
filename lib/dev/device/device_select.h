/* What devices there are (device_list.c), which one is meant (device_select.c), and whether it computes (probe.c).
 *
 *     cl_platform_id platform;
 *     cl_device_id device;
 *     status = tfm__device_choose(&info, &platform, &device, options ? options->device : NULL);
 *
 * Nothing here keeps an OpenCL object: platforms and root devices live as long as the process. All of it may
 * be called from any thread. */
#ifndef TFM_LIB_DEV_DEVICE_SELECT_H
#define TFM_LIB_DEV_DEVICE_SELECT_H

#include "dev/device/context_internal.h"

/* A row of tfm_devices_list with the OpenCL objects behind it. `device` is NULL in a row that only tells of a
 * platform. */
typedef struct tfm__device {
    tfm_device_info info;
    cl_platform_id platform;
    cl_device_id device;
    char platform_vendor[128]; /* "The pocl project": where PoCL says its name */
} tfm__device;

/* Every device of every platform, in the platforms' order; *out is freed with free(). A platform or a device
 * that fails is a row with its error. No platform at all is TFM_ERROR_DEVICE. */
tfm_status tfm__devices_find(tfm__device **out, size_t *count);

/* The device that `wanted` names; NULL or "" asks TFM_DEVICE, and if that is unset or empty, the ranking. The
 * choice is logged. No such device, or one that cannot be used, is TFM_ERROR_DEVICE with a list of what there
 * is. */
tfm_status tfm__device_choose(tfm_device_info *chosen, cl_platform_id *platform, cl_device_id *device,
                              const char *wanted);

/* Says in the log which device was chosen. */
void tfm__device_log(const tfm_device_info *info);

/* The choice itself, over rows already found and without a word in the log; *out points into `devices`. */
tfm_status tfm__device_select(const tfm__device **out, const tfm__device *devices, size_t count, const char *wanted);

/* The same of all devices that a list such as `gpu,cpu` or `all` names, in its order. `out` has room for `count`. */
tfm_status tfm__devices_select(const tfm__device **out, size_t *taken, const tfm__device *devices, size_t count,
                               const char *wanted);

/* The row of one device of the caller's, for a context that is wrapped around it: its indices are -1 where
 * the device is not in the list (a sub-device). TFM_ERROR_DEVICE if the driver does not answer. */
tfm_status tfm__device_describe(tfm_device_info *out, cl_platform_id *platform, cl_device_id device);

/* What a program binary depends on besides its source, each by its name. TFM_ERROR_DEVICE where the driver keeps an
 * answer back. */
enum { TFM__FINGERPRINT_FIELDS = 6 };
typedef struct tfm__device_fingerprint {
    char text[TFM__FINGERPRINT_FIELDS][256];
} tfm__device_fingerprint;
extern const char *const tfm__fingerprint_field_names[TFM__FINGERPRINT_FIELDS];
tfm_status tfm__device_fingerprint_query(tfm__device_fingerprint *out, cl_device_id device);

/* The same as one line of text for a cache key. Freed with free(). NULL with the sentence set where the driver keeps an
 * answer back: then nothing is to be cached, since two devices would share an entry. */
char *tfm__device_fingerprint_text(cl_device_id device);

/* Compiles and runs a small kernel and checks its numbers. A success is remembered in the disk cache, so that
 * it costs a compilation once per device and driver. The sentence says what went wrong. */
tfm_status tfm__device_probe(const tfm__device *device);

#endif
