/* Merges the top k of a row's parts: for topk.cl and beam.cl. */

/* maximum + log sum, with sum of e^(x - maximum). */
static inline float log_sum_of(const float maximum, const float sum) {
    return maximum == -INFINITY || maximum == INFINITY ? maximum : maximum + log(sum);
}

/* The log-sum-exp of a row, from the maximum and the sum of e^(x - maximum) of each part. */
static inline float parts_log_sum(__global const float *max_and_sum, const int parts) {
    float highest = -INFINITY, sum = 0.0f;
    for (int p = 0; p < parts; p++)
        highest = fmax(highest, max_and_sum[2 * p]);
    for (int p = 0; p < parts; p++)
        sum += max_and_sum[2 * p] > -INFINITY ? max_and_sum[2 * p + 1] * exp(max_and_sum[2 * p] - highest) : 0.0f;
    return log_sum_of(highest, sum);
}

/* Number of entries in the parts' lists (parts, k), sorted in descending order, that come before (value, index); k if
 * there are more. */
static inline int rank_in_parts(__global const float *values, __global const int *indices, const int parts, const int k,
                                const float value, const int index) {
    int rank = 0;
    for (int p = 0; p < parts && rank < k; p++)
        for (int i = p * k; i < (p + 1) * k && rank < k; i++) {
            if (!(values[i] > value || (values[i] == value && indices[i] < index)))
                break;
            rank++;
        }
    return rank;
}
