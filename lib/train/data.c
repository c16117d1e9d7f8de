/* Text as batches: while one buffer of pairs, or of texts, is used up, a thread makes the next. Of several ranks the
 * thread makes a portion of it, and the buffer is put together by the caller's thread, which alone talks. */
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
    tfm__sharing sharing;
    tfm__pair_buffer *now; /* The buffer that batches come from, or NULL before the first. */
    int64_t next_batch;
    tfm_data_counts last, running;
    bool begun_within; /* `running` lacks the lines before the place that a seek went to. */
    int32_t *padded;   /* The arrays of the batch that was given out last. */
    size_t padded_room;
    /* The thread and what it makes, which nobody else touches until the thread is joined. */
    pthread_t thread;
    bool working, begun; /* Without a thread a buffer may be begun that is to fail where all ranks hear it. */
    bool lost;           /* All ranks have failed at d->from. */
    tfm__pair_buffer *coming;
    tfm__portion *portion;
    uint64_t encoded; /* Lines that were tokenized; for tests. */
    tfm_data_position from;
    tfm_status status;
    char message[1024];
};

/* ---- Buffers ---- */

static bool shared(const tfm_data *d) {
    return tfm__sharing_several(&d->sharing);
}

static tfm_status new_buffer(tfm_data *d) {
    tfm__pair_buffer *b = d->coming = tfm__alloc(1, sizeof(*b));
    if (!b)
        return TFM_ERROR_MEMORY;
    b->begin = b->next = d->from;
    b->begin.batch = b->next.batch = 0;
    return TFM_OK;
}

/* Makes the buffer, or this rank's portion of it, that begins at d->from. */
static tfm_status make(tfm_data *d) {
    tfm_status status = new_buffer(d);
    if (status == TFM_OK && shared(d))
        return tfm__portion_begin(&d->portion, &d->sharing, &d->corpus, d->coming->begin);
    if (status == TFM_OK)
        status = tfm__pair_buffer_read(&d->corpus, d->coming);
    return status == TFM_OK ? tfm__pair_buffer_arrange(&d->corpus, d->coming) : status;
}

/* Another pass over a buffer that serves all. */
static tfm_status make_again(tfm_data *d) {
    tfm__pair_buffer *b = d->now;
    d->from = b->begin = b->next;
    b->begin.batch = b->next.batch = 0;
    b->next.epoch++;
    d->next_batch = 0;
    return tfm__pair_buffer_arrange(&d->corpus, b);
}

/* The sentence is this thread's. */
static void note(tfm_data *d, tfm_status status) {
    d->status = status;
    if (status != TFM_OK)
        snprintf(d->message, sizeof(d->message), "%s", tfm_error_message());
}

static void *work(void *user) {
    note(user, make(user));
    return NULL;
}

