/* OpenCL inside lib/dev: the struct behind tfm_context, and internal helpers. */
#ifndef TFM_LIB_DEV_CONTEXT_INTERNAL_H
#define TFM_LIB_DEV_CONTEXT_INTERNAL_H

#include <stdatomic.h>
#include "dev/dev.h"
#include "dev/tuning/tuning_db.h"
#include "tfm/opencl.h"

#define TFM__MAX_SCOPES 64
#define TFM__PINNED (-1)
#define TFM__SIZE_CLASSES 160
#define TFM__KERNEL_SLOTS 512 /* power of two; far more than a model needs */

/* Contexts that were opened, not wrapped, share one cl_context per device (shared_buffers.c). Acquire counts a user;
 * release drops one, releases the cl_context with the last, and returns whether it was a shared one. Thread-safe. */
cl_context tfm__cl_context_acquire(cl_platform_id platform, cl_device_id device, cl_int *error);
bool tfm__cl_context_release(cl_context cl);
/* Call after a device error, which may be a crashed kernel: users keep the cl_context, later contexts get a new one.
 * No-op if it is not shared. Thread-safe. */
void tfm__cl_context_invalidate(cl_context cl);

/* Read-only memory under a content key, shared by all contexts on one cl_context. Find counts a user and retains the
 * memory, or returns NULL; add returns NULL with the error message set. Drop each before the memory is released. Bytes
 * count each memory of the cl_context once. Thread-safe. */
typedef struct tfm__shared_buffer tfm__shared_buffer;
tfm__shared_buffer *tfm__shared_buffer_find(cl_context cl, tfm__shared_buffer_key key, cl_mem *memory, size_t *bytes);
tfm__shared_buffer *tfm__shared_buffer_add(cl_context cl, tfm__shared_buffer_key key, cl_mem memory, size_t bytes);
void tfm__shared_buffer_drop(tfm__shared_buffer *shared);
uint64_t tfm__shared_buffer_bytes(cl_context cl);
/* The address of its mapping, or 0. Mapped once for all contexts: PoCL finds the mapping to end by its address, so two
 * contexts that map one buffer end each other's mappings, and PoCL then copies to freed memory. */
uint64_t tfm__shared_buffer_address(tfm__shared_buffer *shared, cl_command_queue queue);
/* Maps a buffer, unmaps it, and returns the address, or 0. This allocates the memory, which drivers otherwise do at the
 * first launch. */
uint64_t tfm__mapped_address(cl_command_queue queue, cl_mem memory);

/* A block of device memory. The struct outlives its use, so that `generation` detects stale tensors. */
struct tfm_buffer {
    tfm_context *ctx;
    cl_mem memory;
    size_t bytes;
    uint64_t generation;        /* incremented when the block is released */
    bool external;              /* the caller's or another context's cl_mem, not the pool's: released, never reused */
    uint64_t address;           /* on devices with a megakernel, or 0 if unknown */
    void *mapping;              /* the mapped file that backs `memory` (mmap_tensor.c), or NULL */
    tfm__shared_buffer *shared; /* read-only and shared: released, never reused; or NULL */
    int depth;                  /* of its scope; TFM__PINNED when only pins keep it alive */
    int pins;                   /* pins that keep it alive after its scope closes */
    uint64_t tag;               /* caller-defined, for a layer above; 0 in a new block */
    uint64_t freed_at;          /* ctx->frees when it became unused */
    tfm_buffer *next;           /* in its scope's list, or in its size class's free list */
    tfm_buffer **link;          /* the pointer to this block while it is in a scope */
    tfm_buffer *next_all;       /* all structs of the context */
};

typedef struct tfm__kernel_pack tfm__kernel_pack;
typedef struct tfm__program tfm__program;
typedef struct tfm__profile tfm__profile;
typedef struct tfm__megakernel tfm__megakernel;
typedef struct tfm__storage_entry tfm__storage_entry;

struct tfm__kernel {
    cl_kernel cl;
    char *key; /* file, name and defines, each with a terminating 0; `name` points into it */
    const char *name;
    uint64_t hash;     /* of the key and the tuning's group */
    uint64_t identity; /* hash of its name, program text and options, and of built_here */
    cl_uint parameters;
    size_t max_workgroup; /* tfm__kernel_max_workgroup, or 0 before the first query */
    bool checked;
    bool built_here; /* from source, in this process */
    size_t local[3]; /* local size of the last launch that PoCL compiled for */
    const tfm__program *program;
    /* Its function in the megakernel (megakernel.c): a text that calls it, or NULL, and its number from 1, 0 if it has
     * none yet, or -1 if it cannot have one. */
    char *body;
    int body_number;
    struct {
        uint64_t bits;
        bool set;
    } * scalars; /* [parameters]: the last values of non-buffer arguments */
};

