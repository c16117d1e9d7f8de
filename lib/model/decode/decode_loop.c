/* Text generation for one batch of prompts: prefill into the KV cache, then one decoding step per token. The host only
 * reads tokens for streaming, else occasionally the number of unfinished texts, while the device runs the next step. */
#include <math.h>
#include <string.h>
#include "model/decode/decode_loop.h"
#include "ops/ops.h"

/* Streaming state on the host. */
typedef struct streamed_texts {
    const tfm__streamer *streamer; /* NULL: no streaming */
    int32_t *order;                /* [rows]: text of each row of the last step */
    int64_t rows;
    int32_t *stops;                    /* [texts]: ended by the callback */
    int64_t *seen;                     /* [texts]: tokens reported */
    bool *over;                        /* [texts] */
    size_t open;                       /* unfinished texts */
    tfm__async_read *tokens, *sources; /* pending; sources only if rows have left the batch */
} streamed_texts;

typedef struct run {
    tfm_model *model;
    const tfm__generate_params *rules;
    const tfm__generate_run *how;
    tfm__prompts prompts;
    int64_t texts;                    /* prompts * copies */
    int32_t *limits;                  /* [texts] */
    int64_t longest;                  /* largest limit */
    float *penalty;                   /* [longest + 1] */
    int32_t *zeros;                   /* [texts] */
    int32_t *streams;                 /* [texts] */
    int32_t *min_tokens;              /* [texts]: tokens before any EOS; NULL: the same for all */
    int32_t *sources, *source_counts; /* [texts * longest prompt], [texts]: prompts, if a logits processor uses them */
    int32_t *block_table, *last;
    tfm__beam beam;
    tfm_kv_cache cache;
    tfm_tensor position_bias,
        pads; /* pads (texts): padding columns before each prompt; empty if all lengths are equal */
    streamed_texts streaming;
    size_t first; /* number of the first text in callbacks */
} run;

static void run_free(run *r) {
    void *all[] = {r->limits,          r->penalty,        r->zeros,         r->streams, r->min_tokens,
                   r->sources,         r->source_counts,  r->block_table,   r->last,    r->streaming.order,
                   r->streaming.stops, r->streaming.seen, r->streaming.over};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
    tfm__prompts_free(&r->prompts);
}

static tfm_status streaming_begin(streamed_texts *streaming, const tfm__streamer *streamer, int64_t texts) {
    *streaming = (streamed_texts){.streamer = streamer, .rows = texts, .open = (size_t)texts};
    if (!streamer)
        return TFM_OK;
    streaming->order = tfm__alloc((size_t)texts, sizeof(*streaming->order));
    streaming->stops = tfm__alloc((size_t)texts, sizeof(*streaming->stops));
    streaming->seen = tfm__alloc((size_t)texts, sizeof(*streaming->seen));
    streaming->over = tfm__alloc((size_t)texts, sizeof(*streaming->over));
    for (int64_t i = 0; streaming->order && i < texts; i++)
        streaming->order[i] = (int32_t)i;
    return streaming->order && streaming->stops && streaming->seen && streaming->over ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Inputs of logits processors: minimum numbers of new tokens from minimum total lengths, and the prompts. */
static tfm_status prepare_source_rules(run *r, const tfm__generate_input *input) {
    const size_t copies = (size_t)r->rules->copies, texts = (size_t)r->texts, width = (size_t)r->prompts.longest;
    const int64_t least = r->rules->min_length;
    const bool uses_source = tfm__sampling_uses_source(&r->rules->sampling);
    r->min_tokens = least > 0 ? tfm__alloc(texts, sizeof(*r->min_tokens)) : NULL;
    r->sources = uses_source ? tfm__alloc(texts * width, sizeof(*r->sources)) : NULL;
    r->source_counts = uses_source ? tfm__alloc(texts, sizeof(*r->source_counts)) : NULL;
    if ((least > 0 && !r->min_tokens) || (uses_source && (!r->sources || !r->source_counts)))
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < texts; i++) {
        const size_t count = input->counts[i / copies];
        if (r->min_tokens)
            r->min_tokens[i] = least > (int64_t)count ? (int32_t)(least - (int64_t)count) : 0;
        if (r->sources) {
            memcpy(r->sources + i * width, input->ids[i / copies], count * sizeof(*r->sources));
            r->source_counts[i] = (int32_t)count;
        }
    }
    return TFM_OK;
}

