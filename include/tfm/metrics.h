/* Translation metrics: BLEU and chrF2 against reference translations, with the same numbers as sacreBLEU.
 *
 *     tfm_metrics *metrics;
 *     if (tfm_metrics_new(&metrics, NULL) != TFM_OK)
 *         fprintf(stderr, "%s\n", tfm_error_message());
 *     for (size_t i = 0; i < count; i++)
 *         tfm_metrics_add(metrics, translations[i], strlen(translations[i]), references[i], strlen(references[i]));
 *     printf("BLEU = %.2f  chrF2 = %.1f\n", tfm_metrics_bleu(metrics).score, tfm_metrics_chrf(metrics));
 *     tfm_metrics_free(&metrics);
 *
 * Both are corpus-level: the counts of all lines are summed, and the score is computed from the sums. Only the sums are
 * stored, so a corpus may be of any length. One thread at a time may use an object. */
#ifndef TFM_METRICS_H
#define TFM_METRICS_H

#include <stdbool.h>
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_metrics tfm_metrics;

/* The tokenization of BLEU. chrF counts characters and ignores it. */
typedef enum tfm_metrics_tokenizer {
    TFM_TOKENIZE_13A,  /* mteval-v13a.pl of NIST and WMT: splits off punctuation, decodes entities such as &quot;. */
    TFM_TOKENIZE_NONE, /* Splits at white space, for tokenized text. */
    TFM_TOKENIZE_CHAR, /* One token per character, for languages written without spaces. */
} tfm_metrics_tokenizer;

typedef struct tfm_metrics_options {
    tfm_metrics_tokenizer tokenizer;
    bool lowercase;       /* Lowercases both sides first, by Unicode's rules, for both scores. */
    uint64_t reserved[8]; /* Must be 0. */
} tfm_metrics_options;

/* The longest n-grams that each score counts. */
enum { TFM_BLEU_ORDER = 4, TFM_CHRF_ORDER = 6 };

/* BLEU (Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation") with one reference a
 * line, as specified by Post 2018 ("A Call for Clarity in Reporting BLEU Scores"). With r reference tokens and h
 * hypothesis (translation) tokens:
 *
 *     score = BP exp(1/4 sum of ln p_n, n = 1 ... 4),   BP = 1 if h >= r, else exp(1 - r / h),
 *     p_n = matches[n - 1] / totals[n - 1].
 *
 * An n-gram of a line matches at most as often as it occurs in the line's reference. The first n without any match
 * counts as 1/2 match, the next such n as 1/4, and so on ("exp" smoothing: Chen and Cherry 2014, method 3). If nothing
 * matches at all, or if no hypothesis has four tokens, the score is 0. */
typedef struct tfm_bleu {
    double score;                      /* BLEU, from 0 to 100. */
    double precisions[TFM_BLEU_ORDER]; /* p_n after smoothing, from 0 to 100. */
    double brevity_penalty;            /* BP. */
    double ratio;                      /* h / r, or 0 if r is 0. */
    uint64_t hypothesis_tokens;        /* h. */
    uint64_t reference_tokens;         /* r. */
    uint64_t matches[TFM_BLEU_ORDER];  /* Matching n-grams. */
    uint64_t totals[TFM_BLEU_ORDER];   /* N-grams of the hypotheses. */
} tfm_bleu;

/* Makes an object for an empty corpus. `options` may be NULL: 13a, case-sensitive. On failure *out is NULL. */
TFM_API tfm_status tfm_metrics_new(tfm_metrics **out, const tfm_metrics_options *options);
/* Frees the object and sets the pointer to NULL. */
TFM_API void tfm_metrics_free(tfm_metrics **metrics);

/* Adds one translated line, the hypothesis, and its reference. Both are UTF-8 of the given numbers of bytes, and may be
 * empty but not NULL. TFM_ERROR_INPUT for a line that tfm_text_check refuses or that has more than 64 MiB; the message
 * says which of the two lines it is. On failure nothing is added. */
TFM_API tfm_status tfm_metrics_add(tfm_metrics *metrics, const char *hypothesis, size_t hypothesis_bytes,
                                   const char *reference, size_t reference_bytes);

/* BLEU of all lines added so far. All zeros for NULL. */
TFM_API tfm_bleu tfm_metrics_bleu(const tfm_metrics *metrics);

/* chrF2 of all lines added so far, from 0 to 100: the F-score of n-grams of characters without white space, for n from
 * 1 to 6 (Popovic 2015, "chrF: character n-gram F-score for automatic MT evaluation"). Recall counts twice as much as
 * precision (beta 2: Popovic 2016, "chrF deconstructed"). P and R are precision and recall averaged over the n for
 * which both sides have n-grams:
 *
 *     score = 100 (1 + 4) P R / (4 P + R).
 *
 * As in sacreBLEU, the n-grams of a line count for precision only if its reference has n-grams of that n. 0 for NULL.
 */
TFM_API double tfm_metrics_chrf(const tfm_metrics *metrics);

/* The signature to report with the BLEU score: "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tfm-0.2.0". The
 * object owns the string. */
TFM_API const char *tfm_metrics_signature(const tfm_metrics *metrics);

#ifdef __cplusplus
}
#endif
#endif
