/* Beam search of one batch: encode, then step until every sentence is finished. State stays on the device. The host
 * only reads the number of unfinished sentences, while the device runs the next step; for ragged rows (beam.h) it waits
 * for the number of rows. */
#include "model/decode/search.h"

typedef tfm__search_batch batch;
typedef tfm__search_source source;

/* State of one batch. */
typedef struct search {
    tfm_model *model;
    const tfm__search_params *rules;
    const tfm__generation_rules *forced;
    const tfm_search_options *options;
    tfm__fed *fed; /* receives hypotheses instead of the caller; or NULL */
    bool joins;    /* sentences are admitted during the search */
    batch batch;
    source from;
    tfm__beam beam;
    tfm_kv_cache cache;
    int32_t *min_tokens; /* of the beam's sampling */
} search;

/* Logit bias of the whole vocabulary. */
static tfm_tensor bias_of(const tfm_model *model, const tfm__beam *beam) {
    return beam->restore_mass ? model->score_bias : model->search_bias;
}

/* Whether a shortlist is used: logits that are not computed cannot be forced. Next to sentences with a shortlist,
 * sentences with a prefix use the whole vocabulary. */
static bool uses_shortlist(const tfm_model *model, const batch *b) {
    const tfm__generation_rules *r = &model->rules;
    bool some = false;
    for (int64_t i = 0; i < b->count; i++)
        some |= b->prefix_counts[i] == 0;
    return model->shortlist && some && r->forced_bos_id < 0 && r->forced_eos_id < 0 && r->bad_word_count == 0 &&
           r->sampling.encoder_no_repeat_ngram == 0 && r->sampling.encoder_repetition_penalty == 0 &&
           r->sampling.length_decay == 0;
}

/* Whether rows are pruned at this batch size. With admission the batch soon grows. */
static bool ragged(tfm_model *model, int64_t rows, bool joins) {
    const int64_t least = tfm__context_tuning(model->ctx)->search_ragged_rows;
    return least > 0 && rows >= (joins ? least / 4 : least);
}

/* Whether sentences can be admitted: the decoder's inputs must not depend on the other rows' steps. */
static bool may_join(const tfm_model *model, const source *from) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    return !arch->recurrent && !arch->rotary.width && !from->position_bias.buffer && !from->shortlist.ids &&
           (model->kv_dtype == TFM_F32 || model->kv_dtype == TFM_I8); /* slots are moved as words */
}

/* Tokens before any EOS, [b->count], if a forced EOS at the limit comes before the minimum length; NULL: the same for
 * all, or out of memory. */
static int32_t *min_tokens_of(const tfm__generation_rules *forced, const batch *b, int least) {
    bool sooner = false;
    for (int64_t i = 0; forced->forced_eos_id >= 0 && i < b->count; i++)
        sooner = sooner || b->limits[i] <= least;
    int32_t *min_tokens = sooner ? tfm__alloc((size_t)b->count, sizeof(*min_tokens)) : NULL;
    for (int64_t i = 0; min_tokens && i < b->count; i++)
        min_tokens[i] = b->limits[i] <= least ? b->limits[i] - 1 : least;
    return min_tokens;
}

/* ---- Start ---- */

/* Encodes the batch, and computes the cross-attention keys and values. */
static tfm_status encode_batch(search *s) {
    tfm_model *model = s->model;
    tfm_context *ctx = model->ctx;
    const batch *b = &s->batch;
    tfm_tensor ids = {0}, encoded = {0};
    s->from = (source){.cross = tfm__alloc((size_t)model->arch.decoder.layers, sizeof(*s->from.cross))};
    if (!s->from.cross)
        return TFM_ERROR_MEMORY;
    tfm_tensor_new(ctx, &ids, TFM_I32, 2, (int64_t[]){b->count, b->width});
    tfm_tensor_new(ctx, &s->from.lengths, TFM_I32, 1, &b->count);
    tfm_tensor_write(ctx, ids, b->ids);
    tfm_tensor_write(ctx, s->from.lengths, b->lengths);
    tfm_model_encode(model, &encoded, ids, s->from.lengths);
    tfm__model_project_cross_kv(model, s->from.cross, encoded);
    return tfm__model_position_bias(model, &s->from.position_bias, b->longest);
}

