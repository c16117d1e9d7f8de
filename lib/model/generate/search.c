/* Search over one batch: encode, then step by step until every sentence is over. Everything stays on the device. The
 * host only looks at a counter of what remains, at a value that was sent while the device already had its next step;
 * or, where rows are ragged (beam.h), waits for how many the next step has. */
#include <math.h>
#include <string.h>
#include "model/generate/search.h"

typedef tfm__search_batch batch;
typedef tfm__search_source source;

static void batch_free(batch *b) {
    void *all[] = {b->ids, b->lengths, b->limits, b->prefixes, b->prefix_counts, b->penalty};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

/* Copies ragged rows into a padded array. */
static int32_t *padded(const int32_t *ids, const size_t *counts, size_t rows, int64_t width, int32_t pad) {
    int32_t *out = tfm__alloc(rows * (size_t)width, sizeof(*out));
    for (size_t i = 0; out && i < rows; i++) {
        tfm__ids_pad(out + (int64_t)i * width, width, ids, counts[i], 0, 0, pad);
        ids += counts[i];
    }
    return out;
}

static size_t largest(const size_t *counts, size_t n) {
    size_t most = 0;
    for (size_t i = 0; counts && i < n; i++)
        most = counts[i] > most ? counts[i] : most;
    return most;
}

static size_t sum(const size_t *counts, size_t n) {
    size_t total = 0;
    for (size_t i = 0; counts && i < n; i++)
        total += counts[i];
    return total;
}

/* Forced beginnings: the first token that the directory asks for, if it does, then the caller's. */
static tfm_status make_prefixes(batch *b, const tfm__rules *rules, const int32_t *prefixes, const size_t *counts) {
    const int64_t first = rules->forced_bos_id >= 0 ? 1 : 0;
    const int64_t width = first + (prefixes ? (int64_t)largest(counts, (size_t)b->count) : 0);
    b->prefix_width = width > 0 ? width : 1;
    b->prefixes = tfm__alloc((size_t)(b->count * b->prefix_width), sizeof(*b->prefixes));
    b->prefix_counts = tfm__alloc((size_t)b->count, sizeof(*b->prefix_counts));
    if (!b->prefixes || !b->prefix_counts)
        return TFM_ERROR_MEMORY;
    for (int64_t i = 0; i < b->count; i++) {
        int32_t *row = b->prefixes + i * b->prefix_width;
        const size_t count = prefixes ? counts[i] : 0;
        if (first)
            row[0] = rules->forced_bos_id;
        for (size_t k = 0; k < count; k++)
            row[first + (int64_t)k] = *prefixes++;
        b->prefix_counts[i] = (int32_t)(first + (int64_t)count);
    }
    return TFM_OK;
}

static tfm_status batch_make(batch *b, const tfm_model *model, const tfm__search_rules *rules, const tfm__rules *forced,
                             const int32_t *ids, const size_t *counts, size_t sentences, const int32_t *prefixes,
                             const size_t *prefix_counts) {
    const tfm__stack_arch *encoder = &model->arch.encoder;
    *b = (batch){.count = (int64_t)sentences, .width = (int64_t)largest(counts, sentences)};
    for (size_t i = 0; i < sentences; i++)
        if (counts[i] < 1 || counts[i] > (size_t)encoder->max_positions)
            return tfm__fail(TFM_ERROR_INPUT,
                             "sentence %zu has %zu tokens, the model takes 1 to %d: split or truncate it", i + 1,
                             counts[i], encoder->max_positions);
    tfm_status status = tfm__search_check_ids("source", ids, sum(counts, sentences), encoder->vocabulary);
    if (status == TFM_OK && prefixes)
        status =
            tfm__search_check_ids("prefix", prefixes, sum(prefix_counts, sentences), model->arch.decoder.vocabulary);
    if (status != TFM_OK)
        return status;
    b->ids = padded(ids, counts, sentences, b->width, model->rules.pad_id);
    b->lengths = tfm__alloc(sentences, sizeof(*b->lengths));
    b->limits = tfm__alloc(sentences, sizeof(*b->limits));
    if (!b->ids || !b->lengths || !b->limits || make_prefixes(b, forced, prefixes, prefix_counts) != TFM_OK)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < sentences; i++) {
        const int64_t limit = tfm__search_limit(rules, model, counts[i]);
        b->lengths[i] = (int32_t)counts[i];
        b->limits[i] = (int32_t)limit;
        b->longest = limit > b->longest ? limit : b->longest;
    }
    b->penalty = tfm__search_penalty(rules, b->longest);
    return b->penalty ? TFM_OK : TFM_ERROR_MEMORY;
}

