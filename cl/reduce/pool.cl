/* y (batch, width): pools each sequence of x (batch, steps, width) over its tokens from `begin` to its length.
 *
 * TFM_POOL is a number of enum tfm_pooling:  0 the first token,  1 mean,  2 maximum,  3 sum over the root of the
 * length, 4 mean weighted by position, from 1,  5 the last token. Without tokens the result is 0; for TFM_POOL 0 it is
 * the first token of the whole sequence, if any.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, across rows. */
#if TFM_POOL == 2
#define POOL_COMBINE(sum, v, t) (((v > sum) | (v != v)) ? v : sum)
#elif TFM_POOL == 4
#define POOL_COMBINE(sum, v, t) (sum + v * (float)(t + 1))
#else
#define POOL_COMBINE(sum, v, t) (sum + v)
#endif

#define POOL_BODY(T, LOAD)                                                                                             \
    T sum = (T)(TFM_POOL == 2 && to > from ? -INFINITY : 0.0f);                                                        \
    for (long t = from; t < to; t++) {                                                                                 \
        const T v = LOAD(in + t * width);                                                                              \
        sum = POOL_COMBINE(sum, v, t);                                                                                 \
    }                                                                                                                  \
    sum *= factor;

#define POOL_LOAD_ONE(p) (*(p))

TFM_KERNEL void pool(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(int, lengths), const long n, const long steps,
                     const long width, const long begin) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    const int counted = lengths != 0;
    while (i < end) {
        const long row = i / width, stop = min(end, (row + 1) * width);
        const long length = counted ? clamp((long)TFM_AT(lengths)[row], 0l, steps) : steps;
        const long first = begin < length ? begin : TFM_POOL == 0 ? 0 : length;
        const long from = TFM_POOL == 5 ? max(length - 1, first) : first;
        const long to = TFM_POOL == 0 ? min(length, first + 1) : length;
        const float count = (float)(to - from);
        float factor = 1.0f;
        if (TFM_POOL == 1 && to > from)
            factor = 1.0f / count;
        if (TFM_POOL == 3 && to > from)
            factor = 1.0f / sqrt(count);
        if (TFM_POOL == 4 && to > from)
            factor = 2.0f / ((float)(from + 1 + to) * count);
        __global float *out = TFM_AT(y) + i;
        __global const float *in = TFM_AT(x) + row * steps * width + (i - row * width);
        for (; i + TFM_WIDTH <= stop; i += TFM_WIDTH) {
            POOL_BODY(tfm_vec, tfm_load)
            tfm_store(sum, out);
            out += TFM_WIDTH;
            in += TFM_WIDTH;
        }
        for (; i < stop; i++) {
            POOL_BODY(float, POOL_LOAD_ONE)
            *out++ = sum;
            in++;
        }
    }
}
