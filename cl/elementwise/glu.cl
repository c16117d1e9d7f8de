/* y (rows, width) = activation(gate) * x; rows of x and gate are `pitch` elements apart: both may be halves of one
 * tensor (rows, 2 width). -DTFM_ACTIVATION selects; cl/common/prelude.cl has the formulas.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, across rows. With pitch = width y may be x or gate. */
TFM_KERNEL void glu(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(float, gate), const long n, const long width,
                    const long pitch) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n), skip = pitch - width;
    __global float *out = TFM_AT(y);
    __global const float *values = TFM_AT(x), *gates = TFM_AT(gate);
    while (i < end) {
        const long row = i / width, stop = min(end, (row + 1) * width);
        __global const float *v = values + row * skip, *g = gates + row * skip; /* read at i, as out is */
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH)
            tfm_store(tfm_activate_vec(tfm_load(g + i)) * tfm_load(v + i), out + i);
        for (; i < stop; i++)
            out[i] = tfm_activate(g[i]) * v[i];
    }
}

/* dx = dy activation(gate), dgate = dy x activation'(gate): rows of dx and dgate are `pitch` elements apart like those
 * of x and gate. Either may be null, and is accumulated if `add_x`, `add_gate`. Layout as above. */
#define GLU_BACKWARD(T, LOAD, STORE, GRAD, ACTIVATE)                                                                   \
    {                                                                                                                  \
        const T d = LOAD(from + i), open = LOAD(g + i);                                                                \
        if (has_dx) {                                                                                                  \
            const T t = d * ACTIVATE(open);                                                                            \
            STORE(add_x ? LOAD(to_x + i) + t : t, to_x + i);                                                           \
        }                                                                                                              \
        if (has_dgate) {                                                                                               \
            const T t = d * LOAD(v + i) * GRAD(open);                                                                  \
            STORE(add_gate ? LOAD(to_gate + i) + t : t, to_gate + i);                                                  \
        }                                                                                                              \
    }

TFM_KERNEL void glu_backward(TFM_TENSOR(float, dx), TFM_TENSOR(float, dgate), TFM_INPUT(float, dy), TFM_INPUT(float, x),
                             TFM_INPUT(float, gate), const long n, const long width, const long pitch, const long add_x,
                             const long add_gate) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n), skip = pitch - width;
    const int has_dx = dx != 0, has_dgate = dgate != 0;
    __global const float *from = TFM_AT(dy);
    while (i < end) {
        const long row = i / width, stop = min(end, (row + 1) * width);
        __global const float *v = TFM_AT(x) + row * skip, *g = TFM_AT(gate) + row * skip;
        __global float *to_x = TFM_AT(dx) + row * skip, *to_gate = TFM_AT(dgate) + row * skip;
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH)
            GLU_BACKWARD(tfm_vec, tfm_load, tfm_store, tfm_activation_grad_vec, tfm_activate_vec)
        for (; i < stop; i++)
            GLU_BACKWARD(float, TFM_LOAD_ONE, TFM_STORE_ONE, tfm_activation_grad, tfm_activate)
    }
}
