/* Search over one batch: encode, then step by step until every sentence is over. Everything stays on the device. The host
 * only looks at a counter of what remains, at a value that was sent while the device already had its next step. */
#include <math.h>
#include <string.h>
#include "model/beam.h"

tfm_status tfm__search_rules_of(tfm__search_rules *out, const tfm_model *model, const tfm_search_options *options) {
    static const tfm_search_options none;
    const tfm__config *config = &model->config;
    if (!options)
        options = &none;
    out->beam = options->beam ? options->beam : model->info.beam;
    out->n_best = options->n_best ? options->n_best : 1;
    out->form = options->penalty;
    out->max_length = options->max_length;
    if (options->has_alpha)
        out->alpha = options->alpha;
    else if (out->form == TFM_PENALTY_HUGGINGFACE)
        out->alpha = config->has_length_penalty ? config->length_penalty : 1.0;
    else
        out->alpha = 0.6;
    if (out->beam < 1 || out->beam > TFM__MAX_BEAM)
        return tfm__fail(TFM_ERROR_ARGUMENT, "beam is %d%s: give 1 to %d", out->beam,
                         options->beam ? "" : ", by the num_beams of the model's directory", TFM__MAX_BEAM);
    if (out->n_best < 1 || out->n_best > out->beam)
        return tfm__fail(TFM_ERROR_ARGUMENT, "n-best is %d: give 1 to the beam, %d", out->n_best, out->beam);
    if (out->max_length < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "max length is %d: give at least 1", out->max_length);
    if (!(fabs(out->alpha) <= 10)) /* lp(n) must fit a float; NaN fails too */
        return tfm__fail(TFM_ERROR_ARGUMENT, "alpha, the exponent of the length penalty, is %g%s: give -10 to 10",
                         out->alpha, options->has_alpha ? "" : ", by the length_penalty of the model's directory");
    return TFM_OK;
}

/* What a batch needs as host arrays. */
typedef struct batch {
    int64_t count, width, longest, prefix_width;
    int32_t *ids;     /* [count * width], padded */
    int32_t *lengths; /* [count] */
    int32_t *limits;  /* [count] */
    int32_t *prefixes, *prefix_counts;
    float *penalty; /* [longest + 1] */
} batch;

static void batch_free(batch *b) {
    void *all[] = {b->ids, b->lengths, b->limits, b->prefixes, b->prefix_counts, b->penalty};
    for (size_t i = 0; i < TFM_COUNT(all); i++)
        free(all[i]);
}

static tfm_status check_ids(const char *what, const int32_t *ids, size_t count, int vocabulary) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return tfm__fail(TFM_ERROR_ARGUMENT, "search: a %s id is %d, the vocabulary has %d", what, (int)ids[i],
                             vocabulary);
    return TFM_OK;
}

