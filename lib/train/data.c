/* Text as batches: a thread prepares the next buffer while the current one is used. With several ranks the thread
 * prepares a shard, and the caller's thread, which alone communicates, merges the shards. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "text/documents.h"
#include "text/tokenizer.h"
#include "train/corpus.h"
#include "train/distributed_reader.h"

struct tfm_data {
    tfm__corpus corpus;
    tfm__reader_exchange exchange;
    tfm__shuffle_buffer *current; /* The source of batches, or NULL before the first. */
    int64_t next_batch;
    tfm_data_counts last_epoch_counts, epoch_counts;
    bool resumed_mid_epoch; /* `epoch_counts` lacks the lines before the position of a seek. */
    int32_t *padded;        /* The arrays of the last batch returned. */
    size_t padded_capacity;
    /* The thread and its results, which only it accesses until it is joined. */
    pthread_t thread;
    bool thread_running, started; /* `started` alone: the thread failed to start, to be reported on all ranks. */
    bool failed;                  /* All ranks have failed at d->start_position. */
    tfm__shuffle_buffer *pending;
    tfm__buffer_shard *shard;
    uint64_t tokenized_lines; /* For tests. */
    tfm_data_position start_position;
    tfm_status status;
    char message[1024];
};

/* ---- Buffers ---- */

static bool is_distributed(const tfm_data *d) {
    return tfm__reader_exchange_active(&d->exchange);
}

static tfm_status new_buffer(tfm_data *d) {
    tfm__shuffle_buffer *b = d->pending = tfm__alloc(1, sizeof(*b));
    if (!b)
        return TFM_ERROR_MEMORY;
    b->begin = b->next = d->start_position;
    b->begin.batch = b->next.batch = 0;
    return TFM_OK;
}

/* Reads the buffer at d->start_position, or this rank's shard of it. */
static tfm_status make_buffer(tfm_data *d) {
    tfm_status status = new_buffer(d);
    if (status == TFM_OK && is_distributed(d))
        return tfm__buffer_shard_start(&d->shard, &d->exchange, &d->corpus, d->pending->begin);
    if (status == TFM_OK)
        status = tfm__shuffle_buffer_read(&d->corpus, d->pending);
    return status == TFM_OK ? tfm__shuffle_buffer_make_batches(&d->corpus, d->pending) : status;
}

/* Another pass over a buffer that has all pairs. */
static tfm_status next_epoch(tfm_data *d) {
    tfm__shuffle_buffer *b = d->current;
    d->start_position = b->begin = b->next;
    b->begin.batch = b->next.batch = 0;
    b->next.epoch++;
    d->next_batch = 0;
    return tfm__shuffle_buffer_make_batches(&d->corpus, b);
}

/* Stores the result and this thread's error message. */
static void store_result(tfm_data *d, tfm_status status) {
    d->status = status;
    if (status != TFM_OK)
        snprintf(d->message, sizeof(d->message), "%s", tfm_error_message());
}

static void *reader_thread(void *user) {
    store_result(user, make_buffer(user));
    return NULL;
}

