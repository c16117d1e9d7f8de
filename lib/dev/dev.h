/* The device abstraction for the layers above: a context, memory scopes, kernels by name, launches with named
 * arguments. An op is
 *
 *     tfm__kernel *kernel = tfm__kernel_get(ctx, "l2_norm", "l2_norm", "");
 *     return tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows), TFM__ARGS(TFM__T(y), TFM__T(x), TFM__I(n)));
 *
 * Errors are sticky: after the first failure calls do nothing and return the first status. */
#ifndef TFM_LIB_DEV_H
#define TFM_LIB_DEV_H

#include "base/base.h"
#include "tfm/tensor.h"

/* ---- Device profile ------------------------------------------------------------------------------------------- */

/* Two classes of device with different kernels. */
typedef enum tfm__device_class {
    TFM__CLASS_CPU, /* CPUs: a work-item is vectorized with wide types; one item per work-group */
    TFM__CLASS_GPU, /* GPU-style: GPUs and llvmpipe; the items of a work-group share a row */
} tfm__device_class;

/* A GEMM provider (lib/ops/gemm/gemm.h), used from min_rows rows of A and from min_macs = M x N x K on. */
typedef struct tfm__gemm_preference {
    const char *provider;
    int64_t min_rows, min_macs;
} tfm__gemm_preference;

/* Queries per attention work-item, for key and value columns up to max_head_dim together. `queries_large` reads keys
 * less often; it applies if each core still has several work-items. */
typedef struct tfm__attention_block {
    int64_t max_head_dim;
    int queries, queries_large;
} tfm__attention_block;

enum { TFM__GEMM_PREFERENCES = 5, TFM__ATTENTION_BLOCKS = 3 };

/* Matrix cores: an MMA instruction for 16-bit matrices (cl/common/mma.cl). Kernels use the numeric values. */
typedef enum tfm__mma {
    TFM__MMA_NONE,
    TFM__MMA_M16N8K16, /* NVIDIA, compute capability 8.0 and later: mma.m16n8k16 */
    TFM__MMA_M16N8K8,  /* NVIDIA, 7.5: mma.m16n8k8, F16 only */
    TFM__MMA_WMMA,     /* AMD, RDNA 3 */
    TFM__MMA_MFMA,     /* AMD, CDNA */
    TFM__MMA_DPAS_8,   /* Intel, sub-groups of 8: Xe-HPG */
    TFM__MMA_DPAS_16,  /* Intel, sub-groups of 16: Xe-HPC, Xe 2 */
    TFM__MMA_COUNT
} tfm__mma;

/* Dot-product instructions of GPU-style devices: four int8 products, summed in int32 (cl/common/dp4a.cl). Kernels use
 * the numeric values. */
typedef enum tfm__dp4a {
    TFM__DP4A_NONE,
    TFM__DP4A_NVIDIA,    /* compute capability 6.1 and later: dp4a */
    TFM__DP4A_AMD,       /* before RDNA 3, where supported: v_dot4_i32_i8 */
    TFM__DP4A_AMD_RDNA3, /* from RDNA 3 on: v_dot4_i32_iu8 */
    TFM__DP4A_KHRONOS,   /* cl_khr_integer_dot_product, where the driver reports it as accelerated */
    TFM__DP4A_COUNT
} tfm__dp4a;

/* Parameters of a device class, chosen by capabilities; lib/dev/tuning/device_profiles.c gives reasons for the numbers.
 * The name is the public `variant`. */