/* Copies ragged rows into a padded array. */
static int32_t *padded(const int32_t *ids, const size_t *counts, size_t rows, int64_t width, int32_t pad) {
    int32_t *out = tfm__alloc(rows * (size_t)width, sizeof(*out));
    for (size_t i = 0; out && i < rows; i++) {
        for (int64_t j = 0; j < width; j++)
            out[(int64_t)i * width + j] = j < (int64_t)counts[i] ? ids[j] : pad;
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
static tfm_status make_prefixes(batch *b, const tfm__config *config, const int32_t *prefixes, const size_t *counts) {
    const int64_t first = config->forced_bos_id >= 0 ? 1 : 0;
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
            row[0] = config->forced_bos_id;
        for (size_t k = 0; k < count; k++)
            row[first + (int64_t)k] = *prefixes++;
        b->prefix_counts[i] = (int32_t)(first + (int64_t)count);
    }
    return TFM_OK;
}

int64_t tfm__search_limit(const tfm__search_rules *rules, const tfm__config *config, size_t source_tokens) {
    const int64_t limit = rules->max_length ? rules->max_length : (int64_t)source_tokens + 50;
    return limit < config->max_positions ? limit : config->max_positions;
}

tfm_status tfm__prefix_check(const tfm__config *config, const int32_t *ids, size_t count, int64_t limit) {
    limit -= config->forced_bos_id >= 0; /* which comes before it */
    if (count > 0 && (int64_t)count >= limit)
        return tfm__fail(TFM_ERROR_INPUT,
                         "it has %zu tokens and its translation may have %lld: give a larger maximum length, where the "
                         "model's positions allow it",
                         count, (long long)limit);
    for (size_t i = 0; i < count; i++)
        if (tfm__config_bans(config, ids[i]))
            return tfm__fail(TFM_ERROR_INPUT,
                             "it holds token %d, which this model never writes: it is padding, or among bad_words_ids",
                             (int)ids[i]);
    return TFM_OK;
}

static tfm_status batch_make(batch *b, const tfm_model *model, const tfm__search_rules *rules, const int32_t *ids,
                             const size_t *counts, size_t sentences, const int32_t *prefixes,
                             const size_t *prefix_counts) {
    const tfm__config *config = &model->config;
    *b = (batch){.count = (int64_t)sentences,
                 .width = (int64_t)largest(counts, sentences)};
    for (size_t i = 0; i < sentences; i++)
        if (counts[i] < 1 || counts[i] > (size_t)config->max_positions)
            return tfm__fail(TFM_ERROR_INPUT, "sentence %zu has %zu tokens, the model takes 1 to %d: split or truncate it",
                             i + 1, counts[i], config->max_positions);
    tfm_status status = check_ids("source", ids, sum(counts, sentences), config->vocab_size);
    if (status == TFM_OK && prefixes)
        status = check_ids("prefix", prefixes, sum(prefix_counts, sentences), config->decoder_vocab_size);
    if (status != TFM_OK)
        return status;
    b->ids = padded(ids, counts, sentences, b->width, config->pad_id);
    b->lengths = tfm__alloc(sentences, sizeof(*b->lengths));
    b->limits = tfm__alloc(sentences, sizeof(*b->limits));
    if (!b->ids || !b->lengths || !b->limits || make_prefixes(b, config, prefixes, prefix_counts) != TFM_OK)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < sentences; i++) {
        const int64_t limit = tfm__search_limit(rules, config, counts[i]);
        b->lengths[i] = (int32_t)counts[i];
        b->limits[i] = (int32_t)limit;
        b->longest = limit > b->longest ? limit : b->longest;
    }
    b->penalty = tfm__alloc((size_t)b->longest + 1, sizeof(*b->penalty));
    if (!b->penalty)
        return TFM_ERROR_MEMORY;
    for (int64_t n = 0; n <= b->longest; n++)
        b->penalty[n] = (float)(rules->form == TFM_PENALTY_HUGGINGFACE ? pow((double)(n ? n : 1), rules->alpha)
                                                                       : pow((5.0 + (double)n) / 6, rules->alpha));
    return TFM_OK;
}

/* One step of the decoder over the live rows: logits (R, V) of the next token. */
static tfm_status step(tfm_model *model, tfm_tensor *logits, const tfm__beam *beam, tfm_kv_cache *cache,
                       const tfm_keys_values *cross, tfm_tensor lengths) {
    tfm_context *ctx = model->ctx;
    int64_t rows = beam->live * beam->width;
    tfm_tensor ids = {0}, x = {0};
    tfm_kv_cache_reserve(ctx, cache, rows);
    tfm_scope_open(ctx);
    tfm_tensor_reshape(ctx, &ids, beam->tokens, 2, (int64_t[]){rows, 1});
    tfm__model_embed_target(model, &x, ids, beam->step);
    for (int i = 0; i < model->config.decoder_layers; i++) {
        tfm_decoder_memory memory = {.cross = cross[i], .lengths = lengths, .sources = beam->sources,
                                     .log = cache->logs[i], .rows = beam->table};
        tfm_tensor_rows(ctx, &memory.fresh.keys, memory.log.keys, beam->node, rows);
        tfm_tensor_rows(ctx, &memory.fresh.values, memory.log.values, beam->node, rows);
        tfm_tensor y = {0};
        tfm_decoder_block_forward(ctx, &y, &model->decoder[i], x, &memory);
        tfm_tensor_free(ctx, &x);
        x = y;
    }
    cache->rows += rows;
    tfm_tensor last = {0};
    tfm_tensor_reshape(ctx, &last, x, 2, (int64_t[]){rows, model->config.d_model});
    tfm__model_logits(model, logits, last, model->search_bias);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){logits});
}

/* Steps between two looks at the counter. Each look lets rows go that would be computed in vain, which a wide CPU feels
 * at once; a GPU would rather have a few steps in its queue. */
static int64_t look_interval(const tfm_context *ctx) {
    return tfm__context_row(ctx)->class == TFM__WIDE ? 1 : 4;
}

static tfm_status ask(const tfm_search_options *options, int64_t step) {
    return !options || !options->go_on || options->go_on(options->go_on_user)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "search: stopped behind step %lld", (long long)step);
}

