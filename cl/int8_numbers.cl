/* Rows of x as steps[i] times whole numbers of -127 to 127, for products of bytes: what all their kernels agree on. */

/* Of a row that is made of whole numbers: elements that it is filled up to. */
#define PADDING 64
#define PADDED(k) (((k) + PADDING - 1) / PADDING * PADDING)

#define ROUNDED_ONE(v) (as_int(tfm_fma(v, inverse, TFM_ROUNDER)) - 0x4B400000)

/* The step of a row whose largest number has these bits without its sign, and what its numbers are multiplied by. */
static inline float step_of(int bits, float *inverse) {
    const float largest = as_float(bits);
    const int counts = bits < 0x7f800000 && largest > 1e-30f;
    *inverse = counts ? 127.0f / largest : 0.0f;
    return bits >= 0x7f800000 ? NAN : counts ? largest / 127.0f : 0.0f;
}
