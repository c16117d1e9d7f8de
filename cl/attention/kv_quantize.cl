/* Quantizes keys k and values v, `heads` heads of D columns each, to heads of an int8 KV cache: for each 32 columns a
 * scale as bf16, padded to four bytes; then integers, padded with zeros to a multiple of four. A column is its scale
 * times its integer, of -127 to 127. The scale is the largest absolute value of its columns divided by 127, rounded up;
 * NaN with a non-finite number, so that no result looks finite.
 *
 * Layout: a work-item takes blocks of 32 columns one by one; a work-group takes `per_group` blocks of both tensors,
 * those of k first. */

#define BLOCK 32
#define PADDING(i) (((i) + 3) / 4 * 4)

/* The bits of the largest absolute value of n numbers; non-finite ones compare as larger than all others. */
static inline int largest_bits(__global const float *x, const int n) {
    int most = 0, i = 0;
#if TFM_WIDTH > 1
    tfm_ivec best = 0;
    for (; i + TFM_WIDTH <= n; i += TFM_WIDTH)
        best = max(best, tfm_as_int_vec(tfm_load(x + i)) & 0x7fffffff);
    for (int p = 0; p < TFM_WIDTH; p++)
        most = max(most, ((int *)&best)[p]);
#endif
    for (; i < n; i++)
        most = max(most, as_int(x[i]) & 0x7fffffff);
    return most;
}

static inline void quantize_block(__global char *to, __global const float *x, const int n, const float inverse) {
    int i = 0;
#if TFM_WIDTH > 1
    for (; i + TFM_WIDTH <= n; i += TFM_WIDTH) {
        const tfm_vec v = tfm_fma(tfm_load(x + i), (tfm_vec)(inverse), (tfm_vec)(TFM_ROUND_MAGIC));
        tfm_store(TFM_CAT(convert_char, TFM_WIDTH)(tfm_as_int_vec(v) - 0x4B400000), to + i);
    }
#endif
    for (; i < n; i++)
        to[i] = (char)(as_int(tfm_fma(x[i], inverse, TFM_ROUND_MAGIC)) - 0x4B400000);
    for (; i < PADDING(n); i++)
        to[i] = 0;
}

TFM_KERNEL void kv_quantize(TFM_TENSOR(char, keys), TFM_TENSOR(char, values), TFM_INPUT(float, k), TFM_INPUT(float, v),
                            const long heads, const long d, const long per_group) {
    const long blocks = (d + BLOCK - 1) / BLOCK, header = PADDING(2 * blocks), span = header + PADDING(d);
    const long end = min((TFM_ROW() + 1) * per_group, 2 * heads * blocks);
    for (long i = TFM_ROW() * per_group + TFM_LOCAL_ID(); i < end; i += TFM_GROUP) {
        const long row = i / blocks, block = i - row * blocks, head = row < heads ? row : row - heads;
        const int n = (int)min(d - block * BLOCK, (long)BLOCK);
        __global const float *x = (row < heads ? TFM_AT(k) : TFM_AT(v)) + head * d + block * BLOCK;
        __global char *to = (row < heads ? TFM_AT(keys) : TFM_AT(values)) + head * span;
        __global ushort *scales = (__global ushort *)to;
        const int bits = largest_bits(x, n);
        const float largest = as_float(bits);
        const int counts = bits < 0x7f800000 && largest > 1e-30f;
        const uint scale = bits >= 0x7f800000 ? 0x7fc0u : counts ? (as_uint(largest / 127.0f) + 0xffffu) >> 16 : 0u;
        scales[block] = (ushort)scale;
        if (block + 1 == blocks && blocks % 2 == 1)
            scales[blocks] = 0;
        quantize_block(to + header + block * BLOCK, x, n, counts ? 1.0f / as_float(scale << 16) : 0.0f);
    }
}
