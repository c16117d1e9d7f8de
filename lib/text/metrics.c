/* Lines to symbols, symbols to counts, and their sums. */
#include <stdio.h>
#include "text/metrics.h"
#include "text/tokenize_13a.h"
#include "text/unicode.h"
#include "tfm/text.h"

enum { MAX_BYTES = 1 << 26 }; /* lower case and added spaces stay far below 2 GiB */

static const char *const TOKENIZERS[] = {
    [TFM_TOKENIZE_13A] = "13a",
    [TFM_TOKENIZE_NONE] = "none",
    [TFM_TOKENIZE_CHAR] = "char",
};

/* Memory reused across lines. */
typedef struct symbols {
    int32_t *of;
    size_t count, allocated;
} symbols;

/* One side of a pair: the prepared text, and its memory. */
typedef struct side {
    const char *text;
    size_t bytes;
    char *made;
} side;

struct tfm_metrics {
    tfm_metrics_options options;
    tfm__bleu_counts bleu;
    tfm__chrf_counts chrf;
    tfm__ngram_scratch scratch;
    tfm__pair_map words;
    symbols hypothesis, reference;
    char signature[96];
};

tfm_status tfm_metrics_new(tfm_metrics **out, const tfm_metrics_options *options) {
    static const tfm_metrics_options defaults;
    if (!out)
        return tfm__fail(TFM_ERROR_ARGUMENT, "metrics_new: out is NULL");
    options = options ? options : &defaults;
    *out = NULL;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "metrics_new: %s", TFM__RESERVED_SET_MESSAGE);
    if ((unsigned)options->tokenizer >= TFM__COUNT(TOKENIZERS))
        return tfm__fail(TFM_ERROR_ARGUMENT, "metrics: there is no tokenizer %d", (int)options->tokenizer);
    tfm_metrics *metrics = tfm__alloc(1, sizeof(*metrics));
    if (!metrics)
        return TFM_ERROR_MEMORY;
    metrics->options = *options;
    snprintf(metrics->signature, sizeof(metrics->signature), "nrefs:1|case:%s|eff:no|tok:%s|smooth:exp|version:tfm-%s",
             options->lowercase ? "lc" : "mixed", TOKENIZERS[options->tokenizer], tfm_version());
    *out = metrics;
    return TFM_OK;
}

void tfm_metrics_free(tfm_metrics **metrics) {
    if (!metrics || !*metrics)
        return;
    tfm__ngram_scratch_free(&(*metrics)->scratch);
    free((*metrics)->words.slots);
    free((*metrics)->hypothesis.of);
    free((*metrics)->reference.of);
    free(*metrics);
    *metrics = NULL;
}

static tfm_status check(const char *what, const char *text, size_t bytes) {
    if (bytes > MAX_BYTES)
        return tfm__fail(TFM_ERROR_INPUT, "%s: a line has %zu bytes; up to %d are allowed", what, bytes, MAX_BYTES);
    tfm_status status = tfm_text_check(text, bytes);
    if (status == TFM_OK)
        return TFM_OK;
    char message[256];
    snprintf(message, sizeof(message), "%s", tfm_error_message());
    return tfm__fail(status, "%s: %s", what, message);
}

static tfm_status make_room(symbols *s, size_t count) {
    s->count = 0;
    if (count <= s->allocated)
        return TFM_OK;
    int32_t *larger = tfm__realloc(s->of, count, sizeof(*larger));
    if (!larger)
        return TFM_ERROR_MEMORY;
    s->of = larger;
    s->allocated = count;
    return TFM_OK;
}

static tfm_status lower(side *s) {
    tfm_status status = tfm__unicode_lower(&s->made, &s->bytes, s->text, s->bytes);
    s->text = s->made;
    return status;
}

static tfm_status tokenize(side *out, const side *from) {
    tfm_status status = tfm__tokenize_13a(&out->made, &out->bytes, from->text, from->bytes);
    out->text = out->made;
    return status;
}

/* A word's number: each of its bytes forms a pair with the number of the bytes before. 0 is the empty prefix. */
static int32_t number_word(tfm__pair_map *words, const char *word, size_t bytes, bool add) {
    int32_t number = 0;
    for (size_t i = 0; i < bytes && number >= 0; i++) {
        const int32_t byte = (unsigned char)word[i];
        const int32_t next = add ? tfm__pair_map_add(words, number, byte) : tfm__pair_map_find(words, number, byte);
        number = next < 0 ? -1 : next + 1;
    }
    return number;
}

