/* GEMM internals: a task and its providers.
 *
 * A provider that declines a task gives the reason, for tests and logs, and the next provider is tried. The choice is a
 * pure function of the device's tuning, the task, TFM_GEMM as it was at the context's first GEMM, and the kernel
 * validation: never of a time measured in the run, so results repeat. */
#ifndef TFM_LIB_GEMM_H
#define TFM_LIB_GEMM_H

#include "dev/tuning/tuning_db.h"
#include "ops/autograd/tape.h"

/* Tuning overrides of a provider's heuristic: `gpu-tiled` and `gpu-mma`. */
typedef struct tfm__gemm_setting {
    int tile;        /* 1 + index in its tile table; 0: its heuristic */
    int64_t split_k; /* split-K; 0: its heuristic */
    int stages;      /* pipeline stages, `gpu-mma` only; 0: its heuristic */
} tfm__gemm_setting;

/* c (batch, m, n) = activation(alpha a b + bias), or c += alpha a b; a (batch, m, k), b (batch, k, n) or (k, n), or
 * their transposes. All F32, except that b may be F16, BF16 or I8 as the weight of a linear layer. c exists and all
 * arguments are checked. */
typedef struct tfm__gemm_task {
    int64_t batch, m, n, k;
    tfm_tensor c, a, b;
    tfm_tensor bias; /* (n) or empty */
    bool accumulate; /* c += alpha a b, without bias or activation */
    bool transpose_a, transpose_b;
    bool shared_b; /* b is shared by the batch */
    float alpha;
    tfm_activation activation;
    tfm_param *weight;    /* parameter of b; holds its packed copy. NULL: b is temporary */
    tfm__gradient a_sums; /* (m) = or += sums of a's columns, if a is transposed; for providers with sums_columns */
    tfm__gemm_setting setting; /* from the tuning row in force; set by gemm_dispatch.c for the row's provider */
} tfm__gemm_task;

#define TFM__GEMM_MAX_GROUP 3 /* limit of linear layers in one grouped launch */
#define TFM__GEMM_DECLINED TFM_ERROR_UNSUPPORTED

typedef struct tfm__gemm_provider {
    const char *name;
    /* NULL if it accepts the task on this device, else the reason: half a sentence, static. */
    const char *(*declines)(tfm_context *ctx, const tfm__gemm_task *task);
    /* Computes c. TFM__GEMM_DECLINED leaves the context and c unchanged: validation has failed, declines() reports it
     * from then on, and the dispatcher tries the next provider. An external provider may return any other failure with
     * the context unchanged and the message in the thread's error. */
    tfm_status (*multiply)(tfm_context *ctx, const tfm__gemm_task *task);
    /* Grouped GEMM: `count` linear layers of one input, at most TFM__GEMM_MAX_GROUP, in one launch. m, k, a, activation
     * and dtypes are equal; each b is the whole of its weight. NULL: not supported. */
    tfm_status (*multiply_grouped)(tfm_context *ctx, const tfm__gemm_task *tasks, int count);
    /* Bytes of temporary pool memory, from sizes, transposes, `weight` and offsets. NULL: none. */
    uint64_t (*memory)(tfm_context *ctx, const tfm__gemm_task *task);
    /* Candidate settings as text of TFM__TUNING_CHARSET, for `tfm tune`; NULL: no settings. The setting of this index,
     * "" to skip it for this task; false after the last. */
    bool (*candidate)(tfm_context *ctx, const tfm__gemm_task *task, size_t index, char setting[TFM__TUNING_TEXT_MAX]);
    /* Parses a setting; false if it is invalid. */
    bool (*parse_setting)(tfm_context *ctx, tfm__gemm_setting *out, const char *text);
    /* Whether it ran the task with the setting in force, after the run: a setting that the device does not support
     * falls back to the heuristic or another provider. NULL: always. */
    bool (*uses_setting)(tfm_context *ctx, const tfm__gemm_task *task);
    /* Choosing it fuses a norm and the layers that read it into one launch, a gain that one GEMM alone does not show.
     */
    bool fuses_norm;
    /* Keeps a packed copy of each weight in tfm_param.packed. */
    bool packs_weights;
    /* Computes tfm__gemm_task.a_sums as a by-product. */
    bool sums_columns;
    /* Accepts int8 weights, and only those. */
    bool int8;
    /* An external library: TFM_GEMM=builtin excludes it. */
    bool external;
} tfm__gemm_provider;

