/* Counts of BLEU and chrF, and the scores from the counts. */
#ifndef TFM_LIB_METRICS_H
#define TFM_LIB_METRICS_H

#include "text/ngrams.h"
#include "tfm/metrics.h"

/* The counts of one line, or of a corpus. */
typedef struct tfm__bleu_counts {
    uint64_t hypothesis, reference; /* Tokens of each. */
    uint64_t matches[TFM_BLEU_ORDER], totals[TFM_BLEU_ORDER];
} tfm__bleu_counts;

/* Adds the counts of one line, whose words are symbols of tfm__ngram_match. */
tfm_status tfm__bleu_count(tfm__bleu_counts *counts, tfm__ngram_scratch *scratch, const int32_t *hypothesis,
                           size_t hypothesis_count, const int32_t *reference, size_t reference_count);
tfm_bleu tfm__bleu_score(const tfm__bleu_counts *counts);

typedef struct tfm__chrf_counts {
    uint64_t hypothesis[TFM_CHRF_ORDER], reference[TFM_CHRF_ORDER], matches[TFM_CHRF_ORDER]; /* n-grams */
} tfm__chrf_counts;

/* Adds the counts of one line, whose characters are symbols of tfm__ngram_match. */
tfm_status tfm__chrf_count(tfm__chrf_counts *counts, tfm__ngram_scratch *scratch, const int32_t *hypothesis,
                           size_t hypothesis_count, const int32_t *reference, size_t reference_count);
double tfm__chrf_score(const tfm__chrf_counts *counts);

#endif
