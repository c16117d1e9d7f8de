/* Device discovery (device_list.c), selection (device_select.c), and the check that it computes correctly (probe.c).
 *
 *     cl_platform_id platform;
 *     cl_device_id device;
 *     status = tfm__device_choose(&info, &platform, &device, options ? options->device : NULL);
 *
 * No OpenCL objects are held: platforms and root devices live as long as the process. Thread-safe. */
#ifndef TFM_LIB_DEV_DEVICE_SELECT_H
#define TFM_LIB_DEV_DEVICE_SELECT_H

#include "dev/device/context_internal.h"

/* A row of tfm_devices_list with its OpenCL objects. `device` is NULL in a row about a platform. */
typedef struct tfm__device {
    tfm_device_info info;
    cl_platform_id platform;
    cl_device_id device;
    char platform_vendor[128]; /* "The pocl project": identifies PoCL */
} tfm__device;

/* All devices of all platforms, in order; *out is freed with free(). A failing platform or device is a row with its
 * error. No platform at all is TFM_ERROR_DEVICE. */
tfm_status tfm__devices_find(tfm__device **out, size_t *count);

/* Selects the device named by `wanted`; NULL or "" uses TFM_DEVICE, and if that is unset or empty, the ranking. Logs
 * the choice. No such device, or an unusable one, is TFM_ERROR_DEVICE with a list of the devices. */
tfm_status tfm__device_choose(tfm_device_info *chosen, cl_platform_id *platform, cl_device_id *device,
                              const char *wanted);

/* Logs the selected device. */
void tfm__device_log(const tfm_device_info *info);

/* Selection from rows already found, without logging; *out points into `devices`. */
tfm_status tfm__device_select(const tfm__device **out, const tfm__device *devices, size_t count, const char *wanted);

/* The same for a list such as `gpu,cpu` or `all`, in its order. `out` has space for `count`. */
tfm_status tfm__devices_select(const tfm__device **out, size_t *taken, const tfm__device *devices, size_t count,
                               const char *wanted);

/* The row of the caller's device, for a wrapped context; its indices are -1 if it is not listed (a sub-device).
 * TFM_ERROR_DEVICE if a query fails. */
tfm_status tfm__device_describe(tfm_device_info *out, cl_platform_id *platform, cl_device_id device);

/* What a program binary depends on besides its source, as name and value. TFM_ERROR_DEVICE if a query fails. */
enum { TFM__FINGERPRINT_FIELDS = 6 };
typedef struct tfm__device_fingerprint {
    char text[TFM__FINGERPRINT_FIELDS][256];
} tfm__device_fingerprint;
extern const char *const tfm__fingerprint_field_names[TFM__FINGERPRINT_FIELDS];
tfm_status tfm__device_fingerprint_query(tfm__device_fingerprint *out, cl_device_id device);

/* The same as one line of text for a cache key. Freed with free(). NULL with the error message set if a query fails: do
 * not cache then, since two devices could share an entry. */
char *tfm__device_fingerprint_text(cl_device_id device);

/* Compiles and runs a small kernel and checks its results. Success is stored in the disk cache: one compilation per
 * device and driver. */
tfm_status tfm__device_probe(const tfm__device *device);

#endif
