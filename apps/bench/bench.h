/* Shared declarations of `tfm bench`: contestants are timed in turns at one task.
 *
 * A contestant is a provider of matrix multiplication, a variant's kernels, or OpenBLAS. Each runs once per round, so
 * that other load affects all alike; medians are compared. */
#ifndef TFM_BENCH_H
#define TFM_BENCH_H

#include "cli/cli.h"

/* ---- Options (cmd_bench.c), and what benches share (bench_setup.c) ---- */

typedef struct bench_options {
    const char *device;
    const char *variants;  /* "cpu-512,gpu" or "all"; NULL: the device's own */
    const char *providers; /* "cpu-packed,openblas", NULL: all */
    int rounds;
    bool json;
    bool accumulate;                                  /* gemm */
    bool causal, backward;                            /* attention */
    tfm_dtype stored;                                 /* gemm: dtype of weights in addition to fp32 */
    int precision, kv_precision;                      /* choices of the options */
    const char *model, *input;                        /* translate, generate */
    int prompt_tokens, new_tokens, batch_size, depth; /* generate */
} bench_options;

/* Number of CPU cores that this process may use. */
int bench_cores(void);

/* Whether `name` is in a comma-separated list; NULL contains all. */
bool bench_is_selected(const char *list, const char *name);

/* ---- A device in several variants (bench_setup.c) ---- */

/* The --variant value for all supported variants. */
#define BENCH_ALL "all"

enum { BENCH_VARIANTS = 8 };
typedef struct bench_devices {
    tfm_context *contexts[BENCH_VARIANTS]; /* the first has the device's own variant, if requested */
    size_t count;
    const char *own; /* the device's own variant, always set; static */
} bench_devices;

/* A context for each requested variant, each in a scope. CLI_OK, or CLI_FAILED after a message. */
int bench_devices_open(bench_devices *devices, const bench_options *options);
void bench_devices_free(bench_devices *devices);

/* A tensor of numbers in [-1, 1), the same in every run. Empty after a failure, stored in the context. */
tfm_tensor bench_fill(tfm_context *ctx, int rank, const int64_t *dims);
/* `count` such numbers; NULL without memory. */
float *bench_random_floats(size_t count);

/* ---- The group (bench_runner.c) ---- */

typedef struct bench_candidate {
    char name[48];
    const char *bench; /* as in JSON: "gemm" */
    char shape[64];
    double work;                       /* of one run: operations, bytes, sentences */
    int (*run)(void *self, int times); /* does `times` runs and waits; CLI_OK or CLI_FAILED */
    void (*free)(void *self);          /* may be NULL */
    void *self;
    double rest;           /* seconds to wait after its turn, until its threads sleep */
    const char *precision; /* "fp16"; NULL: the group's */
    const char *declined;  /* why it does not support the task, static; or NULL */
    bool chosen;           /* the library's own choice, marked in the table */
    double *seconds;       /* [runs], of one run each, sorted after the last round */
    int runs;
} bench_candidate;

enum { BENCH_MAX_CANDIDATES = 32 };
typedef struct bench_group {
    bench_candidate list[BENCH_MAX_CANDIDATES];
    size_t count;
    const char *precision; /* "fp32" */
    const char *unit;      /* of work a second, with its factor: "GFLOP/s" */
    double factor;         /* 1e-9 */
    const char *json;      /* "gflops", which has the factor, or "per_s", which has none */
    const char *than;      /* reference of the table's ratios, and its contestant; NULL: no ratios */
    size_t base;
} bench_group;

/* Adds a contestant, zero except bench, shape and name. NULL after a message if there are too many. */
bench_candidate *bench_add(bench_group *group, const char *bench, const char *shape, const char *format, ...)
    TFM_PRINTF(4, 5);

/* Runs all rounds, prints, and frees the contestants in any case. */
int bench_run(bench_group *group, const bench_options *options);
/* Frees the contestants without running. */
void bench_discard(bench_group *group);

/* ---- Shapes ---- */

/* Parses "256x512x512" to `least` to `most` numbers from 1; *rest: trailing text, may be NULL. Returns their number, 0
 * for anything else. */
int bench_parse_shape(int64_t *out, const char *text, int least, int most, const char **rest);

/* ---- The benches: operands are shapes or names of models. `syntax` is for error messages. ---- */

int bench_gemm(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
int bench_attention(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
int bench_norm(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
int bench_translate(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
int bench_generate(const cli_syntax *syntax, const bench_options *options, int count, char **operands);

/* Sizes of training's presets: "tiny", "small", and "base" and "big" of "Attention Is All You Need", table 3. */
typedef struct bench_model {
    const char *name;
    int width, heads, feed_forward, vocabulary; /* E, H, F, V */
} bench_model;
enum { BENCH_MODELS = 4 };
extern const bench_model bench_models[BENCH_MODELS];
/* NULL if unknown. */
const bench_model *bench_model_named(const char *name);

/* ---- OpenBLAS (blas.c), opened on demand, so that no other command starts its threads ---- */

/* Why it is unavailable, or NULL. */
const char *bench_blas_error(void);
/* c (m, n) = a b, or += with beta 1; a and b as given, or their transposes. All cores that bench_cores counts. */
void bench_blas_gemm(float *c, const float *a, const float *b, int m, int n, int k, bool transpose_a, bool transpose_b,
                     float beta);

#endif
