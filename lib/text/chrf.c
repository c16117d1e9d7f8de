/* chrF: include/tfm/metrics.h has the formula and its source. */
#include "text/metrics.h"

tfm_status tfm__chrf_count(tfm__chrf_counts *counts, tfm__ngram_scratch *scratch, const int32_t *hypothesis,
                           size_t hypothesis_count, const int32_t *reference, size_t reference_count) {
    for (int n = 1; n <= TFM_CHRF_ORDER; n++) {
        const uint64_t in_reference = tfm__ngram_count(reference_count, n);
        counts->hypothesis[n - 1] += in_reference > 0 ? tfm__ngram_count(hypothesis_count, n) : 0;
        counts->reference[n - 1] += in_reference;
    }
    return tfm__ngram_match(scratch, counts->matches, TFM_CHRF_ORDER, hypothesis, hypothesis_count, reference,
                            reference_count);
}

double tfm__chrf_score(const tfm__chrf_counts *counts) {
    const double beta_squared = 4;
    double precision = 0, recall = 0;
    int orders = 0;
    for (int n = 0; n < TFM_CHRF_ORDER; n++) {
        if (counts->hypothesis[n] == 0 || counts->reference[n] == 0)
            continue;
        precision += (double)counts->matches[n] / (double)counts->hypothesis[n];
        recall += (double)counts->matches[n] / (double)counts->reference[n];
        orders++;
    }
    if (precision == 0) /* no matches, so recall is 0 too */
        return 0;
    precision /= orders;
    recall /= orders;
    return 100 * (1 + beta_squared) * precision * recall / (beta_squared * precision + recall);
}