/* Words of the reference are numbered; a hypothesis word is -1 if the reference does not have it. */
static tfm_status number_words(symbols *out, tfm__pair_map *words, const side *s, bool add) {
    tfm_status status = make_room(out, s->bytes);
    for (size_t at = 0, word; status == TFM_OK && tfm__unicode_next_word(&word, &at, s->text, s->bytes);)
        out->of[out->count++] = number_word(words, s->text + word, at - word, add);
    return status;
}

static tfm_status characters(symbols *out, const side *s) {
    tfm_status status = make_room(out, s->bytes);
    if (status == TFM_OK)
        out->count = tfm__unicode_non_space(out->of, s->text, s->bytes);
    return status;
}

static tfm_status count_words(tfm_metrics *m, tfm__bleu_counts *counts, const side *hypothesis, const side *reference) {
    tfm_status status = tfm__pair_map_clear(&m->words, reference->bytes);
    if (status == TFM_OK)
        status = number_words(&m->reference, &m->words, reference, true);
    if (status == TFM_OK)
        status = number_words(&m->hypothesis, &m->words, hypothesis, false);
    return status != TFM_OK ? status
                            : tfm__bleu_count(counts, &m->scratch, m->hypothesis.of, m->hypothesis.count,
                                              m->reference.of, m->reference.count);
}

static tfm_status count_tokens(tfm_metrics *m, tfm__bleu_counts *counts, const side *hypothesis,
                               const side *reference) {
    if (m->options.tokenizer == TFM_TOKENIZE_CHAR) /* already computed for chrF */
        return tfm__bleu_count(counts, &m->scratch, m->hypothesis.of, m->hypothesis.count, m->reference.of,
                               m->reference.count);
    if (m->options.tokenizer == TFM_TOKENIZE_NONE)
        return count_words(m, counts, hypothesis, reference);
    side h = {0}, r = {0};
    tfm_status status = tokenize(&h, hypothesis);
    if (status == TFM_OK)
        status = tokenize(&r, reference);
    if (status == TFM_OK)
        status = count_words(m, counts, &h, &r);
    free(h.made);
    free(r.made);
    return status;
}

static tfm_status count_line(tfm_metrics *m, side *hypothesis, side *reference) {
    tfm__bleu_counts bleu = m->bleu; /* stored on success */
    tfm__chrf_counts chrf = m->chrf;
    tfm_status status = m->options.lowercase ? lower(hypothesis) : TFM_OK;
    if (status == TFM_OK && m->options.lowercase)
        status = lower(reference);
    if (status == TFM_OK)
        status = characters(&m->hypothesis, hypothesis);
    if (status == TFM_OK)
        status = characters(&m->reference, reference);
    if (status == TFM_OK)
        status = tfm__chrf_count(&chrf, &m->scratch, m->hypothesis.of, m->hypothesis.count, m->reference.of,
                                 m->reference.count);
    if (status == TFM_OK)
        status = count_tokens(m, &bleu, hypothesis, reference);
    if (status != TFM_OK)
        return status;
    m->bleu = bleu;
    m->chrf = chrf;
    return TFM_OK;
}

tfm_status tfm_metrics_add(tfm_metrics *metrics, const char *hypothesis, size_t hypothesis_bytes, const char *reference,
                           size_t reference_bytes) {
    if (TFM__NEEDS("metrics_add", metrics, hypothesis, reference) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = check("hypothesis", hypothesis, hypothesis_bytes);
    if (status == TFM_OK)
        status = check("reference", reference, reference_bytes);
    side h = {hypothesis, hypothesis_bytes, NULL}, r = {reference, reference_bytes, NULL};
    if (status == TFM_OK)
        status = count_line(metrics, &h, &r);
    free(h.made);
    free(r.made);
    return status;
}

tfm_bleu tfm_metrics_bleu(const tfm_metrics *metrics) {
    if (!metrics)
        return (tfm_bleu){0};
    return tfm__bleu_score(&metrics->bleu);
}

double tfm_metrics_chrf(const tfm_metrics *metrics) {
    if (!metrics)
        return 0;
    return tfm__chrf_score(&metrics->chrf);
}

const char *tfm_metrics_signature(const tfm_metrics *metrics) {
    if (!metrics)
        return NULL;
    return metrics->signature;
}