/* What makes the logits of a step. */
typedef struct stepper {
    tfm_model *model;
    tfm__beam *beam;
    tfm_kv_cache *cache;
    source *from;
} stepper;

/* The bias of the logits of all tokens. */
static tfm_tensor bias_of(const tfm_model *model, const tfm__beam *beam) {
    return beam->keeps ? model->score_bias : model->search_bias;
}

/* One step of the decoder over the live rows: logits (R, V) of the next token, or where the beam has a screen, what
 * they would be made of. */
static tfm_status step(const stepper *s, tfm_tensor *logits) {
    tfm_model *model = s->model;
    tfm__beam *beam = s->beam;
    source *from = s->from;
    const int64_t rows = beam->rows;
    tfm_kv_cache_reserve(model->ctx, s->cache, rows);
    tfm__step at = {.cache = s->cache,
                    .cross = from->cross,
                    .cross_lengths = from->lengths,
                    .relative = from->relative,
                    .output = from->kept.ids ? &from->kept.output : NULL,
                    .read = beam->screened.screen ? &beam->screened.x : NULL,
                    .sources = beam->sources,
                    .table = beam->table,
                    .node = beam->node,
                    .position = beam->step};
    if (beam->began.buffer) { /* rows are at different steps */
        at.lengths = beam->lengths;
        at.positions = beam->positions;
        at.position = beam->table.dims[1] - 1;
        at.length = beam->table.dims[1];
    }
    tfm__model_step(model, logits, beam->tokens, &at, from->kept.ids ? from->kept.bias : bias_of(model, beam));
    s->cache->rows += rows;
    return tfm_context_status(model->ctx);
}

static tfm_status ask(const tfm_search_options *options, int64_t step) {
    return !options || !options->go_on || options->go_on(options->go_on_user)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "search: stopped after step %lld", (long long)step);
}

/* Steps until all sentences are over. Rows of those that are over are dropped as soon as the host learns of them. */
static tfm_status decode(tfm_model *model, tfm__beam *beam, tfm_kv_cache *cache, source *from, batch *b,
                         const tfm_search_options *options, tfm__fed *fed) {
    tfm_context *ctx = model->ctx;
    tfm_status status = TFM_OK;
    tfm__read *counter = NULL;
    int64_t keep = beam->live, interval = tfm__context_tuning(ctx)->search_interval;
    stepper s = {.model = model, .beam = beam, .cache = cache, .from = from};
    while ((fed || beam->step < b->longest) && beam->live > 0 && status == TFM_OK &&
           tfm_context_status(ctx) == TFM_OK && (status = ask(options, beam->step)) == TFM_OK) {
        tfm_tensor logits = {0};
        step(&s, &logits);
        /* The device has this step to do while the host waits for what the step of the last look wrote. Of ragged rows
         * all is known that the last step wrote. */
        const bool look = !beam->ragged && beam->step % interval == 0;
        const int32_t *remaining = look && counter ? tfm__read_wait(ctx, counter) : NULL;
        if (remaining && *remaining == 0)
            break;
        if (remaining && *remaining <= keep - (keep + 15) / 16)
            keep = *remaining;
        const int64_t rows = beam->rows;
        tfm__screened_before(beam);
        tfm__beam_advance(beam, logits, keep);
        tfm_tensor_free(ctx, &logits);
        tfm__screened_after(beam, model, rows);
        if (fed)
            status = tfm__fed_turn(fed, beam, cache, from, b);
        if (look) {
            tfm__read_free(ctx, &counter);
            tfm__read_start(ctx, &counter, beam->remaining);
        }
    }
    tfm__read_free(ctx, &counter);
    return status == TFM_OK ? tfm_context_status(ctx) : status;
}

/* Whether the words of any sentence are those of a shortlist: logits that are not computed cannot be forced. Beside
 * such a one, sentences with a beginning of their own may have all words. */
static bool goes_by_shortlist(const tfm_model *model, const batch *b) {
    const tfm__rules *r = &model->rules;
    bool some = false;
    for (int64_t i = 0; i < b->count; i++)
        some |= b->prefix_counts[i] == 0;
    return model->shortlist && some && r->forced_bos_id < 0 && r->forced_eos_id < 0 && r->bad_word_count == 0 &&
           r->prompt.no_repeat_source == 0 && r->prompt.source_penalty == 0 && r->prompt.decay == 0;
}