extern const tfm__gemm_provider tfm__gemm_cpu_skinny; /* few rows, packed b, CPU-style devices */
extern const tfm__gemm_provider tfm__gemm_cpu_packed; /* packed b, CPU-style devices */
extern const tfm__gemm_provider tfm__gemm_cpu_bf16;   /* bf16 dot-product or AMX instructions of the processor */
extern const tfm__gemm_provider tfm__gemm_cpu_bf16x3; /* fp32 as bf16x3, on AMX tiles */
extern const tfm__gemm_provider tfm__gemm_gpu_skinny; /* linear layers with few rows, GPU-style devices */
extern const tfm__gemm_provider tfm__gemm_gpu_tiled;  /* register tiles, GPU-style devices */
extern const tfm__gemm_provider tfm__gemm_gpu_mma;    /* matrix cores, if inputs may be rounded to 16 bits */
extern const tfm__gemm_provider tfm__gemm_reference;  /* everywhere */
extern const tfm__gemm_provider tfm__gemm_clblast;    /* CLBlast, with our epilogue */
extern const tfm__gemm_provider tfm__gemm_int8;       /* int8 weights, on all devices */

/* All providers; the order of preference is the device's. */
#define TFM__GEMM_PROVIDERS 10
extern const tfm__gemm_provider *const tfm__gemm_providers[TFM__GEMM_PROVIDERS];

/* tfm_gemm by this provider, or by the chosen one if NULL. If the provider declines, nothing runs and the context stays
 * good; *why (`why` may be NULL) gets the reason, else NULL. */
tfm_status tfm__gemm_with(tfm_context *ctx, const tfm__gemm_provider *provider, const char **why, tfm_tensor *c,
                          tfm_tensor a, tfm_tensor b, const tfm_gemm_options *options);

/* c (M, N) = a (M, K) b (K, N), with a packed copy kept in `b` as tfm_linear does for weights. */
tfm_status tfm__gemm_param(tfm_context *ctx, tfm_tensor *c, tfm_tensor a, tfm_param *b);

/* gemm_cpu_tn.c: `cpu-packed` with a transposed, and its temporary pool memory in bytes. */
tfm_status tfm__gemm_cpu_tn(tfm_context *ctx, const tfm__gemm_task *task);
uint64_t tfm__gemm_cpu_tn_memory(tfm_context *ctx, const tfm__gemm_task *task);

/* gemm_reference.c: c = activation(c + bias), after a GEMM without epilogue. */
tfm_status tfm__gemm_epilogue(tfm_context *ctx, const tfm__gemm_task *task);

/* gemm_backward.c: dw (N, K) = or += alpha dz^T x and dbias (N) = or += column sums of dz, for dz (M, N) and x (M, K).
 * Empty gradients are skipped. */
tfm_status tfm__gemm_gradients(tfm_context *ctx, tfm__gradient dw, tfm__gradient dbias, tfm_tensor dz, tfm_tensor x,
                               float alpha);

/* gemm_backward.c: peak temporary pool memory of the forward and backward GEMMs of a layer with a weight (outputs,
 * inputs) on so many rows, without operands and results. 0 after a failure. */
uint64_t tfm__gemm_layer_memory(tfm_context *ctx, int64_t rows, int64_t inputs, int64_t outputs);
/* Whether the weight of such a layer has a packed copy with the weight's lifetime. */
bool tfm__gemm_layer_packs(tfm_context *ctx, int64_t rows, int64_t inputs, int64_t outputs);

/* gemm_backward.c: records the GEMM on the tape, if required, after it has run. Activations other than ReLU are
 * separate ops there. */
tfm_status tfm__gemm_record(tfm_context *ctx, const char *op, const tfm__gemm_task *task);

/* Addend of the epilogue: the bias, broadcast over rows, or c itself. */
typedef struct tfm__gemm_addend {
    tfm_tensor tensor;  /* empty: none */
    int64_t batch, row; /* strides */
} tfm__gemm_addend;
static inline tfm__gemm_addend tfm__gemm_addend_of(const tfm__gemm_task *task) {
    return task->accumulate ? (tfm__gemm_addend){task->c, task->m * task->n, task->n}
                            : (tfm__gemm_addend){task->bias, 0, 0};
}

/* The dtype that the kernel may round its operands to: b's storage dtype, else the context's tuning. F32: no rounding,
 * also of a weight with exact_input. */
static inline tfm_dtype tfm__gemm_input_dtype(const tfm_context *ctx, const tfm__gemm_task *task) {
    if (task->b.dtype == TFM_F32)
        return tfm__context_tuning(ctx)->gemm_input_dtype;
    return task->weight && task->weight->exact_input ? TFM_F32 : task->b.dtype;
}

/* ---- gemm_dispatch.c: choice and call of the provider ---- */

/* Runs the task by this provider, which must not decline it, or by the chosen one if NULL. If validation fails, the
 * next provider that accepts the task computes it. */
tfm_status tfm__gemm_dispatch(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task);
/* The provider chosen by the tuning or TFM_GEMM. NULL after a failure. */
const tfm__gemm_provider *tfm__gemm_select(tfm_context *ctx, const tfm__gemm_task *task);
/* Why the provider declines the task, including failed validation in this context; NULL if it accepts. */
const char *tfm__gemm_declines(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task);
/* NULL if large fp32 GEMMs use matrix cores or a processor's bf16 instructions once tfm__context_set_gemm_input_dtype
 * allows rounding to `inputs`; else the reason, half a sentence. After a failure, the context's error. */
