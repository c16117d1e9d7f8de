/* Converts n elements of x (LOAD_DTYPE) to y (STORE_DTYPE).
 *
 * Layout: a work-item takes TFM_CHUNK elements. */
#include "half_store.cl"
#include "half_load.cl"

TFM_KERNEL void cast(TFM_TENSOR(store_t, y), TFM_INPUT(load_t, x), const long n) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const load_t *in = TFM_AT(x);
    __global store_t *out = TFM_AT(y);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH)
        store_from_float_vec(load_as_float_vec(in + i), out + i);
    for (; i < end; i++)
        store_from_float(load_as_float(in + i), out + i);
}
