/* Devices, and contexts on them.
 *
 *     tfm_context *ctx = NULL;
 *     if (tfm_context_open(&ctx, NULL) == TFM_OK)
 *         printf("%s\n", tfm_context_device(ctx)->name);
 *     tfm_context_free(&ctx);
 *
 * A device is named in the same way in tfm_context_options.device, in the program's `--device` and in the environment
 * variable TFM_DEVICE:
 *
 *     gpu | cpu | accel      the best device of that kind
 *     3                      an index of tfm_devices_list
 *     1:0                    platform 1, device 0
 *     nvidia                 any part of the name of a device, vendor or platform; case does not matter
 *
 * TFM_DEVICE may also list several with commas between them, or say `all`, for a fleet (fleet.h). A context takes one
 * device, and does not open by a list.
 *
 * If the options name no device, TFM_DEVICE does. If that is not set either, the best device is taken: discrete GPUs
 * come first, then integrated GPUs, accelerators, CPUs, devices of other kinds, devices without a compiler, and
 * emulators last; and one that fails a small test kernel is passed over where there is another. Among several devices
 * that a name fits, the same order decides, without that test. A name that fits no device is an error, and the message
 * lists the devices that there are. */
#ifndef TFM_DEVICE_H
#define TFM_DEVICE_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A note on the environment. PoCL, the OpenCL driver for CPUs, shows no device if it can write neither POCL_CACHE_DIR
 * nor its folder below XDG_CACHE_HOME or HOME, as happens in services and containers. In that case only, the first call
 * in a process that looks for devices, such as tfm_devices_list, tfm_context_open, tfm_context_wrap or tfm_fleet_open,
 * sets POCL_CACHE_DIR in the environment of the process. It names a folder `pocl` in the library's cache folder
 * (TFM_CACHE_DIR) or, if that cannot be written, a folder in TMPDIR or /tmp that only the user can write. A program
 * whose other threads read the environment at that time should set POCL_CACHE_DIR itself before it starts them; a value
 * that is set already is never changed. Likewise HWLOC_SYNTHETIC is set, only where /sys is not mounted: PoCL would
 * find no memory there and abort the process. */

/* A context is one device, one in-order queue, one memory pool and one cache of programs. */
typedef struct tfm_context tfm_context;

/* What kind of device OpenCL says it is. */
typedef enum tfm_device_type {
    TFM_DEVICE_CPU,
    TFM_DEVICE_GPU,
    TFM_DEVICE_ACCELERATOR,
    TFM_DEVICE_OTHER
} tfm_device_type;

/* What a device says of itself. Strings that are too long are cut; all end with NUL. */
typedef struct tfm_device_info {
    int index;                /* The device's number over all platforms, from 0, as TFM_DEVICE counts; -1 if the row is
                                 about a platform that lists none. All three numbers are -1 for a device that is in no
                                 list, such as a sub-device that tfm_context_wrap was given. */
    int platform_index;       /* The number of its platform, from 0. */
    int device_index;         /* Its number in that platform; -1 if the row is about a platform that lists none. */
    char platform[128];       /* The name of the platform. */
    char name[128];           /* The name of the device. */
    char vendor[128];         /* The name of the vendor. */
    char driver[128];         /* The version of the driver. */
    char opencl[128];         /* The OpenCL version, such as "OpenCL 3.0 PoCL HSTR: ...". */
    tfm_device_type type;     /* The kind of device. */
    bool integrated;          /* It is a GPU that shares the host's memory. */
    bool emulator;            /* It is a GPU interface that the CPU runs, or an emulator of an FPGA. */
    bool fp16;                /* It computes in half precision (cl_khr_fp16). */
    bool compiler;            /* It can build programs from source, which tfm needs unless it has a pack (kernels.h).
                                 False for a context that takes its programs from a pack. */
    unsigned compute_units;   /* The number of its cores or multiprocessors. */
    uint64_t memory_bytes;    /* Its global memory in bytes. */
    uint64_t max_alloc_bytes; /* The largest single allocation in bytes. */
    bool chosen;     /* Of tfm_devices_list alone: tfm_context_open, or where TFM_DEVICE is a list tfm_fleet_open, would
                        take it now if its options name no device. */
    char error[256]; /* Why this platform or device cannot be used, or "" if it can. */
} tfm_device_info;

/* Lists every device of every platform. A platform that fails has one row with its error. The caller frees *out with
 * tfm_devices_free. TFM_ERROR_DEVICE if there is no platform at all; the message then names the package to install. If
 * the list cannot be made, *out is NULL and *count is 0. */
TFM_API tfm_status tfm_devices_list(tfm_device_info **out, size_t *count);
/* Frees what tfm_devices_list gave and sets the pointer to NULL. Does nothing for NULL. */
TFM_API void tfm_devices_free(tfm_device_info **devices);

/* Is called before each program that is built from source. It is the `count`-th of this context, and the context has
 * spent `seconds` on building so far. The first run on a device builds the kernels that it needs and keeps them in the
 * cache folder, which takes some drivers up to a minute. The call comes from the thread that uses the context, and must
 * not use the context itself. */
typedef void (*tfm_build_fn)(void *user, int count, double seconds);