typedef struct tfm__tuning {
    const char *name;
    tfm__device_class class;
    int width; /* float vector width of one work-item: 16, 8, 4, 1 */
    int group; /* work-items that share a row of softmax, norm, top-k: 1 for TFM__CLASS_CPU, else a power of two */
    int chunk; /* elements per work-item of an elementwise kernel: a multiple of width */
    bool fma;  /* fma() is one instruction (queried) */

    /* GEMM. */
    tfm__gemm_preference gemm_order[TFM__GEMM_PREFERENCES]; /* best first, up to the first without a name */

    int64_t gemm_skinny_rows; /* most rows of a skinny GEMM on GPU-style devices (a decode step) */
    int gemm_tile;            /* index of the register tile in the table of GPU-style devices, from 1; 0: automatic */
    int64_t gemm_split_k;     /* number of splits along K; 0: as many as fill the device */
    int gemm_register_floats; /* most floats that an item of a register tile accumulates or prefetches without
                                 large_grf_option; 0: no limit */
    const char *large_grf_option; /* a build option for more registers per item, or NULL */
    bool gemm_index_64bit;        /* forces 64-bit indices, for tests */

    /* Matrix cores. */
    tfm_dtype gemm_input_dtype; /* dtype to which GEMMs of F32 may round their inputs: F16, BF16 or F32 (no rounding,
                                   the default); only the self-test and tests set another */
    tfm__mma mma;               /* from the device's capabilities; validated before first use */
    bool mma_emulated;          /* emulates the MMA fragments and bf16 dot products in plain OpenCL C, for tests */
    bool avx512_bf16;           /* AVX512-BF16 dot products (queried) */
    bool amx_bf16;              /* AMX tiles of bf16, if tfm__amx_allowed */
    bool amx_int8;              /* AMX tiles of int8 */

    /* int8 GEMM of GPU-style devices. */
    bool int8_gpu;  /* work-groups share inputs in local memory (lib/ops/gemm/gemm_int8_gpu.c) */
    tfm__dp4a dp4a; /* from the device's capabilities; validated before first use */

    /* The packed GEMM of CPU-style devices. */
    int gemm_mr;                    /* rows of A per micro-tile; 0: the device has no packed GEMM */
    int gemm_mr_tail;               /* rows of the smaller tile for the remainder, and most rows of `cpu-skinny` */
    int gemm_nr_vectors;            /* vectors of B per micro-tile: a panel is gemm_nr_vectors * width columns */
    int gemm_tn_strip_tiles;        /* micro-tiles per item, one below the other, of the GEMM with transposed A (TN) */
    int64_t gemm_pack_rows;         /* rows of B that one work-item packs */
    int64_t gemm_panel_group_bytes; /* most bytes of B in the panels of one work-item */
    int64_t gemm_panel_group_min_items; /* fewest work-items before one of them takes several panels */
    int64_t gemm_tn_items;              /* approximate number of work-items of a split along K, with transposed A */
    int64_t gemm_tn_min_k;              /* smallest K of such a part; part lengths are multiples of it */
    int64_t gemm_tn_unpacked_strips;    /* most strips for which B is read unpacked */
    int64_t gemm_tn_shared_strips;      /* fewest strips before one work-item takes all panels of its strip */

    /* Attention of CPU-style devices. */
    tfm__attention_block attention_blocks[TFM__ATTENTION_BLOCKS]; /* narrowest first; the last applies to all widths */
    int64_t attention_max_head_dim;          /* widest key or value of which a work-item keeps private copies */
    int64_t attention_backward_max_head_dim; /* the same in the backward pass */

    /* Attention of GPU-style devices: the queries of a work-group share each key read. */
    int attention_shared_queries;           /* queries; half as many, or one, if local memory is small */
    int64_t attention_shared_min_queries;   /* fewest queries per key */
    int64_t attention_shared_max_head_dim;  /* widest value */
    int64_t attention_shared_local_divisor; /* their share of local memory is at most 1 / divisor */

    /* Attention tiles of GPU-style devices. */
    int attention_tile_rows; /* rows per item: 4, or 8 if registers are plentiful and local memory is the bottleneck */
    bool attention_resident_queries;   /* with 8 rows, the forward keeps its queries in local memory if they fit */
    int64_t attention_tile_min_rows;   /* fewest queries and keys of a head for more than 4 rows */
    int64_t attention_max_launch_macs; /* most multiply-adds of a launch; 0: by the device's compute units */

    /* Decode steps with few rows: several work-groups share a row, until each compute unit has this many. */
    int64_t split_workgroups;
    int64_t split_min_keys;   /* fewest attention keys per work-group; 0: no split */
    int64_t split_min_logits; /* fewest logits per work-group; 0: no split */

    /* Decoding. */
    int64_t encode_batch_tokens;  /* default tokens per batch of encoder-only passes */
    int64_t search_sync_interval; /* steps between two reads of the number of unfinished sequences */
    int64_t search_ragged_rows;   /* from this many rows on, each step drops finished rows, for which the host waits; 0:
                                     never */
    bool kv_half;                 /* the KV cache is 16-bit if the model's matrices are */
} tfm__tuning;

const tfm__tuning *tfm__context_tuning(const tfm_context *ctx);

/* Whether kernels are timed. */
bool tfm__context_is_profiling(const tfm_context *ctx);

/* Whether the system lets this process use AMX. The first call requests permission from Linux, for all threads of the
 * process. */
bool tfm__amx_allowed(void);

/* Sets the dtype to which GEMMs of F32 may round their inputs (tfm__tuning.gemm_input_dtype); returns the previous
 * one. */
tfm_dtype tfm__context_set_gemm_input_dtype(tfm_context *ctx, tfm_dtype inputs);