/* Device capabilities (capabilities.c). Kernel texts test bits by defines such as TFM_HAS_FP16. */
enum {
    TFM__HAS_FMA = 1 << 0,            /* fma() is one instruction: CL_FP_FMA. TFM_FMA in kernels */
    TFM__HAS_INF_NAN = 1 << 1,        /* floats have infinity and NaN: CL_FP_INF_NAN */
    TFM__HAS_INT64 = 1 << 2,          /* the full profile, or cles_khr_int64 */
    TFM__HAS_FP16 = 1 << 3,           /* arithmetic on half: cl_khr_fp16 */
    TFM__HAS_FP64 = 1 << 4,           /* double: cl_khr_fp64 */
    TFM__HAS_SUBGROUPS = 1 << 5,      /* cl_khr_subgroups, with OpenCL C 2.0 or later */
    TFM__HAS_INT_DOT = 1 << 6,        /* int8 dot products: cl_khr_integer_dot_product, with OpenCL C 3.0 */
    TFM__HAS_IMAGES = 1 << 7,         /* CL_DEVICE_IMAGE_SUPPORT */
    TFM__HAS_LOCAL_MEMORY = 1 << 8,   /* local memory is faster than global memory: CL_LOCAL */
    TFM__HAS_UNIFIED_MEMORY = 1 << 9, /* host and device share memory: CL_DEVICE_HOST_UNIFIED_MEMORY */
    TFM__HAS_NV_QUERIES = 1 << 10,    /* reports its compute capability: cl_nv_device_attribute_query */
    TFM__HAS_AMD_QUERIES = 1 << 11,   /* reports its instruction set: cl_amd_device_attribute_query */
    TFM__HAS_AVX512VNNI = 1 << 12,    /* instructions of the host's processor that the driver's compiler */
    TFM__HAS_AVXVNNI = 1 << 13,       /* may not know (capabilities.c): int8 dot products, 512 and 256 bits wide, */
    TFM__HAS_AVX512BF16 = 1 << 14,    /* and bf16 dot products */
    TFM__HAS_AMX_BF16 = 1 << 15,      /* AMX tiles of bf16 */
    TFM__HAS_AMX_INT8 = 1 << 16,      /* AMX tiles of int8, if tfm__amx_allowed */
    TFM__HAS_INTEL_DPAS = 1 << 17,    /* Intel's matrix cores: cl_intel_subgroup_matrix_multiply_accumulate */
    TFM__HAS_INTEL_SUBGROUP_SIZE = 1 << 18, /* cl_intel_required_subgroup_size, which identifies Intel GPUs */
};

typedef struct tfm__capabilities {
    uint32_t has;           /* bits TFM__HAS_... */
    int opencl_c;           /* the newest OpenCL C, times ten: 12, 20, 30; 0 if unknown */
    unsigned width;         /* CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT */
    size_t parameter_bytes; /* CL_DEVICE_MAX_PARAMETER_SIZE */
    tfm__mma mma;           /* of this kind of device */
    tfm__dp4a dp4a;         /* of this kind of device */
    tfm__limits limits;     /* as the device reports them */
} tfm__capabilities;

struct tfm_context {
    atomic_int refcount; /* the opener, and each model, trainer etc. on it */
    tfm_device_info info;
    cl_platform_id platform;
    cl_device_id device;
    cl_context cl;
    bool cl_shared; /* cl is shared with the other contexts on the device */
    cl_command_queue queue;
    bool on_pocl; /* launches need ordering (launch_order.c) */
    tfm_context *next_on_pocl;
    /* CPU partitions (cpu_partition.c). */
    cl_command_queue full_queue;  /* the queue on all cores while `queue` is on a partition; else NULL */
    size_t partition, partitions; /* index and number of partitions; 0 of 0 at first: all cores */
    unsigned partition_epoch;     /* partition_changes that `queue` reflects */
    tfm_context *next_sharing;    /* the next context that shares the cores */
    tfm__tuning tuning;
    tfm__capabilities capabilities;
    tfm__limits limits;      /* in force: the device's, with smaller groups after the driver refused some */
    bool workgroups_reduced; /* the driver refused a work-group size; the limit was lowered */

    tfm_status status;
    char message[TFM__MESSAGE_MAX];
    char previous_message[TFM__MESSAGE_MAX]; /* this thread's error message before the context failed */

    tfm_buffer *buffers;
    tfm_buffer *free[TFM__SIZE_CLASSES];
    tfm_buffer *spare;                   /* structs without memory */
    tfm_buffer *scopes[TFM__MAX_SCOPES]; /* 0 is the root */
    tfm_buffer *pinned;                  /* pinned blocks whose scope has closed */
    int depth;
    uint64_t memory_limit;                /* most bytes of the pool: the device's, or the caller's limit; 0: unknown */
    uint64_t pool_bytes, pool_bytes_peak; /* bytes of the pool's own blocks: now, and the peak */
    bool limits_unused;                   /* tfm__pool_limit_unused */
    uint64_t unused_bytes;                /* bytes in `free` */
    uint64_t used_bytes_peak;             /* peak of pool_bytes - unused_bytes */
    uint64_t
        releasing_bytes; /* released since the driver was last known to have all back: kernels may still use them */
    uint64_t frees;      /* blocks added to `free` so far */
    uint64_t published_bytes; /* bytes of pool_bytes that are published */

    tfm_build_fn on_build;
    void *on_build_user;
    int builds;           /* programs built from source */
    double build_seconds; /* their total time */

