/* y is x in another dtype, on n elements: STORED is that of x, and NARROW that of y.
 *
 * Layout: a work-item takes TFM_CHUNK elements. */
#include "half_store.cl"
#include "half_load.cl"

TFM_KERNEL void cast(TFM_TENSOR(narrow, y), TFM_INPUT(stored, x), const long n) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const stored *in = TFM_AT(x);
    __global narrow *out = TFM_AT(y);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH)
        narrow_store_vec(stored_load_vec(in + i), out + i);
    for (; i < end; i++)
        narrow_store(stored_load(in + i), out + i);
}
