/* SSRU recurrence over `steps` steps of each sequence, for each column separately, with s the sigmoid:
 *     c[t] = s(f[t]) c[t - 1] + (1 - s(f[t])) x[t], y[t] = max(c[t], 0)
 * x, forget, y and cells are (sequences, steps, width). c[-1] of sequence b is row kv_indices[b index_columns +
 * index_columns - 2] of `initial` (initial_rows, width), 0 if `index_columns` is 1 or `initial_rows` is 0, and row b if
 * `kv_indices` is null; a row out of range gives NaN. `cells` may overlap `initial` in rows that are not read.
 *
 * Layout: work-items lie along a sequence's columns, `blocks` groups of them, each item with TFM_WIDTH columns over all
 * steps. */
enum { NO_INITIAL = -1, OUTSIDE = -2 };

static inline long initial_row(__global const int *kv_indices, const long sequence, const long index_columns,
                               const long initial_rows) {
    if (initial_rows == 0 || (kv_indices != 0 && index_columns < 2))
        return NO_INITIAL;
    const long row = kv_indices == 0 ? sequence : (long)kv_indices[sequence * index_columns + index_columns - 2];
    return row < 0 || row >= initial_rows ? OUTSIDE : row;
}

#define FORWARD(T, V, LOAD, STORE, column)                                                                             \
    {                                                                                                                  \
        T c = (T)(start == NO_INITIAL ? 0.0f : NAN);                                                                   \
        if (start >= 0)                                                                                                \
            c = LOAD(TFM_AT(initial) + start * width + column);                                                        \
        for (long t = 0; t < steps; t++) {                                                                             \
            const long at = (sequence * steps + t) * width + column;                                                   \
            const T f = LOAD(TFM_AT(forget) + at), v = LOAD(TFM_AT(x) + at), s = TFM_SIGMOID(T, V, f);                 \
            c = tfm_fma(s, c - v, v);                                                                                  \
            STORE(c, TFM_AT(cells) + at);                                                                              \
            STORE(c < (T)(0.0f) ? (T)(0.0f) : c, TFM_AT(y) + at);                                                      \
        }                                                                                                              \
    }

TFM_KERNEL void ssru(TFM_TENSOR(float, y), TFM_TENSOR(float, cells), TFM_INPUT(float, x), TFM_INPUT(float, forget),
                     TFM_INPUT(float, initial), TFM_INPUT(int, kv_indices), const long items, const long steps,
                     const long width, const long blocks, const long index_columns, const long initial_rows) {
    const long item = TFM_ROW();
    if (item >= items)
        return;
    const long sequence = item / blocks, first = TFM_COLUMN(item % blocks);
    const long start = initial_row(kv_indices == 0 ? 0 : TFM_AT(kv_indices), sequence, index_columns, initial_rows);
    if (first + TFM_WIDTH <= width)
        FORWARD(tfm_vec, _vec, tfm_load, tfm_store, first)
    else
        for (long column = first; column < width; column++)
            FORWARD(float, , TFM_LOAD_ONE, TFM_STORE_ONE, column)
}

/* Backward pass, from the last step to the first. With d the gradient of c[t], the sum of parts from y[t], `dcells` and
 * c[t + 1]:
 *     dx = (1 - s) d, df = (c[t - 1] - x) s (1 - s) d, and s d goes to c[t - 1].
 * Any of dx, dforget, dy and dcells may be null; the first two are accumulated if `add_x`, `add_forget`. With e =
 * e^-|f|, s (1 - s) is e / (1 + e)^2. Layout as above. */
#define BACKWARD(T, V, LOAD, STORE, column)                                                                            \
    {                                                                                                                  \
        T later = (T)(0.0f);                                                                                           \
        for (long t = steps - 1; t >= 0; t--) {                                                                        \
            const long at = (sequence * steps + t) * width + column;                                                   \
            const T f = LOAD(TFM_AT(forget) + at), v = LOAD(TFM_AT(x) + at), c = LOAD(TFM_AT(cells) + at);             \
            const T e = TFM_CAT(tfm_exp_nonpos, V)(-fabs(f)), s = TFM_CAT(tfm_sigmoid, V)(f, e);                       \
            const T w = (T)(1.0f) / ((T)(1.0f) + e), rest = TFM_CAT(tfm_sigmoid, V)(-f, e);                            \
            T d = later;                                                                                               \
            if (dy != 0)                                                                                               \
                d += c <= (T)(0.0f) ? (T)(0.0f) : LOAD(TFM_AT(dy) + at);                                               \
            if (dcells != 0)                                                                                           \
                d += LOAD(TFM_AT(dcells) + at);                                                                        \
            later = s * d;                                                                                             \
            T last = (T)(0.0f);                                                                                        \
            if (t > 0)                                                                                                 \
                last = LOAD(TFM_AT(cells) + at - width);                                                               \
            else if (start >= 0)                                                                                       \
                last = LOAD(TFM_AT(initial) + start * width + column);                                                 \
            if (dx != 0) {                                                                                             \
                const T own = rest * d;                                                                                \
                STORE(add_x ? LOAD(TFM_AT(dx) + at) + own : own, TFM_AT(dx) + at);                                     \
            }                                                                                                          \
            if (dforget != 0) {                                                                                        \
                const T own = (last - v) * (e * w * w) * d;                                                            \
                STORE(add_forget ? LOAD(TFM_AT(dforget) + at) + own : own, TFM_AT(dforget) + at);                      \
            }                                                                                                          \
        }                                                                                                              \
    }

TFM_KERNEL void ssru_backward(TFM_TENSOR(float, dx), TFM_TENSOR(float, dforget), TFM_INPUT(float, dy),
                              TFM_INPUT(float, dcells), TFM_INPUT(float, cells), TFM_INPUT(float, x),
                              TFM_INPUT(float, forget), TFM_INPUT(float, initial), TFM_INPUT(int, kv_indices),
                              const long items, const long steps, const long width, const long blocks,
                              const long index_columns, const long initial_rows, const long add_x,
                              const long add_forget) {
    const long item = TFM_ROW();
    if (item >= items)
        return;
    const long sequence = item / blocks, first = TFM_COLUMN(item % blocks);
    const long start = initial_row(kv_indices == 0 ? 0 : TFM_AT(kv_indices), sequence, index_columns, initial_rows);
    if (first + TFM_WIDTH <= width)
        BACKWARD(tfm_vec, _vec, tfm_load, tfm_store, first)
    else
        for (long column = first; column < width; column++)
            BACKWARD(float, , TFM_LOAD_ONE, TFM_STORE_ONE, column)
}
