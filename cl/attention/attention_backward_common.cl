/* Shared by the backward kernels with one work-group for all queries and keys of one key head; attention_backward.cl
 * has the formulas. */

#define BACKWARD_PARAMETERS                                                                                            \
    TFM_TENSOR(float, dq), TFM_TENSOR(float, dk), TFM_TENSOR(float, dv), TFM_INPUT(float, y), TFM_INPUT(float, dy),    \
        TFM_INPUT(float, lse), const long items, const float scale, const float cap, ATTENTION_PARAMETERS

#if DROPOUT
#define DROPPED(x, at) (factor at * (x))
#else
#define DROPPED(x, at) (x)
#endif

/* A score is at most the log-sum-exp. But if a mask subtracts 10^9 from all scores of a query, both are rounded to
 * tens, and a positive difference would be an infinite weight: clamp it. NaN stays. */
#define BELOW(T, x) select((x), (T)(0.0f), (x) > (T)(0.0f))

/* Consecutive queries of a group with shared keys. Those beyond the end are copies of the last one, and see no keys. */
#define MAX_ROWS 8
typedef struct query_rows {
    long at[MAX_ROWS], sum[MAX_ROWS], mask[MAX_ROWS]; /* index of query, log-sum-exp, and mask row */
    int begin[MAX_ROWS], end[MAX_ROWS];               /* visible keys: begin <= s < end */
    int count;                                        /* number of real queries */
    int some_begin, some_end;                         /* keys visible to any of them */
} query_rows;

/* NAME: N queries from query t of head h on, of which `left` are left. */
#define DEFINE_ROWS_AT(NAME, N)                                                                                        \
    static inline query_rows NAME(const attention_shape a, const kv_view keys, const long b, long h, long t,           \
                                  const long left) {                                                                   \
        query_rows rows;                                                                                               \
        rows.count = (int)min(left, (long)(N));                                                                        \
        rows.some_begin = INT_MAX;                                                                                     \
        rows.some_end = 0;                                                                                             \
        _Pragma("unroll") for (int r = 0; r < (N); r++) {                                                              \
            const int real = r < rows.count;                                                                           \
            rows.at[r] = query_at(a, b, t, h);                                                                         \
            rows.sum[r] = (b * a.heads + h) * a.targets + t;                                                           \
            rows.mask[r] = mask_row(a, b, t, h);                                                                       \
            rows.begin[r] = visible_begin(keys, (int)t);                                                               \
            rows.end[r] = real ? visible_end(keys, (int)t) : 0;                                                        \
            if (rows.begin[r] < rows.end[r]) {                                                                         \
                rows.some_begin = min(rows.some_begin, rows.begin[r]);                                                 \
                rows.some_end = max(rows.some_end, rows.end[r]);                                                       \
            }                                                                                                          \
            t += r + 1 < rows.count;                                                                                   \
            h += t == a.targets;                                                                                       \
            t = t == a.targets ? 0 : t;                                                                                \
        }                                                                                                              \
        return rows;                                                                                                   \
    }