typedef struct tfm__limits {
    size_t max_group;    /* CL_DEVICE_MAX_WORK_GROUP_SIZE */
    size_t max_items[3]; /* CL_DEVICE_MAX_WORK_ITEM_SIZES: of a work-group, per dimension */
    size_t local_bytes;  /* CL_DEVICE_LOCAL_MEM_SIZE */
    uint64_t max_alloc;  /* CL_DEVICE_MAX_MEM_ALLOC_SIZE */
} tfm__limits;

const tfm__limits *tfm__context_limits(const tfm_context *ctx);

/* ---- Context-local storage ---------------------------------------------------------------------------------- */

/* A key is the address of a static object of the owning layer, hence unique. */

/* The data under this key, or NULL. */
void *tfm__context_storage_get(const tfm_context *ctx, const void *key);
/* Stores data under an unused key. tfm_context_free calls release(data) in reverse order, before it releases the OpenCL
 * objects. Out of host memory the context fails, and release(data) is called at once. */
tfm_status tfm__context_storage_set(tfm_context *ctx, const void *key, void *data, void (*release)(void *data));
/* The data of a key, or new zeroed bytes that the context frees. NULL after a failure. */
void *tfm__context_storage_get_or_create(tfm_context *ctx, const void *key, size_t bytes);

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* Sets the thread's error message and, for the first failure, the context's sticky status. */
tfm_status tfm__context_fail(tfm_context *ctx, tfm_status status, const char *format, ...) TFM_PRINTF(3, 4);

/* TFM__NEEDS with a failure that is sticky in the context; returns the context's status. */
tfm_status tfm__context_needs(tfm_context *ctx, const char *call, const char *names, size_t count,
                              const void *const *pointers);
#define TFM__NEEDS_ON(ctx, call, ...)                                                                                  \
    tfm__context_needs(ctx, call, #__VA_ARGS__, sizeof((const void *[]){__VA_ARGS__}) / sizeof(void *),                \
                       (const void *[]){__VA_ARGS__})

/* The context's status; if it has failed, also sets its message as the thread's. Ops that do nothing after a failure
 * call it, because the thread may have another message or be another thread. */
tfm_status tfm__context_sticky(const tfm_context *ctx);

/* First check of a call that is not an op: TFM_OK, or the context's status with "<what>: the context has failed before:
 * ...". */
tfm_status tfm__context_ready(const tfm_context *ctx, const char *what);

/* Stops calls of on_build: the context outlives its callback's owner. */
void tfm__context_clear_on_build(tfm_context *ctx);

/* Recovery for callers that can use less memory: clears a failure and the thread's message, and closes the scopes above
 * `depth`, an earlier result of tfm__scope_depth. */
int tfm__scope_depth(const tfm_context *ctx);
void tfm__context_recover(tfm_context *ctx, int depth);

/* Whether to repeat the call with smaller work-groups: clears TFM_ERROR_AGAIN and closes the scopes above `depth`. The
 * loop terminates, since groups only get smaller. */
bool tfm__context_retry(tfm_context *ctx, int depth, tfm_status status);

/* ---- Several devices -------------------------------------------------------------------------------------------- */

/* Whether `wanted` (TFM_DEVICE if NULL or "") may be a list of devices: it is `all` or contains a comma. */
bool tfm__devices_is_list(const char *wanted);
/* The devices of such a list, in its order; *out is freed with free(). A device name that contains the comma is one
 * device. Errors as of tfm_context_open. */
typedef struct tfm__device tfm__device;
tfm_status tfm__devices_choose(tfm__device **out, size_t *count, const char *wanted);
/* tfm_context_open on one of them; ignores options->device. Does not search again: a failure since then could remove a
 * device and shift indices. */
tfm_status tfm__context_open_on(tfm_context **out, const tfm__device *devices, size_t index,
                                const tfm_context_options *options);

/* ---- Kernels and launches --------------------------------------------------------------------------------------- */

typedef struct tfm__kernel tfm__kernel;

/* The kernel `name` of cl/<file>.cl, built with the given defines (printf format; "" for none) and the tuning's:
 * -DTFM_CLASS_CPU or -DTFM_CLASS_GPU, -DTFM_WIDTH, -DTFM_GROUP, -DTFM_CHUNK, -DTFM_FMA. Built once per context and
 * borrowed from it. NULL after a failure; tfm__launch accepts that. */
tfm__kernel *tfm__kernel_get(tfm_context *ctx, const char *file, const char *name, const char *defines, ...)
    TFM_PRINTF(4, 5);

typedef struct tfm__grid {
    size_t global[3];
    size_t local[3];
} tfm__grid;

