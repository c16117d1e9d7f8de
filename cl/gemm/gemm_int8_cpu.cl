/* int8 GEMM for many rows: included by gemm_int8.cl, which has the tiles and the quantization used here. */

#if (STEP == 16 && !defined(__aarch64__)) || defined(VPDPBUSD)
/* Many rows: each item packs its strips of columns, so that a vector has GROUP numbers of each of LANES columns. A K
 * step then takes two loads of weights and, for each row, a broadcast of as many of its numbers; a sum is a lane
 * instead of a vector. K is processed in chunks of STRIP_DEPTH, so that packed data stays in L1; partial sums are kept
 * between them. Grid: groups of ITEM_COLUMNS columns x groups of `rows` rows: few enough that a group's quantized rows
 * stay in the cache while strips pass, and at most MAX_KEPT with several chunks or with AMX, whose sums are kept too.
 */
#ifdef VPDPBUSD
#define LANES TFM_WIDTH
#define GROUP 4
#define DOT(sum, x, w) add_dot_products(sum, (lanes)(x), w)
#define LOAD_EIGHT(SPACE, p) LOAD(SPACE, unaligned_eight, p)
#else
#define LANES 8
#define GROUP 2
#define DOT(sum, x, w) add_dot_products(sum, as_short16((lanes)(x)), as_short16(w))
#define LOAD_EIGHT(SPACE, p) as_int8(convert_short16(LOAD(SPACE, unaligned_bytes, p)))
#endif
typedef TFM_CAT(int, LANES) lanes;
typedef TFM_CAT(float, LANES) float_lanes;
typedef struct __attribute__((packed)) unaligned_eight {
    int8 all;
} unaligned_eight;
#if defined(__AVX512VL__)
#define STRIP_ROWS 8
#else
#define STRIP_ROWS 6
#endif
#define STRIP (2 * LANES)
#define STRIP_DEPTH 512
#if TILES
#define MAX_KEPT 256
#else
#define MAX_KEPT 96
#endif
#define ITEM_COLUMNS 32

/* Eight rows of eight ints, transposed. */
static inline void transpose_block(int8 *out, const int step, const int8 *r) {
    int8 t[8], u[8];
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma unroll
    for (int i = 0; i < 8; i += 4)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[i * step] = (int8)(u[i].lo, u[i + 4].lo);
        out[(i + 4) * step] = (int8)(u[i].hi, u[i + 4].hi);
    }
}

/* panel[p][v] is, for LANES columns from v LANES on, the GROUP of their numbers from first + GROUP p on, of `depth`
 * numbers, rounded up to eight groups, or sixteen for AMX. */
static void pack_strip(lanes *panel, const gemm_args *p, long column, int first, int depth) {
    enum { EIGHT = 8 * GROUP, COLUMNS = STRIP / 8 };
    __global const char *w[STRIP];
    for (int j = 0; j < STRIP; j++)
        w[j] = p->q + min(column + j, p->n - 1) * p->k + first;
    const int end = TILES ? PADDED_K(depth) : depth;
    for (int s = 0; s < end; s += EIGHT)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            int8 r[8];
#pragma unroll
            for (int j = 0; j < 8; j++) {
                __global const char *from = w[8 * c + j] + s;
                char part[EIGHT];
                if (s + EIGHT <= depth) {
                    r[j] = LOAD_EIGHT(__global, from);
                    continue;
                }
                for (int i = 0; i < EIGHT; i++)
                    part[i] = s + i < depth ? from[i] : 0;
                r[j] = LOAD_EIGHT(__private, part);
            }
            transpose_block((int8 *)panel + s / GROUP * COLUMNS + c, COLUMNS, r);
        }
}

