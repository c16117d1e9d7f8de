/* The device abstraction as the layers above see it: a context, scopes of memory, kernels by name, launches with
 * named arguments. An op is
 *
 *     tfm__kernel *kernel = tfm__kernel_get(ctx, "l2_norm", "l2_norm", "");
 *     return tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows), TFM__ARGS(TFM__T(y), TFM__T(x), TFM__I(n)));
 *
 * Everything here is sticky: after the first failure calls do nothing and return the first status. */
#ifndef TFM_LIB_DEV_H
#define TFM_LIB_DEV_H

#include "base/base.h"
#include "tfm/tensor.h"

/* ---- What the device is good at ------------------------------------------------------------------------------- */

/* Two classes of machine that want different kernels. */
typedef enum tfm__device_class {
    TFM__CLASS_CPU, /* a CPU that vectorises what one work-item says in wide types: work-groups of one item */
    TFM__CLASS_GPU, /* everything that runs work-items side by side: GPUs, llvmpipe; work-groups share a row */
} tfm__device_class;

/* Who is to multiply matrices: a provider by its name (lib/ops/gemm/gemm.h), where A has so many rows or more, and
 * where so many pairs of numbers or more are multiplied, which are M x N x K. */
typedef struct tfm__gemm_preference {
    const char *provider;
    int64_t min_rows, min_macs;
} tfm__gemm_preference;

/* How many queries one work-item of attention takes together, where a key and a value have so many columns between them
 * at the most: `queries_large`, so that keys are fetched less often, where that leaves each core several work-items. */
typedef struct tfm__attention_block {
    int64_t max_head_dim;
    int queries, queries_large;
} tfm__attention_block;

enum { TFM__GEMM_PREFERENCES = 5, TFM__ATTENTION_BLOCKS = 3 };

/* Matrix engines, which multiply matrices of 16-bit numbers by one instruction of a wave (cl/common/mma.cl). Kernels
 * know them by their numbers. */
typedef enum tfm__mma {
    TFM__MMA_NONE,
    TFM__MMA_M16N8K16, /* NVIDIA, compute capability 8.0 and later: mma.m16n8k16 */
    TFM__MMA_M16N8K8,  /* NVIDIA, 7.5: mma.m16n8k8, of F16 alone */
    TFM__MMA_WMMA,     /* AMD, RDNA 3 */
    TFM__MMA_MFMA,     /* AMD, CDNA */
    TFM__MMA_DPAS_8,   /* Intel, sub-groups of 8: Xe-HPG */
    TFM__MMA_DPAS_16,  /* Intel, sub-groups of 16: Xe-HPC, Xe 2 */
    TFM__MMA_COUNT
} tfm__mma;

/* Instructions of devices that run work-items side by side by which an item multiplies four bytes by four others and
 * adds the products up in 32 bits (cl/common/dp4a.cl). Kernels know them by their numbers. */
typedef enum tfm__dp4a {
    TFM__DP4A_NONE,
    TFM__DP4A_NVIDIA,    /* compute capability 6.1 and later: dp4a */
    TFM__DP4A_AMD,       /* before RDNA 3, where there is one: v_dot4_i32_i8 */
    TFM__DP4A_AMD_RDNA3, /* from RDNA 3 on: v_dot4_i32_iu8 */
    TFM__DP4A_KHRONOS,   /* what cl_khr_integer_dot_product makes of it, where the driver says that it is fast */
    TFM__DP4A_COUNT
} tfm__dp4a;

/* What a kind of device is good at, chosen by what the device can do (lib/dev/tuning/device_profiles.c, which says why
 * the numbers are what they are). Its name is what the public headers call a variant. */
