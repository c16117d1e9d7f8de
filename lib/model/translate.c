/* Text to text: lines are encoded, sorted into batches, searched, decoded, and emitted in their order. */
#include <math.h>
#include <time.h>
#include "model/batch.h"

double tfm__seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The texts of one line, kept until all lines before it are done. */
typedef struct result {
    char *text;
    double score;
} result;

typedef struct job {
    tfm_model *model;
    const tfm_search_options *options;
    tfm__line *lines, *prefixes;
    result *results; /* [count * n_best] */
    int beam, n_best;
    tfm_search_stats stats;
} job;

static tfm_status keep_results(job *j, tfm__line *const *batch, size_t n, const tfm_hypotheses *found) {
    for (size_t i = 0; i < n; i++) {
        for (int best = 0; best < j->n_best; best++) {
            const tfm_hypothesis *hypothesis = &found->items[i * (size_t)j->n_best + (size_t)best];
            result *r = &j->results[batch[i]->index * (size_t)j->n_best + (size_t)best];
            r->score = hypothesis->score;
            tfm_text_free(&r->text);
            tfm_status status =
                tfm_tokenizer_decode(j->model->tokenizer, &r->text, hypothesis->ids, hypothesis->count);
            if (status != TFM_OK)
                return status;
            j->stats.target_tokens += best == 0 ? (uint64_t)hypothesis->tokens : 0;
        }
        j->stats.source_tokens += batch[i]->count;
        j->stats.sentences++;
    }
    return TFM_OK;
}

/* Ragged ids one after the other, as tfm_search takes them. `eos` tokens are dropped from the end of each. */
static tfm_status join(int32_t **ids, size_t *counts, tfm__line *const *batch, size_t n, size_t eos) {
    size_t total = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        total += counts[i] = batch[i]->count > eos ? batch[i]->count - eos : 0;
    *ids = tfm__alloc(total, sizeof(**ids));
    for (size_t i = 0; *ids && i < n; i++)
        for (size_t k = 0; k < counts[i]; k++)
            (*ids)[at++] = batch[i]->ids[k];
    return *ids ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status run_batch(void *user, tfm__line *const *batch, size_t n) {
    job *j = user;
    int32_t *ids = NULL, *forced = NULL;
    size_t *counts = tfm__alloc(2 * n, sizeof(*counts));
    tfm__line **prefixes = j->prefixes ? tfm__alloc(n, sizeof(*prefixes)) : NULL;
    tfm_hypotheses found = {0};
    tfm_status status = counts && (prefixes || !j->prefixes) ? join(&ids, counts, batch, n, 0) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && prefixes) {
        for (size_t i = 0; i < n; i++)
            prefixes[i] = &j->prefixes[batch[i]->index];
        status = join(&forced, counts + n, prefixes, n, 1);
    }
    if (status == TFM_OK)
        status = tfm_search(j->model, &found, ids, counts, n, forced, forced ? counts + n : NULL, j->options);
    if (status == TFM_OK)
        status = keep_results(j, batch, n, &found);
    tfm_hypotheses_free(&found);
    free(prefixes);
    free(counts);
    free(forced);
    free(ids);
    return status;
}

static tfm_status emit_all(const job *j, size_t count, tfm_emit_fn emit, void *user) {
    for (size_t i = 0; i < count; i++) {
        for (int best = 0; best < j->n_best; best++) {
            const result *r = &j->results[i * (size_t)j->n_best + (size_t)best];
            /* An empty or rejected line is one empty line, whatever the n. */
            if (!r->text && best > 0)
                break;
            if (!emit(user, i, best, r->text ? r->text : "", r->text ? r->score : (double)NAN))
                return tfm__fail(TFM_ERROR_CANCELLED, "translation was stopped at line %zu", i + 1);
        }
    }
    return TFM_OK;
}

/* Prefixes go by the source lines' index; a line without one gets none. */
static tfm_status encode_prefixes(job *j, const tfm__search_rules *rules, size_t count) {
    const tfm__config *config = &j->model->config;
    if (!j->options->prefixes)
        return TFM_OK;
    const char **texts = tfm__alloc(count, sizeof(*texts));
    if (!texts)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        texts[i] = j->options->prefixes[i] ? j->options->prefixes[i] : "";
    tfm_search_options plain = *j->options;
    plain.line_bytes = NULL;
    tfm_status status = tfm__lines_encode(j->model, &j->prefixes, texts, count, TFM_TARGET, "its prefix: ", &plain);
    free(texts);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        tfm__line *line = &j->lines[i], *prefix = &j->prefixes[i];
        const int64_t limit = tfm__search_limit(rules, config, line->count);
        if (line->ids && prefix->ids)
            status = tfm__prefix_check(config, prefix->ids, prefix->count - 1, limit);
        if (status != TFM_OK)
            status = tfm__line_reject(prefix, "its prefix: ", j->options, status);
        if (prefix->rejected) /* and so is the line */
            tfm_ids_free(&line->ids);
    }
    return status;
}

tfm_status tfm_translate(tfm_model *model, const char *const *lines, size_t count, const tfm_search_options *options,
                         tfm_emit_fn emit, void *user) {
    static const tfm_search_options defaults;
    job j = {.model = model, .options = options ? options : &defaults};
    tfm__search_rules rules;
    double start = tfm__seconds();
    tfm_status status = tfm__search_rules_of(&rules, model, j.options);
    if (status != TFM_OK)
        return status;
    j.beam = rules.beam;
    j.n_best = rules.n_best;
    status = tfm__lines_encode(model, &j.lines, lines, count, TFM_SOURCE, "", j.options);
    if (status == TFM_OK)
        status = encode_prefixes(&j, &rules, count);
    if (status == TFM_OK) {
        j.results = tfm__alloc(count * (size_t)j.n_best, sizeof(*j.results));
        status = j.results ? tfm__batches_run(model, j.lines, count,
                                              tfm__batch_limits(model, j.options->batch_tokens, j.beam),
                                              j.options, run_batch, &j)
                           : TFM_ERROR_MEMORY;
    }
    j.stats.seconds = tfm__seconds() - start;
    if (status == TFM_OK && j.options->stats) {
        j.options->stats->sentences += j.stats.sentences;
        j.options->stats->source_tokens += j.stats.source_tokens;
        j.options->stats->target_tokens += j.stats.target_tokens;
        j.options->stats->seconds += j.stats.seconds;
    }
    if (status == TFM_OK)
        status = emit_all(&j, count, emit, user);
    for (size_t i = 0; j.results && i < count * (size_t)j.n_best; i++)
        tfm_text_free(&j.results[i].text);
    free(j.results);
    tfm__lines_free(&j.prefixes, count);
    tfm__lines_free(&j.lines, count);
    return status;
}