/* Host arrays of a batch. */
static tfm_status prepare(run *r, const tfm__generate_input *input) {
    const size_t copies = (size_t)r->rules->copies, texts = input->count * copies;
    r->texts = (int64_t)texts;
    tfm_status status = tfm__prompts_make(&r->prompts, input->ids, input->counts, input->count);
    r->limits = tfm__alloc(texts, sizeof(*r->limits));
    r->zeros = tfm__alloc(texts, sizeof(*r->zeros));
    r->streams = tfm__alloc(texts, sizeof(*r->streams));
    r->last = tfm__alloc(texts, sizeof(*r->last));
    r->block_table = tfm__alloc(texts * (size_t)r->prompts.longest, sizeof(*r->block_table));
    if (status != TFM_OK || !r->limits || !r->zeros || !r->streams || !r->last || !r->block_table ||
        streaming_begin(&r->streaming, r->how->streamer, r->texts) != TFM_OK)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < texts; i++) {
        r->limits[i] = (int32_t)tfm__generate_limit(r->rules, r->model, input->counts[i / copies]);
        r->longest = r->limits[i] > r->longest ? r->limits[i] : r->longest;
        r->streams[i] = (int32_t)(input->numbers[i / copies] * copies + i % copies);
    }
    r->penalty = tfm__alloc((size_t)r->longest + 1, sizeof(*r->penalty));
    for (int64_t n = 0; r->penalty && n <= r->longest; n++)
        r->penalty[n] = (float)pow((double)(n ? n : 1), r->rules->length_penalty);
    tfm__prompts_block_table(&r->prompts, r->rules->copies, r->block_table, r->last);
    return r->penalty ? prepare_source_rules(r, input) : TFM_ERROR_MEMORY;
}

/* ---- Steps --------------------------------------------------------------------------------------------- */

static tfm_tensor bias_of(const run *r) {
    return r->beam.restore_mass ? r->model->logits_bias : r->model->search_bias;
}

/* Logits (R, V) of each row's next token, or with the int8 argmax the input of the output projection. */
static tfm_status step(run *r, tfm_tensor *logits) {
    tfm_context *ctx = r->model->ctx;
    tfm__beam *beam = &r->beam;
    const int64_t rows = beam->rows, position = beam->past_columns + beam->step;
    tfm__decode_step at = {.cache = &r->cache,
                           .position_bias = r->position_bias,
                           .projection_input = beam->greedy_int8.screen ? &beam->greedy_int8.x : NULL,
                           .sources = beam->sources,
                           .block_table = beam->block_table,
                           .slot = beam->slot,
                           .position = position,
                           .length = position + 1};
    tfm_scope_open(ctx);
    if (!tfm__model_rope_matches(r->model, position, position + 1))
        tfm__prompts_recompute(r->model, &r->cache, beam, r->position_bias);
    if (r->pads.buffer) {
        const int64_t past = beam->block_table.dims[1];
        tfm_tensor_new(ctx, &at.positions, TFM_I32, 2, (int64_t[]){rows, 1});
        tfm_tensor_new(ctx, &at.mask, TFM_F32, 4, (int64_t[]){rows, 1, 1, past});
        tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "prompt_padding_mask", ""), tfm__row_grid(ctx, rows),
                    TFM__ARGS(TFM__T_AS("mask", at.mask), TFM__T_AS("positions", at.positions),
                              TFM__T_AS("pads", r->pads), TFM__T_AS("sources", beam->sources), TFM__I(rows),
                              TFM__I(past)));
    }
    tfm_kv_cache_reserve(ctx, &r->cache, rows);
    tfm__model_step(r->model, logits, beam->tokens, &at, bias_of(r));
    r->cache.slots += rows;
    return tfm_scope_close(ctx, 2, (tfm_tensor *[]){logits, at.projection_input}); /* NULL entries are skipped */
}