typedef struct tfm__tuning {
    const char *name;
    tfm__device_class class;
    int width; /* float vector width of one work-item: 16, 8, 4, 1 */
    int group; /* work-items that share a row of softmax, norm, top-k: 1 for TFM__CLASS_CPU, else a power of two */
    int chunk; /* elements per work-item of an elementwise kernel: a multiple of width */
    bool fma;  /* fma() is one instruction: asked of the device */

    /* Matrix products. */
    tfm__gemm_preference gemm_order[TFM__GEMM_PREFERENCES]; /* best first, up to the first without a name */

    int64_t gemm_skinny_rows; /* rows, at most, that GPU-style devices take for few: those of a step of decoding */
    int gemm_tile; /* of GPU-style devices' register tiles: the one of this place in their table, from 1; 0: the best */
    int64_t gemm_split_k;         /* cuts of the inner dimension; 0: as many as the device has room for */
    int gemm_register_floats;     /* floats that an item of register tiles sums up, or reads ahead, at most, without
                          large_grf_option;     0: any number */
    const char *large_grf_option; /* a build option by which an item has more registers, or NULL */
    bool gemm_index_64bit;        /* elements are counted in 64 bits even where there are few: for tests */

    /* Matrix engines. */
    tfm_dtype
        gemm_input_dtype; /* what products of F32 may round the numbers to that they read: F16, BF16, or F32, which
                        rounds nothing and is what contexts have: the self-test and tests alone say another */
    tfm__mma mma;         /* asked of the device; it may yet not do what it says, which is tried */
    bool mma_emulated;    /* its fragments by plain OpenCL C, without the instruction: for tests; dots of bf16 too */
    bool avx512_bf16;     /* the processor has an instruction for them: asked of it */
    bool amx_bf16;        /* and for products of tiles of bf16, where tfm__amx_allowed */
    bool amx_int8;        /* and of bytes */

    /* Products of bytes of GPU-style devices. */
    bool int8_gpu;  /* by work-groups that share what they read (lib/ops/gemm/gemm_int8_gpu.c) */
    tfm__dp4a dp4a; /* asked of the device; it may yet not do what it says, which is tried */

    /* The packed GEMM, of CPU-style devices. */
    int gemm_mr;         /* rows of A per micro-tile; 0: the device has no packed GEMM */
    int gemm_mr_tail;    /* rows of the smaller tile for the rows that are left, and the most that `cpu-skinny` takes */
    int gemm_nr_vectors; /* vectors of B per micro-tile: a panel is gemm_nr_vectors * width columns */
    int gemm_tn_strip_tiles; /* micro-tiles below each other that an item of the product of a transposed A makes */
    int64_t gemm_pack_rows;  /* rows of B that one work-item packs */
    int64_t gemm_panel_group_bytes;     /* of B, at most, in the panels that one work-item goes over */
    int64_t gemm_panel_group_min_items; /* work-items, at least, before one of them goes over several panels */
    int64_t gemm_tn_items;              /* work-items, about, that the product of a transposed A is cut into along K */
    int64_t gemm_tn_min_k;              /* of K, at least, in one such part, and what its length is a multiple of */
    int64_t gemm_tn_unpacked_strips;    /* strips, at most, for which B is read as it lies, not packed */
    int64_t gemm_tn_shared_strips;      /* strips, at least, before one work-item goes over all panels of its strip */

    /* Attention of CPU-style devices. */
    tfm__attention_block attention_blocks[TFM__ATTENTION_BLOCKS]; /* narrowest first; the last takes all widths */
    int64_t attention_max_head_dim;          /* a key or value, at most, of which a work-item keeps copies of its own */
    int64_t attention_backward_max_head_dim; /* the same in the backward pass */

    /* Attention of GPU-style devices: queries of a work-group that share the reading of a key. */
    int attention_shared_queries;           /* so many; half as many, or one, where local memory is small */
    int64_t attention_shared_min_queries;   /* queries, at least, that a key must have for that */
    int64_t attention_shared_max_head_dim;  /* a value, at most */
    int64_t attention_shared_local_divisor; /* their share of local memory, at most: one part in so many */

    /* Tiles of attention, of GPU-style devices. */
    int attention_tile_rows; /* of an item: 4, or 8 where registers are many and local memory is the narrower gate */
    bool attention_resident_queries; /* with 8, the forward's queries stay in local memory, where that has room for them
                                      */
    int64_t attention_tile_min_rows; /* queries and keys, at least, of a head that has more than 4 */
    int64_t attention_max_launch_macs; /* multiplications of a launch, at most; 0: by the device's compute units */

    /* Where a step of decoding has few rows, several work-groups share one, until each compute unit has so many. */
    int64_t split_workgroups;
    int64_t split_min_keys;   /* keys of attention, at least, that a work-group has; 0: they are not shared */
    int64_t split_min_logits; /* entries of a row of logits, at least; 0: they are not shared */

    /* Decoding. */
    int64_t encode_batch_tokens;  /* tokens of a batch that is only read, where the caller does not say */
    int64_t search_sync_interval; /* steps between two looks of the host at how many sentences are not over */
    int64_t search_ragged_rows; /* batches of so many rows have as many in each step as there is hope for, for which the
                              host waits; 0: none */
    bool kv_half;               /* keys and values of the past are kept in 16 bits where a model's matrices are */
} tfm__tuning;

