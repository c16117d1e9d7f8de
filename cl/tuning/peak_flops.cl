/* Peak multiply-add throughput of a device: independent chains in registers, without memory access or latency stalls. x
 * -> a x + b converges to a fixed point, so values stay finite; each item writes the sum of its chains, which keeps
 * compilers from removing them.
 *
 * Layout: TFM_GROUP work-items a group, CHAINS vectors of TFM_WIDTH an item. */
#define CHAINS 12

TFM_KERNEL void peak_flops(TFM_TENSOR(float, y), const long rounds, const float a, const float b) {
    tfm_vec chains[CHAINS], total = (tfm_vec)(0.0f);
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
        chains[i] = (tfm_vec)((float)(i + 1) + a * (float)TFM_LOCAL_ID());
    for (long r = 0; r < rounds; r++) {
#pragma unroll
        for (int i = 0; i < CHAINS; i++)
            chains[i] = tfm_fma(chains[i], (tfm_vec)(a), (tfm_vec)(b));
    }
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
        total += chains[i];
    TFM_AT(y)[get_global_id(0)] = tfm_vec_sum(total);
}
