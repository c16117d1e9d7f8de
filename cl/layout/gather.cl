/* y (outer, taken, width) is x[:, indices[i], :] of x (outer, count, width), of any four-byte type. Elements are copied
 * as ints, which preserves the bits of NaN and denormals. An index outside [0, count) gives zeros.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, across rows, so that a few wide rows and many narrow ones both
 * spread over the device. */
TFM_KERNEL void gather(TFM_TENSOR(int, y), TFM_INPUT(int, x), TFM_INPUT(int, indices), const long n, const long width,
                       const long count, const long taken) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global int *out = TFM_AT(y);
    while (i < end) {
        const long row = i / width, stop = min(end, (row + 1) * width);
        /* Not long: an int converted to long compares as positive with 0 on llvmpipe (Mesa 22.3). */
        const long outer = row / taken;
        const int index = TFM_AT(indices)[row - outer * taken];
        if (index < 0 || index >= count) {
            for (; i < stop; i++)
                out[i] = 0;
            continue;
        }
        __global const int *in = TFM_AT(x) + (outer * count + index - row) * width; /* read at i, as out is */
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH)
            tfm_store(tfm_load(in + i), out + i);
        for (; i < stop; i++)
            out[i] = in[i];
    }
}

/* Backward of gather and embedding: dx[:, indices[i], :] += scale dy[:, i, :] for all i, in order. An index out of
 * range is skipped.
 *
 * Layout: a work-group takes, of one of the `outer` slices, the indices equal to a given number modulo `parts`, a power
 * of two, and scans all of them, so that no two groups update a row of dx; its items share the columns. Several items
 * scan a tile of indices together and list the group's in order; then ROWS_IN_FLIGHT rows of dy are loaded at a time.
 */
/* Indices of a tile that an item scans: larger groups have no more local memory. */
#define INDICES_PER_ITEM (TFM_GROUP > 128 ? (TFM_GROUP > 1024 ? 1 : 1024 / TFM_GROUP) : 8)
#define TILE (TFM_GROUP * INDICES_PER_ITEM)
#define ROWS_IN_FLIGHT 4
TFM_KERNEL void gather_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(int, indices), const long outer,
                                const long taken, const long width, const long count, const long parts,
                                const float scale) {
    const long slice = TFM_ROW() / parts;
    const int part = (int)(TFM_ROW() % parts), mask = (int)parts - 1;
    if (slice >= outer)
        return;
#if TFM_GROUP > 1
    __local uint marks[(TILE + 31) / 32];
    __local int rows[TILE], targets[TILE];
    for (long first = 0; first < taken; first += TILE) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the previous list has been read */
        for (int w = TFM_LOCAL_ID(); w < (TILE + 31) / 32; w += TFM_GROUP)
            marks[w] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int s = 0; s < INDICES_PER_ITEM; s++) {
            const int at = s * TFM_GROUP + TFM_LOCAL_ID();
            const int index = first + at < taken ? TFM_AT(indices)[first + at] : -1;
            if (index >= 0 && index < count && (index & mask) == part)
                atomic_or(&marks[at / 32], 1u << at % 32);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        int found = 0, word = 0;
        for (int s = 0; s < INDICES_PER_ITEM; s++) {
            const int at = s * TFM_GROUP + TFM_LOCAL_ID();
            for (; word < at / 32; word++)
                found += (int)popcount(marks[word]);
            if (marks[word] >> at % 32 & 1u) {
                const int place = found + (int)popcount(marks[word] & ((1u << at % 32) - 1));
                rows[place] = at;
                targets[place] = TFM_AT(indices)[first + at];
            }
        }
        for (; word < (TILE + 31) / 32; word++)
            found += (int)popcount(marks[word]);
        barrier(CLK_LOCAL_MEM_FENCE);
        __global const float *from = TFM_AT(dy) + (slice * taken + first) * width;
        __global float *to = TFM_AT(dx) + slice * count * width;
        for (long i = TFM_LOCAL_ID(); i < width; i += TFM_GROUP)
            for (int j = 0; j < found; j += ROWS_IN_FLIGHT) {
                float v[ROWS_IN_FLIGHT];
#pragma unroll
                for (int u = 0; u < ROWS_IN_FLIGHT; u++)
                    v[u] = j + u < found ? from[(long)rows[j + u] * width + i] : 0.0f;
#pragma unroll
                for (int u = 0; u < ROWS_IN_FLIGHT; u++)
                    if (j + u < found)
                        to[targets[j + u] * width + i] = tfm_fma(v[u], scale, to[targets[j + u] * width + i]);
            }
    }
#else
    for (long r = 0; r < taken; r++) {
        const int index = TFM_AT(indices)[r];
        if (index < 0 || index >= count || (index & mask) != part)
            continue;
        __global const float *from = TFM_AT(dy) + (slice * taken + r) * width;
        __global float *to = TFM_AT(dx) + (slice * count + index) * width;
        for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= width; i += TFM_GROUP * TFM_WIDTH)
            tfm_store(tfm_fma(tfm_load(from + i), (tfm_vec)(scale), tfm_load(to + i)), to + i);
        for (long i = width - width % TFM_WIDTH + TFM_LOCAL_ID(); i < width; i += TFM_GROUP)
            to[i] = tfm_fma(from[i], scale, to[i]);
    }
#endif
}
