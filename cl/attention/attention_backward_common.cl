/* What the kernels of attention backwards share that give a work-group all queries and keys of one key head:
 * attention_backward.cl says what they compute. */

#define BACKWARD_PARAMETERS                                                                                            \
    TFM_TENSOR(float, dq), TFM_TENSOR(float, dk), TFM_TENSOR(float, dv), TFM_INPUT(float, y), TFM_INPUT(float, dy),    \
        TFM_INPUT(float, lse), const long items, const float scale, const float cap, ATTENTION_PARAMETERS

#if DROPOUT
#define DROPPED(x, at) (factor at * (x))
#else
#define DROPPED(x, at) (x)
#endif

/* A score is at most the log of the sum. But where a mask takes 10^9 off all of a query's scores, both are rounded to
 * tens, and a difference above 0 would be an infinite weight. NaN stays. */
#define BELOW(T, x) select((x), (T)(0.0f), (x) > (T)(0.0f))

/* Some queries in a row of those that share keys. Those that do not exist are the last one again, and see nothing. */
#define MAX_ROWS 8
typedef struct query_rows {
    long at[MAX_ROWS], sum[MAX_ROWS], mask[MAX_ROWS]; /* which query of all, which log sum, which row of the mask */
    int begin[MAX_ROWS], end[MAX_ROWS];               /* sees begin <= s < end */
    int count;                                        /* of those that exist */
    int some_begin, some_end;                         /* keys that any of them sees */
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