const tfm__tuning *tfm__context_tuning(const tfm_context *ctx);

/* Whether each kernel's time is taken. */
bool tfm__context_is_profiling(const tfm_context *ctx);

/* Whether the system lets this process use the processor's tiles (AMX). It is asked at the first call: Linux gives the
 * registers to a process that wants them, to all its threads, those that there are already, too. */
bool tfm__amx_allowed(void);

/* Sets what products of F32 may round the numbers to that they read (tfm__tuning.gemm_input_dtype); returns what that
 * was.
 */
tfm_dtype tfm__context_set_gemm_input_dtype(tfm_context *ctx, tfm_dtype inputs);

typedef struct tfm__limits {
    size_t max_group;    /* CL_DEVICE_MAX_WORK_GROUP_SIZE */
    size_t max_items[3]; /* CL_DEVICE_MAX_WORK_ITEM_SIZES: of a work-group, in each dimension */
    size_t local_bytes;  /* CL_DEVICE_LOCAL_MEM_SIZE */
    uint64_t max_alloc;  /* CL_DEVICE_MAX_MEM_ALLOC_SIZE */
} tfm__limits;

const tfm__limits *tfm__context_limits(const tfm_context *ctx);

/* ---- What was tried on this device, and found best (tuning_db.c) ----------------------------------------------- */

/* A row of the table of `tfm tune`. Both texts are of TFM__TUNING_CHARSET, and whoever asks for the name knows what the
 * setting means; one that it does not know it leaves aside. */
enum { TFM__TUNING_TEXT_MAX = 48 };
#define TFM__TUNING_CHARSET "abcdefghijklmnopqrstuvwxyz0123456789 -/"
typedef struct tfm__tuning_entry {
    char name[TFM__TUNING_TEXT_MAX], setting[TFM__TUNING_TEXT_MAX];
} tfm__tuning_entry;

typedef struct tfm__tuning_db {
    tfm__tuning_entry *entries; /* [count], in order of their names */
    size_t count;
} tfm__tuning_db;

/* The row of tfm__tuning.group: its setting is a number. */
#define TFM__TUNING_WORKGROUP "group"

/* All rows, in order of their names; good until one is set. */
const tfm__tuning_entry *tfm__tuning_db_entries(const tfm_context *ctx, size_t *count);
/* The setting, or NULL. */
const char *tfm__tuning_db_find(const tfm_context *ctx, const char *name);
/* Writes a row in this context, or takes it out if the setting is NULL. The caller's failure, not the context's. */
tfm_status tfm__tuning_db_set(tfm_context *ctx, const char *name, const char *setting);
void tfm__tuning_db_clear(tfm_context *ctx);
/* Whether it was cleared since the last tfm__tuning_db_save. */
bool tfm__tuning_db_is_cleared(const tfm_context *ctx);
/* Puts the rows that dev itself knows into the tuning. */
void tfm__tuning_db_apply(tfm_context *ctx);
/* A hash of all rows; 0 where there are none, and for a context that is NULL. */
uint64_t tfm__tuning_db_hash(const tfm_context *ctx);
/* Stores the rows for contexts that open later: what this context has changed since it read or stored them goes into
 * what is stored by now, which others may have changed meanwhile. After tfm__tuning_db_clear nothing of that stays, and
 * without rows there is no table. The caller's failure. */