typedef struct tfm_context_options {
    /* The device, named as the top of this header says. NULL means TFM_DEVICE or else the best device. */
    const char *device;
    /* Measures the time of every kernel by OpenCL events, as the environment variable TFM_PROFILE does. */
    bool profile;
    /* The most bytes of device memory that the context may hold. 0 means all that the device has. An allocation beyond
     * it fails with TFM_ERROR_MEMORY, so batches are made smaller as on a device with so little memory. Parameters that
     * another context's model has put on the same device, and that this one shares, are not counted. */
    uint64_t memory_limit;
    /* Takes the kernels of another kind of device, by a name of tfm_variant_name. NULL takes those that suit the
     * device. */
    const char *variant;
    /* Is called before each program that is built from source. May be NULL. */
    tfm_build_fn on_build;
    /* The `user` pointer of on_build. */
    void *on_build_user;
    uint64_t reserved[6]; /* Must be 0: room for later fields. */
} tfm_context_options;

/* The names of the kinds of device that there are kernels for, counted from 0: "cpu-512", "cpu-256" and "cpu-128" for
 * CPUs by the width of their vectors, "fpga" for accelerators, "gpu", and "scalar". NULL after the last. A device gets
 * the first one whose demands it meets. It also runs those after that one, if not as fast; one before it may be
 * hundreds of times slower. The strings are static. */
TFM_API const char *tfm_variant_name(size_t index);

/* Opens a device. One thread at a time may use the context and what was made on it; any number of contexts may live in
 * one process. `options` may be NULL for all defaults. On failure *out is NULL: TFM_ERROR_DEVICE if there is no such
 * device or its driver fails, TFM_ERROR_ARGUMENT for an unknown variant, and what kernels.h says of packs. */
TFM_API tfm_status tfm_context_open(tfm_context **out, const tfm_context_options *options);

/* Gives up one owner's hold on the context and sets *ctx to NULL. The last owner's call waits for the device and frees
 * everything. Models, embedders, trainers and fleets are owners too, so they may be freed before the context or after
 * it. Tensors, parameters and caches of keys and values are plain structs and own nothing: they end with the context.
 * Does nothing for NULL. */
TFM_API void tfm_context_free(tfm_context **ctx);

/* Adds one owner, who must call tfm_context_free later, and returns ctx. Bindings to garbage-collected languages need
 * it, because a tensor may be collected after its context. Any thread may call it at any time, and also
 * tfm_context_free for every owner but the last. */
TFM_API tfm_context *tfm_context_retain(tfm_context *ctx);

/* The device of a context. The struct belongs to the context. NULL for NULL. */
TFM_API const tfm_device_info *tfm_context_device(const tfm_context *ctx);

/* The name of the variant whose kernels the context runs, one of tfm_variant_name. The string is static. NULL for NULL.
 */
TFM_API const char *tfm_context_variant(const tfm_context *ctx);

/* The first failure since the context was opened or cleared, or TFM_OK. After a failure ops do nothing and return it,
 * so a chain of calls needs only one check at its end. TFM_ERROR_ARGUMENT for NULL. */
TFM_API tfm_status tfm_context_status(const tfm_context *ctx);

/* The sentence of that failure, or "" if there is none. It belongs to the context, and is valid until the failure is
 * cleared. For NULL it is a sentence that says so. */
TFM_API const char *tfm_context_error(const tfm_context *ctx);

/* Forgets the failure and closes all open scopes, the caller's own too, so that the caller can go on from a known
 * state, for example with a smaller batch. A tape that records goes on recording; tfm_tape_stop stops it. */
TFM_API void tfm_context_clear_error(tfm_context *ctx);

/* How many seconds the context has spent so far on kernels that were in no cache: on building them, and on their first
 * launches, in which some drivers compile. 0 for NULL. */
TFM_API double tfm_context_build_seconds(const tfm_context *ctx);

/* The most bytes of device memory that the context has held at any one time, for tensors in use and in reserve for new
 * ones. What drivers and CLBlast take for themselves is not counted, nor are buffers of the caller's (opencl.h),
 * parameters that another model on the device has put there, and those that a CPU reads from the file itself. 0 for
 * NULL. */
TFM_API uint64_t tfm_context_peak_memory(const tfm_context *ctx);

/* Receives one fact, such as "compute units" and "56". The strings are valid only during the call. Return false to
 * stop. */
typedef bool (*tfm_property_fn)(void *user, const char *name, const char *text);

/* Shows what the platform and the device say of themselves, versions, limits and extensions, the numbers that the
 * library goes by, and the context's tuning table: "tuned: gemm nt 6 9 9" and its setting for each row, and a hash of
 * all, 0 without a table; on the calling thread. What the driver does not answer is left out. TFM_ERROR_CANCELLED if
 * `report` stopped it. */
TFM_API tfm_status tfm_context_describe(const tfm_context *ctx, tfm_property_fn report, void *user);

/* Waits until the device has done all that was enqueued. Returns the context's status, or TFM_ERROR_DEVICE or
 * TFM_ERROR_MEMORY if the driver reports a failure only now. */
TFM_API tfm_status tfm_context_finish(tfm_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
