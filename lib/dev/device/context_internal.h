/* OpenCL inside lib/dev: the struct behind tfm_context, and helpers that no other layer sees. */
#ifndef TFM_LIB_DEV_CONTEXT_INTERNAL_H
#define TFM_LIB_DEV_CONTEXT_INTERNAL_H

#include <stdatomic.h>
#include "dev/dev.h"
#include "tfm/opencl.h"

#define TFM__MAX_SCOPES 64
#define TFM__PINNED (-1)
#define TFM__SIZE_CLASSES 160
#define TFM__KERNEL_SLOTS 512 /* power of two; far above what a model asks for */

/* Contexts that were opened, not wrapped, share one cl_context a device (shared_buffers.c). Take counts a user, and
 * give, which says whether the cl_context was such a one, releases it with the last. Any thread. */
cl_context tfm__cl_context_acquire(cl_platform_id platform, cl_device_id device, cl_int *error);
bool tfm__cl_context_release(cl_context cl);
/* After a device error in a context on it, which may have been a kernel that crashed: those who have it keep it, and
 * whoever opens the device from now on gets another. Does nothing for one that is not common. Any thread. */
void tfm__cl_context_invalidate(cl_context cl);

/* Memory under a key that says what is in it, for all contexts on one cl_context. Find counts a user and retains the
 * memory, or returns NULL; add returns NULL with the sentence set. Each is given up by drop, before the memory is
 * released. Bytes are those of all such memory on the cl_context, each once. Any thread. */
typedef struct tfm__shared_buffer tfm__shared_buffer;
tfm__shared_buffer *tfm__shared_buffer_find(cl_context cl, tfm__shared_buffer_key key, cl_mem *memory, size_t *bytes);
tfm__shared_buffer *tfm__shared_buffer_add(cl_context cl, tfm__shared_buffer_key key, cl_mem memory, size_t bytes);
void tfm__shared_buffer_drop(tfm__shared_buffer *shared);
uint64_t tfm__shared_buffer_bytes(cl_context cl);

/* A block of device memory. The struct outlives its use, so that a stale tensor can be told by its generation. */
struct tfm_buffer {
    tfm_context *ctx;
    cl_mem memory;
    size_t bytes;
    uint64_t generation; /* moves each time the block is given back */
    bool external;       /* not the pool's own cl_mem, but the caller's or another context's: released, never reused */
    void *mapping;       /* a map of a file that `memory` is on (mmap_tensor.c), or NULL */
    tfm__shared_buffer *shared; /* others may read it, and nobody writes it: released, never reused; or NULL */
    int depth;                  /* of its scope; TFM__PINNED once only pins hold it */
    int pins;                   /* who else needs it, whatever becomes of its scope */
    uint64_t tag;               /* a number that a layer above keeps with what lies here; 0 in a fresh block */
    uint64_t freed_at;          /* since which count of ctx->frees nobody uses it */
    tfm_buffer *next;           /* in its scope's list, or in the free list of its size class */
    tfm_buffer **link;          /* what points here while in a scope */
    tfm_buffer *next_all;       /* every struct of the context */
};

typedef struct tfm__kernel_pack tfm__kernel_pack;
typedef struct tfm__program tfm__program;
typedef struct tfm__profile tfm__profile;
typedef struct tfm__storage_entry tfm__storage_entry;

struct tfm__kernel {
    cl_kernel cl;
    char *key; /* file, name and defines, each ended by a 0; `name` points into it */
    const char *name;
    uint64_t hash;     /* of them and of the tuning's group */
    uint64_t identity; /* of its name, of its program's text and options, and of whether that was built here */
    cl_uint parameters;
    size_t max_workgroup; /* what tfm__kernel_max_workgroup says, or 0 before it was asked */
    bool checked;
    bool built_here; /* of a program that was built from source here */
    size_t local[3]; /* the groups of its last launch that was compiled for */
    struct {
        uint64_t bits;
        bool set;
    } * scalars; /* [parameters]: those that are no buffers, as they were set last */
};