tfm_status tfm__tuning_db_save(tfm_context *ctx);
/* Whether that would work: TFM_ERROR_IO with the sentence that it would give. */
tfm_status tfm__tuning_db_check_writable(tfm_context *ctx);

/* ---- What a layer above keeps with a context ---------------------------------------------------------------- */

/* A key is the address of any static object of the layer that keeps something, so that no two layers have the same. */

/* The data under this key, or NULL. */
void *tfm__context_storage_get(const tfm_context *ctx, const void *key);
/* Puts data under a key that has none; tfm_context_free calls release(data), the last one first, while the OpenCL
 * objects are still there. Without host memory the context fails, and release(data) is called at once. */
tfm_status tfm__context_storage_set(tfm_context *ctx, const void *key, void *data, void (*release)(void *data));
/* The data of a key; where it has none, so many bytes of zeros, which the context frees. NULL after a failure. */
void *tfm__context_storage_get_or_create(tfm_context *ctx, const void *key, size_t bytes);

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* Sets the thread's sentence and, if it is the first, the context's sticky status. */
tfm_status tfm__context_fail(tfm_context *ctx, tfm_status status, const char *format, ...) TFM_PRINTF(3, 4);

/* TFM__NEEDS for calls whose failures stay with the context; and the context's status after it. */
tfm_status tfm__context_needs(tfm_context *ctx, const char *call, const char *names, size_t count,
                              const void *const *pointers);
#define TFM__NEEDS_ON(ctx, call, ...)                                                                                  \
    tfm__context_needs(ctx, call, #__VA_ARGS__, sizeof((const void *[]){__VA_ARGS__}) / sizeof(void *),                \
                       (const void *[]){__VA_ARGS__})

/* The context's status, and if it has failed, its sentence as the thread's: at the door of what then does nothing,
 * since the thread may have another failure's sentence, or be another. */
tfm_status tfm__context_sticky(const tfm_context *ctx);

/* At the door of a call that is not an op: TFM_OK, or the context's status with the sentence "<what>: the context has
 * failed before: ...". */
tfm_status tfm__context_ready(const tfm_context *ctx, const char *what);

/* Calls no on_build from now on: who opened the context and was to hear of its kernels is gone before it. */
void tfm__context_clear_on_build(tfm_context *ctx);

/* For a caller that can go on with less: forgets a failure, also as this thread's sentence, and closes the scopes that
 * it left open above `depth`, which tfm__scope_depth gave before. */
int tfm__scope_depth(const tfm_context *ctx);
void tfm__context_recover(tfm_context *ctx, int depth);

/* Whether a call that came to this status is to be made again, in smaller work-groups: after TFM_ERROR_AGAIN, which is
 * forgotten with the scopes above `depth`. It ends by itself, since groups only get smaller. */
bool tfm__context_retry(tfm_context *ctx, int depth, tfm_status status);

/* ---- Several devices -------------------------------------------------------------------------------------------- */

/* Whether `wanted`, or where that is NULL or "" TFM_DEVICE, may be a list of devices: it is `all` or has a comma. */
bool tfm__devices_is_list(const char *wanted);
/* The devices that such a list names, in its order; *out is freed with free(). A comma may also be one of a device's
 * name: then it is one device. The errors are those of tfm_context_open. */
typedef struct tfm__device tfm__device;
tfm_status tfm__devices_choose(tfm__device **out, size_t *count, const char *wanted);
/* Does what tfm_context_open does on one of them, whatever options->device says. It is not looked for again: who has
 * failed since may not be listed, and another device have its index. */
tfm_status tfm__context_open_on(tfm_context **out, const tfm__device *devices, size_t index,
                                const tfm_context_options *options);