/* Whether a batch of so many rows has only those that there is hope for. Where others may join them, they soon are
 * more. */
static bool ragged(tfm_model *model, int64_t rows, bool joins) {
    const int64_t least = tfm__context_tuning(model->ctx)->search_ragged;
    return least > 0 && rows >= (joins ? least / 4 : least);
}

/* Whether others may join sentences of this model while they are under way: what the decoder reads of a row's past must
 * be said of each row by itself. */
static bool may_join(const tfm_model *model, const source *from) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    return !arch->recurrent && !arch->rotary.width && !from->relative.buffer && !from->kept.ids &&
           model->kept == TFM_F32;
}

/* How many tokens each sentence has before any end, [b->count], where an end that is forced at its limit comes sooner
 * than the least number of tokens allows; NULL where that is the same of all, or without memory. */
static int32_t *waits_of(const tfm__rules *forced, const batch *b, int least) {
    bool sooner = false;
    for (int64_t i = 0; forced->forced_eos_id >= 0 && i < b->count; i++)
        sooner = sooner || b->limits[i] <= least;
    int32_t *waits = sooner ? tfm__alloc((size_t)b->count, sizeof(*waits)) : NULL;
    for (int64_t i = 0; waits && i < b->count; i++)
        waits[i] = b->limits[i] <= least ? b->limits[i] - 1 : least;
    return waits;
}

/* Searches for a batch. `fed` may be NULL; it hands out what others than `out` gets, where sentences join. */
static tfm_status run(tfm_model *model, tfm_hypotheses *out, const tfm__search_rules *rules, const tfm__rules *forced,
                      batch *b, const tfm_search_options *options, tfm__fed *fed) {
    tfm_context *ctx = model->ctx;
    tfm_tensor ids = {0}, encoded = {0};
    tfm_kv_cache cache = {0};
    tfm__beam beam;
    const tfm__stack_arch *arch = &model->arch.decoder;
    source from = {.cross = tfm__alloc((size_t)arch->layers, sizeof(*from.cross))};
    if (!from.cross)
        return TFM_ERROR_MEMORY;
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &ids, TFM_I32, 2, (int64_t[]){b->count, b->width});
    tfm_tensor_new(ctx, &from.lengths, TFM_I32, 1, &b->count);
    tfm_tensor_write(ctx, ids, b->ids);
    tfm_tensor_write(ctx, from.lengths, b->lengths);
    tfm_model_encode(model, &encoded, ids, from.lengths);
    tfm__model_project_source(model, from.cross, encoded);
    tfm__model_relative(model, &from.relative, b->longest);
    const bool certain = rules->form == TFM_PENALTY_HUGGINGFACE;
    tfm__beam_choice choice = tfm__beam_choice_of(forced);
    int32_t *waits = waits_of(forced, b, choice.min_new);
    tfm_status status = TFM_OK;
    choice.waits = waits;
    if (goes_by_shortlist(model, b))
        status = tfm__kept_make(&from.kept, model, b->ids, b->lengths, b->prefix_counts, b->count, b->width,
                                certain ? model->score_bias : model->search_bias);
    tfm__beam_setup setup = {.width = rules->beam,
                             .vocabulary = from.kept.ids ? from.kept.count : arch->vocabulary,
                             .kept = from.kept.ids ? &from.kept : NULL,
                             .sentences = b->count,
                             .first = b->count,
                             .rules = forced,
                             .certain = certain,
                             .as_transformers = certain && rules->beam > 1 && forced->as_transformers,
                             .ragged = ragged(model, b->count * rules->beam, fed != NULL),
                             .n_best = rules->n_best,
                             .unscored = rules->unscored,
                             .limits = b->limits,
                             .prefixes = b->prefixes,
                             .prefix_counts = b->prefix_counts,
                             .prefix_width = b->prefix_width,
                             .penalty = b->penalty,
                             .longest = b->longest,
                             .source_ids = b->ids,
                             .source_counts = b->lengths,
                             .source_width = b->width,
                             .choice = &choice};
    const bool joins = fed && may_join(model, &from) && tfm__beam_joins(&setup);
    if (joins)
        setup.present = tfm__fed_present(fed, &setup.sentences);
    tfm__beam_begin(ctx, &beam, &setup);
    tfm__screened_begin(&beam, model, bias_of(model, &beam));
    tfm__model_log_new(model, &cache, b->count * rules->beam * 8);
    if (status == TFM_OK)
        status = decode(model, &beam, &cache, &from, b, options, joins ? fed : NULL);
    if (status == TFM_OK && !joins)
        status = tfm__beam_finish(&beam, out, rules->n_best, b->penalty);
    if (status == TFM_OK && fed && !joins)
        status = tfm__fed_all(fed, out);
    tfm__log(TFM_LOG_DEBUG, "search: %lld sentences of up to %lld tokens, beam %d: %lld rows in %lld steps",
             (long long)b->count, (long long)b->width, rules->beam, (long long)beam.node, (long long)beam.step);
    tfm_kv_cache_free(ctx, &cache);
    tfm__kept_free(ctx, &from.kept);
    tfm_scope_close(ctx, 0, NULL);
    free(from.cross);
    free(waits);
    return status;
}

