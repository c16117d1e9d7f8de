/* y (rows, width) = scale table[ids] + positions, as in cl/embedding/embedding.cl, of a block-quantized table. Its
 * weights equal the host's unpacked ones. An id outside [0, vocabulary) gives a row of NaN.
 *
 * Layout: TFM_GROUP items share a row; an item takes pairs of weights. */
#include "quant_tile.cl"
#include "embedding_positions.cl"
TFM_KERNEL void quant_embed(TFM_TENSOR(float, y), TFM_INPUT(uint, table), TFM_INPUT(int, ids),
                            TFM_INPUT(float, positions), const long rows, const long width, const long vocabulary,
                            const long steps, const long first, const float scale PADDING_PARAMETERS) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    const int id = TFM_AT(ids)[row], known = id >= 0 && id < (int)vocabulary, lane = known ? id % TILE_ROWS : 0;
    const int blocks = ((int)width + BLOCK - 1) / BLOCK;
    __global const uint *w = TFM_AT(table) + (long)(known ? id / TILE_ROWS : 0) * blocks * TILE_WORDS;
    const float factor = known ? scale : NAN;
    const int has_positions = positions != 0, has_position = HAS_POSITION(id);
    __global const float *position = TFM_AT(positions) + POSITION_OF(row, id) * width;
    for (int e = TFM_LOCAL_ID(); e < blocks * (BLOCK / 2); e += TFM_GROUP) {
        const int p = e % 16, chunk = e / 16 % (BLOCK / 32);
        const int group = chunk * (32 / GROUP) + (GROUP == 16 ? p % 2 : 0);
        __global const uint *tile = w + (long)(e / (BLOCK / 2)) * TILE_WORDS;
        uint codes = LOW_WORDS(tile, chunk)[p / (16 / LOW) * TILE_ROWS + lane] >> p % (16 / LOW) * LOW & FIELDS(LOW);
#if HIGH
        codes |= (HIGH_WORDS(tile, chunk)[p / (16 / HIGH) * TILE_ROWS + lane] >> p % (16 / HIGH) * HIGH & FIELDS(HIGH))
                 << LOW;
#endif
        const float step = group_step(tile, lane, group), less = group_less(tile, lane, group);
        const int at = e / 16 * 32 + FIRST(p);
        __global float *out = TFM_AT(y) + row * width + at;
        const float a = factor * weight_of(codes & 0xffff, step, less), b = factor * weight_of(codes >> 16, step, less);
        if (at < (int)width)
            out[0] = has_position ? a + position[at] : a;
        if (at + 2 < (int)width)
            out[2] = has_position ? b + position[at + 2] : b;
    }
}
