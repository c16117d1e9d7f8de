/* GEMM inside the library: one task, several providers that may take it.
 *
 * A provider says why it declines, so that the next one is asked and a test or a person can be told. The choice is a
 * pure function of the device's tuning, the task, TFM_GEMM as it was at the context's first GEMM, and the validation of
 * kernels: never of a time measured in the run, so that results repeat. */
#ifndef TFM_LIB_GEMM_H
#define TFM_LIB_GEMM_H

#include "ops/autograd/tape.h"

/* What tuning may override of a provider's own heuristic: `gpu-tiled` and `gpu-mma`. */
typedef struct tfm__gemm_setting {
    int tile;        /* index in its table, from 1; 0: its own heuristic */
    int64_t split_k; /* split-K; 0: its own heuristic */
    int stages;      /* pipeline stages, `gpu-mma` alone; 0: its own heuristic */
} tfm__gemm_setting;

/* c (batch, m, n) = activation(alpha a b + bias), or c += alpha a b; a (batch, m, k), b (batch, k, n) or (k,
 * n), or their transposes. All are F32, but b may be F16, BF16 or I8 where it is the weight of a linear layer. c
 * exists, and all was checked. */
typedef struct tfm__gemm_task {
    int64_t batch, m, n, k;
    tfm_tensor c, a, b;
    tfm_tensor bias; /* (n) or empty */
    bool accumulate; /* c += alpha a b; then there is neither bias nor activation */
    bool transpose_a, transpose_b;
    bool shared_b; /* one b for the whole batch */
    float alpha;
    tfm_activation activation;
    tfm_param *weight;    /* whose value b is; keeps its packed copy. NULL: b lives for this call */
    tfm__gradient a_sums; /* (m) = or += sums of a's columns, where a is transposed; for providers with sums_columns */
    tfm__gemm_setting setting; /* of the tuning row in force, filled in by gemm_dispatch.c for the provider it is of */
} tfm__gemm_task;

#define TFM__GEMM_MAX_GROUP 3 /* linear layers of one input, at most, in one launch */
#define TFM__GEMM_DECLINED TFM_ERROR_UNSUPPORTED

typedef struct tfm__gemm_provider {
    const char *name;
    /* NULL if it takes the task on this device, else why not: half a sentence, static. */
    const char *(*declines)(tfm_context *ctx, const tfm__gemm_task *task);
    /* Computes c. TFM__GEMM_DECLINED, with the context as it was and c untouched: validation has failed, declines()
     * says why from now on, and the dispatcher asks the next provider. An external one may return any other failure
     * with the context as it was and the sentence as the thread's. */
    tfm_status (*multiply)(tfm_context *ctx, const tfm__gemm_task *task);
    /* Grouped GEMM: `count` linear layers of one input, TFM__GEMM_MAX_GROUP at most, in one launch: their m, k, a,
     * activation and dtypes are the same, and each b is the whole of its weight. NULL: it has no such kernel. */
    tfm_status (*multiply_grouped)(tfm_context *ctx, const tfm__gemm_task *tasks, int count);
    /* Bytes that it takes from the pool while it runs. Sizes, transposes, `weight` and offsets count. NULL: none. */
    uint64_t (*memory)(tfm_context *ctx, const tfm__gemm_task *task);
    /* Settings as text of TFM__TUNING_CHARSET, for `tfm tune`. NULL: it knows none.
     * The one of this index that is worth a try on the task: "" if that one is not; false after the last. */
    bool (*candidate)(tfm_context *ctx, const tfm__gemm_task *task, size_t index, char setting[TFM__TUNING_TEXT_MAX]);
    /* False for a text that means nothing to it. */
    bool (*parse_setting)(tfm_context *ctx, tfm__gemm_setting *out, const char *text);
    /* Whether it runs the task by the setting of the row in force, once it has run it: one that the device does not
     * take may leave it to its rule, or to another provider. NULL: it does. */
    bool (*uses_setting)(tfm_context *ctx, const tfm__gemm_task *task);
    /* Where it is chosen, a norm and the layers that read it are one launch, which a product alone does not show. */
    bool fuses_norm;
    /* It keeps a copy of each weight, in tfm_param.packed. */
    bool packs_weights;
    /* It computes tfm__gemm_task.a_sums on the way. */
    bool sums_columns;
    /* It multiplies by int8 weights, and by no others. */
    bool int8;
    /* It is a library that is not ours: TFM_GEMM=builtin leaves it out. */
    bool external;
} tfm__gemm_provider;