/* Steps until all sentences are over. Rows of those that are over are dropped as soon as the host learns of them. */
static tfm_status decode(tfm_model *model, tfm__beam *beam, tfm_kv_cache *cache, const tfm_keys_values *cross,
                         tfm_tensor lengths, int64_t longest, const tfm_search_options *options) {
    tfm_context *ctx = model->ctx;
    tfm_status status = TFM_OK;
    tfm__read *counter = NULL;
    int64_t keep = beam->live, interval = look_interval(ctx);
    while (beam->step < longest && tfm_context_status(ctx) == TFM_OK &&
           (status = ask(options, beam->step)) == TFM_OK) {
        tfm_tensor logits = {0};
        step(model, &logits, beam, cache, cross, lengths);
        /* The device has this step to do while the host waits for what the last look's step left behind. */
        bool look = beam->step % interval == 0;
        const int32_t *remaining = look && counter ? tfm__read_wait(ctx, counter) : NULL;
        if (remaining && *remaining == 0)
            break;
        if (remaining && *remaining <= keep - (keep + 15) / 16)
            keep = *remaining;
        tfm__beam_advance(beam, logits, model->config.eos_id, keep);
        tfm_tensor_free(ctx, &logits);
        if (look) {
            tfm__read_free(ctx, &counter);
            tfm__read_start(ctx, &counter, beam->remaining);
        }
    }
    tfm__read_free(ctx, &counter);
    return status == TFM_OK ? tfm_context_status(ctx) : status;
}

static tfm_status run(tfm_model *model, tfm_hypotheses *out, const tfm__search_rules *rules, const batch *b,
                      const tfm_search_options *options) {
    tfm_context *ctx = model->ctx;
    tfm_tensor ids = {0}, lengths = {0}, encoded = {0};
    tfm_kv_cache cache = {0};
    tfm__beam beam;
    tfm_keys_values *cross = tfm__alloc((size_t)model->config.decoder_layers, sizeof(*cross));
    if (!cross)
        return TFM_ERROR_MEMORY;
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &ids, TFM_I32, 2, (int64_t[]){b->count, b->width});
    tfm_tensor_new(ctx, &lengths, TFM_I32, 1, &b->count);
    tfm_tensor_write(ctx, ids, b->ids);
    tfm_tensor_write(ctx, lengths, b->lengths);
    tfm_model_encode(model, &encoded, ids, lengths);
    for (int i = 0; i < model->config.decoder_layers; i++)
        tfm_multi_head_project(ctx, &cross[i], &model->decoder[i].cross, encoded);
    tfm__beam_begin(ctx, &beam,
                    &(tfm__beam_setup){.width = rules->beam,
                                       .vocabulary = model->config.decoder_vocab_size,
                                       .sentences = b->count,
                                       .start_id = model->config.start_id,
                                       .limits = b->limits,
                                       .prefixes = b->prefixes,
                                       .prefix_counts = b->prefix_counts,
                                       .prefix_width = b->prefix_width,
                                       .penalty = b->penalty,
                                       .longest = b->longest});
    tfm_kv_cache_new(ctx, &cache, model->config.decoder_layers, model->config.d_model, b->count * rules->beam * 8);
    tfm_status status = decode(model, &beam, &cache, cross, lengths, b->longest, options);
    if (status == TFM_OK)
        status = tfm__beam_finish(&beam, out, rules->n_best, b->penalty, model->config.eos_id);
    tfm__log(TFM_LOG_DEBUG, "search: %lld sentences of up to %lld tokens, beam %d: %lld rows in %lld steps",
             (long long)b->count, (long long)b->width, rules->beam, (long long)beam.node, (long long)beam.step);
    tfm_kv_cache_free(ctx, &cache);
    tfm_scope_close(ctx, 0, NULL);
    free(cross);
    return status;
}

tfm_status tfm_search(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts, size_t sentences,
                      const int32_t *prefixes, const size_t *prefix_counts, const tfm_search_options *options) {
    tfm__search_rules rules;
    batch b = {0};
    *out = (tfm_hypotheses){0};
    tfm_status status = tfm_context_status(model->ctx);
    if (status != TFM_OK)
        return tfm__fail(status, "search: the context has failed before: %s", tfm_context_error(model->ctx));
    status = tfm__search_rules_of(&rules, model, options);
    if (status != TFM_OK || sentences == 0)
        return status;
    if (prefixes && !prefix_counts)
        return tfm__fail(TFM_ERROR_ARGUMENT, "search: prefixes are given without their counts");
    out->items = tfm__alloc(sentences * (size_t)rules.n_best, sizeof(*out->items));
    out->sentences = sentences;
    out->n_best = rules.n_best;
    status = out->items ? batch_make(&b, model, &rules, ids, counts, sentences, prefixes, prefix_counts)
                        : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = run(model, out, &rules, &b, options);
    batch_free(&b);
    if (status != TFM_OK)
        tfm_hypotheses_free(out);
    return status;
}

void tfm_hypotheses_free(tfm_hypotheses *hypotheses) {
    for (size_t i = 0; hypotheses->items && i < hypotheses->sentences * (size_t)hypotheses->n_best; i++)
        free(hypotheses->items[i].ids);
    free(hypotheses->items);
    *hypotheses = (tfm_hypotheses){0};
}
