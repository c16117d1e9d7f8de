/* Many rows of x, as in a prompt: included by quant_linear.cl. An item has row blocks of w and a group of rows of
 * x. Codes of a row block are unpacked once for all its rows, up to DEPTH of k at a time, so that they stay in the L1
 * cache. Then ROWS rows of x by two vectors of sums stay in registers: a pair of codes takes a multiplication and an
 * addition, and its load, or the broadcast of x, serves several. Operations on a sum have the order of the kernel for
 * few rows. */
#define DEPTH 256
#define BLOCKS (DEPTH / BLOCK)

/* The part of a row block from one multiple of DEPTH to the next. */
typedef struct panel {
    tfm_uvec codes[DEPTH / 2][2];
    tfm_vec step[BLOCKS][2];
#if MINIMUM
    tfm_vec least[BLOCKS][2];
#endif
#if SUPER
    tfm_vec factor[DEPTH / GROUP][2];
#if MINIMUM
    tfm_vec min_factor[DEPTH / GROUP][2];
#endif
#endif
} panel;
#if SUPER
#define FACTOR(w, group, v) (w)->factor[group][v]
#else
#define FACTOR(w, group, v) 0.0f
#endif
#if SUPER && MINIMUM
#define MIN_FACTOR(w, group, v) (w)->min_factor[group][v]
#else
#define MIN_FACTOR(w, group, v) 0.0f
#endif

/* Fills a panel with `depth` numbers of each row. */
static void unpack(panel *to, __global const uint *tile, const int depth) {
    for (int b = 0; b < depth / BLOCK; b++, tile += TILE_WORDS)
        for (int v = 0; v < 2; v++) {
            to->step[b][v] = number_lanes(tile, v);
#if MINIMUM
            to->least[b][v] = -number_lanes(tile + AT_MIN, v);
#endif
#if SUPER
            for (int g = 0; g < GROUPS; g++) {
                to->factor[b * GROUPS + g][v] = scale_lanes(tile, g, v);
#if MINIMUM
                to->min_factor[b * GROUPS + g][v] = min_lanes(tile, g, v);
#endif
            }
#endif
            for (int chunk = 0; chunk < BLOCK / 32; chunk++) {
                tfm_uvec low[LOW], high[HIGH + 1];
                load_planes(low, high, tile, chunk, v);
#pragma unroll
                for (int p = 0; p < 16; p++)
                    to->codes[b * (BLOCK / 2) + chunk * 16 + p][v] = code_lanes(PAIR_CODES(low, high, p));
            }
        }
}

/* Rows of x, ROWS at most, from one multiple of DEPTH on: q, scales and terms are those of the first. */
typedef struct part {
    __global const int *q;
    __global const float *scales;
    __global const group_term *terms;
    long k;
    int rows, depth;
} part;

/* sums[i] += those of a part. */
static void add_part(tfm_vec (*sums)[2], const panel *w, const part *x) {
    __global const int *q[ROWS];
    __global const float *scales[ROWS];
    __global const group_term *terms[ROWS];
    tfm_vec total[ROWS][2], partial[ROWS][2], less[ROWS][2];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const long row = min(i, x->rows - 1);
        q[i] = x->q + row * (x->k / 2);
        scales[i] = x->scales + row * (x->k / 32);
        terms[i] = x->terms + row * (x->k / GROUP);
        total[i][0] = sums[row][0];
        total[i][1] = sums[row][1];
    }
    for (int block = 0; block < x->depth / BLOCK; block++) {
#pragma unroll
        for (int e = 0; e < 2 * ROWS; e++)
            partial[e / 2][e % 2] = less[e / 2][e % 2] = 0.0f;
        for (int g = block * GROUPS; g < (block + 1) * GROUPS; g++) {
            const int first = GROUP == 16 ? g / 2 * 16 + g % 2 : g * 16;
            tfm_ivec sum[ROWS][2];
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                sum[i][0] = sum[i][1] = MINIMUM ? (tfm_ivec)(0) : (tfm_ivec)((int)terms[i][g]);
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                const tfm_uvec a = w->codes[first + PAIR(p, 0)][0], b = w->codes[first + PAIR(p, 0)][1];
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    const tfm_ivec both = q[i][first + PAIR(p, 0)];
                    sum[i][0] = add_pairs(sum[i][0], both, a);
                    sum[i][1] = add_pairs(sum[i][1], both, b);
                }
            }