extern const tfm__gemm_provider tfm__gemm_cpu_skinny; /* few rows, packed b, CPU-style devices */
extern const tfm__gemm_provider tfm__gemm_cpu_packed; /* packed b, CPU-style devices */
extern const tfm__gemm_provider tfm__gemm_cpu_bf16;   /* bf16 by processors that multiply such numbers */
extern const tfm__gemm_provider tfm__gemm_cpu_bf16x3; /* floats as three of bf16 each, by the same processors' tiles */
extern const tfm__gemm_provider tfm__gemm_gpu_skinny; /* linear layers of few rows, GPU-style devices */
extern const tfm__gemm_provider tfm__gemm_gpu_tiled;  /* register tiles, GPU-style devices */
extern const tfm__gemm_provider tfm__gemm_gpu_mma;    /* matrix engines, where 16 bits of what is read are enough */
extern const tfm__gemm_provider tfm__gemm_reference;  /* everywhere */
extern const tfm__gemm_provider tfm__gemm_clblast;    /* CLBlast's, with an epilogue of our own */
extern const tfm__gemm_provider tfm__gemm_int8;       /* int8 weights, on all devices */

/* All of them, whatever the device prefers. */
#define TFM__GEMM_PROVIDERS 10
extern const tfm__gemm_provider *const tfm__gemm_providers[TFM__GEMM_PROVIDERS];

/* tfm_gemm by this one provider, or by the chosen one if it is NULL. *why, if `why` is not NULL, gets the
 * reason if the provider declines (then nothing runs and the context stays as it is), else NULL. */
tfm_status tfm__gemm_with(tfm_context *ctx, const tfm__gemm_provider *provider, const char **why, tfm_tensor *c,
                          tfm_tensor a, tfm_tensor b, const tfm_gemm_options *options);

/* c (M, N) = a (M, K) b (K, N), with b's packed copy kept in `b` as tfm_linear keeps its weight's. */
tfm_status tfm__gemm_param(tfm_context *ctx, tfm_tensor *c, tfm_tensor a, tfm_param *b);

/* gemm_cpu_tn.c: what `cpu-packed` does where a is transposed, and the bytes that this takes from the pool. */
tfm_status tfm__gemm_cpu_tn(tfm_context *ctx, const tfm__gemm_task *task);
uint64_t tfm__gemm_cpu_tn_memory(tfm_context *ctx, const tfm__gemm_task *task);

/* gemm_reference.c: c = activation(c + bias), after a product without them. */
tfm_status tfm__gemm_epilogue(tfm_context *ctx, const tfm__gemm_task *task);

/* gemm_backward.c: dw (N, K) = or += alpha dz^T x and dbias (N) = or += the sums of dz's columns, of dz (M,
 * N) and x (M, K). Empty gradients are nothing to do. */
tfm_status tfm__gemm_gradients(tfm_context *ctx, tfm__gradient dw, tfm__gradient dbias, tfm_tensor dz, tfm_tensor x,
                               float alpha);

/* gemm_backward.c: what the pool gives to the products of a layer with a weight (outputs, inputs) on so many rows, and
 * to those of its backward pass, at a time, besides their operands and results. 0 after a failure. */
uint64_t tfm__gemm_layer_memory(tfm_context *ctx, int64_t rows, int64_t inputs, int64_t outputs);
/* Whether the weight of such a layer has a packed copy, which lasts as long as it. */
bool tfm__gemm_layer_packs(tfm_context *ctx, int64_t rows, int64_t inputs, int64_t outputs);

/* gemm_backward.c: writes the product down, if the tape wants it. The task has been run; activations other
 * than ReLU are not in it: they are ops of their own where the tape records. */
tfm_status tfm__gemm_record(tfm_context *ctx, const char *op, const tfm__gemm_task *task);

/* What is added to the product, as kernels take it: the bias, one line for all rows, or c itself. */
typedef struct tfm__gemm_addend {
    tfm_tensor tensor;  /* empty: nothing */
    int64_t batch, row; /* strides */
} tfm__gemm_addend;
static inline tfm__gemm_addend tfm__gemm_addend_of(const tfm__gemm_task *task) {
    return task->accumulate ? (tfm__gemm_addend){task->c, task->m * task->n, task->n}
                            : (tfm__gemm_addend){task->bias, 0, 0};
}

/* The dtype that the kernel may round its operands to: what b is stored in, or else what the context's tuning says.
 * F32: it rounds nothing. */
static inline tfm_dtype tfm__gemm_input_dtype(const tfm_context *ctx, const tfm__gemm_task *task) {
    return task->b.dtype != TFM_F32 ? task->b.dtype : tfm__context_tuning(ctx)->gemm_input_dtype;
}

/* ---- gemm_dispatch.c: which provider, and the call of it ---- */

/* Runs the task by this provider, which does not decline it, or by the chosen one if it is NULL. Where its validation
 * fails, the next one that takes the task computes it. */
tfm_status tfm__gemm_dispatch(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task);
/* The provider that the tuning or TFM_GEMM takes here. NULL after a failure. */
const tfm__gemm_provider *tfm__gemm_select(tfm_context *ctx, const tfm__gemm_task *task);
/* Why the provider does not take the task, its validation in this context included; NULL if it does. */
const char *tfm__gemm_declines(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task);
/* NULL where large fp32 GEMMs use matrix cores, or a processor's bf16 instructions, once
 * tfm__context_set_gemm_input_dtype allows them to round to `inputs`; else why they do not: half a sentence. After a
 * failure it is the context's. */