#define TFM__GRID_1D(global_x, local_x) ((tfm__grid){{(global_x), 1, 1}, {(local_x), 1, 1}})
#define TFM__GRID_2D(global_x, global_y, local_x, local_y)                                                             \
    ((tfm__grid){{(global_x), (global_y), 1}, {(local_x), (local_y), 1}})
#define TFM__GRID_3D(global_x, global_y, global_z, local_x, local_y, local_z)                                          \
    ((tfm__grid){{(global_x), (global_y), (global_z)}, {(local_x), (local_y), (local_z)}})

typedef enum tfm__arg_kind { TFM__ARG_TENSOR, TFM__ARG_INT, TFM__ARG_FLOAT, TFM__ARG_STRUCT } tfm__arg_kind;

typedef struct tfm__arg {
    const char *name; /* the kernel's parameter name; checked against the driver's if available */
    tfm__arg_kind kind;
    tfm_tensor tensor;
    int64_t integer;
    float real;
    const void *data; /* of a struct, passed by value */
    size_t bytes;
} tfm__arg;

/* A tensor is two kernel parameters, TFM_TENSOR(float, x) in OpenCL C: the buffer, and the offset in elements. An empty
 * tensor passes a null buffer. Integers are `long` in the kernel, floats `float`. A struct consists of 64-bit integers,
 * so that its layout is the same in OpenCL C. The C variable's name is the parameter's name. */
