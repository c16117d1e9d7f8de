/* Changes single logits (lib/model/decode/logit_edits.c). */

/* One item per edit: logits[indices[i]] is divided by edits[i][0] if positive, else multiplied by it; then edits[i][1]
 * is added. Edits of one index all add -inf without a penalty. logits (R V), indices (count), edits (count, 2). */
TFM_KERNEL void edit_logits(TFM_TENSOR(float, logits), TFM_INPUT(int, indices), TFM_INPUT(float, edits),
                            const long count) {
    const long i = get_global_id(0);
    if (i >= count)
        return;
    __global float *logit = TFM_AT(logits) + TFM_AT(indices)[i];
    const float penalty = TFM_AT(edits)[2 * i], added = TFM_AT(edits)[2 * i + 1], v = *logit;
    *logit = (v < 0.0f ? v * penalty : v / penalty) + added;
}
