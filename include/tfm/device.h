/* Devices and contexts.
 *
 *     tfm_context *ctx = NULL;
 *     if (tfm_context_open(&ctx, NULL) == TFM_OK)
 *         printf("%s\n", tfm_context_device(ctx)->name);
 *     tfm_context_free(&ctx);
 *
 * The device selector is the same in tfm_context_options.device, in the command-line option `--device` and in the
 * environment variable TFM_DEVICE:
 *
 *     gpu | cpu | accel      the best device of that kind
 *     3                      an index of tfm_devices_list
 *     1:0                    platform 1, device 0
 *     nvidia                 any part of the name of a device, vendor or platform; case does not matter
 *
 * TFM_DEVICE may also be a comma-separated list, or `all`, for a fleet (fleet.h). A context takes one device; a list is
 * an error there.
 *
 * Without a selector in the options, TFM_DEVICE applies. If that is not set either, the best device is taken: discrete
 * GPUs first, then integrated GPUs, accelerators, CPUs, other kinds, devices without a compiler, and emulators last. A
 * device that fails a small test kernel is skipped if there is another. The same order, without the test, selects among
 * several devices that match a selector. A selector without a match is an error, and the message lists the devices. */
#ifndef TFM_DEVICE_H
#define TFM_DEVICE_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Environment: PoCL, the OpenCL driver for CPUs, shows no device if it can write neither POCL_CACHE_DIR nor its folder
 * below XDG_CACHE_HOME or HOME, as in some services and containers. Only then, the first call in a process that lists
 * devices (such as tfm_devices_list, tfm_context_open, tfm_context_wrap, tfm_fleet_open) sets POCL_CACHE_DIR in the
 * environment of the process, to a folder `pocl` in the library's cache folder (TFM_CACHE_DIR) or, if that is not
 * writable, to a folder in TMPDIR or /tmp that only the user can write. Programs with other threads that read the
 * environment at that time set POCL_CACHE_DIR before they start them; an existing value never changes. Likewise
 * HWLOC_SYNTHETIC is set, only if /sys is not mounted: PoCL would find no memory and abort the process. */

/* A context: one device, one in-order queue, one memory pool and one program cache. */
typedef struct tfm_context tfm_context;

/* The device type that OpenCL reports. */
typedef enum tfm_device_type {
    TFM_DEVICE_CPU,
    TFM_DEVICE_GPU,
    TFM_DEVICE_ACCELERATOR,
    TFM_DEVICE_OTHER
} tfm_device_type;

/* Device info. Strings that are too long are truncated; all end with NUL. */
typedef struct tfm_device_info {
    int index; /* The index over all platforms, from 0, as TFM_DEVICE counts; -1 for a platform without devices. All
                  three indices are -1 for a device in no list, such as a sub-device given to tfm_context_wrap. */
    int platform_index; /* The index of its platform, from 0. */
    int device_index;   /* The index in that platform, from 0; -1 for a platform without devices. */
    char platform[128];
    char name[128];
    char vendor[128];
    char driver[128];
    char opencl[128]; /* The OpenCL version, such as "OpenCL 3.0 PoCL HSTR: ...". */
    tfm_device_type type;
    bool integrated; /* A GPU that shares the host's memory. */
    bool emulator;   /* A GPU interface run by the CPU, or an FPGA emulator. */
    bool fp16;       /* Supports half precision (cl_khr_fp16). */
    bool compiler;   /* Can build programs from source, which tfm needs unless it has a pack (kernels.h). False for a
                        context that loads its programs from a pack. */
    unsigned compute_units; /* The number of cores or multiprocessors. */
    uint64_t memory_bytes;
    uint64_t max_alloc_bytes; /* The largest single allocation in bytes. */
    bool chosen; /* tfm_devices_list only: the default that tfm_context_open, or tfm_fleet_open if TFM_DEVICE is a list,
                    would take now. */
    char error[256]; /* Why this platform or device cannot be used, or "" if it can. */
} tfm_device_info;

/* Lists all devices of all platforms. A failing platform has one row with its error. The caller frees *out with
 * tfm_devices_free. TFM_ERROR_DEVICE if there is no platform; the message names the package to install. On failure *out
 * is NULL and *count is 0. */
TFM_API tfm_status tfm_devices_list(tfm_device_info **out, size_t *count);
/* Frees the list and sets the pointer to NULL. */
TFM_API void tfm_devices_free(tfm_device_info **devices);

/* Called before each program is built from source: the `count`-th of this context, after `seconds` of building so far.
 * The first run on a device builds its kernels and stores them in the cache folder, which takes some drivers up to a
 * minute. Runs on the thread that uses the context; it must not use the context. */
typedef void (*tfm_build_fn)(void *user, int count, double seconds);