/* Starts reading the tokens of the newest step. */
static void start_token_read(run *r, bool moved) {
    tfm__async_read_start(r->model->ctx, &r->streaming.tokens, r->beam.chosen_tokens);
    if (moved)
        tfm__async_read_start(r->model->ctx, &r->streaming.sources, r->beam.sources);
}

/* Calls back with the tokens that were read. */
static tfm_status stream_tokens(run *r) {
    tfm_context *ctx = r->model->ctx;
    streamed_texts *streaming = &r->streaming;
    bool stopped = false;
    const int32_t *tokens = streaming->tokens ? tfm__async_read_wait(ctx, streaming->tokens) : NULL;
    const int32_t *sources = streaming->sources ? tfm__async_read_wait(ctx, streaming->sources) : NULL;
    for (int64_t i = 0; tokens && i < streaming->rows; i++) {
        const int32_t text = streaming->order[i];
        if (streaming->over[text])
            continue;
        if (tokens[i] < 0) { /* all tokens were suppressed: the text is finished */
            streaming->over[text] = true;
            streaming->open--;
            continue;
        }
        streaming->seen[text]++;
        const bool ended =
            streaming->seen[text] >= r->limits[text] || tfm__generation_is_eos(&r->model->rules, tokens[i]);
        if (!streaming->streamer->on_token(streaming->streamer->user, r->first + (size_t)text, tokens[i])) {
            streaming->stops[text] = 1;
            stopped = true;
        }
        if (ended || streaming->stops[text]) {
            streaming->over[text] = true;
            streaming->open--;
        }
    }
    if (sources) {
        streaming->rows = r->beam.live;
        memcpy(streaming->order, sources, (size_t)streaming->rows * sizeof(*sources));
    }
    tfm__async_read_free(ctx, &streaming->tokens);
    tfm__async_read_free(ctx, &streaming->sources);
    return stopped ? tfm__beam_stop(&r->beam, streaming->stops) : tfm_context_status(ctx);
}

static tfm_status check_cancelled(const run *r) {
    return !r->how->should_continue || r->how->should_continue(r->how->should_continue_user)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "generate: stopped after %lld tokens", (long long)r->beam.step);
}

/* Runs steps until all texts are finished. Rows of finished texts are dropped once the host knows. */
static tfm_status decode(run *r) {
    tfm_context *ctx = r->model->ctx;
    tfm__beam *beam = &r->beam;
    streamed_texts *streaming = &r->streaming;
    tfm_status status = TFM_OK;
    tfm__async_read *counter = NULL;
    int64_t keep = beam->live, interval = tfm__context_tuning(ctx)->search_sync_interval;
    while (beam->step < r->longest && tfm_context_status(ctx) == TFM_OK && (status = check_cancelled(r)) == TFM_OK) {
        tfm_tensor logits = {0};
        tfm__megakernel_begin(ctx, beam->rows);
        step(r, &logits);
        tfm__megakernel_end(ctx); /* callbacks may use the context */
        /* the device runs this step while the host waits for the previous one's tokens */
        if (streaming->streamer && (stream_tokens(r) != TFM_OK || streaming->open == 0))
            break;
        tfm__megakernel_begin(ctx, beam->rows);
        const bool counts = beam->step % interval == 0;
        const int32_t *remaining = counts && counter ? tfm__async_read_wait(ctx, counter) : NULL;
        if (remaining && *remaining == 0)
            break;
        if (remaining && *remaining <= keep - (keep + 15) / 16)
            keep = *remaining;
        const bool moved = keep < beam->live;
        const int64_t rows = beam->rows;
        tfm__greedy_int8_before_step(beam);
        tfm__beam_advance(beam, logits, keep);
        tfm_tensor_free(ctx, &logits);
        tfm__greedy_int8_after_step(beam, r->model, rows);
        if (streaming->streamer)
            start_token_read(r, moved);
        if (counts) {
            tfm__async_read_free(ctx, &counter);
            tfm__async_read_start(ctx, &counter, beam->remaining);
        }
        tfm__megakernel_end(ctx);
    }
    tfm__megakernel_end(ctx);
    if (streaming->streamer && status == TFM_OK)
        stream_tokens(r);
    tfm__async_read_free(ctx, &counter);
    tfm__async_read_free(ctx, &streaming->tokens);
    tfm__async_read_free(ctx, &streaming->sources);
    return status == TFM_OK ? tfm_context_status(ctx) : status;
}

