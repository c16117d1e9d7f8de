/* GEMM inside the library: one task, several providers that may take it.
 *
 * A provider says why it declines, so that `auto` can go to the next one and a test or a person can be told.
 * The choice is a pure function of the device's row, the task, TFM_GEMM as it was at the context's first
 * GEMM, and what the proof of CLBlast has shown: never of a time measured in the run, so that results repeat.
 */
#ifndef TFM_LIB_GEMM_H
#define TFM_LIB_GEMM_H

#include "ops/tape.h"

/* c (batch, m, n) = activation(alpha a b + bias), or c += alpha a b; a (batch, m, k), b (batch, k, n) or (k,
 * n), or their transposes. c exists, and all was checked. */
typedef struct tfm__gemm_task {
    int64_t batch, m, n, k;
    tfm_tensor c, a, b;
    tfm_tensor bias; /* (n) or empty */
    bool accumulate; /* c += alpha a b; then there is neither bias nor activation */
    bool transpose_a, transpose_b;
    bool shared_b; /* one b for the whole batch */
    float alpha;
    tfm_activation activation;
    tfm_param *weight; /* whose value b is; keeps its packed copy. NULL: b lives for this call */
    tfm__gradient
        a_sums; /* (m) = or += sums of a's columns, where a is transposed; gemm_turned alone takes it */
} tfm__gemm_task;

typedef struct tfm__gemm_provider {
    const char *name;
    /* NULL if it takes the task on this device, else why not: half a sentence, static. */
    const char *(*declines)(tfm_context *ctx, const tfm__gemm_task *task);
    tfm_status (*run)(tfm_context *ctx, const tfm__gemm_task *task);
} tfm__gemm_provider;

extern const tfm__gemm_provider tfm__gemm_small;   /* few rows, packed b, wide devices */
extern const tfm__gemm_provider tfm__gemm_packed;  /* packed b, wide devices */
extern const tfm__gemm_provider tfm__gemm_plain;   /* everywhere */
extern const tfm__gemm_provider tfm__gemm_clblast; /* CLBlast's, with an epilogue of our own */

/* All of them, for tests and the selftest. */
#define TFM__GEMM_PROVIDERS 4
extern const tfm__gemm_provider *const tfm__gemm_all[TFM__GEMM_PROVIDERS];

/* tfm_gemm by this one provider, or by the chosen one if it is NULL. *why, if `why` is not NULL, gets the
 * reason if the provider declines (then nothing runs and the context stays as it is), else NULL. */
tfm_status tfm__gemm_with(tfm_context *ctx, const tfm__gemm_provider *provider, const char **why,
                          tfm_tensor *c, tfm_tensor a, tfm_tensor b, const tfm_gemm_options *options);

/* c (M, N) = a (M, K) b (K, N), with b's packed copy kept in `b` as tfm_linear keeps its weight's. */
tfm_status tfm__gemm_param(tfm_context *ctx, tfm_tensor *c, tfm_tensor a, tfm_param *b);

/* gemm_turned.c: the same of a transposed a, on wide devices. */
tfm_status tfm__gemm_turned(tfm_context *ctx, const tfm__gemm_task *task);

/* gemm_backward.c: dw (N, K) = or += alpha dz^T x and dbias (N) = or += the sums of dz's columns, of dz (M,
 * N) and x (M, K). Empty gradients are nothing to do. */
tfm_status tfm__gemm_gradients(tfm_context *ctx, tfm__gradient dw, tfm__gradient dbias, tfm_tensor dz,
                               tfm_tensor x, float alpha);

/* gemm_backward.c: writes the product down, if the tape wants it. The task has been run; activations other
 * than ReLU are not in it: they are ops of their own where the tape records. */
tfm_status tfm__gemm_record(tfm_context *ctx, const char *op, const tfm__gemm_task *task);