/* Of several ranks a failure to start waits until all hear of it. */
static tfm_status start(tfm_data *d, tfm_data_position from) {
    d->from = from;
    d->coming = NULL;
    const int error = pthread_create(&d->thread, NULL, work, d);
    d->working = !error;
    d->begun = !error || shared(d);
    if (!error)
        return TFM_OK;
    tfm__fail(TFM_ERROR_MEMORY, "a thread for reading cannot be started: %s", strerror(error));
    note(d, TFM_ERROR_MEMORY);
    return d->begun ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Waits for the thread and returns the buffer that it made, or NULL. */
static tfm__pair_buffer *finish(tfm_data *d) {
    if (d->working)
        pthread_join(d->thread, NULL);
    d->working = d->begun = false;
    tfm__pair_buffer *made = d->coming;
    d->coming = NULL;
    return made;
}

static tfm_status no_batch(const tfm_data *d, tfm_data_position at) {
    return tfm__fail(TFM_ERROR_INPUT, "%s%s: there is no batch %lld there: the text is not what it was",
                     d->corpus.names[0], tfm__corpus_others(&d->corpus), (long long)at.batch);
}

/* Waits for the thread and does without what it made. */
static void drop(tfm_data *d) {
    tfm__pair_buffer_free(finish(d));
    tfm__portion_free(&d->portion);
}

/* All ranks tell each other what they have made, and more until it fills d->now; `status` is what this one's work came
 * to. */
static tfm_status fill(tfm_data *d, tfm_status status) {
    bool full = false;
    tfm__pair_buffer *b = d->now;
    for (;;) {
        if (status == TFM_OK && full)
            status = tfm__pair_buffer_arrange(&d->corpus, b);
        if (status == TFM_OK && full && (size_t)d->from.batch > b->batch_count)
            status = no_batch(d, d->from);
        status =
            tfm__portion_agree(&d->sharing, d->portion, status == TFM_OK && full ? &b->next : &d->from, full, status);
        if (status != TFM_OK || full)
            break;
        status = tfm__portion_tell(&d->sharing, d->portion);
        if (status == TFM_OK)
            status = tfm__portion_take(&d->sharing, d->portion, &d->corpus, b, &full);
        if (status == TFM_OK && !full)
            status = tfm__portion_go_on(d->portion, &d->corpus, b);
    }
    if (d->portion)
        d->encoded += d->portion->line.encoded;
    tfm__portion_free(&d->portion);
    d->lost = status != TFM_OK;
    if (d->lost)
        note(d, status);
    return status;
}

static void add_counts(tfm_data *d, const tfm__pair_buffer *b) {
    d->running.pairs += b->counts.pairs;
    d->running.empty += b->counts.empty;
    d->running.long_ += b->counts.long_;
    d->running.invalid += b->counts.invalid;
    d->running.unpaired += b->counts.unpaired;
    if (b->next.line == 0) { /* the files were over */
        if (!d->begun_within) {
            d->last = d->running;
            d->last.whole = true;
        }
        d->running = (tfm_data_counts){0};
        d->begun_within = false;
    }
}

/* Puts the next buffer in the place of the one that is used up, and has the thread begin with the one after it. */
static tfm_status advance(tfm_data *d) {
    if (d->now && d->now->whole)
        return make_again(d);
    if (!d->begun) {
        tfm_status status = start(d, d->now ? d->now->next : d->from);
        if (status != TFM_OK)
            return status;
    }
    tfm__pair_buffer_free(d->now);
    d->now = finish(d);
    tfm_status status = d->status == TFM_OK ? TFM_OK : tfm__fail(d->status, "%s", d->message);
    if (shared(d))
        status = fill(d, status);
    else if (status == TFM_OK)
        d->encoded += d->now->encoded;
    d->next_batch = shared(d) && status == TFM_OK ? d->from.batch : 0;
    if (status != TFM_OK) {
        tfm__pair_buffer_free(d->now);
        d->now = NULL;
        return status;
    }
    add_counts(d, d->now);
    return d->now->whole ? TFM_OK : start(d, d->now->next);
}

uint64_t tfm__data_encoded(const tfm_data *d) {
    return d->encoded;
}

/* ---- The door ---- */

static tfm_status check_options(const tfm_data_options *options) {
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "data_open: %s", TFM__RESERVED_SET_MESSAGE);
    if (!options)
        return TFM_OK;
    if (!(options->subword_alpha >= 0 && options->subword_alpha < 1))
        return tfm__fail(TFM_ERROR_ARGUMENT, "data: subword_alpha is %g: give a number from 0 to below 1",
                         (double)options->subword_alpha);
    if (options->tokens < 0 || options->max_length < 0 || options->buffer < 0 || options->block < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "data: tokens %lld, max_length %d, block %d, buffer %lld: none may be negative",
                         (long long)options->tokens, options->max_length, options->block, (long long)options->buffer);
    if (TFM__RESERVED_SET(&options->documents))
        return tfm__fail(TFM_ERROR_ARGUMENT, "data_open: %s", TFM__RESERVED_SET_MESSAGE);
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
    d->corpus.texts = texts;
    status = tfm__corpus_open(&d->corpus, tokenizer, sides, count, options);
    if (status == TFM_OK && options)
        status = tfm__sharing_open(&d->sharing, options);
    if (status == TFM_OK)
        status = start(d, (tfm_data_position){0});
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
    drop(d);
    tfm__pair_buffer_free(d->now);
    tfm__sharing_close(&d->sharing);
    free(d->padded);
    tfm__corpus_close(&d->corpus);
    free(d);
}

/* Fills in a batch with copies of its ids, padded with zeros, and their lengths. */
static tfm_status pad(tfm_data *d, tfm_pairs *out, const tfm__pair_buffer *b, const tfm__pair_batch *from) {
    int64_t widths[2] = {0, 0};
    for (size_t i = 0; i < from->count; i++) {
        const tfm__pair *p = b->order[from->first + i];
        widths[0] = p->source > widths[0] ? p->source : widths[0];
        widths[1] = p->target > widths[1] ? p->target : widths[1];
    }
    const size_t n = from->count, total = n * (size_t)(widths[0] + widths[1] + 2);
    tfm_status status = tfm__grow(&d->padded, &d->padded_room, total, sizeof(*d->padded));
    if (status != TFM_OK)
        return status;
    int32_t *sources = d->padded, *targets = sources + n * (size_t)widths[0],
            *lengths = targets + n * (size_t)widths[1];
    memset(d->padded, 0, total * sizeof(*d->padded));
    for (size_t i = 0; i < n; i++) {
        const tfm__pair *p = b->order[from->first + i];
        const int32_t *ids = b->row_ids + p->at;
        memcpy(sources + i * (size_t)widths[0], ids, (size_t)p->source * sizeof(int32_t));
        memcpy(targets + i * (size_t)widths[1], ids + p->source, (size_t)p->target * sizeof(int32_t));
        lengths[i] = p->source;
        lengths[n + i] = p->target;
    }
    *out = (tfm_pairs){(int64_t)n, widths[0], widths[1], sources, targets, lengths, lengths + n};
    if (d->corpus.texts)
        out->sources = out->source_lengths = NULL;
    return TFM_OK;
}