/* LANES results of a row. */
static inline void finish_strip(const gemm_args *p, long row, long column, lanes total, float step) {
    __global float *to = p->c + row * p->n + column;
    if (column + LANES <= p->n) {
#if OFFSET
        total -= OFFSET * TFM_CAT(vload, LANES)(0, p->row_sums + column);
#endif
        const float_lanes add = p->bias ? TFM_CAT(vload, LANES)(0, p->bias + column) : (float_lanes)(0.0f);
        const float_lanes v =
            tfm_fma(TFM_CAT(convert_float, LANES)(total), step * TFM_CAT(vload, LANES)(0, p->scales + column), add);
        TFM_CAT(vstore, LANES)(v < (float_lanes)(p->min_value) ? (float_lanes)(p->min_value) : v, 0, to);
        return;
    }
    for (int j = 0; column + j < p->n && j < LANES; j++) {
        int sum = ((const int *)&total)[j];
#if OFFSET
        sum -= OFFSET * p->row_sums[column + j];
#endif
        const float v = tfm_fma((float)sum, step * p->scales[column + j], p->bias ? p->bias[column + j] : 0.0f);
        to[j] = v < p->min_value ? p->min_value : v;
    }
}

/* Position of a chunk along K. */
typedef struct k_chunk {
    int first, depth;
    int begins, ends;
} k_chunk;

#if TILES
DEFINE_AMX_MATMUL(add_tiles, "tdpbusd", lanes, __global, number, __private, lanes)

/* A K chunk of all rows of an item, 32 at a time, with the epilogue after the last chunk. */
static void tile_strip(const gemm_args *p, const k_chunk *at, const lanes *panel, lanes *kept, __global const number *a,
                       __global const float *row_scales, long row, int rows, long column) {
    for (int first = 0; first < rows; first += STRIP) {
        const int there = min(rows - first, STRIP);
        lanes *sums = kept + 2 * first;
        add_tiles(sums, a + first * PADDED_K(p->k) + at->first, PADDED_K(p->k), panel, (at->depth + 63) / 64, there,
                  at->begins);
        for (int i = 0; at->ends && i < there; i++) {
            finish_strip(p, row + first + i, column, sums[2 * i], row_scales[first + i]);
            if (column + LANES < p->n)
                finish_strip(p, row + first + i, column + LANES, sums[2 * i + 1], row_scales[first + i]);
        }
    }
}
#else
#define AMX_CONFIGURE()
#define AMX_RELEASE()
/* Shared epilogue values of two vectors of columns. */
typedef struct strip_ends {
    float_lanes scale[2], add[2];
#if OFFSET
    lanes less[2];
#endif
} strip_ends;
static inline strip_ends ends_of(const gemm_args *p, long column) {
    strip_ends ends;
#pragma unroll
    for (int v = 0; v < 2; v++) {
        ends.scale[v] = TFM_CAT(vload, LANES)(v, p->scales + column);
        ends.add[v] = p->bias ? TFM_CAT(vload, LANES)(v, p->bias + column) : (float_lanes)(0.0f);
#if OFFSET
        ends.less[v] = OFFSET * TFM_CAT(vload, LANES)(v, p->row_sums + column);
#endif
    }
    return ends;
}

/* STRIP results of a row, all of them valid. */
static inline void finish_whole(const gemm_args *p, const strip_ends *ends, long row, long column, lanes first,
                                lanes second, float step) {
    __global float *to = p->c + row * p->n + column;
    const float_lanes min_value = p->min_value;
#if OFFSET
    first -= ends->less[0];
    second -= ends->less[1];
#endif
    const float_lanes v = tfm_fma(TFM_CAT(convert_float, LANES)(first), step * ends->scale[0], ends->add[0]);
    const float_lanes w = tfm_fma(TFM_CAT(convert_float, LANES)(second), step * ends->scale[1], ends->add[1]);
    TFM_CAT(vstore, LANES)(v < min_value ? min_value : v, 0, to);
    TFM_CAT(vstore, LANES)(w < min_value ? min_value : w, 1, to);
}

