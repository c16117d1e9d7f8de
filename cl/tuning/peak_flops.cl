/* What a device multiplies and adds at most: chains that have nothing to do with each other, in registers, so that no
 * memory and no latency is in the way. x -> a x + b comes to a fixed point, so that numbers stay what they are; each
 * item writes the sum of its chains, without which a compiler would leave them out.
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