const char *tfm__gemm_half_declines(tfm_context *ctx, tfm_dtype inputs);
/* Temporary pool memory of the task by its chosen provider, in bytes, without operands and c. 0 after a failure. */
uint64_t tfm__gemm_memory(tfm_context *ctx, const tfm__gemm_task *task);

/* The provider of that name, or NULL. */
const tfm__gemm_provider *tfm__gemm_find_provider(const char *name);
/* The setting of the task's tuning row if it is for this provider, else none. */
tfm__gemm_setting tfm__gemm_setting_of(tfm_context *ctx, const tfm__gemm_provider *provider,
                                       const tfm__gemm_task *task);
/* Whether the provider ran the task with that setting; call it after the run. */
bool tfm__gemm_uses_setting(tfm_context *ctx, const tfm__gemm_provider *provider, const tfm__gemm_task *task);
/* Reloads the context's tuning rows after a change. */
void tfm__gemm_reload_tuning(tfm_context *ctx);
/* The name of the task's tuning row. `inputs`: see tfm__gemm_input_dtype, or F32 for GEMMs without rounding. False if
 * such tasks have no row. */
bool tfm__gemm_tuning_key(char name[TFM__TUNING_TEXT_MAX], const tfm__gemm_task *task, tfm_dtype inputs);

/* ---- gemm_cpu_pack.c, for the providers that use packed panels ---- */

/* Kernels that use packed panels. */
typedef enum tfm__panel_kernel {
    TFM__GEMM_CPU_PACK,
    TFM__GEMM_CPU_SKINNY,
    TFM__GEMM_CPU_SKINNY_UNPACKED,
    TFM__GEMM_CPU_PACKED,
    TFM__GEMM_CPU_TN,
    TFM__PANEL_KERNELS
} tfm__panel_kernel;

/* Columns of a panel on this device, and its depth for an inner dimension of k: cl/gemm/gemm_cpu_pack.cl. */
static inline int tfm__gemm_panel_width(const tfm_context *ctx) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    return tuning->gemm_nr_vectors * tuning->width;
}
int64_t tfm__gemm_panel_depth(tfm_dtype dtype, int64_t k);
/* One of the kernels, built for the activation and the dtype of b. */
tfm__kernel *tfm__gemm_panel_kernel(tfm_context *ctx, tfm__panel_kernel which, tfm_activation activation,
                                    tfm_dtype stored);
/* b packed to panels of `dtype`: its own, or BF16 for an F32 b that may be rounded. Returns the weight's cached copy if
 * it is current, else packs now. A weight's copy is persistent; another one belongs to the caller's open scope. */
tfm_status tfm__gemm_pack_b(tfm_context *ctx, tfm_tensor *packed, const tfm__gemm_task *task, tfm_dtype dtype);
/* Launches `kernel` of cl/gemm/gemm_cpu_packed.cl on `row_tiles` x groups of `group` panels x batch, or, for a grouped
 * GEMM, x the number of tasks. */
tfm_status tfm__gemm_launch_packed(tfm_context *ctx, const tfm__gemm_task *tasks, int count, tfm__panel_kernel kernel,
                                   int64_t row_tiles, int64_t group);
/* Why the device cannot use panels, or NULL. */
const char *tfm__gemm_packed_declines(tfm_context *ctx, const tfm__gemm_task *task);
/* Panels that one item processes, for so many row tiles; of one task, or of a grouped GEMM. */
int64_t tfm__gemm_panel_group(const tfm_context *ctx, const tfm__gemm_task *tasks, int count, int64_t row_tiles);
/* Panels of each group, balanced with at most so many a group: PoCL gives one thread the first half of the items, so a
 * large and a small group would be unbalanced. */
int64_t tfm__gemm_even_group(int64_t panels, int64_t group);
/* Bytes of the panels packed for this task only; 0 if its weight caches them. */
uint64_t tfm__gemm_pack_memory(tfm_context *ctx, const tfm__gemm_task *task, tfm_dtype dtype);

/* ---- gemm_cpu_bf16_pack.c: fp32 operands rounded to bf16, for gemm_cpu_bf16.c ---- */

/* Row stride of a as the kernels read it: ROW_PAIRS of bf16_pack.cl. */
int64_t tfm__gemm_bf16_row_stride(int64_t k);
/* Packs b's panels, of one matrix. */
tfm_status tfm__gemm_bf16_pack_b(tfm_context *ctx, tfm_tensor packed, const tfm__gemm_task *task);
/* *rounded, in the open scope: the bf16 rows of a transposed a; and its bytes. */
tfm_status tfm__gemm_bf16_pack_at(tfm_context *ctx, tfm_tensor *rounded, const tfm__gemm_task *task);
uint64_t tfm__gemm_bf16_memory(const tfm__gemm_task *task);

#endif
