/* BLEU: include/tfm/metrics.h has the formula and its source. */
#include <math.h>
#include "text/metrics.h"

tfm_status tfm__bleu_count(tfm__bleu_counts *counts, tfm__ngram_scratch *scratch, const int32_t *hypothesis,
                           size_t hypothesis_count, const int32_t *reference, size_t reference_count) {
    counts->hypothesis += hypothesis_count;
    counts->reference += reference_count;
    for (int n = 1; n <= TFM_BLEU_ORDER; n++)
        counts->totals[n - 1] += tfm__ngram_count(hypothesis_count, n);
    return tfm__ngram_match(scratch, counts->matches, TFM_BLEU_ORDER, hypothesis, hypothesis_count, reference,
                            reference_count);
}

tfm_bleu tfm__bleu_score(const tfm__bleu_counts *counts) {
    const double h = (double)counts->hypothesis, r = (double)counts->reference;
    tfm_bleu bleu = {
        .brevity_penalty = h >= r  ? 1
                           : h > 0 ? exp(1 - r / h)
                                   : 0,
        .ratio = r > 0 ? h / r : 0,
        .hypothesis_tokens = counts->hypothesis,
        .reference_tokens = counts->reference,
    };
    uint64_t matches = 0;
    for (int n = 0; n < TFM_BLEU_ORDER; n++) {
        bleu.totals[n] = counts->totals[n];
        bleu.matches[n] = counts->matches[n];
        matches += counts->matches[n];
    }
    if (matches == 0) /* smoothing alone is not a score */
        return bleu;
    double lse = 0, smooth = 1;
    for (int n = 0; n < TFM_BLEU_ORDER; n++) {
        double found = (double)counts->matches[n];
        if (counts->totals[n] == 0) /* nor longer n-grams */
            return bleu;
        if (counts->matches[n] == 0)
            found = 1 / (smooth *= 2);
        bleu.precisions[n] = 100 * found / (double)counts->totals[n];
        lse += log(bleu.precisions[n]);
    }
    bleu.score = bleu.brevity_penalty * exp(lse / TFM_BLEU_ORDER);
    return bleu;
}