/* ---- One batch ----------------------------------------------------------------------------------------- */

/* A text ended by the callback has no tokens after the last one reported. */
static void truncate_text(tfm_hypothesis *h, int64_t tokens, const tfm__generation_rules *rules, const float *penalty) {
    if (h->tokens <= tokens)
        return;
    h->tokens = (int)tokens;
    h->log_prob = 0;
    for (int64_t i = 0; i < tokens; i++)
        h->log_prob += (double)h->log_probs[i];
    h->count = (size_t)tokens - tfm__generation_is_eos(rules, h->ids[tokens - 1]);
    h->score = h->log_prob / (double)penalty[tokens];
}

static void finish_texts(run *r, tfm_hypotheses *out, tfm_finish_reason *ended) {
    const size_t each = (size_t)(r->rules->n_best / r->rules->copies);
    for (size_t i = 0; i < (size_t)r->texts * each; i++) {
        tfm_hypothesis *h = &out->items[i];
        const bool stopped = r->streaming.streamer && r->streaming.stops[i / each];
        if (stopped)
            truncate_text(h, r->streaming.seen[i / each], &r->model->rules, r->penalty);
        /* shorter than its limit and without EOS: all further tokens were suppressed */
        const bool ends = h->count < (size_t)h->tokens || (h->ids && h->tokens < r->limits[i / each]);
        if (ended)
            ended[i] = stopped ? TFM_FINISH_STOP : ends ? TFM_FINISH_EOS : TFM_FINISH_LENGTH;
        if (r->how->stats)
            r->how->stats->new_tokens += (uint64_t)h->tokens;
    }
}

/* Seconds since *from, which becomes now; waits for the device, if timing is requested. */
static double lap(const run *r, double *from) {
    if (!r->how->stats || tfm_context_finish(r->model->ctx) != TFM_OK)
        return 0;
    const double now = tfm__seconds(), seconds = now - *from;
    *from = now;
    return seconds;
}

/* Prefill; CANCELLED if the callback ends it. Other failures are the context's. */
static tfm_status begin_search(run *r) {
    tfm_context *ctx = r->model->ctx;
    const tfm__stack_arch *arch = &r->model->arch.decoder;
    const int64_t rows = r->texts * r->rules->beam_size, ahead = r->longest < 64 ? r->longest : 64;
    const tfm__beam_past past = {.slots = r->prompts.slots,
                                 .tokens = r->prompts.tokens,
                                 .width = r->prompts.longest - 1,
                                 .block_table = r->block_table,
                                 .last = r->last};
    tfm__sampling_params sampling = r->rules->sampling;
    sampling.streams = r->streams;
    sampling.min_tokens = r->min_tokens;
    for (int64_t i = 0; r->min_tokens && i < r->texts; i++)
        sampling.min_new_tokens =
            r->min_tokens[i] > sampling.min_new_tokens ? r->min_tokens[i] : sampling.min_new_tokens;
    tfm__model_position_bias(r->model, &r->position_bias, r->prompts.longest + r->longest);
    tfm__prompt_cache_take(r->how->prompt_cache, r->model, &r->cache, &r->prompts, rows * ahead);
    r->cache.limit = r->prompts.slots + rows * r->longest;
    const tfm_status status =
        tfm__prompts_prefill(r->model, &r->cache, &r->prompts, r->position_bias,
                             (tfm__prefill_check){r->how->should_continue, r->how->should_continue_user});
    if (status != TFM_OK)
        return status;
    if (r->prompts.ragged) {
        for (int64_t i = 0; i < r->texts; i++)
            r->zeros[i] = (int32_t)(r->prompts.longest - (int64_t)r->prompts.counts[i / r->rules->copies]);
        r->pads = tfm__beam_ints_of(ctx, r->zeros, r->texts);
        memset(r->zeros, 0, (size_t)r->texts * sizeof(*r->zeros));
    }
    tfm__beam_begin(ctx, &r->beam,
                    &(tfm__beam_setup){.width = r->rules->beam_size,
                                       .vocabulary = arch->vocabulary,
                                       .sentences = r->texts,
                                       .rules = &r->model->rules,
                                       .certain = true,
                                       .hf_search = true,
                                       .skip_scores = r->rules->skip_scores,
                                       .limits = r->limits,
                                       .prefixes = r->zeros,
                                       .prefix_counts = r->zeros,
                                       .prefix_width = 1,
                                       .penalty = r->penalty,
                                       .longest = r->longest,
                                       .source_ids = r->sources,
                                       .source_counts = r->source_counts,
                                       .source_width = r->prompts.longest,
                                       .past = &past,
                                       .sampling = &sampling});
    return tfm__greedy_int8_begin(&r->beam, r->model, bias_of(r));
}