/* ---- Kernels and launches --------------------------------------------------------------------------------------- */

typedef struct tfm__kernel tfm__kernel;

/* The kernel `name` of cl/<file>.cl, built with the given defines (printf format; "" for none) and the tuning's:
 * -DTFM_CLASS_CPU or -DTFM_CLASS_GPU, -DTFM_WIDTH, -DTFM_GROUP, -DTFM_CHUNK, -DTFM_FMA. Built once per context; NULL
 * after a failure, which tfm__launch takes. Borrowed from the context. */
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
    const char *name; /* of the kernel's parameter: checked against the driver's where it tells */
    tfm__arg_kind kind;
    tfm_tensor tensor;
    int64_t integer;
    float real;
    const void *data; /* of a struct, passed by value */
    size_t bytes;
} tfm__arg;

/* A tensor is two kernel parameters, TFM_TENSOR(float, x) in OpenCL C: the buffer, and the offset in elements. An empty
 * tensor passes a null buffer. Integers are `long` in the kernel, floats `float`. A struct must have the same layout in
 * OpenCL C, so it consists of 64-bit integers. The C variable's name is the parameter's name. */
#define TFM__T(x)                                                                                                      \
    { .name = #x, .kind = TFM__ARG_TENSOR, .tensor = (x) }
#define TFM__I(n)                                                                                                      \
    { .name = #n, .kind = TFM__ARG_INT, .integer = (int64_t)(n) }
#define TFM__F(s)                                                                                                      \
    { .name = #s, .kind = TFM__ARG_FLOAT, .real = (float)(s) }
/* The same with a parameter name of its own. */
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

/* Items of a group, at most, that the kernel's registers and local memory allow: CL_KERNEL_WORK_GROUP_SIZE, or SIZE_MAX
 * where the driver does not tell. */
size_t tfm__kernel_max_workgroup(const tfm_context *ctx, tfm__kernel *kernel);

/* Enqueues. The global size must be a multiple of the local one. Any dimension of 0 is a no-op. */
tfm_status tfm__launch(tfm_context *ctx, tfm__kernel *kernel, tfm__grid grid, size_t count, const tfm__arg *args);

/* ---- Tensors' memory -------------------------------------------------------------------------------------------- */

/* Whether the tensor's memory is still its own and of this context. */
bool tfm__tensor_alive(const tfm_context *ctx, tfm_tensor x);

/* Whether rank, dims and offset of a tensor that is alive lie within its memory: a struct may be filled by hand. */
bool tfm__tensor_fits(tfm_tensor x);

/* The door of a call that makes *out: it is empty until the call succeeds, in a failed context too. */
tfm_status tfm__tensor_begin(tfm_context *ctx, const char *call, tfm_tensor *out);

/* Like tfm_tensor_new, but in the root scope: for what outlives the op that makes it, such as a packed weight. */
tfm_status tfm__tensor_new_persistent(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank,
                                      const int64_t *dims);

/* What is in a tensor that nobody will write, as two hashes of whatever tells it from all others. */
typedef struct tfm__shared_buffer_key {
    uint64_t first, second;
} tfm__shared_buffer_key;

/* A lasting tensor on the file at `path`, from its byte `first` on, without a copy; false where the device, whose
 * memory must be the host's, the place in the file or the tensor's size does not allow that, where it is another file
 * by now than `identity` says, and after a failure. Its memory is not counted as this context's. Nobody writes it. It
 * is at most of rank 2. */
bool tfm__tensor_mmap(tfm_context *ctx, tfm_tensor *out, const char *path, uint64_t identity, uint64_t first,
                      tfm_dtype dtype, int rank, const int64_t *dims);
bool tfm__tensor_is_mmapped(tfm_tensor x);
/* Waits for the device, and lets go of the file's pages that the tensor, or this part of it, has brought into memory.
 * Nothing for other tensors. */
void tfm__tensor_evict_pages(tfm_context *ctx, tfm_tensor x);

/* A lasting tensor on the memory that another context on the same device, or this one, has offered under the key; false
 * where there is none. It is read only, and its memory is not counted as this context's. */
bool tfm__tensor_open_shared(tfm_context *ctx, tfm_tensor *out, tfm__shared_buffer_key key, tfm_dtype dtype, int rank,
                             const int64_t *dims);
/* Lets others share a whole lasting tensor, which nobody writes from here on, and all of which the device has written:
 * the caller has waited. Without host memory for that, it is just not shared. */
void tfm__tensor_publish(tfm_context *ctx, tfm_tensor x, tfm__shared_buffer_key key);

/* Moves the tensor's memory to the root scope: it lives until tfm_tensor_free, whatever scopes are open now. */
void tfm__tensor_persist(tfm_context *ctx, tfm_tensor x);

/* A pin holds the tensor's memory, whatever becomes of its scope, until it is taken out again: what a backward pass
 * needs. Pins are counted. */
void tfm__tensor_pin(tfm_context *ctx, tfm_tensor x);
void tfm__tensor_unpin(tfm_context *ctx, tfm_tensor x);
bool tfm__tensor_pinned(tfm_tensor x);

/* A number that stays with the tensor's block until the block is given back: 0 in a fresh one. */
uint64_t *tfm__tensor_tag(tfm_tensor x);

/* Bytes of the block that so many are given. */
uint64_t tfm__pool_block_bytes(uint64_t bytes);
/* Waits, and gives blocks that are not in use to the driver; true if there was any. */
bool tfm__pool_trim(tfm_context *ctx);
/* From now on the pool keeps no more of what nobody uses than a sixteenth of what was in use at most, or 4 MB. Batches
 * of many shapes take blocks of many sizes, and what one leaves does not serve the next: without this, training on
 * lines of many lengths took up to 39 % more than tfm_trainer_estimate_memory says. It costs allocations, which a
 * training does not feel, but a translation, whose steps are short, had up to 1.7 times as many. */
void tfm__pool_limit_unused(tfm_context *ctx);

/* Copies count(to) elements between two tensors of the same size. */
tfm_status tfm__tensor_copy(tfm_context *ctx, tfm_tensor to, tfm_tensor from);

/* A read that does not wait: start it, go on enqueueing, and wait for it when its value is needed. */
typedef struct tfm__async_read tfm__async_read;
tfm_status tfm__async_read_start(tfm_context *ctx, tfm__async_read **out, tfm_tensor x);
/* The same into `host`, which the caller keeps until tfm__async_read_free. */
tfm_status tfm__async_read_into(tfm_context *ctx, tfm__async_read **out, void *host, tfm_tensor x);
/* Whether it is over, without waiting. */
bool tfm__async_read_done(const tfm__async_read *read);
/* Waits; the host copy, borrowed until tfm__async_read_free. NULL after a failure. */
const void *tfm__async_read_wait(tfm_context *ctx, tfm__async_read *read);
void tfm__async_read_free(tfm_context *ctx, tfm__async_read **read);

/* Tells the context's profile, if it writes a trace, what the host did between two seconds of tfm__seconds; `name`
 * lives on. */
void tfm__context_span(tfm_context *ctx, const char *name, double begun, double ended);

/* Zeroed memory of the host for what is read from the device, and written to it, again and again; the device moves it
 * by itself where it is no processor and the driver has such memory. NULL, with *out NULL, where there is no memory at
 * all. All that was enqueued with it has to be waited for before it is freed, with the context that made it. */
typedef struct tfm__pinned_memory tfm__pinned_memory;
void *tfm__pinned_memory_new(tfm_context *ctx, tfm__pinned_memory **out, size_t bytes);
void tfm__pinned_memory_free(tfm_context *ctx, tfm__pinned_memory **room);
/* Whether it is a driver's. */
bool tfm__pinned_memory_is_mapped(const tfm__pinned_memory *room);

/* Sets all elements to one byte pattern of the element's size. */
tfm_status tfm__tensor_fill(tfm_context *ctx, tfm_tensor x, const void *element);

#endif