#pragma unroll
            for (int e = 0; e < 2 * ROWS; e++)
                add_group(&partial[e / 2][e % 2], &less[e / 2][e % 2], FACTOR(w, g, e % 2), MIN_FACTOR(w, g, e % 2),
                          sum[e / 2][e % 2], scales[e / 2][g * GROUP / 32], terms[e / 2][g]);
        }
#pragma unroll
        for (int e = 0; e < 2 * ROWS; e++) {
            tfm_vec *to = &total[e / 2][e % 2];
            *to = tfm_fma(w->step[block][e % 2], partial[e / 2][e % 2], *to);
#if MINIMUM
            *to = tfm_fma(w->least[block][e % 2], less[e / 2][e % 2], *to);
#endif
        }
    }
#pragma unroll
    for (int e = 0; e < 2 * ROWS; e++)
        if (e / 2 < x->rows)
            sums[e / 2][e % 2] = total[e / 2][e % 2];
}

/* x as integers, for quant_linear_int16. Grid: groups of `rows` rows. */
TFM_KERNEL void quant_linear_quantize(TFM_TENSOR(int, q), TFM_TENSOR(float, scales), TFM_TENSOR(group_term, terms),
                                      TFM_INPUT(float, x), const long k, const long m, const long rows) {
    const long first = get_global_id(0) * rows, last = min(first + rows, m);
    for (long i = first; i < last; i++)
        quantize(TFM_AT(q) + i * (k / 2), TFM_AT(scales) + i * (k / 32), TFM_AT(terms) + i * (k / GROUP),
                 TFM_AT(x) + i * k, (int)k);
}

/* Grid: groups of `blocks` row blocks x groups of `rows` rows of x, MAX_ROWS at most. */
#define MAX_ROWS 128
TFM_KERNEL void quant_linear_int16(OUTPUT(0), OUTPUT(1), OUTPUT(2), TFM_INPUT(int, q), TFM_INPUT(float, scales),
                                   TFM_INPUT(group_term, terms), const long k, const long m, const long blocks,
                                   const long rows) {
    FIND_TARGET((long)get_global_id(0));
    const long first = get_global_id(1) * rows, last = min(first + rows, m);
    const long end = min((t.at + 1) * blocks, (t.n + TILE_ROWS - 1) / TILE_ROWS);
    tfm_vec sums[MAX_ROWS][2];
    panel w;
    for (long block = t.at * blocks; block < end; block++) {
        for (int i = 0; i < (int)(last - first); i++)
            sums[i][0] = sums[i][1] = 0.0f;
        for (long at = 0; at < k; at += DEPTH) {
            const int depth = (int)min(k - at, (long)DEPTH);
            unpack(&w, t.w + (block * k + at) / BLOCK * TILE_WORDS, depth);
            for (long i = first; i < last; i += ROWS) {
                const part x = {TFM_AT(q) + (i * k + at) / 2,         TFM_AT(scales) + (i * k + at) / 32,
                                TFM_AT(terms) + (i * k + at) / GROUP, k,
                                (int)min(last - i, (long)ROWS),       depth};
                add_part(sums + (i - first), &w, &x);
            }
        }
        for (int i = 0; i < (int)(last - first); i++) {
            finish(&t, first + i, block, 0, sums[i][0]);
            finish(&t, first + i, block, 1, sums[i][1]);
        }
    }
}
