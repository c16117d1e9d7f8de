/* Block-quantized linear layers of CPU-style devices: included by quant_linear.cl. An item takes row blocks of w, whose
 * rows are the lanes of two vectors, and ROWS rows of x at a time. Its tiles follow each other in memory.
 *
 * Grid: groups of `blocks` row blocks x groups of `rows` rows of x. */
#define VECTORS_OF_TILE (TILE_ROWS / TFM_WIDTH)

/* Scale or minimum of each lane of vector v. */
static inline tfm_vec number_lanes(__global const uint *at, const int v) {
#if WIDE
    return tfm_load((__global const float *)at + v * TFM_WIDTH);
#else
    return load_as_float_vec((__global const ushort *)at + v * TFM_WIDTH);
#endif
}

/* Factors of a group's scale and minimum. */
static inline tfm_vec scale_lanes(__global const uint *tile, const int group, const int v) {
    const tfm_ivec factors = TFM_CAT(convert_int, TFM_WIDTH)(
        tfm_load((__global const char *)(tile + AT_SCALES) + group * TILE_ROWS + v * TFM_WIDTH));
    return TFM_CAT(convert_float, TFM_WIDTH)(SHARED ? factors & 15 : factors);
}
static inline tfm_vec min_lanes(__global const uint *tile, const int group, const int v) {
    const tfm_ivec factors = TFM_CAT(convert_int, TFM_WIDTH)(
        tfm_load((__global const char *)(tile + (SHARED ? AT_SCALES : AT_MINS)) + group * TILE_ROWS + v * TFM_WIDTH));
    return TFM_CAT(convert_float, TFM_WIDTH)(SHARED ? factors >> 4 & 15 : factors);
}

/* Words of the planes of 32 weights of vector v: the words whose first pair is p, and all words. */
static inline void load_words(tfm_uvec *low, tfm_uvec *high, __global const uint *tile, const int chunk, const int v,
                              const int p) {
    const int j = p / (16 / LOW);
    if (p % (16 / LOW) == 0)
        low[j] = tfm_load(LOW_WORDS(tile, chunk) + j * TILE_ROWS + v * TFM_WIDTH);
#if HIGH
    const int i = p / (16 / HIGH);
    if (p % (16 / HIGH) == 0)
        high[i] = tfm_load(HIGH_WORDS(tile, chunk) + i * TILE_ROWS + v * TFM_WIDTH);
#endif
}
static inline void load_planes(tfm_uvec *low, tfm_uvec *high, __global const uint *tile, const int chunk, const int v) {
#pragma unroll
    for (int p = 0; p < 16; p++)
        load_words(low, high, tile, chunk, v, p);
}

/* Results of vector v of a row block. */
static inline void finish(const target *t, const long row, const long block, const int v, tfm_vec sum) {
    const long column = block * TILE_ROWS + v * TFM_WIDTH;
    if (column + TFM_WIDTH <= t->n) {
        if (t->bias)
            sum += tfm_load(t->bias + column);
        tfm_store(tfm_activate_vec(sum), t->y + row * t->n + column);
        return;
    }
    for (int j = 0; j < TFM_WIDTH; j++)
        put(t, row, column + j, ((const float *)&sum)[j]);
}

#if !INT16
/* ---- fp32 activations ---- */

#if CODEBOOK
static inline tfm_vec value_lanes(const tfm_uvec codes) {
    float v[TFM_WIDTH];
    for (int j = 0; j < TFM_WIDTH; j++)
        v[j] = code_values[((const uint *)&codes)[j]];
    return tfm_load(v);
}
#else
static inline tfm_vec value_lanes(const tfm_uvec codes) {
    return TFM_CAT(convert_float, TFM_WIDTH)(tfm_as_int_vec(codes) - OFFSET);
}
#endif

static inline tfm_vec weight_lanes(const tfm_uvec codes, const tfm_vec step, const tfm_vec less) {
    return MINIMUM ? tfm_fma(value_lanes(codes), step, -less) : value_lanes(codes) * step;
}

/* sum[i] += x of row i times the 32 weights `chunk` of a tile; x begins at these, with k numbers a row. Both halves of
 * the pairs have a sum, because one would wait for each fma. */
static inline void add_chunk(tfm_vec *sum, tfm_vec *odd_sum, __global const uint *tile, const int chunk, const int v,
                             __global const float *x, const long k, const int rows) {
    tfm_uvec low[LOW], high[HIGH + 1];
    load_planes(low, high, tile, chunk, v);
#pragma unroll
    for (int half_group = 0; half_group < 32 / GROUP; half_group++) {
        const int group = chunk * (32 / GROUP) + half_group;
        tfm_vec step = number_lanes(tile, v), less = 0.0f;
        if (SUPER)
            step *= scale_lanes(tile, group, v);
        if (MINIMUM)
            less = number_lanes(tile + AT_MIN, v);
        if (MINIMUM && SUPER)
            less *= min_lanes(tile, group, v);
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            const tfm_uvec codes = PAIR_CODES(low, high, PAIR(p, half_group));
            const tfm_vec a = weight_lanes(codes & 0xffff, step, less), b = weight_lanes(codes >> 16, step, less);
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                __global const float *from = x + min(i, rows - 1) * k + FIRST(PAIR(p, half_group));
                sum[i] = tfm_fma(a, (tfm_vec)(from[0]), sum[i]);
                odd_sum[i] = tfm_fma(b, (tfm_vec)(from[2]), odd_sum[i]);
            }
        }
    }
}

TFM_KERNEL void quant_linear_fp32(OUTPUT(0), OUTPUT(1), OUTPUT(2), TFM_INPUT(float, x), const long k, const long m,
                                  const long blocks, const long rows) {
    FIND_TARGET((long)get_global_id(0));
    const long first = get_global_id(1) * rows, last = min(first + rows, m);
    const long end = min((t.at + 1) * blocks, (t.n + TILE_ROWS - 1) / TILE_ROWS);
    for (long vector = t.at * blocks * VECTORS_OF_TILE; vector < end * VECTORS_OF_TILE; vector++)
        for (long row = first; row < last; row += ROWS) {
            const int there = (int)min(last - row, (long)ROWS), v = (int)(vector % VECTORS_OF_TILE);
            const long block = vector / VECTORS_OF_TILE;
            __global const uint *tile = t.w + block * (k / BLOCK) * TILE_WORDS;
            tfm_vec sum[ROWS], odd_sum[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                sum[i] = odd_sum[i] = 0.0f;
            for (long at_k = 0; at_k < k; at_k += BLOCK, tile += TILE_WORDS)
                for (int chunk = 0; chunk < BLOCK / 32; chunk++)
                    add_chunk(sum, odd_sum, tile, chunk, v, TFM_AT(x) + row * k + at_k + chunk * 32, k, there);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                if (i < there)
                    finish(&t, row + i, block, v, sum[i] + odd_sum[i]);
        }
}
#endif