/* The prompt and its text stay in the prompt cache; of a cancelled run the part that was computed. */
static tfm_status keep_cache(run *r, const tfm_hypothesis *h, tfm_status status) {
    if (!r->how->prompt_cache || (status != TFM_OK && status != TFM_ERROR_CANCELLED))
        return status;
    const bool whole = status == TFM_OK;
    const tfm_status put =
        tfm__prompt_cache_put(r->how->prompt_cache, &r->cache, &r->prompts, h->ids, whole ? h->count : 0);
    return whole ? put : status;
}

/* Generates for the prompts of one search, from prompt number `first` of the batch; out and ended are theirs. */
static tfm_status search(tfm_model *model, tfm_hypotheses *out, tfm_finish_reason *ended,
                         const tfm__generate_input *input, size_t first, const tfm__generate_params *rules,
                         const tfm__generate_run *how) {
    tfm_context *ctx = model->ctx;
    run r = {.model = model, .rules = rules, .how = how, .first = first * (size_t)rules->copies};
    tfm_status status = prepare(&r, input);
    double at = tfm__seconds(), reading = 0, writing = 0;
    tfm_scope_open(ctx);
    if (status == TFM_OK) {
        status = begin_search(&r);
        reading = lap(&r, &at);
        if (status == TFM_OK)
            status = decode(&r);
        if (status == TFM_OK)
            status = tfm__beam_finish(&r.beam, out, rules->n_best / rules->copies, r.penalty);
        writing = lap(&r, &at);
    }
    if (status == TFM_OK) {
        finish_texts(&r, out, ended);
        if (how->stats) {
            how->stats->prompts += input->count;
            for (size_t i = 0; i < input->count; i++)
                how->stats->prompt_tokens += input->counts[i];
            how->stats->cached_tokens += (uint64_t)r.prompts.cached;
            how->stats->prefill_seconds += reading;
            how->stats->decode_seconds += writing;
        }
    }
    status = keep_cache(&r, out->items, status);
    tfm_kv_cache_free(ctx, &r.cache);
    tfm_scope_close(ctx, 0, NULL);
    run_free(&r);
    return status;
}

void tfm__generate_stats_add(tfm_generate_stats *to, const tfm_generate_stats *more) {
    to->prompts += more->prompts;
    to->prompt_tokens += more->prompt_tokens;
    to->cached_tokens += more->cached_tokens;
    to->new_tokens += more->new_tokens;
    to->prefill_seconds += more->prefill_seconds;
    to->decode_seconds += more->decode_seconds;
}

tfm_status tfm__generate_batch(tfm_model *model, tfm_hypotheses *out, tfm_finish_reason *ended,
                               const tfm__generate_input *input, const tfm__generate_params *rules,
                               const tfm__generate_run *how) {
    const size_t n = tfm__generate_unbatched(model) ? 1 : input->count;
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < input->count && status == TFM_OK; i += n) {
        const size_t at = i * (size_t)rules->n_best;
        tfm_hypotheses part = {.sentences = n, .n_best = rules->n_best, .items = out->items + at};
        status =
            search(model, &part, ended ? ended + at : NULL,
                   &(tfm__generate_input){input->ids + i, input->counts + i, input->numbers + i, n}, i, rules, how);
    }
    return status;
}
