/* Quantized activations for int8 GEMM, shared by all its kernels: x[i] = row_scales[i] times integers of -127 to 127.
 */

/* Quantized rows are padded to this number of elements. */
#define K_PADDING 64
#define PADDED_K(k) (((k) + K_PADDING - 1) / K_PADDING * K_PADDING)

#define QUANTIZE_ONE(v) (as_int(tfm_fma(v, inverse, TFM_ROUND_MAGIC)) - 0x4B400000)

/* The scale of a row from the bits of its largest absolute value, and the inverse that its elements are multiplied by.
 */
static inline float quantization_scale(int bits, float *inverse) {
    const float largest = as_float(bits);
    const int counts = bits < 0x7f800000 && largest > 1e-30f;
    *inverse = counts ? 127.0f / largest : 0.0f;
    return bits >= 0x7f800000 ? NAN : counts ? largest / 127.0f : 0.0f;
}

#ifdef TFM_CLASS_CPU
/* The bits of the largest absolute value of `count` numbers: non-finite values compare as larger than all others. */
static inline int row_abs_max_bits(__global const float *x, int count) {
    tfm_ivec best = 0;
    int i = 0, most = 0;
    for (; i + TFM_WIDTH <= count; i += TFM_WIDTH)
        best = max(best, tfm_as_int_vec(tfm_load(x + i)) & 0x7fffffff);
    for (int p = 0; p < TFM_WIDTH; p++)
        most = max(most, ((int *)&best)[p]);
    for (; i < count; i++)
        most = max(most, as_int(x[i]) & 0x7fffffff);
    return most;
}
#endif