tfm_status tfm_search(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts, size_t sentences,
                      const int32_t *prefixes, const size_t *prefix_counts, const tfm_search_options *options) {
    if (out)
        *out = (tfm_hypotheses){0};
    if (TFM__NEEDS("search", model, out, ids, counts) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__search_rules rules;
    const tfm__rules *forced;
    tfm__rules *own = NULL;
    batch b = {0};
    tfm_status status = tfm__context_ready(model->ctx, "search");
    if (status != TFM_OK)
        return status;
    status = tfm__model_needs(model, "search", TFM__NEEDS_ENCODER | TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT);
    if (status == TFM_OK)
        status = tfm__search_rules_of(&rules, model, options);
    if (status != TFM_OK || sentences == 0)
        return status;
    if (prefixes && !prefix_counts)
        return tfm__fail(TFM_ERROR_ARGUMENT, "search: prefixes are given without their counts");
    out->items = tfm__alloc(sentences * (size_t)rules.n_best, sizeof(*out->items));
    out->sentences = sentences;
    out->n_best = rules.n_best;
    status = tfm__search_force(&forced, &own, model, options);
    if (status == TFM_OK)
        status = out->items ? batch_make(&b, model, &rules, forced, ids, counts, sentences, prefixes, prefix_counts)
                            : TFM_ERROR_MEMORY;
    const int depth = tfm__scope_depth(model->ctx);
    if (status == TFM_OK)
        do
            status = run(model, out, &rules, forced, &b, options, NULL);
        while (tfm__context_again(model->ctx, depth, status));
    batch_free(&b);
    free(own);
    if (status != TFM_OK)
        tfm_hypotheses_free(out);
    return status;
}

/* One search, and what joins it. *more says whether there was anything to do. */
static tfm_status fed_once(tfm_model *model, const tfm__feed *feed, const tfm__search_rules *rules,
                           const tfm__rules *forced, const tfm_search_options *options, bool *more) {
    tfm__fed *fed;
    const size_t *counts;
    size_t sentences = 0;
    batch b = {0};
    tfm_hypotheses found = {.n_best = rules->n_best};
    tfm_status status = tfm__fed_begin(&fed, model, feed, rules, forced);
    const int32_t *ids = status == TFM_OK ? tfm__fed_ids(fed, &counts, &sentences) : NULL;
    *more = sentences > 0;
    if (sentences > 0) {
        found.sentences = sentences;
        found.items = tfm__alloc(sentences * (size_t)rules->n_best, sizeof(*found.items));
        status =
            found.items ? batch_make(&b, model, rules, forced, ids, counts, sentences, NULL, NULL) : TFM_ERROR_MEMORY;
        if (status == TFM_OK)
            status = run(model, &found, rules, forced, &b, options, fed);
    }
    tfm_hypotheses_free(&found);
    batch_free(&b);
    tfm__fed_free(fed);
    return status;
}

tfm_status tfm__search_fed(tfm_model *model, const tfm__feed *feed, const tfm_search_options *options) {
    tfm__search_rules rules;
    const tfm__rules *forced;
    tfm__rules *own = NULL;
    tfm_status status = tfm__search_rules_of(&rules, model, options);
    if (status == TFM_OK)
        status = tfm__search_force(&forced, &own, model, options);
    for (bool more = true; more && status == TFM_OK;)
        status = fed_once(model, feed, &rules, forced, options, &more);
    free(own);
    return status;
}