typedef struct tfm_context_options {
    /* The device selector, as above. NULL means TFM_DEVICE or else the best device. */
    const char *device;
    /* Measures the time of every kernel by OpenCL events, as the environment variable TFM_PROFILE does. */
    bool profile;
    /* The most bytes of device memory that the context may hold. 0 means all that the device has. An allocation beyond
     * it fails with TFM_ERROR_MEMORY, so batches become smaller, as on a device with that much memory. Parameters
     * shared with another context's model on the same device do not count. */
    uint64_t memory_limit;
    /* The kernel variant, a name of tfm_variant_name. NULL takes the one that suits the device. */
    const char *variant;
    /* Called before each program is built from source. May be NULL. */
    tfm_build_fn on_build;
    void *on_build_user;
    uint64_t reserved[6]; /* Must be 0. */
} tfm_context_options;

/* The names of the kernel variants, counted from 0: "cpu-512", "cpu-256" and "cpu-128" for CPUs by the width of their
 * vectors, "fpga" for accelerators, "gpu", and "scalar". NULL after the last. A device gets the first variant with its
 * requirements met. Later ones run too, more slowly; an earlier one may be hundreds of times slower. The strings are
 * static. */
TFM_API const char *tfm_variant_name(size_t index);

/* Opens a device. One thread at a time may use the context and the objects on it; a process may have any number of
 * contexts. `options` may be NULL for all defaults. On failure *out is NULL: TFM_ERROR_DEVICE if there is no such
 * device or its driver fails, TFM_ERROR_ARGUMENT for an unknown variant, and for packs the errors of kernels.h. */
TFM_API tfm_status tfm_context_open(tfm_context **out, const tfm_context_options *options);

/* Releases one reference and sets *ctx to NULL. The last release waits for the device and frees everything. Models,
 * embedders, trainers and fleets hold references, so they may be freed before or after the context. Tensors, parameters
 * and KV caches are plain structs without references: they end with the context. Does nothing for NULL. */
TFM_API void tfm_context_free(tfm_context **ctx);

/* Adds one reference, to be released with tfm_context_free, and returns ctx. Bindings to garbage-collected languages
 * need it, because a tensor may be collected after its context. Any thread may call it at any time, and also
 * tfm_context_free, except for the last reference. */
TFM_API tfm_context *tfm_context_retain(tfm_context *ctx);

/* The device of a context. The struct belongs to the context. NULL for NULL. */
TFM_API const tfm_device_info *tfm_context_device(const tfm_context *ctx);

/* The kernel variant of the context, one of tfm_variant_name. The string is static. NULL for NULL. */
TFM_API const char *tfm_context_variant(const tfm_context *ctx);

/* The first failure since the context was opened or cleared, or TFM_OK. After a failure ops do nothing and return it,
 * so a chain of calls needs only one check at its end. TFM_ERROR_ARGUMENT for NULL. */
TFM_API tfm_status tfm_context_status(const tfm_context *ctx);

/* The message of that failure, or "" if there is none. Owned by the context, and valid until the failure is cleared.
 * For NULL, a message about it. */
TFM_API const char *tfm_context_error(const tfm_context *ctx);

/* Clears the failure and closes all open scopes, including the caller's, so that the caller can continue from a known
 * state, for example with a smaller batch. A recording tape keeps recording until tfm_tape_stop. */
TFM_API void tfm_context_clear_error(tfm_context *ctx);

/* The seconds that the context has spent on kernels missing from the cache: building them, and their first launches, in
 * which some drivers compile. 0 for NULL. */
TFM_API double tfm_context_build_seconds(const tfm_context *ctx);

/* The peak device memory of the context in bytes: tensors in use and the pool's reserve. Not counted: memory of drivers
 * and CLBlast, the caller's buffers (opencl.h), parameters shared with another model on the device, and parameters that
 * a CPU reads from the mapped file. 0 for NULL. */
TFM_API uint64_t tfm_context_peak_memory(const tfm_context *ctx);

/* Receives one property, such as "compute units" and "56". The strings are valid only during the call. Return false to
 * stop. */
typedef bool (*tfm_property_fn)(void *user, const char *name, const char *text);

/* Reports the properties of the platform and the device (versions, limits, extensions), the library's parameters for
 * it, and the tuning table: a row "tuned: gemm nt 6 9 9" with its setting each, and a hash of all, 0 without a table.
 * Calls `report` on the calling thread. Queries that the driver does not answer are left out. TFM_ERROR_CANCELLED if
 * `report` stopped it. */
TFM_API tfm_status tfm_context_describe(const tfm_context *ctx, tfm_property_fn report, void *user);

/* Waits until the device has finished all enqueued work. Returns the context's status, or TFM_ERROR_DEVICE or
 * TFM_ERROR_MEMORY if the driver reports a failure only now. */
TFM_API tfm_status tfm_context_finish(tfm_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
