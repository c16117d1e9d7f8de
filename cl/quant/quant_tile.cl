/* Tiles of block-quantized matrices (lib/ops/quant/quant.h): places, and weights in registers.
 *
 * Build options, from the format: BLOCK, GROUP, LOW, HIGH (bits of the planes), OFFSET, SUPER, MINIMUM, CODEBOOK, and
 * SHARED if a group's scale and minimum share a byte, WIDE if scale and minimum are fp32; TILE_ROWS. A tile is a
 * sequence of words. A weight is step x (code - OFFSET) - less, with step and less of its group; the product is exact,
 * so fma changes nothing. */
#define GROUPS (BLOCK / GROUP)
#define AT_MIN (WIDE ? TILE_ROWS : TILE_ROWS / 2)
#define AT_SCALES (AT_MIN * (1 + MINIMUM))
#define SCALE_WORDS (SUPER ? GROUPS * TILE_ROWS / 4 : 0)
#define AT_MINS (AT_SCALES + SCALE_WORDS)
#define AT_LOW (AT_MINS + (MINIMUM && !SHARED ? SCALE_WORDS : 0))
#define AT_HIGH (AT_LOW + BLOCK * LOW / 32 * TILE_ROWS)
#define TILE_WORDS (AT_HIGH + BLOCK * HIGH / 32 * TILE_ROWS)
/* Planes of the 32 weights `chunk` of a block. */
#define LOW_WORDS(tile, chunk) ((tile) + AT_LOW + (chunk)*LOW * TILE_ROWS)
#define HIGH_WORDS(tile, chunk) ((tile) + AT_HIGH + (chunk)*HIGH * TILE_ROWS)
/* Weight of the first code of pair p of 32; the other is 2 further. */
#define FIRST(p) ((p) / 4 * 4 + (p) % 4 / 2 + (p) % 2 * 16)
/* The pairs of 32 weights that belong to group `half` of 16: p runs from 0 to 7. */
#if GROUP == 16
#define PAIRS 8
#define PAIR(p, half) ((p)*2 + (half))
#else
#define PAIRS 16
#define PAIR(p, half) (p)
#endif

/* Codes of pair p as two 16-bit fields of a word, from words low[LOW] and high[HIGH]. */
#define FIELDS(bits) (((1u << (bits)) - 1) * 0x10001u)
#define PAIR_LOW(low, p) ((low)[(p) / (16 / LOW)] >> (p) % (16 / LOW) * LOW & FIELDS(LOW))
#if HIGH
#define PAIR_CODES(low, high, p)                                                                                       \
    (PAIR_LOW(low, p) | ((high)[(p) / (16 / HIGH)] >> (p) % (16 / HIGH) * HIGH & FIELDS(HIGH)) << LOW)
#else
#define PAIR_CODES(low, high, p) PAIR_LOW(low, p)
#endif

/* Values of code 0 .. 15, without their scale. */
#define CODE_VALUES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
#if CODEBOOK
__constant float code_values[16] = {CODE_VALUES};
#endif

/* code - OFFSET as a float: exact in the low bits of 2^23, on devices where conversions are slow. */
static inline float code_value(const uint code) {
#if CODEBOOK
    return code_values[code];
#else
    return as_float(code | 0x4b000000u) - (8388608.0f + OFFSET);
#endif
}

/* A block's scale or minimum. */
static inline float block_number(__global const uint *at, const int row) {
#if WIDE
    return as_float(at[row]);
#else
    return vload_half(row, (__global const half *)at);
#endif
}

/* Step and minimum of row `row` in group `group`. */
static inline float group_step(__global const uint *tile, const int row, const int group) {
    const float scale = block_number(tile, row);
#if SUPER
    const int factor = ((__global const char *)(tile + AT_SCALES))[group * TILE_ROWS + row];
    return scale * (float)(SHARED ? factor & 15 : factor);
#else
    return scale;
#endif
}
static inline float group_less(__global const uint *tile, const int row, const int group) {
#if !MINIMUM
    return 0.0f;
#else
    const float min = block_number(tile + AT_MIN, row);
#if SUPER
    const uint factor = ((__global const uchar *)(tile + (SHARED ? AT_SCALES : AT_MINS)))[group * TILE_ROWS + row];
    return min * (float)(SHARED ? factor >> 4 : factor);
#else
    return min;
#endif
#endif
}

/* A weight from its code. */
static inline float weight_of(const uint code, const float step, const float less) {
    const float product = step * code_value(code);
    return MINIMUM ? product - less : product;
}