#define TFM__T(x)                                                                                                      \
    { .name = #x, .kind = TFM__ARG_TENSOR, .tensor = (x) }
#define TFM__I(n)                                                                                                      \
    { .name = #n, .kind = TFM__ARG_INT, .integer = (int64_t)(n) }
#define TFM__F(s)                                                                                                      \
    { .name = #s, .kind = TFM__ARG_FLOAT, .real = (float)(s) }
/* The same with another parameter name. */
#define TFM__T_AS(label, x)                                                                                            \
    { .name = label, .kind = TFM__ARG_TENSOR, .tensor = (x) }
#define TFM__I_AS(label, n)                                                                                            \
    { .name = label, .kind = TFM__ARG_INT, .integer = (int64_t)(n) }
#define TFM__F_AS(label, s)                                                                                            \
    { .name = label, .kind = TFM__ARG_FLOAT, .real = (float)(s) }
#define TFM__STRUCT_AS(label, s)                                                                                       \
    { .name = label, .kind = TFM__ARG_STRUCT, .data = &(s), .bytes = sizeof(s) }
#define TFM__ARGS(...)                                                                                                 \
    sizeof((tfm__arg[]){__VA_ARGS__}) / sizeof(tfm__arg), (tfm__arg[]) {                                               \
        __VA_ARGS__                                                                                                    \
    }

/* Largest work-group that the kernel's registers and local memory allow: CL_KERNEL_WORK_GROUP_SIZE, or SIZE_MAX if
 * unknown. */
size_t tfm__kernel_max_workgroup(const tfm_context *ctx, tfm__kernel *kernel);

/* Enqueues. The global size must be a multiple of the local one. A dimension of 0 is a no-op. */
tfm_status tfm__launch(tfm_context *ctx, tfm__kernel *kernel, tfm__grid grid, size_t count, const tfm__arg *args);

/* Between begin and end, launches of one item per work-group may be collected and run as few launches, in their order
 * (lib/dev/launch/megakernel.h). For a decode step of `rows` rows, whose launches repeat; with many rows they are too
 * long to gain from it, and nothing is collected. */
void tfm__megakernel_begin(tfm_context *ctx, int64_t rows);
void tfm__megakernel_end(tfm_context *ctx);

/* ---- Tensors' memory -------------------------------------------------------------------------------------------- */

/* Whether the tensor's memory is valid and belongs to this context. */
bool tfm__tensor_alive(const tfm_context *ctx, tfm_tensor x);

/* Whether rank, dims and offset of a valid tensor lie within its memory: callers may fill the struct by hand. */
bool tfm__tensor_fits(tfm_tensor x);

/* First check of a call that creates *out: it is empty until the call succeeds, also in a failed context. */
tfm_status tfm__tensor_begin(tfm_context *ctx, const char *call, tfm_tensor *out);

/* Like tfm_tensor_new, but in the root scope: for tensors that outlive the op, such as a packed weight. */
tfm_status tfm__tensor_new_persistent(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank,
                                      const int64_t *dims);

/* Identity of the content of a read-only tensor, as two hashes. */
typedef struct tfm__shared_buffer_key {
    uint64_t first, second;
} tfm__shared_buffer_key;

/* A persistent tensor that maps the file at `path` from byte `first` on, without a copy. Rank <= 2, read-only, not
 * counted as this context's memory. False if the device does not share the host's memory, alignment or size rule it
 * out, the file's identity has changed, or after a failure. */
bool tfm__tensor_mmap(tfm_context *ctx, tfm_tensor *out, const char *path, uint64_t identity, uint64_t first,
                      tfm_dtype dtype, int rank, const int64_t *dims);
bool tfm__tensor_is_mmapped(tfm_tensor x);
/* Waits for the device and evicts the tensor's file pages from memory. No-op for other tensors. */
void tfm__tensor_evict_pages(tfm_context *ctx, tfm_tensor x);

/* A persistent read-only tensor on memory that a context on the same device published under the key; false if there is
 * none. Not counted as this context's memory. */
bool tfm__tensor_open_shared(tfm_context *ctx, tfm_tensor *out, tfm__shared_buffer_key key, tfm_dtype dtype, int rank,
                             const int64_t *dims);
/* Shares a whole persistent tensor. It is read-only from now on, and the caller has waited for the device's writes.
 * Without host memory it is just not shared. */
void tfm__tensor_publish(tfm_context *ctx, tfm_tensor x, tfm__shared_buffer_key key);

/* Moves the tensor's memory to the root scope: it lives until tfm_tensor_free. */
void tfm__tensor_persist(tfm_context *ctx, tfm_tensor x);

/* A pin keeps the tensor's memory alive, independent of its scope, for the backward pass. Pins are counted. */
void tfm__tensor_pin(tfm_context *ctx, tfm_tensor x);
void tfm__tensor_unpin(tfm_context *ctx, tfm_tensor x);
bool tfm__tensor_pinned(tfm_tensor x);

/* A caller-defined number of the tensor's block, until it is released: 0 in a new block. */
uint64_t *tfm__tensor_tag(tfm_tensor x);

/* Size of the pool block for an allocation of `bytes`. */
uint64_t tfm__pool_block_bytes(uint64_t bytes);
/* Bytes that new allocations may take: of the device and of the context's limit. UINT64_MAX: unknown. */
uint64_t tfm__pool_available(const tfm_context *ctx);
/* Waits, and returns unused blocks to the driver; true if there were any. */
bool tfm__pool_trim(tfm_context *ctx);
/* Limits the pool's unused memory to a sixteenth of the peak in use, or 4 MB. Without it, training on lines of many
 * lengths took up to 39 % more than tfm_trainer_estimate_memory reports, because blocks of one batch shape do not fit
 * the next. The extra allocations do not slow down training, but a translation, with short steps, had up to 1.7 times
 * as many. */
void tfm__pool_limit_unused(tfm_context *ctx);

/* Copies count(to) elements between two tensors of the same size. */
tfm_status tfm__tensor_copy(tfm_context *ctx, tfm_tensor to, tfm_tensor from);

/* An asynchronous read: start it, enqueue more work, wait for it when its value is needed. */
typedef struct tfm__async_read tfm__async_read;
tfm_status tfm__async_read_start(tfm_context *ctx, tfm__async_read **out, tfm_tensor x);
/* The same into `host`, which the caller keeps alive until tfm__async_read_free. */
tfm_status tfm__async_read_into(tfm_context *ctx, tfm__async_read **out, void *host, tfm_tensor x);
/* Whether it is complete, without waiting. */
bool tfm__async_read_done(const tfm__async_read *read);
/* Waits; the host copy, borrowed until tfm__async_read_free. NULL after a failure. */
const void *tfm__async_read_wait(tfm_context *ctx, tfm__async_read *read);
void tfm__async_read_free(tfm_context *ctx, tfm__async_read **read);

/* Adds a host span, in tfm__seconds, to the context's trace, if there is one; `name` must stay valid. */
void tfm__context_span(tfm_context *ctx, const char *name, double begun, double ended);

/* Zeroed pinned host memory for repeated transfers; on devices other than CPUs it is DMA-capable if the driver supports
 * it. NULL, with *out NULL, out of memory. Wait for all commands that use it before freeing it, with the same
 * context. */
typedef struct tfm__pinned_memory tfm__pinned_memory;
void *tfm__pinned_memory_new(tfm_context *ctx, tfm__pinned_memory **out, size_t bytes);
void tfm__pinned_memory_free(tfm_context *ctx, tfm__pinned_memory **pinned);
/* Whether it is pinned by the driver, not ordinary memory. */
bool tfm__pinned_memory_is_mapped(const tfm__pinned_memory *pinned);

/* Fills with one element, given as bytes of the element's size. */
tfm_status tfm__tensor_fill(tfm_context *ctx, tfm_tensor x, const void *element);

#endif
