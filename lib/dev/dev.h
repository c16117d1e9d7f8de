/* The device abstraction as the layers above see it: a context, scopes of memory, kernels by name, launches with
 * named arguments. An op is
 *
 *     tfm__kernel *kernel = tfm__kernel_get(ctx, "softmax", "softmax_rows", "-DWG=%d", wg);
 *     return tfm__launch(ctx, kernel, TFM_GRID_1D(rows * wg, wg), TFM_ARGS(TFM_T(y), TFM_T(x), TFM_U(n)));
 *
 * Everything here is sticky: after the first failure calls do nothing and return the first status. */
#ifndef TFM_LIB_DEV_H
#define TFM_LIB_DEV_H

#include "base/base.h"
#include "tfm/tensor.h"

/* ---- What the device is good at ------------------------------------------------------------------------------- */

/* Two classes of machine that want different kernels. */
typedef enum tfm__class {
    TFM__WIDE, /* a CPU that vectorises what one work-item says in wide types: work-groups of one item */
    TFM__SIMT, /* everything that runs work-items side by side: GPUs, llvmpipe; work-groups share a row */
} tfm__class;

/* One row of tuning data, chosen by capability (lib/dev/rows.c). */
typedef struct tfm__row {
    const char *name;
    tfm__class class;
    int width;      /* float vector width of one work-item: 16, 8, 4, 1 */
    int group;      /* work-items that share a row of softmax, norm, top-k: 1 when WIDE, else a power of two */
    int chunk;      /* elements per work-item of an elementwise kernel: a multiple of width */
    bool fma;       /* fma() is one instruction */
    int gemm_rows;  /* rows of A per micro-tile of the packed GEMM */
    int gemm_vectors; /* vectors of B per micro-tile: a panel is gemm_vectors * width columns */
    bool gemm_clblast; /* CLBlast is the faster GEMM here, where it is proven */
} tfm__row;

const tfm__row *tfm__context_row(const tfm_context *ctx);

typedef struct tfm__limits {
    size_t max_group;        /* CL_DEVICE_MAX_WORK_GROUP_SIZE */
    size_t max_items[3];     /* CL_DEVICE_MAX_WORK_ITEM_SIZES: of a work-group, in each dimension */
    size_t local_bytes;      /* CL_DEVICE_LOCAL_MEM_SIZE */
    uint64_t max_alloc;      /* CL_DEVICE_MAX_MEM_ALLOC_SIZE */
} tfm__limits;

const tfm__limits *tfm__context_limits(const tfm_context *ctx);

/* ---- What a layer above keeps with a context ---------------------------------------------------------------- */

typedef enum tfm__slot { TFM__SLOT_GEMM, TFM__SLOT_TAPE, TFM__SLOTS } tfm__slot;

/* The slot's data, or NULL. */
void *tfm__context_slot(const tfm_context *ctx, tfm__slot slot);
/* Puts data into an empty slot; tfm_context_free calls release(data) while the OpenCL objects are still there. */
void tfm__context_set_slot(tfm_context *ctx, tfm__slot slot, void *data, void (*release)(void *data));

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* Sets the thread's sentence and, if it is the first, the context's sticky status. */
tfm_status tfm__context_fail(tfm_context *ctx, tfm_status status, const char *format, ...) TFM_PRINTF(3, 4);

/* The context's status, and if it has failed, its sentence as the thread's: at the door of what then does nothing, since
 * the thread may have another failure's sentence, or be another. */
tfm_status tfm__context_sticky(const tfm_context *ctx);

/* For a caller that can go on with less: forgets a failure and closes the scopes that it left open above `depth`, which
 * tfm__scope_depth gave before. */
int tfm__scope_depth(const tfm_context *ctx);
void tfm__context_recover(tfm_context *ctx, int depth);

/* ---- Kernels and launches --------------------------------------------------------------------------------------- */

typedef struct tfm__kernel tfm__kernel;

/* The kernel `name` of cl/<file>.cl, built with the given defines (printf format; "" for none) and the row's own:
 * -DTFM_WIDE or -DTFM_SIMT, -DTFM_WIDTH, -DTFM_GROUP, -DTFM_CHUNK, -DTFM_FMA. Built once per context; NULL after a failure, which
 * tfm__launch takes. Borrowed from the context. */
tfm__kernel *tfm__kernel_get(tfm_context *ctx, const char *file, const char *name, const char *defines, ...)
    TFM_PRINTF(4, 5);

typedef struct tfm__grid {
    size_t global[3];
    size_t local[3];
} tfm__grid;

