/* What attention's kernels for wide devices share: vectors of TFM_WIDTH numbers from memory. */

#define W TFM_WIDTH

/* A vector at any number. vload, which says the same, goes through memory in pieces of two or four. */
#if NUMBERS == 0
typedef struct __attribute__((packed)) loose_numbers {
    tfm_vec all;
} loose_numbers;
#else
typedef struct __attribute__((packed)) loose_numbers {
    TFM_CAT(ushort, TFM_WIDTH) all;
} loose_numbers;
typedef TFM_CAT(uint, TFM_WIDTH) bits;
#define as_bits TFM_CAT(as_uint, TFM_WIDTH)
#define as_floats TFM_CAT(as_float, TFM_WIDTH)
#define to_bits TFM_CAT(convert_uint, TFM_WIDTH)
#endif

static inline tfm_vec load(__global const number *p) {
    const loose_numbers from = *(__global const loose_numbers *)p;
#if NUMBERS == 0
    return from.all;
#elif NUMBERS == 1
    /* Exponent and fraction moved to a float's place are the number times 2^-112, denormals too; the exponent of infinity
     * and NaN is that of a float again. vload_half takes the lanes one by one. */
    const bits u = to_bits(from.all), size = (u & 0x7fffu) << 13;
    const bits finite = as_bits(as_floats(size) * 0x1p112f);
    return as_floats(select(finite, size | 0x7f800000u, size >= 0x7c00u << 13) | (u & 0x8000u) << 16);
#else
    return as_floats(to_bits(from.all) << 16);
#endif
}