const char *tfm__gemm_half_declines(tfm_context *ctx, tfm_dtype inputs);
/* Bytes that the task takes from the pool, by the provider that is chosen for it, besides operands and c. 0 after a
 * failure. */
uint64_t tfm__gemm_memory(tfm_context *ctx, const tfm__gemm_task *task);

/* The provider of that name, or NULL. */
const tfm__gemm_provider *tfm__gemm_find_provider(const char *name);
/* The setting of the tuning row that the task falls under where that is for this provider, else none. */
tfm__gemm_setting tfm__gemm_setting_of(tfm_context *ctx, const tfm__gemm_provider *provider,
                                       const tfm__gemm_task *task);
/* Whether the provider runs the task by that setting, once it has run it. */
bool tfm__gemm_uses_setting(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task);
/* Reads the context's tuning rows once more, after some were set. */
void tfm__gemm_reload_tuning(tfm_context *ctx);
/* The name of the row that the task falls under; `inputs`, as tfm__gemm_input_dtype has them, or F32 for the row of
 * tasks that round nothing. False where there is none for its like. */
bool tfm__gemm_tuning_key(char name[TFM__TUNING_TEXT_MAX], const tfm__gemm_task *task, tfm_dtype inputs);

/* ---- gemm_cpu_pack.c, for the providers that work on panels ---- */

/* The kernels that work on panels. */
typedef enum tfm__panel_kernel {
    TFM__GEMM_CPU_PACK,
    TFM__GEMM_CPU_SKINNY,
    TFM__GEMM_CPU_SKINNY_UNPACKED,
    TFM__GEMM_CPU_PACKED,
    TFM__GEMM_CPU_TN,
    TFM__PANEL_KERNELS
} tfm__panel_kernel;

/* Columns of a panel on this device, and rows of one for an inner dimension of k: cl/gemm/gemm_cpu_pack.cl. */
static inline int tfm__gemm_panel_width(const tfm_context *ctx) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    return tuning->gemm_nr_vectors * tuning->width;
}
int64_t tfm__gemm_panel_depth(tfm_dtype dtype, int64_t k);
/* One of their kernels, built for this activation and the dtype of b. */
tfm__kernel *tfm__gemm_panel_kernel(tfm_context *ctx, tfm__panel_kernel which, tfm_activation activation,
                                    tfm_dtype stored);
/* b in panels of `dtype`, its own, or BF16 that a b of F32 is rounded to: the weight's copy if it is of this value,
 * else made now. A weight's copy outlives all scopes; another one dies with the scope that the caller has opened. */
tfm_status tfm__gemm_pack_b(tfm_context *ctx, tfm_tensor *packed, const tfm__gemm_task *task, tfm_dtype dtype);
/* Launches `kernel` of cl/gemm/gemm_cpu_packed.cl on `row_tiles` x groups of `group` panels x batch, or, where there
 * are several tasks, joined ones, x their count. */
tfm_status tfm__gemm_launch_packed(tfm_context *ctx, const tfm__gemm_task *tasks, int count, tfm__panel_kernel kernel,
                                   int64_t row_tiles, int64_t group);
/* Why a device has no panels, or NULL. */
const char *tfm__gemm_packed_declines(tfm_context *ctx, const tfm__gemm_task *task);
/* How many panels one item goes over, of whose row tiles there are so many; of one task, or of joined ones. */
int64_t tfm__gemm_panel_group(const tfm_context *ctx, const tfm__gemm_task *tasks, int count, int64_t row_tiles);
/* Panels of each group where groups of so many at most are alike: PoCL gives one thread the first half of the items,
 * and with a large group and a small one it would have most of the work. */
int64_t tfm__gemm_even_group(int64_t panels, int64_t group);
/* Bytes of the panels that are made for this one task; 0 where its weight keeps them. */
uint64_t tfm__gemm_pack_memory(tfm_context *ctx, const tfm__gemm_task *task, tfm_dtype dtype);

/* ---- gemm_cpu_bf16_pack.c: floats that are rounded to bf16, for gemm_cpu_bf16.c ---- */

/* Numbers from one row of a, as products read it, to the next: ROW_PAIRS of bf16_pack.cl. */
int64_t tfm__gemm_bf16_row_stride(int64_t k);
/* b's panels, of one matrix. */
tfm_status tfm__gemm_bf16_pack_b(tfm_context *ctx, tfm_tensor packed, const tfm__gemm_task *task);
/* *rounded, of the scope that is open: the rows of an a that is transposed; and its bytes. */
tfm_status tfm__gemm_bf16_pack_at(tfm_context *ctx, tfm_tensor *rounded, const tfm__gemm_task *task);
uint64_t tfm__gemm_bf16_memory(const tfm__gemm_task *task);

#endif
