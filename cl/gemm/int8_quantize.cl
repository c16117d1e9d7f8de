/* Quantizes rows of x, for int8 GEMMs that read each row more than once: a (M, PADDED_K(K)) and row_scales (M) of x (M,
 * K), as in cl/gemm/gemm_int8.cl. Layout: a work-group of ITEMS items a row; an item takes four neighbors at a time,
 * loaded as a vector if rows are aligned to four, and stored as a word. */
#include "int8_common.cl"
#include "dp4a.cl"
#define ITEMS 128

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
int8_quantize(TFM_TENSOR(char, a), TFM_TENSOR(float, row_scales), TFM_INPUT(float, x), const long k) {
    __local int most[ITEMS];
    const int id = (int)get_local_id(0), depth = (int)k;
    const long row = (long)get_group_id(0);
    __global const float *from = TFM_AT(x) + row * depth;
    __global int *to = (__global int *)(TFM_AT(a) + row * PADDED_K(depth));
    int bits = 0;
    float inverse;
    for (int s = id * 4; s < depth; s += ITEMS * 4)
        bits = max(bits, abs_max_bits(load_floats4(from + s, depth - s)));
    const float step = quantization_scale(team_max(bits, most, id, ITEMS), &inverse);
    for (int s = id * 4; s < PADDED_K(depth); s += ITEMS * 4)
        to[s / 4] = quantize4(load_floats4(from + s, depth - s), inverse);
    if (id == 0)
        TFM_AT(row_scales)[row] = step;
}