/* With several ranks, a failure to start is reported when all can learn of it. */
static tfm_status start_reading(tfm_data *d, tfm_data_position from) {
    d->start_position = from;
    d->pending = NULL;
    const int error = pthread_create(&d->thread, NULL, reader_thread, d);
    d->thread_running = !error;
    d->started = !error || is_distributed(d);
    if (!error)
        return TFM_OK;
    tfm__fail(TFM_ERROR_MEMORY, "a thread for reading cannot be started: %s", strerror(error));
    store_result(d, TFM_ERROR_MEMORY);
    return d->started ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Waits for the thread and returns its buffer, or NULL. */
static tfm__shuffle_buffer *join_reader(tfm_data *d) {
    if (d->thread_running)
        pthread_join(d->thread, NULL);
    d->thread_running = d->started = false;
    tfm__shuffle_buffer *made = d->pending;
    d->pending = NULL;
    return made;
}

static tfm_status no_batch_error(const tfm_data *d, tfm_data_position at) {
    return tfm__fail(TFM_ERROR_INPUT, "%s%s: batch %lld does not exist: the text has changed", d->corpus.paths[0],
                     tfm__corpus_other_files(&d->corpus), (long long)at.batch);
}

/* Waits for the thread and discards its result. */
static void discard_pending(tfm_data *d) {
    tfm__shuffle_buffer_free(join_reader(d));
    tfm__buffer_shard_free(&d->shard);
}

/* All ranks exchange their records, and read more until d->current is full; `status` is this rank's result. */
static tfm_status fill_distributed(tfm_data *d, tfm_status status) {
    bool full = false;
    tfm__shuffle_buffer *b = d->current;
    for (;;) {
        if (status == TFM_OK && full)
            status = tfm__shuffle_buffer_make_batches(&d->corpus, b);
        if (status == TFM_OK && full && (size_t)d->start_position.batch > b->batch_count)
            status = no_batch_error(d, d->start_position);
        status = tfm__reader_exchange_agree(&d->exchange, d->shard,
                                            status == TFM_OK && full ? &b->next : &d->start_position, full, status);
        if (status != TFM_OK || full)
            break;
        status = tfm__reader_exchange_records(&d->exchange, d->shard);
        if (status == TFM_OK)
            status = tfm__buffer_shard_merge(&d->exchange, d->shard, &d->corpus, b, &full);
        if (status == TFM_OK && !full)
            status = tfm__buffer_shard_read_more(d->shard, &d->corpus, b);
    }
    if (d->shard)
        d->tokenized_lines += d->shard->scratch.tokenized_lines;
    tfm__buffer_shard_free(&d->shard);
    d->failed = status != TFM_OK;
    if (d->failed)
        store_result(d, status);
    return status;
}

static void add_counts(tfm_data *d, const tfm__shuffle_buffer *b) {
    d->epoch_counts.pairs += b->counts.pairs;
    d->epoch_counts.empty += b->counts.empty;
    d->epoch_counts.too_long += b->counts.too_long;
    d->epoch_counts.invalid += b->counts.invalid;
    d->epoch_counts.unpaired += b->counts.unpaired;
    d->epoch_counts.batches += b->batch_count;
    if (b->next.line == 0) { /* the files have ended */
        if (!d->resumed_mid_epoch) {
            d->last_epoch_counts = d->epoch_counts;
            d->last_epoch_counts.complete = true;
        }
        d->epoch_counts = (tfm_data_counts){0};
        d->resumed_mid_epoch = false;
    }
}

/* Replaces the used-up buffer by the next, and starts the thread on the one after it. */
static tfm_status next_buffer(tfm_data *d) {
    if (d->current && d->current->whole)
        return next_epoch(d);
    if (!d->started) {
        tfm_status status = start_reading(d, d->current ? d->current->next : d->start_position);
        if (status != TFM_OK)
            return status;
    }
    tfm__shuffle_buffer_free(d->current);
    d->current = join_reader(d);
    tfm_status status = d->status == TFM_OK ? TFM_OK : tfm__fail(d->status, "%s", d->message);
    if (is_distributed(d))
        status = fill_distributed(d, status);
    else if (status == TFM_OK)
        d->tokenized_lines += d->current->tokenized_lines;
    d->next_batch = is_distributed(d) && status == TFM_OK ? d->start_position.batch : 0;
    if (status != TFM_OK) {
        tfm__shuffle_buffer_free(d->current);
        d->current = NULL;
        return status;
    }
    add_counts(d, d->current);
    return d->current->whole ? TFM_OK : start_reading(d, d->current->next);
}

uint64_t tfm__data_tokenized_lines(const tfm_data *d) {
    return d->tokenized_lines;
}

/* ---- Public functions ---- */

static tfm_status check_options(const tfm_data_options *options) {
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "data_open: %s", TFM__RESERVED_SET_MESSAGE);
    if (!options)
        return TFM_OK;
    if (!(options->subword_alpha >= 0 && options->subword_alpha < 1))
        return tfm__fail(TFM_ERROR_ARGUMENT, "data: subword_alpha is %g: it must be in [0, 1)",
                         (double)options->subword_alpha);
    if (options->batch_tokens < 0 || options->max_length < 0 || options->buffer_size < 0 || options->seq_len < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "data: batch_tokens %lld, max_length %d, seq_len %d, buffer_size %lld: none may be negative",
                         (long long)options->batch_tokens, options->max_length, options->seq_len,
                         (long long)options->buffer_size);
    if (TFM__RESERVED_SET(&options->documents))
        return tfm__fail(TFM_ERROR_ARGUMENT, "data_open: %s", TFM__RESERVED_SET_MESSAGE);
    if (options->chat && (options->documents.separator || options->documents.json_lines || options->subword_alpha > 0))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "data_open: with chat, each line is a conversation: neither `documents` nor "
                         "subword_alpha can be set");
    return tfm__document_check("data_open", &options->documents);
}