    tfm__kernel_pack *pack; /* source of all programs, or NULL */
    bool exports;           /* its programs are exported (kernel_export.c), */
    bool is_export_proxy;   /* with the tuning and limits of another target device */

    tfm__program *programs;
    tfm__kernel *kernels[TFM__KERNEL_SLOTS];
    tfm__profile *profile;
    tfm__megakernel *megakernel; /* or NULL */
    uint64_t launches;           /* kernels, copies and fills enqueued; tests bound those of a decode step */
    uint64_t collected;          /* of them, run in a megakernel */
    uint64_t waits;              /* host waits for the device, without builds */

    tfm__storage_entry *storage; /* context-local storage, the latest first */

    /* Rows sorted by name (tuning_db.c): the ones in force, and the ones last read or stored. The difference is this
     * context's changes. */
    tfm__tuning_db tuning_db, tuning_db_stored;
    bool tuning_db_cleared; /* since then: saving drops all stored rows */
    int default_group;      /* the tuning's group without an overriding row */
};

/* The queue, after launching what the megakernel has collected: for commands that are not launches. */
cl_command_queue tfm__queue(tfm_context *ctx);

/* "CL_OUT_OF_RESOURCES" for -5. Never NULL. */
const char *tfm__cl_error_name(cl_int code);
/* Whether less work at a time may help. */
bool tfm__cl_is_memory(cl_int code);

/* Fails the context with "<what>: CL_... (-5)" and TFM_ERROR_MEMORY or TFM_ERROR_DEVICE by the code. */
tfm_status tfm__cl_fail(tfm_context *ctx, cl_int code, const char *what);
/* The same for a failed wait: there "out of resources" means a crashed kernel, never too little memory. */
tfm_status tfm__cl_fail_wait(tfm_context *ctx, cl_int code, const char *what);
/* Advice that ends the error message; may be "". */
const char *tfm__cl_advice(tfm_status status, cl_int code);
/* TFM_ERROR_MEMORY if less work at a time may help, else TFM_ERROR_DEVICE. May wait for the queue. */
tfm_status tfm__cl_status(tfm_context *ctx, cl_int code);

/* Queries a string of the device, or if NULL of the platform, in OpenCL's two steps, cleaned for printing. */
cl_int tfm__cl_query_string(char *out, size_t size, cl_platform_id platform, cl_device_id device, cl_uint what);
/* A string property of a device, always terminated; "" if the query fails. */
void tfm__cl_device_string(char *out, size_t size, cl_device_id device, cl_device_info what);

/* Call when a driver refused a kernel with `items` items per work-group; `most` is CL_KERNEL_WORK_GROUP_SIZE, or
 * SIZE_MAX if unknown. Lowers the context's limit for later kernels and fails the context with TFM_ERROR_AGAIN and
 * "<what>: ...". False, without effect, if groups cannot be smaller. */
bool tfm__workgroup_limit_reduce(tfm_context *ctx, const char *what, size_t items, size_t most);
/* The same after a failed build that the group size may have caused: drivers then report "out of resources", Adreno's
 * "out of host memory". */
bool tfm__workgroup_limit_reduce_after_build(tfm_context *ctx, const char *what, cl_int error);

/* Release the storage (context_storage.c), programs (program.c) and memory (tensor_memory.c) of a context, in this
 * order, before the OpenCL context. */
void tfm__context_storage_free(tfm_context *ctx);
void tfm__programs_export(tfm_context *ctx);
void tfm__programs_free(tfm_context *ctx);
void tfm__pool_free(tfm_context *ctx);

/* Why other libraries cannot build programs on the context, or NULL if they can. Static. */
const char *tfm__context_build_restriction(const tfm_context *ctx);

/* A hash of cl/<file>.cl with its prelude and includes; false after a failure. */
bool tfm__program_hash(tfm_context *ctx, uint64_t *out, const char *file);

/* Queries all capabilities. An unanswered query counts as absent, except for the limits of memory and work-groups that
 * kernels are chosen by: then it returns the error, and *asked is the query. */
cl_int tfm__capabilities_query(tfm__capabilities *out, const char **asked, cl_device_id device);
/* The same into the context, which fails with a sentence. */
tfm_status tfm__context_query_capabilities(tfm_context *ctx, cl_device_id device);
/* Build options: -cl-std as the text requires, then a define TFM_HAS_... for each capability that the text names and
 * the device has, then `options`. A text that names none is built as OpenCL C 1.2 without such defines, so that its
 * binaries stay valid when capabilities are added. Freed with free(); NULL without memory. */
char *tfm__capability_options(const tfm__capabilities *capabilities, const char *source, const char *options);
/* The tuning for a device (device_profiles.c), or the one named `variant` if that is not NULL. */
tfm_status tfm__tuning_choose(tfm__tuning *out, const tfm__capabilities *capabilities, const tfm_device_info *info,
                              const char *variant);
/* Reads and applies the stored table; the context's tuning is already chosen. */
void tfm__tuning_db_load(tfm_context *ctx);
void tfm__tuning_db_free(tfm_context *ctx);

#endif