#define TFM_GRID_1D(global_x, local_x) ((tfm__grid){{(global_x), 1, 1}, {(local_x), 1, 1}})
#define TFM_GRID_2D(global_x, global_y, local_x, local_y) \
    ((tfm__grid){{(global_x), (global_y), 1}, {(local_x), (local_y), 1}})
#define TFM_GRID_3D(global_x, global_y, global_z, local_x, local_y, local_z) \
    ((tfm__grid){{(global_x), (global_y), (global_z)}, {(local_x), (local_y), (local_z)}})

typedef enum tfm__arg_kind { TFM__ARG_TENSOR, TFM__ARG_INT, TFM__ARG_FLOAT } tfm__arg_kind;

typedef struct tfm__arg {
    const char *name; /* of the kernel's parameter: checked against the driver's where it tells */
    tfm__arg_kind kind;
    tfm_tensor tensor;
    int64_t integer;
    float real;
} tfm__arg;

/* A tensor is two kernel parameters, TFM_TENSOR(float, x) in OpenCL C: the buffer, and the offset in elements. An empty
 * tensor passes a null buffer. Integers are `long` in the kernel, floats `float`. The C variable's name is the
 * parameter's name. */
#define TFM_T(x) {.name = #x, .kind = TFM__ARG_TENSOR, .tensor = (x)}
#define TFM_I(n) {.name = #n, .kind = TFM__ARG_INT, .integer = (int64_t)(n)}
#define TFM_F(s) {.name = #s, .kind = TFM__ARG_FLOAT, .real = (float)(s)}
/* The same with a parameter name of its own. */
#define TFM_T_AS(label, x) {.name = label, .kind = TFM__ARG_TENSOR, .tensor = (x)}
#define TFM_I_AS(label, n) {.name = label, .kind = TFM__ARG_INT, .integer = (int64_t)(n)}
#define TFM_F_AS(label, s) {.name = label, .kind = TFM__ARG_FLOAT, .real = (float)(s)}
#define TFM_ARGS(...) \
    sizeof((tfm__arg[]){__VA_ARGS__}) / sizeof(tfm__arg), (tfm__arg[]) { __VA_ARGS__ }

/* Enqueues. The global size must be a multiple of the local one. Any dimension of 0 is a no-op. */
tfm_status tfm__launch(tfm_context *ctx, tfm__kernel *kernel, tfm__grid grid, size_t count, const tfm__arg *args);

/* ---- Tensors' memory -------------------------------------------------------------------------------------------- */

/* Whether the tensor's memory is still its own and of this context. */
bool tfm__tensor_alive(const tfm_context *ctx, tfm_tensor x);

/* Whether rank, dims and offset of a tensor that is alive lie within its memory: a struct may be filled by hand. */
bool tfm__tensor_fits(tfm_tensor x);

/* Like tfm_tensor_new, but in the root scope: for what outlives the op that makes it, such as a packed weight. */
tfm_status tfm__tensor_new_lasting(tfm_context *ctx, tfm_tensor *out, tfm_dtype dtype, int rank, const int64_t *dims);

/* Moves the tensor's memory to the root scope: it lives until tfm_tensor_free, whatever scopes are open now. */
void tfm__tensor_keep(tfm_context *ctx, tfm_tensor x);

/* A pin holds the tensor's memory, whatever becomes of its scope, until it is taken out again: what a backward pass
 * needs. Pins are counted. */
void tfm__tensor_pin(tfm_context *ctx, tfm_tensor x);
void tfm__tensor_unpin(tfm_context *ctx, tfm_tensor x);
bool tfm__tensor_pinned(tfm_tensor x);

/* A number that stays with the tensor's block until the block is given back: 0 in a fresh one. */
uint64_t *tfm__tensor_mark(tfm_tensor x);

/* Bytes of the block that so many are given. */
uint64_t tfm__pool_block(uint64_t bytes);
/* Waits, and gives blocks that are not in use to the driver; true if there was any. */
bool tfm__pool_trim(tfm_context *ctx);

/* Copies count(to) elements between two tensors of the same size. */
tfm_status tfm__tensor_copy(tfm_context *ctx, tfm_tensor to, tfm_tensor from);

/* A read that does not wait: start it, go on enqueueing, and wait for it when its value is needed. */
typedef struct tfm__read tfm__read;
tfm_status tfm__read_start(tfm_context *ctx, tfm__read **out, tfm_tensor x);
/* Waits; the host copy, borrowed until tfm__read_free. NULL after a failure. */
const void *tfm__read_wait(tfm_context *ctx, tfm__read *read);
void tfm__read_free(tfm_context *ctx, tfm__read **read);

/* Sets all elements to one byte pattern of the element's size. */
tfm_status tfm__tensor_fill(tfm_context *ctx, tfm_tensor x, const void *element);

#endif
