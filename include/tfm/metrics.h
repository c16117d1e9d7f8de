/* How good translations are, next to reference translations: BLEU and chrF2, the numbers that sacreBLEU gives.
 *
 *     tfm_metrics *metrics;
 *     if (tfm_metrics_new(&metrics, NULL) != TFM_OK) ...
 *     for (size_t i = 0; i < count; i++)
 *         tfm_metrics_add(metrics, translations[i], strlen(translations[i]), references[i], strlen(references[i]));
 *     printf("BLEU = %.2f  chrF2 = %.1f\n", tfm_metrics_bleu(metrics).score, tfm_metrics_chrf(metrics));
 *     tfm_metrics_free(&metrics);
 *
 * Both are scores of a corpus: counts are added up over the lines, and the score is made of the sums. Only the sums are
 * kept, so a corpus may be as long as one likes. One thread at a time may use an object. */
#ifndef TFM_METRICS_H
#define TFM_METRICS_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_metrics tfm_metrics;

/* What BLEU counts as a word. chrF does without. */
typedef enum tfm_metrics_tokenizer {
    TFM_TOKENIZE_13A,  /* as mteval-v13a.pl of NIST and WMT: punctuation apart, entities such as &quot; read */
    TFM_TOKENIZE_NONE, /* what is between white space: for text that is tokenized already */
    TFM_TOKENIZE_CHAR, /* each character: for languages that do not write spaces */
} tfm_metrics_tokenizer;

typedef struct tfm_metrics_options {
    tfm_metrics_tokenizer tokenizer;
    bool lowercase; /* letters are made small first, by Unicode's rules, for both scores */
} tfm_metrics_options;

enum { TFM_BLEU_ORDER = 4, TFM_CHRF_ORDER = 6 };

/* BLEU (Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation") with one reference a
 * line, as Post 2018 ("A Call for Clarity in Reporting BLEU Scores") fixes it. With r reference tokens and h of the
 * hypotheses,
 *
 *     score = BP exp(1/4 sum of ln p_n, n = 1 ... 4),   BP = 1 if h >= r, else exp(1 - r / h),
 *     p_n = matches[n - 1] / totals[n - 1].
 *
 * An n-gram of a line matches as often as it occurs in the line's reference, at most. An order without any match gets 1
 * match / 2, the next such one 1 match / 4, and so on ("exp" smoothing: Chen and Cherry 2014, method 3); without any
 * match at all, or where no line has four tokens, the score is 0. */
typedef struct tfm_bleu {
    double score;                          /* 0 ... 100 */
    double precisions[TFM_BLEU_ORDER];     /* p_n, smoothed, 0 ... 100 */
    double brevity_penalty;                /* BP */
    double ratio;                          /* h / r; 0 if r is 0 */
    uint64_t hypothesis_tokens, reference_tokens; /* h, r */
    uint64_t matches[TFM_BLEU_ORDER], totals[TFM_BLEU_ORDER]; /* of the n-grams of the hypotheses */
} tfm_bleu;

/* An empty corpus. `options` may be NULL: 13a, letters as they are. On failure *out is NULL. */
TFM_API tfm_status tfm_metrics_new(tfm_metrics **out, const tfm_metrics_options *options);
/* Takes NULL, and nulls. */
TFM_API void tfm_metrics_free(tfm_metrics **metrics);

/* Adds one line and its reference, in bytes of UTF-8; either may be empty. What tfm_text_check refuses is
 * TFM_ERROR_INPUT, and so is a line of more than 64 MiB; the sentence says which of the two it is. On failure nothing is
 * added. */
TFM_API tfm_status tfm_metrics_add(tfm_metrics *metrics, const char *hypothesis, size_t hypothesis_bytes,
                                   const char *reference, size_t reference_bytes);

/* The scores of what has been added. */
TFM_API tfm_bleu tfm_metrics_bleu(const tfm_metrics *metrics);

/* chrF2, 0 ... 100: the F-score of n-grams of characters, white space left out, for n = 1 ... 6 (Popovic 2015, "chrF:
 * character n-gram F-score for automatic MT evaluation"), with recall counting twice as much as precision (beta 2:
 * Popovic 2016, "chrF deconstructed"). With the averages P and R over those n of which both sides have some,
 *
 *     score = 100 (1 + 4) P R / (4 P + R).
 *
 * A line's n-grams count for precision only if its reference has any of that n, as sacreBLEU has it. */
TFM_API double tfm_metrics_chrf(const tfm_metrics *metrics);

/* What must be said beside a BLEU score, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tfm-0.1.0". Borrowed. */
TFM_API const char *tfm_metrics_signature(const tfm_metrics *metrics);

#ifdef __cplusplus
}
#endif
#endif