/* Strips across the right edge of c: out of line, so that whole ones stay in registers. */
static __attribute__((noinline)) void finish_edge(const gemm_args *p, long row, int rows, long column,
                                                  const lanes *sums, __global const float *row_scales) {
    for (int i = 0; i < rows; i++) {
        finish_strip(p, row + i, column, sums[2 * i], row_scales[i]);
        if (column + LANES < p->n)
            finish_strip(p, row + i, column + LANES, sums[2 * i + 1], row_scales[i]);
    }
}

/* kept: two vectors of sums for each row, from the previous chunk. */
#define DEFINE_STRIP(NAME, R)                                                                                          \
    static void NAME(const gemm_args *p, const k_chunk *at, const lanes *panel, lanes *kept, __global const number *a, \
                     __global const float *row_scales, long row, int rows, long column) {                              \
        __global const int *from[R];                                                                                   \
        lanes sum[R][2];                                                                                               \
        const int groups = (at->depth + GROUP - 1) / GROUP;                                                            \
        _Pragma("unroll") for (int i = 0; i < R; i++) {                                                                \
            const int there = min(i, rows - 1);                                                                        \
            from[i] = (__global const int *)(a + there * PADDED_K(p->k) + at->first);                                  \
            sum[i][0] = at->begins ? (lanes)(0) : kept[2 * there];                                                     \
            sum[i][1] = at->begins ? (lanes)(0) : kept[2 * there + 1];                                                 \
        }                                                                                                              \
        for (int s = 0; s < groups; s++) {                                                                             \
            const lanes w0 = panel[2 * s], w1 = panel[2 * s + 1];                                                      \
            _Pragma("unroll") for (int i = 0; i < R; i++) {                                                            \
                const int x = from[i][s];                                                                              \
                sum[i][0] = DOT(sum[i][0], x, w0);                                                                     \
                sum[i][1] = DOT(sum[i][1], x, w1);                                                                     \
            }                                                                                                          \
        }                                                                                                              \
        if (!at->ends) {                                                                                               \
            _Pragma("unroll") for (int i = 0; i < R; i++) if (i < rows) {                                              \
                kept[2 * i] = sum[i][0];                                                                               \
                kept[2 * i + 1] = sum[i][1];                                                                           \
            }                                                                                                          \
        } else if (column + STRIP <= p->n) {                                                                           \
            const strip_ends ends = ends_of(p, column);                                                                \
            _Pragma("unroll") for (int i = 0; i < R; i++) if (i < rows)                                                \
                finish_whole(p, &ends, row + i, column, sum[i][0], sum[i][1], row_scales[i]);                          \
        } else {                                                                                                       \
            lanes sums[2 * R];                                                                                         \
            _Pragma("unroll") for (int i = 0; i < R; i++) {                                                            \
                sums[2 * i] = sum[i][0];                                                                               \
                sums[2 * i + 1] = sum[i][1];                                                                           \
            }                                                                                                          \
            finish_edge(p, row, rows, column, sums, row_scales);                                                       \
        }                                                                                                              \
    }
