/* y (outer, depth, inner) is `on` where its middle index is indices (outer, inner), else `off`. Negative indices count
 * from the end. An index out of range gives only `off`.
 *
 * Layout: a work-item takes TFM_CHUNK of the n elements of y, in runs along `inner`, or along the depth if inner is 1.
 */
TFM_KERNEL void onehot(TFM_TENSOR(float, y), TFM_INPUT(int, indices), const long n, const long depth, const long inner,
                       const float off, const float on) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n), period = inner == 1 ? depth : inner;
    const int deep = (int)depth;
    while (i < end) {
        const long line = i / period, from = i - line * period, run = min(period - from, end - i);
        const long first = inner == 1 ? line : line / depth * inner + from;
        for (long k = 0; k < run; k++) {
            const int index = TFM_AT(indices)[inner == 1 ? first : first + k];
            const int place = (int)(inner == 1 ? from + k : line % depth);
            TFM_AT(y)[i + k] = (index < 0 ? index + deep : index) == place ? on : off;
        }
        i += run;
    }
}