static tfm_status open_files(tfm_data **out, const tfm_tokenizer *tokenizer, bool texts, const char *const *sides[2],
                             size_t count, const tfm_data_options *options) {
    tfm_status status = check_options(options);
    if (status != TFM_OK)
        return status;
    tfm_data *d = tfm__alloc(1, sizeof(*d));
    if (!d)
        return TFM_ERROR_MEMORY;
    d->corpus.monolingual = texts;
    status = tfm__corpus_open(&d->corpus, tokenizer, sides, count, options);
    if (status == TFM_OK && options)
        status = tfm__reader_exchange_open(&d->exchange, options);
    if (status == TFM_OK)
        status = start_reading(d, (tfm_data_position){0});
    if (status != TFM_OK)
        tfm_data_free(&d);
    *out = d;
    return status;
}

tfm_status tfm_data_open(tfm_data **out, const tfm_tokenizer *tokenizer, const char *source, const char *target,
                         const tfm_data_options *options) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("data_open", out, tokenizer, source) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return tfm_data_open_pairs(out, tokenizer, &source, target ? &target : NULL, 1, options);
}

tfm_status tfm_data_open_pairs(tfm_data **out, const tfm_tokenizer *tokenizer, const char *const *sources,
                               const char *const *targets, size_t count, const tfm_data_options *options) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("data_open_pairs", out, tokenizer, sources) != TFM_OK ||
        tfm__needs_texts("data_open_pairs", "sources", sources, count) != TFM_OK ||
        (targets && tfm__needs_texts("data_open_pairs", "targets", targets, count) != TFM_OK))
        return TFM_ERROR_ARGUMENT;
    if (count == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "data_open_pairs: it needs at least one file");
    return open_files(out, tokenizer, false, (const char *const *[]){sources, targets}, count, options);
}

tfm_status tfm_data_open_texts(tfm_data **out, const tfm_tokenizer *tokenizer, const char *const *files, size_t count,
                               const tfm_data_options *options) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("data_open_texts", out, tokenizer, files) != TFM_OK ||
        tfm__needs_texts("data_open_texts", "files", files, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (count == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "data_open_texts: it needs at least one file");
    return open_files(out, tokenizer, true, (const char *const *[]){files, NULL}, count, options);
}

void tfm_data_free(tfm_data **pointer) {
    tfm_data *d = pointer ? *pointer : NULL;
    if (!d)
        return;
    *pointer = NULL;
    discard_pending(d);
    tfm__shuffle_buffer_free(d->current);
    tfm__reader_exchange_close(&d->exchange);
    free(d->padded);
    tfm__corpus_close(&d->corpus);
    free(d);
}

/* Copies a batch's ids, padded with zeros, and their lengths. */
static tfm_status pad_batch(tfm_data *d, tfm_batch *out, const tfm__shuffle_buffer *b, const tfm__example_range *from) {
    int64_t widths[2] = {0, 0};
    for (size_t i = 0; i < from->count; i++) {
        const tfm__example *p = b->order[from->first + i];
        widths[0] = p->source > widths[0] ? p->source : widths[0];
        widths[1] = p->target > widths[1] ? p->target : widths[1];
    }
    const size_t n = from->count, total = n * (size_t)(widths[0] + widths[1] + 2);
    tfm_status status = tfm__grow(&d->padded, &d->padded_capacity, total, sizeof(*d->padded));
    if (status != TFM_OK)
        return status;
    int32_t *sources = d->padded, *targets = sources + n * (size_t)widths[0],
            *lengths = targets + n * (size_t)widths[1];
    memset(d->padded, 0, total * sizeof(*d->padded));
    for (size_t i = 0; i < n; i++) {
        const tfm__example *p = b->order[from->first + i];
        const int32_t *ids = b->row_ids + p->at;
        memcpy(sources + i * (size_t)widths[0], ids, (size_t)p->source * sizeof(int32_t));
        memcpy(targets + i * (size_t)widths[1], ids + p->source, (size_t)p->target * sizeof(int32_t));
        lengths[i] = p->source;
        lengths[n + i] = p->target;
    }
    *out = (tfm_batch){(int64_t)n, widths[0], widths[1], sources, targets, lengths, lengths + n};
    if (d->corpus.monolingual)
        out->sources = out->source_lengths = NULL;
    return TFM_OK;
}

