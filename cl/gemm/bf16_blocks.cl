/* Epilogue of blocks of 32 rows by a panel of two vectors, whose sums come from AMX tiles through memory. Included by
 * gemm_cpu_amx.cl and gemm_cpu_bf16x3.cl after gemm_epilogue.cl. */

/* From this size in floats, c is written with non-temporal stores, unless an earlier K step has written it. So it is
 * not read before writing, and a and b stay in the caches. */
#define LARGE_C (2L << 20)
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define STORE_NONTEMPORAL(v, p) __builtin_nontemporal_store(v, (__global tfm_vec *)(p))
#endif
#endif
#ifndef STORE_NONTEMPORAL
#define STORE_NONTEMPORAL(v, p) tfm_store(v, p)
#endif

/* Orders the non-temporal stores before the thread's later stores, including the end of the kernel. */
#ifdef EMULATED
#define FENCE()
#else
#define FENCE() __asm__ volatile("sfence" : : : "memory")
#endif

/* Whether c (m, n) is written that way; its rows must be aligned to vectors. */
static inline bool streams_c(__global const float *c, const long m, const long n) {
    return m * n >= LARGE_C && n % TFM_WIDTH == 0 && (ulong)c % sizeof(tfm_vec) == 0;
}

/* A block's epilogue after its last K step, with non-temporal stores or not. */
static inline void store_block(const tile_out *out, const tfm_vec *sums, const bool stream) {
    if (out->width < (TFM_ACTIVATION > 1 ? TFM_PANEL + 1 : TFM_PANEL)) { /* a long activation is not unrolled */
        store_tile(out, sums);
        return;
    }
    for (int i = 0; i < out->rows; i++) {
        __global float *to = out->c + i * out->n;
        __global const float *more = out->addend + i * out->addend_row;
        const tfm_vec first = out->addend ? tfm_load(more) : (tfm_vec)(0.0f);
        const tfm_vec second = out->addend ? tfm_load(more + TFM_WIDTH) : (tfm_vec)(0.0f);
        const tfm_vec left = finished(out, sums[2 * i], first), right = finished(out, sums[2 * i + 1], second);
        if (stream) {
            STORE_NONTEMPORAL(left, to);
            STORE_NONTEMPORAL(right, to + TFM_WIDTH);
        } else {
            tfm_store(left, to);
            tfm_store(right, to + TFM_WIDTH);
        }
    }
}

/* The same for earlier K steps: c keeps raw sums, since the activation applies only at the end. */
static inline void keep_block(const tile_out *out, const tfm_vec *sums) {
    for (int i = 0; i < out->rows; i++)
        for (int j = 0; j < TFM_VECTORS && j * TFM_WIDTH < out->width; j++) {
            const int columns = min(out->width - j * TFM_WIDTH, TFM_WIDTH);
            __global float *to = out->c + i * out->n + j * TFM_WIDTH;
            __global const float *more = out->addend + i * out->addend_row + j * TFM_WIDTH;
            tfm_vec sum = out->alpha * sums[i * TFM_VECTORS + j];
            if (columns == TFM_WIDTH) {
                tfm_store(out->addend ? sum + tfm_load(more) : sum, to);
                continue;
            }
            for (int x = 0; x < columns; x++)
                to[x] = ((const float *)&sum)[x] + (out->addend ? more[x] : 0.0f);
        }
}