/* What a device can do (capabilities.c). Kernel texts ask for the bits that have a word there, such as TFM_HAS_FP16. */
enum {
    TFM__HAS_FMA = 1 << 0,            /* fma() is one instruction: CL_FP_FMA. Kernels see it as TFM_FMA */
    TFM__HAS_INF_NAN = 1 << 1,        /* floats have infinity and NaN: CL_FP_INF_NAN */
    TFM__HAS_INT64 = 1 << 2,          /* the full profile, or cles_khr_int64 */
    TFM__HAS_FP16 = 1 << 3,           /* arithmetic on half: cl_khr_fp16 */
    TFM__HAS_FP64 = 1 << 4,           /* double: cl_khr_fp64 */
    TFM__HAS_SUBGROUPS = 1 << 5,      /* cl_khr_subgroups, and OpenCL C 2.0 or later */
    TFM__HAS_INT_DOT = 1 << 6,        /* dot products of bytes: cl_khr_integer_dot_product, and OpenCL C 3.0 */
    TFM__HAS_IMAGES = 1 << 7,         /* CL_DEVICE_IMAGE_SUPPORT */
    TFM__HAS_LOCAL_MEMORY = 1 << 8,   /* local memory is faster than global memory: CL_LOCAL */
    TFM__HAS_UNIFIED_MEMORY = 1 << 9, /* the device's memory is the host's: CL_DEVICE_HOST_UNIFIED_MEMORY */
    TFM__HAS_NV_QUERIES = 1 << 10,    /* it tells its compute capability: cl_nv_device_attribute_query */
    TFM__HAS_AMD_QUERIES = 1 << 11,   /* it tells its instruction set: cl_amd_device_attribute_query */
    TFM__HAS_AVX512VNNI = 1 << 12,    /* instructions of this machine's processor that the driver's compiler may not */
    TFM__HAS_AVXVNNI = 1 << 13,       /*   know of (capabilities.c): dot products of bytes, of 512 and of 256 bits, */
    TFM__HAS_AVX512BF16 = 1 << 14,    /*   and of bf16 */
    TFM__HAS_AMX_BF16 = 1 << 15,      /* products of tiles by the processor, of bf16 */
    TFM__HAS_AMX_INT8 = 1 << 16,      /*   and of bytes, where tfm__amx_allowed */
    TFM__HAS_INTEL_DPAS = 1 << 17,    /* Intel's matrix engine: cl_intel_subgroup_matrix_multiply_accumulate */
    TFM__HAS_INTEL_SUBGROUP_SIZE = 1 << 18, /* cl_intel_required_subgroup_size, which is how its GPUs are known */
};

typedef struct tfm__capabilities {
    uint32_t has;           /* bits TFM__HAS_... */
    int opencl_c;           /* the newest OpenCL C, times ten: 12, 20, 30; 0 where the driver does not say */
    unsigned width;         /* CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT */
    size_t parameter_bytes; /* CL_DEVICE_MAX_PARAMETER_SIZE */
    tfm__mma mma;           /* that devices of its kind have */
    tfm__dp4a dp4a;         /* and this, too */
    tfm__limits limits;     /* what the device says of itself */
} tfm__capabilities;

struct tfm_context {
    atomic_int refcount; /* who opened it, and each model, trainer and so on that lives on it */
    tfm_device_info info;
    cl_platform_id platform;
    cl_device_id device;
    cl_context cl;
    bool cl_shared; /* cl is shared with the other contexts on the device */
    cl_command_queue queue;
    bool on_pocl; /* which has launches take turns (launch_order.c) */
    tfm_context *next_on_pocl;
    /* Parts of a CPU's cores (cpu_partition.c). */
    cl_command_queue full_queue;  /* the queue on all cores, while `queue` is one on a part; NULL: it never was */
    size_t partition, partitions; /* which part of how many `queue` is on; 0 of 0 at first, which is all */
    unsigned partition_epoch;     /* up to which change of those that share */
    tfm_context *next_sharing;    /* the next one that shares cores */
    tfm__tuning tuning;
    tfm__capabilities capabilities;
    tfm__limits limits;      /* in force: the device's, but smaller groups once the driver has refused those */
    bool workgroups_reduced; /* the driver has refused groups, which are smaller since then */

    tfm_status status;
    char message[TFM__MESSAGE_MAX];
    char previous_message[TFM__MESSAGE_MAX]; /* what this thread's sentence was when the context failed */

    tfm_buffer *buffers;
    tfm_buffer *free[TFM__SIZE_CLASSES];
    tfm_buffer *spare;                   /* structs without memory */
    tfm_buffer *scopes[TFM__MAX_SCOPES]; /* 0 is the root */
    tfm_buffer *pinned;                  /* blocks whose scope has closed, and that pins hold */
    int depth;
    uint64_t memory_limit; /* bytes that the pool may hold: the device's, or the caller's limit; 0: not known */
    uint64_t pool_bytes, pool_bytes_peak; /* bytes of all blocks but foreign ones: now, and at most so far */
    bool limits_unused;                   /* tfm__pool_limit_unused */
    uint64_t unused_bytes;                /* those of them in `free` */
    uint64_t used_bytes_peak;             /* what of `pool_bytes` was not in `free`, at most so far */
    uint64_t releasing_bytes; /* let go since it is known that the driver has all back: kernels may still use it */
    uint64_t frees;           /* blocks that came to `free` so far */
    uint64_t published_bytes; /* those of them that others may read */

    tfm_build_fn on_build;
    void *on_build_user;
    int builds;           /* programs built from source */
    double build_seconds; /* that took */