tfm_status tfm_data_next(tfm_data *d, tfm_pairs *out) {
    if (TFM__NEEDS("data_next", d, out) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = d->lost ? tfm__fail(d->status, "%s", d->message) : TFM_OK;
    while (status == TFM_OK && (!d->now || (size_t)d->next_batch >= d->now->batch_count))
        status = advance(d);
    if (status != TFM_OK)
        return status;
    status = pad(d, out, d->now, &d->now->batches[d->next_batch]);
    d->next_batch += status == TFM_OK || shared(d); /* the other ranks go on */
    return status;
}

/* Returns a number for the rule by which lines are cut into pieces. Only by the same rule does a buffer have the same
 * batches again. */
static int64_t cut_of(const tfm_data *d) {
    return llround(1e9 * (double)d->corpus.options.subword_alpha);
}

tfm_data_position tfm_data_tell(const tfm_data *d) {
    if (!d)
        return (tfm_data_position){0};
    tfm_data_position at = d->now ? d->now->begin : d->from;
    at.batch = d->now ? d->next_batch : at.batch;
    if (d->now && (size_t)d->next_batch >= d->now->batch_count)
        at = d->now->next;
    at.cut = cut_of(d);
    return at;
}

/* Every pass adds 1 to the epoch: a number that none can come to keeps the sum from overflowing. */
enum { MOST_EPOCHS = INT32_MAX };

/* Checks that there can be such a place in the files as they are. */
static tfm_status check_position(const tfm_data *d, tfm_data_position to) {
    if (to.epoch >= 0 && to.epoch <= MOST_EPOCHS && to.batch >= 0 && tfm__corpus_has(&d->corpus, to))
        return TFM_OK;
    return tfm__fail(
        TFM_ERROR_INPUT,
        "%s%s: there is no batch %lld of pass %lld after line %lld and byte %lld: the text is not what it was",
        d->corpus.names[0], tfm__corpus_others(&d->corpus), (long long)to.batch, (long long)to.epoch,
        (long long)to.line, (long long)to.source_at);
}

/* Reads the buffer at a place, and checks that it has the batch of that place. */
static tfm_status read_at(tfm_data *d, tfm_data_position to) {
    tfm_status status = start(d, to);
    if (status == TFM_OK)
        status = advance(d);
    return status == TFM_OK && (size_t)to.batch > d->now->batch_count ? no_batch(d, to) : status;
}

tfm_status tfm_data_seek(tfm_data *d, tfm_data_position to) {
    if (TFM__NEEDS("data_seek", d) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (check_position(d, to) != TFM_OK)
        return TFM_ERROR_INPUT;
    drop(d);
    tfm__pair_buffer *const now = d->now; /* It is kept until there is another. */
    const tfm_data_position from = d->from;
    const tfm_data_counts running = d->running, last = d->last;
    const int64_t next_batch = d->next_batch;
    const bool begun_within = d->begun_within;
    d->now = NULL;
    d->running = (tfm_data_counts){0};
    d->begun_within = to.line > 0;
    if (to.cut != cut_of(d))
        to.batch = 0;
    if (shared(d)) { /* the others may not be here yet */
        tfm__pair_buffer_free(now);
        d->next_batch = 0;
        d->lost = false;
        return start(d, to);
    }
    const tfm_status status = read_at(d, to);
    if (status == TFM_OK) {
        tfm__pair_buffer_free(now);
        d->next_batch = to.batch;
        return TFM_OK;
    }
    drop(d);
    tfm__pair_buffer_free(d->now);
    d->now = now;
    d->from = from;
    d->running = running;
    d->last = last;
    d->next_batch = next_batch;
    d->begun_within = begun_within;
    return status;
}

tfm_data_counts tfm_data_count(const tfm_data *d) {
    if (!d)
        return (tfm_data_counts){0};
    return d->last.whole ? d->last : d->running;
}
