/* Top k by a work-group, for a row or a part of one (topk.cl): each item keeps the best of its share, and the group
 * merges them.
 *
 * A share is every TFM_GROUP-th quad: four elements aligned to four in memory, loaded by one request. The first and
 * last quad may reach beyond the row. BATCH of an item's quads are in flight at once. */

/* An item keeps that many of its best, and reads its share again only when they are used up. */
#define KEPT_PER_ITEM 4
#define BATCH 4

/* Entries first .. end - 1 of a row: its quads are first_quad .. end_quad - 1, counted from `quads`, `before` entries
 * before the row; quads first_whole .. end_whole - 1 lie within the row_span. */
typedef struct row_span {
    __global const float *quads;
    long first, end;
    int before, first_quad, end_quad, first_whole, end_whole;
} row_span;

/* `at` is the row's offset in its buffer. */
static inline row_span row_span_of(__global const float *buffer, const long at, const long first, const long end) {
    row_span s;
    s.before = (int)(at % 4);
    s.quads = buffer + at - s.before;
    s.first = first;
    s.end = end;
    s.first_quad = (int)((first + s.before) / 4);
    s.end_quad = (int)((end + s.before + 3) / 4);
    s.first_whole = (int)((first + s.before + 3) / 4);
    s.end_whole = (int)((end + s.before) / 4);
    return s;
}

/* Whether the entry is in this item's share. */
static inline int is_own(const row_span s, const int index) {
    return (((long)index + s.before) / 4 - s.first_quad) % TFM_GROUP == TFM_LOCAL_ID();
}

#define WHOLE_QUAD(s, quad) (*(__global const float4 *)((s).quads + (long)(quad)*4))

/* A quad, with -inf outside the row_span. */
static inline float4 load_quad(const row_span s, const int quad) {
    if (quad >= s.first_whole && quad < s.end_whole)
        return WHOLE_QUAD(s, quad);
    const long at = (long)quad * 4 - s.before;
    __global const float *from = s.quads + (long)quad * 4;
    float4 v = (float4)(-INFINITY);
    if (at >= s.first && at < s.end)
        v.x = from[0];
    if (at + 1 >= s.first && at + 1 < s.end)
        v.y = from[1];
    if (at + 2 >= s.first && at + 2 < s.end)
        v.z = from[2];
    if (at + 3 >= s.first && at + 3 < s.end)
        v.w = from[3];
    return v;
}

/* The maximum without NaN. */
static inline float quad_max(const float4 v) {
    return fmax(fmax(v.x, v.y), fmax(v.z, v.w));
}

/* Inserts v, the entry of this index, into the sorted kept ones. */
static inline void insert(float *kept, int *at, const float v, const int place, const float value, const int index) {
    if (!(v > kept[KEPT_PER_ITEM - 1] && (v < value || (v == value && place > index))))
        return;
    kept[KEPT_PER_ITEM - 1] = v;
    at[KEPT_PER_ITEM - 1] = place;
#pragma unroll
    for (int p = KEPT_PER_ITEM - 1; p > 0; p--)
        if (kept[p] > kept[p - 1]) {
            const float upper = kept[p - 1];
            const int upper_at = at[p - 1];
            kept[p - 1] = kept[p];
            at[p - 1] = at[p];
            kept[p] = upper;
            at[p] = upper_at;
        }
}

/* The same for a quad whose first entry has this index: the largest first, since mostly one or none qualifies. */
static inline void insert_quad(float *kept, int *at, float4 v, const int place, const float value, const int index) {
    float most = quad_max(v);
    while (most > kept[KEPT_PER_ITEM - 1]) {
        const int which = v.x == most ? 0 : v.y == most ? 1 : v.z == most ? 2 : 3;
        insert(kept, at, most, place + which, value, index);
        v.x = which == 0 ? -INFINITY : v.x;
        v.y = which == 1 ? -INFINITY : v.y;
        v.z = which == 2 ? -INFINITY : v.z;
        v.w = which == 3 ? -INFINITY : v.w;
        most = quad_max(v);
    }
}

/* A maximum, and the sum of e^(x - maximum). */
typedef struct exps {
    float most, sum;
} exps;