DEFINE_STRIP(strip, STRIP_ROWS)
DEFINE_STRIP(part_strip, 2)
#endif
TFM_KERNEL void gemm_int8_cpu_packed(TFM_TENSOR(float, c), TFM_INPUT(number, a), TFM_INPUT(float, row_scales),
                                     GEMM_PARAMETERS, const long rows) {
    const gemm_args p = GEMM_ARGS();
    const long begin = get_global_id(0) * ITEM_COLUMNS, edge = min(begin + ITEM_COLUMNS, n);
    /* The last, possibly partial group comes first: PoCL gives a thread the first half of the items. */
    const long row = (get_global_size(1) - 1 - get_global_id(1)) * rows, end = min(row + rows, m);
    lanes panel[STRIP_DEPTH / GROUP * 2], kept[2 * MAX_KEPT];
    AMX_CONFIGURE();
    for (long column = begin; column < edge; column += STRIP)
        for (int s = 0; s < p.k; s += STRIP_DEPTH) {
            const k_chunk at = {s, min(p.k - s, STRIP_DEPTH), s == 0, s + STRIP_DEPTH >= p.k};
            pack_strip(panel, &p, column, s, at.depth);
#if TILES
            tile_strip(&p, &at, panel, kept, TFM_AT(a) + row * PADDED_K(k), TFM_AT(row_scales) + row, row,
                       (int)(end - row), column);
#else
            for (long i = row; i < end;) {
                const int there = (int)min(end - i, (long)STRIP_ROWS);
                __global const number *from = TFM_AT(a) + i * PADDED_K(k);
                lanes *aside = p.k > STRIP_DEPTH ? kept + 2 * (i - row) : kept; /* a single chunk keeps none */
                if (there > 2)
                    strip(&p, &at, panel, aside, from, TFM_AT(row_scales) + i, i, there, column);
                else
                    part_strip(&p, &at, panel, aside, from, TFM_AT(row_scales) + i, i, there, column);
                i += there;
            }
#endif
        }
    AMX_RELEASE();
    activate_part(&p, row, (int)(end - row), begin, edge);
}

#if TILES
/* Packs whole columns of strips once for all rows: panels (ceil(N / STRIP), PADDED_K(K) / 4, STRIP) of four numbers
 * each. Grid: strips. */
TFM_KERNEL void int8_pack_b(TFM_TENSOR(int, panels), TFM_INPUT(char, q), const long n, const long k) {
    const gemm_args p = {0, TFM_AT(q), 0, 0, 0, n, (int)k, 0};
    const long strip = get_global_id(0);
    lanes panel[STRIP_DEPTH / GROUP * 2];
    for (int s = 0; s < p.k; s += STRIP_DEPTH) {
        const int depth = min(p.k - s, STRIP_DEPTH);
        __global int *to = TFM_AT(panels) + strip * PADDED_K(p.k) / GROUP * STRIP + s / GROUP * STRIP;
        pack_strip(panel, &p, strip * STRIP, s, depth);
        for (int i = 0; i < PADDED_K(depth) / GROUP * 2; i++)
            tfm_store(panel[i], to + i * LANES);
    }
}

DEFINE_AMX_MATMUL(add_block, "tdpbusd", lanes, __private, number, __global, int)

/* LANES sums of a row in c, as integers between chunks along K. */
static inline void wait_strip(const gemm_args *p, long row, long column, lanes total) {
    __global int *to = (__global int *)p->c + row * p->n + column;
    if (column + LANES <= p->n) {
        tfm_store(total, to);
        return;
    }
    for (int j = 0; column + j < p->n && j < LANES; j++)
        to[j] = ((const int *)&total)[j];
}
static inline lanes waiting_strip(const gemm_args *p, long row, long column) {
    __global const int *from = (__global const int *)p->c + row * p->n + column;
    if (column + LANES <= p->n)
        return tfm_load(from);
    lanes total = 0;
    for (int j = 0; column + j < p->n && j < LANES; j++)
        ((int *)&total)[j] = from[j];
    return total;
}

/* Many rows on AMX, as in cl/gemm/gemm_cpu_amx.cl: 32 rows of a chunk stay in L1 while MAX_STRIPS strips pass, and a
 * chunk of those in L2 while rows pass. Rows read once, with a single chunk, are quantized here if x is given; others
 * come from int8_quantize_rows. Grid: groups of `rows` rows, a multiple of 32, x groups of `group` strips. */