    tfm__kernel_pack *pack; /* where all programs come from, or NULL */
    bool exports;           /* its programs are collected (kernel_export.c), */
    bool is_export_proxy;   /* and are those of another device, whose tuning and limits it has */

    tfm__program *programs;
    tfm__kernel *kernels[TFM__KERNEL_SLOTS];
    tfm__profile *profile;
    uint64_t launches; /* kernels, copies and fills that were enqueued: what tests hold steps of decoding to */
    uint64_t waits;    /* times that the host waited for the device, but for builds */

    tfm__storage_entry *storage; /* what layers above keep here, the last one first */

    /* Rows in order of their names (tuning_db.c): those in force, and as they were when this context read or stored
     * them last. What differs is what this context has changed. */
    tfm__tuning_db tuning_db, tuning_db_stored;
    bool tuning_db_cleared; /* since then, so that nothing that is stored stays */
    int default_group;      /* what the tuning's group is where no row says otherwise */
};

/* "CL_OUT_OF_RESOURCES" for -5. Never NULL. */
const char *tfm__cl_error_name(cl_int code);
/* Whether less work at a time may help. */
bool tfm__cl_is_memory(cl_int code);

/* Fails the context with "<what>: CL_... (-5)" and TFM_ERROR_MEMORY or TFM_ERROR_DEVICE by the code. */
tfm_status tfm__cl_fail(tfm_context *ctx, cl_int code, const char *what);
/* The same where the device was waited for: there "out of resources" is never want of memory, but a kernel that
 * crashed. */
tfm_status tfm__cl_fail_wait(tfm_context *ctx, cl_int code, const char *what);
/* What to do after it, to end its sentence with; may be "". */
const char *tfm__cl_advice(tfm_status status, cl_int code);
/* TFM_ERROR_MEMORY where less work at a time may help after such a failure, else TFM_ERROR_DEVICE. May wait for the
 * queue. */
tfm_status tfm__cl_status(tfm_context *ctx, cl_int code);

/* One question to a driver about a string, in the two steps that OpenCL has for it, cleaned for printing: a property of
 * the device, or where that is NULL, of the platform. */
cl_int tfm__cl_query_string(char *out, size_t size, cl_platform_id platform, cl_device_id device, cl_uint what);
/* A string property of a device, always terminated; "" where the driver fails. */
void tfm__cl_device_string(char *out, size_t size, cl_device_id device, cl_device_info what);

/* Once a driver has refused a kernel in groups of `items` items, with CL_KERNEL_WORK_GROUP_SIZE `most`, or SIZE_MAX
 * where that is not known: lowers the context's limit, so that kernels that are asked for from now on have smaller
 * groups, and fails it with TFM_ERROR_AGAIN and the sentence "<what>: ...". False, and nothing has happened, where
 * there are no smaller groups. */
bool tfm__workgroup_limit_reduce(tfm_context *ctx, const char *what, size_t items, size_t most);
/* The same after a kernel that could not be built, where that may be for its groups: drivers say "out of resources"
 * then, or as Adreno's, "out of host memory". */
bool tfm__workgroup_limit_reduce_after_build(tfm_context *ctx, const char *what, cl_int error);

/* What layers above keep (context_storage.c), programs (program.c) and memory (tensor_memory.c) of a context, given
 * back in this order before the OpenCL context goes. */
void tfm__context_storage_free(tfm_context *ctx);
void tfm__programs_export(tfm_context *ctx);
void tfm__programs_free(tfm_context *ctx);
void tfm__pool_free(tfm_context *ctx);

/* Why other libraries cannot build programs of theirs on the context, or NULL where they can. Static. */
const char *tfm__context_build_restriction(const tfm_context *ctx);

/* A hash of the text of cl/<file>.cl with all that stands before it and in it; false after a failure. */
bool tfm__program_hash(tfm_context *ctx, uint64_t *out, const char *file);

/* Asks the driver for everything; what it does not answer is not there. */
void tfm__capabilities_query(tfm__capabilities *out, cl_device_id device);
/* Build options: `options` after the -cl-std that the text needs, and before a define TFM_HAS_... for each capability
 * that the text names and the device has. A text that names none is built as OpenCL C 1.2, without such defines, so
 * that its binaries stay good when capabilities are added. Freed with free(); NULL without memory. */
char *tfm__capability_options(const tfm__capabilities *capabilities, const char *source, const char *options);
/* The tuning that suits a device (device_profiles.c), or the one named `variant` if that is not NULL. */
tfm_status tfm__tuning_choose(tfm__tuning *out, const tfm__capabilities *capabilities, const tfm_device_info *info,
                              const char *variant);
/* Reads the stored table of a context whose tuning is chosen, and applies it. */
void tfm__tuning_db_load(tfm_context *ctx);
void tfm__tuning_db_free(tfm_context *ctx);

#endif
