/* OpenBLAS, for comparison. Opened by dlopen, because it starts its threads on load. */
#include <dlfcn.h>
#include <stdlib.h>
#include "bench/bench.h"

#ifdef TFM_OPENBLAS
#include <cblas.h>

static __typeof__(cblas_sgemm) *sgemm;

static const char *opened(void) {
    void *library = dlopen(TFM_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return "OpenBLAS was present when tfm was built, but cannot be opened now";
    void (*set_threads)(int) = NULL;
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    if (!set_threads || !sgemm) {
        sgemm = NULL;
        return "the installed OpenBLAS lacks required functions";
    }
    set_threads(bench_cores());
    return NULL;
}

const char *bench_blas_error(void) {
    static const char *why;
    if (!sgemm && !why)
        why = opened();
    return why;
}

void bench_blas_gemm(float *c, const float *a, const float *b, int m, int n, int k, bool transpose_a, bool transpose_b,
                     float beta) {
    sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, m, n, k,
          1.0f, a, transpose_a ? m : k, b, transpose_b ? k : n, beta, c, n);
}
#else
const char *bench_blas_error(void) {
    return "tfm was built without OpenBLAS";
}

void bench_blas_gemm(float *c, const float *a, const float *b, int m, int n, int k, bool transpose_a, bool transpose_b,
                     float beta) {
    (void)c, (void)a, (void)b, (void)m, (void)n, (void)k, (void)transpose_a, (void)transpose_b, (void)beta;
}
#endif
