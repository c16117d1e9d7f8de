/* Devices and contexts.
 *
 *     tfm_context *ctx;
 *     if (tfm_context_open(&ctx, NULL) != TFM_OK) ...          // TFM_DEVICE, then the best device there is
 *     ...
 *     tfm_context_free(&ctx);
 *
 * A device is chosen by one grammar, in tfm_context_options.device, `--device` and TFM_DEVICE alike:
 *     gpu | cpu | accel      the best device of that kind
 *     3                      an index of tfm_devices_list
 *     1:0                    platform 1, device 0
 *     nvidia                 any case-insensitive part of a device, vendor or platform name
 * The options win over the environment, the environment over the ranking: discrete GPU, integrated GPU,
 * accelerator, CPU, emulators last; where there is a choice, a device that fails a probe kernel is passed over. Of
 * several devices with the name the best by this ranking is taken. A name that matches nothing is an error that lists
 * what there is. */
#ifndef TFM_DEVICE_H
#define TFM_DEVICE_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_context tfm_context;

typedef enum tfm_device_type { TFM_DEVICE_CPU, TFM_DEVICE_GPU, TFM_DEVICE_ACCELERATOR, TFM_DEVICE_OTHER } tfm_device_type;

/* What one device says of itself. Strings are cut, never unterminated. */
typedef struct tfm_device_info {
    int index;                /* over all platforms, as TFM_DEVICE counts */
    int platform_index;
    int device_index;         /* within its platform; -1 in a row that only tells of a platform that fails to list */
    char platform[128];
    char name[128];
    char vendor[128];
    char driver[128];
    char opencl[64];          /* "OpenCL 3.0 PoCL ..." */
    tfm_device_type type;
    bool integrated;          /* shares the host's memory */
    bool emulator;            /* a GPU interface run by the CPU, or an FPGA emulator */
    bool fp16;                /* cl_khr_fp16 */
    bool compiler;            /* builds programs from source */
    unsigned compute_units;
    uint64_t memory_bytes;
    uint64_t max_alloc_bytes;
    bool chosen;              /* what tfm_context_open(NULL) would take now */
    char error[256];          /* why this platform or device cannot be used; "" if it can */
} tfm_device_info;

/* Lists every device of every platform, a platform that fails as one row with its error. *out is owned by the caller,
 * who frees it with tfm_devices_free. No platform at all is TFM_ERROR_DEVICE with the package to install. */
TFM_API tfm_status tfm_devices_list(tfm_device_info **out, size_t *count);
TFM_API void tfm_devices_free(tfm_device_info **devices);

typedef struct tfm_context_options {
    const char *device; /* the grammar above; NULL: TFM_DEVICE, then the ranking */
    bool profile;       /* time every kernel by events, as TFM_PROFILE does */
    const char *variant; /* kernels for another kind of device: a name of tfm_variant_name; NULL: what suits this one */
} tfm_context_options;

/* The kinds of device that there are kernels for, counted from 0: "wide-16", "wide-8", "wide-4" for CPUs by the width of
 * their vectors, "gpu", "scalar". NULL behind the last. A device gets the first whose demands it meets, and runs those
 * behind it too, if not as fast; one before it may take hundreds of times as long. Static. */
TFM_API const char *tfm_variant_name(size_t index);

/* Opens one device: a context is one device, one in-order queue, one memory pool, one program cache. Not to be shared
 * between threads without a lock; any number may live in one process. `options` may be NULL. On failure *out is NULL. */
TFM_API tfm_status tfm_context_open(tfm_context **out, const tfm_context_options *options);

/* Waits for the device, gives everything back and nulls *ctx. NULL is taken. Models, trainers, caches and parameters
 * must have been freed before; tensors go with the context, and must not be used behind it. */
TFM_API void tfm_context_free(tfm_context **ctx);

/* The device of this context. Borrowed. */
TFM_API const tfm_device_info *tfm_context_device(const tfm_context *ctx);

/* The name of the variant whose kernels it runs. Static. */
TFM_API const char *tfm_context_variant(const tfm_context *ctx);

/* The first failure since the context was opened or cleared; ops after it are no-ops, so a chain is checked once. */
TFM_API tfm_status tfm_context_status(const tfm_context *ctx);

/* The sentence of that failure; "" if there is none. Borrowed. */
TFM_API const char *tfm_context_error(const tfm_context *ctx);

/* Forgets the failure and closes all scopes that are open, the caller's own too, so that the caller can go on from a
 * known state, e.g. with less. A tape that records goes on recording: see tfm_tape_stop. */
TFM_API void tfm_context_clear_error(tfm_context *ctx);

/* The most bytes of device memory that the context has held at a time, for tensors in use and for those to come. What
 * drivers and CLBlast take besides is not in it. */
TFM_API uint64_t tfm_context_memory(const tfm_context *ctx);

/* Waits until everything enqueued is done. */
TFM_API tfm_status tfm_context_finish(tfm_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
