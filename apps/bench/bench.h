/* What the parts of `tfm bench` share: contestants take turns at one task, and a report tells who was faster.
 *
 * A contestant is a way to do the task: a provider of matrix multiplication, a variant's kernels, OpenBLAS.
 * All of them run in rounds, each once a round, so that whatever else slows the machine slows all alike; what
 * is compared are medians. */
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
    bool accumulate;           /* gemm */
    bool causal, backward;     /* attention */
    tfm_dtype stored;          /* gemm: what weights are, beside fp32 */
    const char *model, *input; /* translate */
} bench_options;

/* The processor cores that this process may use. */
int bench_cores(void);

/* Whether `name` is in a list with commas; everything is in NULL. */
bool bench_is_selected(const char *list, const char *name);

/* ---- A device in several variants (bench_setup.c) ---- */

/* What --variant calls all that run here. */
#define BENCH_ALL "all"

enum { BENCH_VARIANTS = 8 };
typedef struct bench_devices {
    tfm_context *contexts[BENCH_VARIANTS]; /* the first runs the device's own variant, if that is wanted */
    size_t count;
    const char *own; /* the device's own variant, wanted or not; static */
} bench_devices;

/* A context for each variant that is wanted, each in a scope. CLI_OK, or CLI_FAILED after its sentence. */
int bench_devices_open(bench_devices *devices, const bench_options *options);
void bench_devices_free(bench_devices *devices);

/* A tensor of numbers in [-1, 1), the same in every run. Empty after a failure, which is the context's. */
tfm_tensor bench_fill(tfm_context *ctx, int rank, const int64_t *dims);
/* `count` such numbers; NULL without memory. */
float *bench_random_floats(size_t count);

/* ---- The group (bench_runner.c) ---- */

typedef struct bench_candidate {
    char name[48];
    const char *bench; /* as in JSON: "gemm" */
    char shape[64];
    double work;                       /* of one run: operations, bytes, sentences */
    int (*run)(void *self, int times); /* that many runs, and waits for them; CLI_OK or CLI_FAILED */
    void (*free)(void *self);          /* may be NULL */
    void *self;
    double rest;           /* seconds to wait when its turn is over, until its threads sleep */
    const char *precision; /* "fp16"; NULL: the group's */
    const char *declined;  /* why it does not run at all, static; or NULL */
    bool chosen;           /* the table marks it: what the library takes by itself */
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
    const char *than;      /* what the table's ratios are to, and which contestant that is; NULL: no ratios */
    size_t base;
} bench_group;

/* The next contestant, all zero but for bench, shape and name. NULL, after a sentence, if there are too many.
 */
bench_candidate *bench_add(bench_group *group, const char *bench, const char *shape, const char *format, ...)
    TFM_PRINTF(4, 5);

/* Runs all rounds, prints, and frees the contestants, whatever happens. */
int bench_run(bench_group *group, const bench_options *options);
/* Frees the contestants of a group that is not run. */
void bench_discard(bench_group *group);

/* ---- Shapes ---- */

/* "256x512x512" to numbers from 1 on, `least` to `most` of them; a trailing word is left at *rest if that is
 * not NULL. Returns how many, 0 for anything else. */
int bench_parse_shape(int64_t *out, const char *text, int least, int most, const char **rest);

/* ---- The benches: operands are shapes or names of models. `syntax` for sentences about them. ---- */

int bench_gemm(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
int bench_attention(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
int bench_norm(const cli_syntax *syntax, const bench_options *options, int count, char **operands);
int bench_translate(const cli_syntax *syntax, const bench_options *options, int count, char **operands);

/* A Transformer's sizes, by the names of training's presets: "tiny", "small", and "base" and "big" of "Attention Is All
 * You Need", table 3. */
typedef struct bench_model {
    const char *name;
    int width, heads, feed_forward, vocabulary; /* E, H, F, V */
} bench_model;
enum { BENCH_MODELS = 4 };
extern const bench_model bench_models[BENCH_MODELS];
/* NULL if there is none of that name. */
const bench_model *bench_model_named(const char *name);

/* ---- OpenBLAS (blas.c), opened when it is needed: no other command starts its threads ---- */

/* Why it is not there, or NULL. */
const char *bench_blas_error(void);
/* c (m, n) = a b, or += with beta 1; a and b as given, or their transposes. All cores that bench_cores counts. */
void bench_blas_gemm(float *c, const float *a, const float *b, int m, int n, int k, bool transpose_a, bool transpose_b,
                     float beta);

#endif