/* Makes the rows of the first step. */
static void begin_beam(search *s) {
    tfm_model *model = s->model;
    const tfm__search_params *rules = s->rules;
    const batch *b = &s->batch;
    const source *from = &s->from;
    const bool certain = rules->length_norm == TFM_LENGTH_NORM_HF;
    tfm__sampling_params sampling = tfm__sampling_params_of(s->forced);
    sampling.min_tokens = s->min_tokens = min_tokens_of(s->forced, b, sampling.min_new_tokens);
    tfm__beam_setup setup = {.width = rules->beam_size,
                             .vocabulary = from->shortlist.ids ? from->shortlist.count : model->arch.decoder.vocabulary,
                             .shortlist = from->shortlist.ids ? &from->shortlist : NULL,
                             .sentences = b->count,
                             .first = b->count,
                             .rules = s->forced,
                             .certain = certain,
                             .hf_search = certain && rules->beam_size > 1 && s->forced->hf_search,
                             .ragged = ragged(model, b->count * rules->beam_size, s->fed != NULL),
                             .n_best = rules->n_best,
                             .skip_scores = rules->skip_scores,
                             .limits = b->limits,
                             .prefixes = b->prefixes,
                             .prefix_counts = b->prefix_counts,
                             .prefix_width = b->prefix_width,
                             .penalty = b->penalty,
                             .longest = b->longest,
                             .source_ids = b->ids,
                             .source_counts = b->lengths,
                             .source_width = b->width,
                             .sampling = &sampling};
    s->joins = s->fed && may_join(model, from) && tfm__beam_joins(&setup);
    if (s->joins)
        setup.present = tfm__fed_present(s->fed, &setup.sentences);
    tfm__beam_begin(model->ctx, &s->beam, &setup);
}

/* Allocates the state; search_end must be called, also after a failure. */
static tfm_status search_begin(search *s) {
    tfm_model *model = s->model;
    batch *b = &s->batch;
    tfm_scope_open(model->ctx);
    s->beam = (tfm__beam){0};
    tfm_status status = encode_batch(s);
    if (!s->from.cross)
        return status;
    status = TFM_OK; /* the context keeps other errors */
    if (uses_shortlist(model, b))
        status = tfm__shortlist_projection_make(
            &s->from.shortlist, model, b->ids, b->lengths, b->prefix_counts, b->count, b->width,
            s->rules->length_norm == TFM_LENGTH_NORM_HF ? model->score_bias : model->search_bias);
    begin_beam(s);
    tfm__greedy_int8_begin(&s->beam, model, bias_of(model, &s->beam));
    tfm__model_kv_cache_new(model, &s->cache, b->count * s->rules->beam_size * 8);
    return status;
}

/* ---- Steps ---- */

/* Decoder inputs of the next step of the live rows. */
static tfm__decode_step next_step(search *s) {
    tfm__beam *beam = &s->beam;
    const source *from = &s->from;
    tfm__decode_step at = {.cache = &s->cache,
                           .cross = from->cross,
                           .cross_lengths = from->lengths,
                           .position_bias = from->position_bias,
                           .output = from->shortlist.ids ? &s->from.shortlist.output : NULL,
                           .projection_input = beam->greedy_int8.screen ? &beam->greedy_int8.x : NULL,
                           .sources = beam->sources,
                           .block_table = beam->block_table,
                           .slot = beam->slot,
                           .position = beam->step};
    if (beam->began.buffer) { /* rows are at different steps */
        at.lengths = beam->lengths;
        at.positions = beam->positions;
        at.position = beam->block_table.dims[1] - 1;
        at.length = beam->block_table.dims[1];
    }
    return at;
}

static tfm_status check_cancelled(const tfm_search_options *options, int64_t step) {
    return !options || !options->should_continue || options->should_continue(options->should_continue_user)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "search: stopped after step %lld", (long long)step);
}

/* Runs steps until all sentences are finished. Rows of finished sentences are dropped once the host knows. With the
 * int8 argmax, `logits` stay empty: the step returns the projection's input. */
static tfm_status decode(search *s) {
    tfm_model *model = s->model;
    tfm_context *ctx = model->ctx;
    tfm__beam *beam = &s->beam;
    const tfm_tensor bias = s->from.shortlist.ids ? s->from.shortlist.bias : bias_of(model, beam);
    tfm_status status = TFM_OK;
    tfm__async_read *counter = NULL;
    int64_t keep = beam->live, interval = tfm__context_tuning(ctx)->search_sync_interval;
    while ((s->joins || beam->step < s->batch.longest) && beam->live > 0 && status == TFM_OK &&
           tfm_context_status(ctx) == TFM_OK && (status = check_cancelled(s->options, beam->step)) == TFM_OK) {
        tfm_tensor logits = {0};
        const int64_t rows = beam->rows;
        tfm__megakernel_begin(ctx, rows);
        tfm_kv_cache_reserve(ctx, &s->cache, rows);
        const tfm__decode_step at = next_step(s);
        tfm__model_step(model, &logits, beam->tokens, &at, bias);
        s->cache.slots += rows;
        /* The device runs this step while the host waits for the counter of an earlier one. Ragged rows are up to
         * date. */
        const bool look = !beam->ragged && beam->step % interval == 0;
        const int32_t *remaining = look && counter ? tfm__async_read_wait(ctx, counter) : NULL;
        if (remaining && *remaining == 0)
            break;
        if (remaining && *remaining <= keep - (keep + 15) / 16)
            keep = *remaining;
        tfm__greedy_int8_before_step(beam);
        tfm__beam_advance(beam, logits, keep);
        tfm_tensor_free(ctx, &logits);
        tfm__greedy_int8_after_step(beam, model, rows);
        tfm__megakernel_end(ctx);
        if (s->joins)
            status = tfm__fed_turn(s->fed, beam, &s->cache, &s->from, &s->batch);
        if (look) {
            tfm__async_read_free(ctx, &counter);
            tfm__async_read_start(ctx, &counter, beam->remaining);
        }
    }
    tfm__megakernel_end(ctx);
    tfm__async_read_free(ctx, &counter);
    return status == TFM_OK ? tfm_context_status(ctx) : status;
}

