/* Changes logits (lib/model/decode/logit_edits.c). */

/* One item per edit (index, penalty, added), of which the last two are floats: logits[index] is divided by the penalty
 * if positive, else multiplied by it; then `added` is added. logits (R V), edits (count, 3), of different indices. */
TFM_KERNEL void edit_logits(TFM_TENSOR(float, logits), TFM_INPUT(int, edits), const long count) {
    const long i = get_global_id(0);
    if (i >= count)
        return;
    __global const int *edit = TFM_AT(edits) + 3 * i;
    __global float *logit = TFM_AT(logits) + edit[0];
    const float penalty = as_float(edit[1]), added = as_float(edit[2]), v = *logit;
    *logit = (v < 0.0f ? v * penalty : v / penalty) + added;
}

/* One item per logit of each listed row: logits whose bit is 0 become -inf. Bit i % 32 of word i / 32 of a mask is that
 * of logit i. logits (R V), rows (count), masks (count, words); global size (>= V, count). */
TFM_KERNEL void mask_logits(TFM_TENSOR(float, logits), TFM_INPUT(int, rows), TFM_INPUT(int, masks),
                            const long vocabulary, const long words) {
    const long i = get_global_id(0), row = get_global_id(1);
    if (i >= vocabulary)
        return;
    if (!(TFM_AT(masks)[row * words + i / 32] >> (i % 32) & 1))
        TFM_AT(logits)[TFM_AT(rows)[row] * vocabulary + i] = -INFINITY;
}