tfm_status tfm_data_next(tfm_data *d, tfm_batch *out) {
    if (TFM__NEEDS("data_next", d, out) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = d->failed ? tfm__fail(d->status, "%s", d->message) : TFM_OK;
    while (status == TFM_OK && (!d->current || (size_t)d->next_batch >= d->current->batch_count))
        status = next_buffer(d);
    if (status != TFM_OK)
        return status;
    status = pad_batch(d, out, d->current, &d->current->batches[d->next_batch]);
    d->next_batch += status == TFM_OK || is_distributed(d); /* the other ranks continue */
    return status;
}

/* Identifies the segmentation options. A buffer has the same batches only with the same options. */
static int64_t segmentation_key(const tfm_data *d) {
    return llround(1e9 * (double)d->corpus.options.subword_alpha);
}

tfm_data_position tfm_data_tell(const tfm_data *d) {
    if (!d)
        return (tfm_data_position){0};
    tfm_data_position at = d->current ? d->current->begin : d->start_position;
    at.batch = d->current ? d->next_batch : at.batch;
    if (d->current && (size_t)d->next_batch >= d->current->batch_count)
        at = d->current->next;
    at.subword_alpha_e9 = segmentation_key(d);
    return at;
}

/* Limit of the epoch, so that adding 1 per pass does not overflow. */
enum { MAX_EPOCHS = INT32_MAX };

/* Checks that the position is possible in the files as they are. */
static tfm_status check_position(const tfm_data *d, tfm_data_position to) {
    if (to.epoch >= 0 && to.epoch <= MAX_EPOCHS && to.batch >= 0 && tfm__corpus_has_position(&d->corpus, to))
        return TFM_OK;
    return tfm__fail(TFM_ERROR_INPUT,
                     "%s%s: batch %lld of pass %lld after line %lld and byte %lld does not exist: the text has changed",
                     d->corpus.paths[0], tfm__corpus_other_files(&d->corpus), (long long)to.batch, (long long)to.epoch,
                     (long long)to.line, (long long)to.source_offset);
}

/* Reads the buffer at a position, and checks that it has that batch. */
static tfm_status read_at(tfm_data *d, tfm_data_position to) {
    tfm_status status = start_reading(d, to);
    if (status == TFM_OK)
        status = next_buffer(d);
    return status == TFM_OK && (size_t)to.batch > d->current->batch_count ? no_batch_error(d, to) : status;
}

tfm_status tfm_data_seek(tfm_data *d, tfm_data_position to) {
    if (TFM__NEEDS("data_seek", d) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (check_position(d, to) != TFM_OK)
        return TFM_ERROR_INPUT;
    discard_pending(d);
    tfm__shuffle_buffer *const now = d->current; /* Kept until there is another. */
    const tfm_data_position from = d->start_position;
    const tfm_data_counts running = d->epoch_counts, last = d->last_epoch_counts;
    const int64_t next_batch = d->next_batch;
    const bool resumed_mid_epoch = d->resumed_mid_epoch;
    d->current = NULL;
    d->epoch_counts = (tfm_data_counts){0};
    d->resumed_mid_epoch = to.line > 0;
    if (to.subword_alpha_e9 != segmentation_key(d))
        to.batch = 0;
    if (is_distributed(d)) { /* other ranks may not be here yet */
        tfm__shuffle_buffer_free(now);
        d->next_batch = 0;
        d->failed = false;
        return start_reading(d, to);
    }
    const tfm_status status = read_at(d, to);
    if (status == TFM_OK) {
        tfm__shuffle_buffer_free(now);
        d->next_batch = to.batch;
        return TFM_OK;
    }
    discard_pending(d);
    tfm__shuffle_buffer_free(d->current);
    d->current = now;
    d->start_position = from;
    d->epoch_counts = running;
    d->last_epoch_counts = last;
    d->next_batch = next_batch;
    d->resumed_mid_epoch = resumed_mid_epoch;
    return status;
}

tfm_data_counts tfm_data_count(const tfm_data *d) {
    if (!d)
        return (tfm_data_counts){0};
    return d->last_epoch_counts.complete ? d->last_epoch_counts : d->epoch_counts;
}