#define MAX_STRIPS 16
#define LINE_BYTES (STRIP_DEPTH + 64)
static void add_piece(const gemm_args *p, __global const int *panels, __global const float *x, __global const number *a,
                      __global const float *row_scales, long row, int rows, long first, long last, int s) {
    number own[STRIP * LINE_BYTES];
    float own_scales[STRIP];
    lanes sums[STRIP * 2];
    const int depth = PADDED_K(min(p->k - s, STRIP_DEPTH)), ends = s + STRIP_DEPTH >= p->k;
    for (int i = 0; i < rows; i++)
        if (x) {
            own_scales[i] = quantize_row_private(own + i * LINE_BYTES, x + (row + i) * p->k, p->k);
        } else {
            own_scales[i] = row_scales[row + i];
            for (int d = 0; d < depth; d += STEP)
                tfm_store(LOAD(__global, unaligned_ints, a + (row + i) * PADDED_K(p->k) + s + d),
                          (int *)(own + i * LINE_BYTES + d));
        }
    for (long strip = first; strip < last; strip++) {
        const long column = strip * STRIP;
        for (int i = 0; i < rows; i++) { /* prefetched while sums are computed */
            __global const float *to = p->c + (row + i) * p->n + column;
            __asm__ volatile("prefetchw (%0)\n prefetchw 64(%0)" : : "r"(to));
        }
        add_block(sums, own, LINE_BYTES, panels + strip * PADDED_K(p->k) / GROUP * STRIP + s / GROUP * STRIP,
                  depth / 64, rows, 1);
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < 2 && column + v * LANES < p->n; v++) {
                const long at = column + v * LANES;
                lanes total = sums[2 * i + v];
                if (s > 0)
                    total += waiting_strip(p, row + i, at);
                if (ends)
                    finish_strip(p, row + i, at, total, own_scales[i]);
                else
                    wait_strip(p, row + i, at, total);
            }
    }
    if (ends)
        activate_part(p, row, rows, first * STRIP, min(last * STRIP, p->n));
}
TFM_KERNEL void gemm_int8_cpu_amx(TFM_TENSOR(float, c), TFM_INPUT(float, x), TFM_INPUT(number, a),
                                  TFM_INPUT(float, row_scales), GEMM_PARAMETERS, TFM_INPUT(int, panels),
                                  const long rows, const long group) {
    const gemm_args p = GEMM_ARGS();
    const long row = get_global_id(0) * rows, end = min(row + rows, m), strips = (n + STRIP - 1) / STRIP;
    const long begin = get_global_id(1) * group, last = min(begin + group, strips);
    AMX_CONFIGURE();
    for (long first = begin; first < last; first += MAX_STRIPS)
        for (int s = 0; s < p.k; s += STRIP_DEPTH)
            for (long i = row; i < end; i += STRIP)
                add_piece(&p, TFM_AT(panels), x ? TFM_AT(x) : 0, TFM_AT(a), TFM_AT(row_scales), i,
                          (int)min((long)STRIP, end - i), first, min(first + MAX_STRIPS, last), s);
    AMX_RELEASE();
}
#endif
#else
/* Not used with AMX: such CPUs have better kernels. */
#define ITEM_COLUMNS 32
TFM_KERNEL void gemm_int8_cpu_packed(TFM_TENSOR(float, c), TFM_INPUT(number, a), TFM_INPUT(float, row_scales),
                                     GEMM_PARAMETERS, const long rows) {
    const gemm_args p = GEMM_ARGS();
    const long column = get_global_id(0) * ITEM_COLUMNS, edge = min(column + ITEM_COLUMNS, n);
    /* The last, possibly partial group comes first: PoCL gives a thread the first half of the items. */
    const long row = (get_global_size(1) - 1 - get_global_id(1)) * rows, end = min(row + rows, m);
    for (long i = row; i < end; i += TILE_ROWS) {
        const int there = (int)min(end - i, (long)TILE_ROWS);
        for (long j = column; j < edge; j += 4)
            tile(&p, TFM_AT(a) + i * PADDED_K(k), TFM_AT(row_scales) + i, i, there, j);
        activate_part(&p, i, there, column, edge);
    }
}
#endif