static inline float exp_of(const float v, const float shift) {
    return v > -INFINITY ? exp(v - shift) : 0.0f; /* NaN is not above it */
}
static inline exps add_exps(exps e, const float4 *v, const float most) {
    if (most > e.most) {
        e.sum *= exp_of(e.most, most);
        e.most = most;
    }
    const float shift = e.most == -INFINITY ? 0.0f : e.most;
#pragma unroll
    for (int u = 0; u < BATCH; u++)
        e.sum += exp_of(v[u].x, shift) + exp_of(v[u].y, shift) + (exp_of(v[u].z, shift) + exp_of(v[u].w, shift));
    return e;
}

/* The KEPT_PER_ITEM largest of the item's share after (value, index); and with `summed`, its exponentials.
 * Force-inlined: kept entries must be registers. */
static inline __attribute__((always_inline)) exps scan_quads(float *kept, int *at, const row_span s, const float value,
                                                             const int index, const int summed) {
    exps e = {-INFINITY, 0.0f};
#pragma unroll
    for (int p = 0; p < KEPT_PER_ITEM; p++) {
        kept[p] = -INFINITY;
        at[p] = 0;
    }
    for (int quad = s.first_quad + (int)TFM_LOCAL_ID(); quad < s.end_quad; quad += BATCH * TFM_GROUP) {
        float4 v[BATCH];
        float most = -INFINITY;
        /* Without a branch for each, so that the loads are issued back to back. */
        if (quad >= s.first_whole && quad + (BATCH - 1) * TFM_GROUP < s.end_whole) {
#pragma unroll
            for (int u = 0; u < BATCH; u++)
                v[u] = WHOLE_QUAD(s, quad + u * TFM_GROUP);
        } else {
#pragma unroll
            for (int u = 0; u < BATCH; u++)
                v[u] = quad + u * TFM_GROUP < s.end_quad ? load_quad(s, quad + u * TFM_GROUP) : (float4)(-INFINITY);
        }
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            const int place = (int)((uint)(quad + u * TFM_GROUP) * 4 - (uint)s.before); /* a wrapped index is -inf */
            most = fmax(most, quad_max(v[u]));
            insert_quad(kept, at, v[u], place, value, index);
        }
        if (summed)
            e = add_exps(e, v, most);
    }
    return e;
}

/* The best (value, index) of all items, into element 0 of both arrays; all items must call this. */
static inline void group_best(__local float *best, __local int *where, const float value, const int index) {
    const int lane = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    best[lane] = value;
    where[lane] = index;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = TFM_GROUP / 2; half_size > 0; half_size /= 2) {
        if (lane < half_size) {
            const float other = best[lane + half_size];
            const int other_at = where[lane + half_size];
            if (other > best[lane] || (other == best[lane] && other_at < where[lane])) {
                best[lane] = other;
                where[lane] = other_at;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Writes the k best of the row_span; *highest is the best, and *sum, with `summed`, the item's part of the sum of e^(x
 * - highest). Returns the number above -inf. Force-inlined, because group_best must be. */
static inline __attribute__((always_inline)) long select_topk(float *highest, float *sum, __global float *value_out,
                                                              __global int *index_out, const row_span s, const long k,
                                                              const int summed, __local float *best,
                                                              __local int *where) {
    float kept[KEPT_PER_ITEM];
    int at[KEPT_PER_ITEM];
    exps e = {-INFINITY, 0.0f};
    float last = INFINITY; /* the last one taken from the share */
    int last_at = -1, reads = 1, more = 0;
    long found = 0;
    *highest = -INFINITY;
    /* No break: every item reaches the barriers of every iteration. PoCL 3.1 writes out of bounds if a loop with
     * barriers is left early, even by all items at once. */
    for (long turn = 0; turn < k; turn++) {
        if (reads) {
            const exps all = scan_quads(kept, at, s, last, last_at, summed && turn == 0);
            e = turn == 0 ? all : e;
            more = kept[KEPT_PER_ITEM - 1] > -INFINITY; /* the share may hold entries that were not kept */
            reads = 0;
        }
        group_best(best, where, kept[0], at[0]);
        const float value = best[0];
        const int index = where[0];
        if (value == -INFINITY)
            continue;
        *highest = found == 0 ? value : *highest;
        if (is_own(s, index)) {
            value_out[found] = value;
            index_out[found] = index;
#pragma unroll
            for (int p = 0; p + 1 < KEPT_PER_ITEM; p++) {
                kept[p] = kept[p + 1];
                at[p] = at[p + 1];
            }
            kept[KEPT_PER_ITEM - 1] = -INFINITY;
            last = value;
            last_at = index;
            reads = more && kept[0] == -INFINITY;
        }
        found++;
    }
    *sum = e.sum * exp_of(e.most, *highest);
    return found;
}