/* What is added to the product, as kernels take it: the bias, one line for all rows, or c itself. */
typedef struct tfm__gemm_addend {
    tfm_tensor tensor;  /* empty: nothing */
    int64_t batch, row; /* strides */
} tfm__gemm_addend;
tfm__gemm_addend tfm__gemm_addend_of(const tfm__gemm_task *task);

/* The provider that `auto` or TFM_GEMM takes here. NULL after a failure. */
const tfm__gemm_provider *tfm__gemm_choose(tfm_context *ctx, const tfm__gemm_task *task);

/* The builtin provider for a task, CLBlast aside. */
const tfm__gemm_provider *tfm__gemm_builtin(tfm_context *ctx, const tfm__gemm_task *task);

typedef enum tfm__gemm_mode { TFM__GEMM_AUTO, TFM__GEMM_CLBLAST, TFM__GEMM_BUILTIN } tfm__gemm_mode;

/* The kernels that work on panels. */
typedef enum tfm__panel_kernel {
    TFM__GEMM_PACK,
    TFM__GEMM_SMALL,
    TFM__GEMM_SMALL_LOOSE,
    TFM__GEMM_PACKED,
    TFM__GEMM_TURNED,
    TFM__PANEL_KERNELS
} tfm__panel_kernel;

enum { TFM__CLBLAST_CLASSES = 1 << 5 };

/* What GEMM keeps with a context. */
typedef struct tfm__gemm_state {
    tfm__gemm_mode mode;
    /* For each class of tasks that may run with other kernels: a bit for each size whose result was compared with the plain
     * kernel's. */
    uint64_t clblast_proven[TFM__CLBLAST_CLASSES];
    const char *clblast_trouble; /* why it is not used in this context any more, or NULL */
    bool clblast_used;
    /* Those that were asked for: a name and its defines take longer to look up than to launch. */
    tfm__kernel *panel_kernels[TFM__PANEL_KERNELS][TFM_SILU + 1];
} tfm__gemm_state;

/* Made at first use. NULL after a failure. */
tfm__gemm_state *tfm__gemm_state_of(tfm_context *ctx);
/* Called when a context's state goes: CLBlast's program cache is emptied with the last context that used it.
 */
void tfm__gemm_clblast_retain(tfm__gemm_state *state);
void tfm__gemm_clblast_release(tfm__gemm_state *state);

/* Bytes of the pool that a product comes to besides its operands where CLBlast takes it: copies of them, and the proof of
 * the first one. Of the task its sizes, transposes and `accumulate` count. */
uint64_t tfm__gemm_clblast_memory(tfm_context *ctx, const tfm__gemm_task *task);

static inline int64_t tfm__divide_up(int64_t x, int64_t by) {
    return (x + by - 1) / by;
}

/* ---- gemm_packed.c, for the providers that work on panels ---- */

/* Tiles that an item of gemm_turned makes below each other. */
enum { TFM__STRIP_TILES = 4 };

/* Columns of a panel on this device. */
int tfm__gemm_panel_width(const tfm_context *ctx);
tfm__kernel *tfm__gemm_panel_kernel(tfm_context *ctx, tfm__panel_kernel which, tfm_activation activation);
/* b in panels: the weight's copy if it is of this value, else made now. A weight's copy outlives all scopes;
 * another one dies with the scope that the caller has opened. */
tfm_status tfm__gemm_packed_b(tfm_context *ctx, tfm_tensor *packed, const tfm__gemm_task *task);
/* Launches `kernel` of cl/gemm_packed.cl on `row_tiles` x groups of `group` panels x batch. */
tfm_status tfm__gemm_on_panels(tfm_context *ctx, const tfm__gemm_task *task, tfm__panel_kernel kernel,
                               int64_t row_tiles, int64_t group);
/* Why a device has no panels, or NULL. */
const char *tfm__gemm_declines_panels(tfm_context *ctx, const tfm__gemm_task *task);
/* The most rows that gemm_small's tiles hold in this device's registers. */
int tfm__gemm_small_rows(const tfm_context *ctx);

#endif