/* ---- End ---- */

/* Frees the state, and on success passes the hypotheses to `out` or to the feed. */
static tfm_status search_end(search *s, tfm_hypotheses *out, tfm_status status) {
    tfm_context *ctx = s->model->ctx;
    if (status == TFM_OK && !s->joins)
        status = tfm__beam_finish(&s->beam, out, s->rules->n_best, s->batch.penalty);
    if (status == TFM_OK && s->fed && !s->joins)
        status = tfm__fed_all(s->fed, out);
    tfm__log(TFM_LOG_DEBUG, "search: %lld sentences of up to %lld tokens, beam %d: %lld rows in %lld steps",
             (long long)s->batch.count, (long long)s->batch.width, s->rules->beam_size, (long long)s->beam.slot,
             (long long)s->beam.step);
    tfm_kv_cache_free(ctx, &s->cache);
    tfm__shortlist_projection_free(ctx, &s->from.shortlist);
    tfm_scope_close(ctx, 0, NULL);
    free(s->from.cross);
    free(s->min_tokens);
    s->min_tokens = NULL;
    return status;
}

tfm_status tfm_search(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts, size_t sentences,
                      const int32_t *prefixes, const size_t *prefix_counts, const tfm_search_options *options) {
    if (out)
        *out = (tfm_hypotheses){0};
    if (TFM__NEEDS("search", model, out, ids, counts) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__search_params rules;
    const tfm__generation_rules *forced;
    tfm__generation_rules *own = NULL;
    search s = {.model = model, .rules = &rules, .options = options};
    tfm_status status = tfm__context_ready(model->ctx, "search");
    if (status != TFM_OK)
        return status;
    status = tfm__model_needs(model, "search", TFM__NEEDS_ENCODER | TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT);
    if (status == TFM_OK)
        status = tfm__search_params_of(&rules, model, options);
    if (status != TFM_OK || sentences == 0)
        return status;
    if (prefixes && !prefix_counts)
        return tfm__fail(TFM_ERROR_ARGUMENT, "search: prefixes are given without their counts");
    out->items = tfm__alloc(sentences * (size_t)rules.n_best, sizeof(*out->items));
    out->sentences = sentences;
    out->n_best = rules.n_best;
    status = tfm__search_override_rules(&forced, &own, model, options);
    if (status == TFM_OK)
        status = out->items ? tfm__search_batch_make(&s.batch, model, &rules, forced, ids, counts, sentences, prefixes,
                                                     prefix_counts)
                            : TFM_ERROR_MEMORY;
    s.forced = forced;
    const int depth = tfm__scope_depth(model->ctx);
    for (bool again = status == TFM_OK; again; again = tfm__context_retry(model->ctx, depth, status)) {
        status = search_begin(&s);
        if (status == TFM_OK)
            status = decode(&s);
        status = search_end(&s, out, status);
    }
    tfm__search_batch_free(&s.batch);
    free(own);
    if (status != TFM_OK)
        tfm_hypotheses_free(out);
    return status;
}

/* One search with its admissions. *more: whether there was any work. */
static tfm_status fed_once(tfm_model *model, const tfm__feed *feed, const tfm__search_params *rules,
                           const tfm__generation_rules *forced, const tfm_search_options *options, bool *more) {
    const size_t *counts;
    size_t sentences = 0;
    search s = {.model = model, .rules = rules, .forced = forced, .options = options};
    tfm_hypotheses found = {.n_best = rules->n_best};
    tfm_status status = tfm__fed_begin(&s.fed, model, feed, rules, forced);
    const int32_t *ids = status == TFM_OK ? tfm__fed_ids(s.fed, &counts, &sentences) : NULL;
    *more = sentences > 0;
    if (sentences > 0) {
        found.sentences = sentences;
        found.items = tfm__alloc(sentences * (size_t)rules->n_best, sizeof(*found.items));
        status = found.items
                     ? tfm__search_batch_make(&s.batch, model, rules, forced, ids, counts, sentences, NULL, NULL)
                     : TFM_ERROR_MEMORY;
        if (status == TFM_OK) {
            status = search_begin(&s);
            if (status == TFM_OK)
                status = decode(&s);
            status = search_end(&s, &found, status);
        }
    }
    tfm_hypotheses_free(&found);
    tfm__search_batch_free(&s.batch);
    tfm__fed_free(s.fed);
    return status;
}

tfm_status tfm__search_fed(tfm_model *model, const tfm__feed *feed, const tfm_search_options *options) {
    tfm__search_params rules;
    const tfm__generation_rules *forced;
    tfm__generation_rules *own = NULL;
    tfm_status status = tfm__search_params_of(&rules, model, options);
    if (status == TFM_OK)
        status = tfm__search_override_rules(&forced, &own, model, options);
    for (bool more = true; more && status == TFM_OK;)
        status = fed_once(model, feed, &rules, forced, options, &more);
    free(own);
    return status;
}
