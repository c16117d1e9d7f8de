/* Parallel text as batches. A *buffer* is what is shuffled together: so many pairs in the order of the files,
 * as ids, and an order of batches over them. While one is used up, a thread makes the next. */
#include "tfm/data.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/base.h"
#include "base/random.h"
#include "text/line_file.h"

typedef struct pair {
    size_t at;              /* of its ids: source, then target */
    int32_t source, target; /* tokens, EOS counted */
    uint64_t key;           /* random: equal lengths lie in another order each time */
} pair;

typedef struct batch {
    size_t first, count; /* of the order */
} batch;

typedef struct buffer {
    tfm_data_position begin; /* batch 0 of it */
    tfm_data_position next;  /* where the following buffer begins */
    tfm_data_counts counts;  /* of this buffer alone */
    bool whole;              /* all of the files, so it serves every pass */
    int32_t *ids;
    size_t id_count, id_room;
    pair *pairs;
    size_t pair_count, pair_room;
    pair **order;
    batch *batches;
    size_t batch_count;
} buffer;

struct tfm_data {
    const tfm_tokenizer *tokenizer;
    char *names[2]; /* the second is NULL for a TSV */
    tfm_data_options options;
    buffer *now; /* what batches come from; NULL before the first */
    int64_t next_batch;
    tfm_data_counts last, running;
    bool has_last;
    int32_t *padded; /* of the batch that is borrowed */
    size_t padded_room;
    /* What the thread makes, its own until it is joined. */
    pthread_t thread;
    bool working;
    buffer *coming;
    tfm_data_position from;
    tfm_status status;
    char message[1024];
};

/* ---- Reading ---- */

static tfm_status grow(void *array, size_t *room, size_t count, size_t size) {
    void *old, *larger;
    if (count <= *room)
        return TFM_OK;
    size_t more = *room ? *room : 1024;
    while (more < count)
        more *= 2;
    memcpy(&old, array, sizeof(old));
    larger = tfm__realloc(old, more, size);
    if (!larger)
        return TFM_ERROR_MEMORY;
    memcpy(array, &larger, sizeof(larger));
    *room = more;
    return TFM_OK;
}

/* What a line's two texts come to. */
typedef enum verdict { GOOD, EMPTY, LONG, INVALID } verdict;

/* Adds the pair's ids, if it is good. */
static tfm_status add_pair(const tfm_data *d, buffer *b, const tfm__span *sides, verdict *verdict_out) {
    const size_t most = (size_t)(d->options.max_length ? d->options.max_length : 256), at = b->id_count;
    pair p = {.at = at};
    *verdict_out = GOOD;
    for (int side = 0; side < 2 && *verdict_out == GOOD; side++) {
        int32_t *ids = NULL;
        size_t count = 0;
        tfm_status status = tfm_tokenizer_encode(d->tokenizer, &ids, &count, side ? TFM_TARGET : TFM_SOURCE,
                                                 sides[side].text, sides[side].bytes);
        if (status != TFM_OK && status != TFM_ERROR_INPUT)
            return status;
        *verdict_out = status != TFM_OK ? INVALID : count <= 1 ? EMPTY : count > most ? LONG : GOOD;
        if (*verdict_out == GOOD &&
            (status = grow(&b->ids, &b->id_room, b->id_count + count, sizeof(*ids))) != TFM_OK) {
            tfm_ids_free(&ids);
            return status;
        }
        if (*verdict_out == GOOD) {
            memcpy(b->ids + b->id_count, ids, count * sizeof(*ids));
            b->id_count += count;
            *(side ? &p.target : &p.source) = (int32_t)count;
        }
        tfm_ids_free(&ids);
    }
    if (*verdict_out != GOOD) {
        b->id_count = at;
        return TFM_OK;
    }
    tfm_status status = grow(&b->pairs, &b->pair_room, b->pair_count + 1, sizeof(pair));
    if (status == TFM_OK)
        b->pairs[b->pair_count++] = p;
    return status;
}

static tfm_status count_verdict(const tfm_data *d, buffer *b, verdict v) {
    static const char *const why[] = {[EMPTY] = "one side is empty", [LONG] = "one side is too long"};
    uint64_t *const counts[] = {&b->counts.pairs, &b->counts.empty, &b->counts.long_, &b->counts.invalid};
    char sentence[512];
    (*counts[v])++;
    if (v == GOOD || !d->options.strict)
        return TFM_OK;
    snprintf(sentence, sizeof(sentence), "%s", v == INVALID ? tfm_error_message() : why[v]);
    return tfm__fail(TFM_ERROR_INPUT, "%s%s%s, line %lld: %s", d->names[0], d->names[1] ? " and " : "",
                     d->names[1] ? d->names[1] : "", (long long)b->next.line, sentence);
}

/* Lines that one file has and the other has not. */
static tfm_status count_rest(const tfm_data *d, buffer *b, tfm__lines *longer, bool more) {
    if (d->options.strict && more)
        return tfm__fail(TFM_ERROR_INPUT, "%s has more lines than the other file, which ends after line %lld",
                         longer->name, (long long)b->next.line);
    tfm_status status = TFM_OK;
    for (; more && status == TFM_OK; b->counts.unpaired++)
        status = tfm__lines_next(longer, &more);
    return status;
}

/* Up to so many pairs; *end: the files are over. */
static tfm_status read_pairs(const tfm_data *d, buffer *b, tfm__lines *readers, bool *end) {
    const size_t most = d->options.buffer ? (size_t)d->options.buffer : 200000;
    const bool tsv = !d->names[1];
    tfm_status status = TFM_OK;
    *end = false;
    while (b->pair_count < most && status == TFM_OK) {
        bool more[2];
        tfm__span sides[2];
        verdict v = INVALID;
        status = tfm__lines_next(&readers[0], &more[0]);
        more[1] = more[0];
        if (status == TFM_OK && !tsv)
            status = tfm__lines_next(&readers[1], &more[1]);
        if (status != TFM_OK)
            return status;
        if (!more[0] || !more[1]) {
            *end = true;
            return count_rest(d, b, &readers[more[1] ? 1 : 0], more[0] != more[1]);
        }
        b->next.line++;
        if (d->options.hold_every > 0 && b->next.line % d->options.hold_every == 0)
            continue;
        sides[0] = (tfm__span){readers[0].text, readers[0].bytes};
        sides[1] = (tfm__span){readers[1].text, readers[1].bytes};
        if (tsv && !tfm__tsv_split(sides, readers[0].text, readers[0].bytes))
            tfm__fail(TFM_ERROR_INPUT, "there is no tab in it");
        else
            status = add_pair(d, b, sides, &v);
        if (status == TFM_OK)
            status = count_verdict(d, b, v);
    }
    return status;
}

/* ---- Order ---- */

static int32_t wider(const pair *p) {
    return p->source > p->target ? p->source : p->target;
}

static int by_length(const void *a, const void *b) {
    const pair *x = *(pair *const *)a, *y = *(pair *const *)b;
    if (wider(x) != wider(y))
        return wider(x) < wider(y) ? -1 : 1;
    if (x->target != y->target)
        return x->target < y->target ? -1 : 1;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static void cut(const tfm_data *d, buffer *b) {
    const int64_t most = d->options.tokens ? d->options.tokens : 4096;
    int64_t width = 0;
    b->batch_count = 0;
    for (size_t i = 0; i < b->pair_count; i++) {
        const int64_t n = wider(b->order[i]);
        batch *last = b->batch_count ? &b->batches[b->batch_count - 1] : NULL;
        if (!last || (n > width ? n : width) * (int64_t)(last->count + 1) > most) {
            last = &b->batches[b->batch_count++];
            *last = (batch){i, 0};
            width = 0;
        }
        last->count++;
        width = n > width ? n : width;
    }
}

/* Pairs of one length together, and the batches in any order: by the seed, the pass, and where the buffer
 * lies. */
static tfm_status arrange(const tfm_data *d, buffer *b) {
    if (!b->order)
        b->order = tfm__alloc(b->pair_count, sizeof(*b->order));
    if (!b->batches)
        b->batches = tfm__alloc(b->pair_count, sizeof(*b->batches));
    if (!b->order || !b->batches)
        return TFM_ERROR_MEMORY;
    tfm__random random =
        tfm__random_new(d->options.seed, (uint64_t)b->begin.epoch << 40 ^ (uint64_t)b->begin.line);
    for (size_t i = 0; i < b->pair_count; i++) {
        b->pairs[i].key = tfm__random_next(&random);
        b->order[i] = &b->pairs[i];
    }
    if (!d->options.in_order)
        qsort(b->order, b->pair_count, sizeof(*b->order), by_length);
    cut(d, b);
    for (size_t i = b->batch_count; i > 1 && !d->options.in_order; i--) {
        const size_t k = (size_t)tfm__random_below(&random, i);
        const batch swapped = b->batches[i - 1];
        b->batches[i - 1] = b->batches[k];
        b->batches[k] = swapped;
    }
    return TFM_OK;
}

/* ---- Buffers ---- */

static void buffer_free(buffer *b) {
    if (!b)
        return;
    free(b->ids);
    free(b->pairs);
    free(b->order);
    free(b->batches);
    free(b);
}

static tfm_status fill(const tfm_data *d, buffer *b) {
    tfm__lines readers[2] = {{0}};
    bool end = false;
    tfm_status status = tfm__lines_open(&readers[0], d->names[0], b->begin.source_at);
    if (status == TFM_OK && d->names[1])
        status = tfm__lines_open(&readers[1], d->names[1], b->begin.target_at);
    if (status == TFM_OK)
        status = read_pairs(d, b, readers, &end);
    if (status == TFM_OK) {
        b->whole = end && b->begin.line == 0;
        b->next.source_at = ftello(readers[0].file);
        b->next.target_at = d->names[1] ? ftello(readers[1].file) : 0;
        if (end)
            b->next = (tfm_data_position){.epoch = b->begin.epoch + 1};
    }
    tfm__lines_close(&readers[0]);
    tfm__lines_close(&readers[1]);
    return status;
}

/* The buffer that begins at d->from; `again` is one that serves every pass, or NULL. */
static tfm_status make_buffer(tfm_data *d, buffer *again) {
    buffer *b = again ? again : tfm__alloc(1, sizeof(*b));
    tfm_status status = b ? TFM_OK : TFM_ERROR_MEMORY;
    d->coming = b;
    if (status != TFM_OK)
        return status;
    b->begin = b->next = d->from;
    b->begin.batch = b->next.batch = 0;
    if (again)
        b->next.epoch++;
    else
        status = fill(d, b);
    if (status == TFM_OK && b->pair_count == 0 && b->begin.line == 0)
        return tfm__fail(TFM_ERROR_INPUT,
                         "%s%s%s: there is no good pair of lines: %llu have an empty side, %llu are too "
                         "long, %llu are no text",
                         d->names[0], d->names[1] ? " and " : "", d->names[1] ? d->names[1] : "",
                         (unsigned long long)b->counts.empty, (unsigned long long)b->counts.long_,
                         (unsigned long long)b->counts.invalid);
    return status == TFM_OK && b->pair_count > 0 ? arrange(d, b) : status;
}

static void *work(void *user) {
    tfm_data *d = user;
    d->status = make_buffer(d, NULL);
    if (d->status != TFM_OK) /* the sentence is this thread's */
        snprintf(d->message, sizeof(d->message), "%s", tfm_error_message());
    return NULL;
}

static tfm_status start(tfm_data *d, tfm_data_position from) {
    d->from = from;
    d->coming = NULL;
    const int error = pthread_create(&d->thread, NULL, work, d);
    if (error)
        return tfm__fail(TFM_ERROR_MEMORY, "a thread for reading cannot be started: %s", strerror(error));
    d->working = true;
    return TFM_OK;
}

/* Waits for the thread; the buffer that it made, or NULL. */
static buffer *finish(tfm_data *d) {
    if (d->working)
        pthread_join(d->thread, NULL);
    d->working = false;
    buffer *made = d->coming;
    d->coming = NULL;
    return made;
}

static void add_counts(tfm_data *d, const buffer *b) {
    d->running.pairs += b->counts.pairs;
    d->running.empty += b->counts.empty;
    d->running.long_ += b->counts.long_;
    d->running.invalid += b->counts.invalid;
    d->running.unpaired += b->counts.unpaired;
    if (b->next.line == 0) { /* the files were over */
        d->last = d->running;
        d->has_last = true;
        d->running = (tfm_data_counts){0};
    }
}

/* The next buffer takes the place of the one that is used up, and the thread begins with the one behind it.
 */
static tfm_status advance(tfm_data *d) {
    if (d->now && d->now->whole) {
        d->from = d->now->next;
        tfm_status status = make_buffer(d, d->now);
        d->coming = NULL;
        d->next_batch = 0;
        return status;
    }
    if (!d->working) {
        tfm_status status = start(d, d->now ? d->now->next : d->from);
        if (status != TFM_OK)
            return status;
    }
    buffer_free(d->now);
    d->now = finish(d);
    d->next_batch = 0;
    if (d->status != TFM_OK) {
        buffer_free(d->now);
        d->now = NULL;
        return tfm__fail(d->status, "%s", d->message);
    }
    add_counts(d, d->now);
    return d->now->whole ? TFM_OK : start(d, d->now->next);
}

/* ---- The door ---- */

tfm_status tfm_data_open(tfm_data **out, const tfm_tokenizer *tokenizer, const char *source,
                         const char *target, const tfm_data_options *options) {
    static const tfm_data_options none;
    *out = NULL;
    options = options ? options : &none;
    if (options->tokens < 0 || options->max_length < 0 || options->buffer < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "data: tokens %lld, max_length %d, buffer %lld: none may be negative",
                         (long long)options->tokens, options->max_length, (long long)options->buffer);
    tfm_data *d = tfm__alloc(1, sizeof(*d));
    if (!d)
        return TFM_ERROR_MEMORY;
    d->tokenizer = tokenizer;
    d->options = *options;
    d->names[0] = tfm__strdup(source);
    d->names[1] = target ? tfm__strdup(target) : NULL;
    tfm_status status = d->names[0] && (!target || d->names[1]) ? TFM_OK : TFM_ERROR_MEMORY;
    for (int i = 0; i < 2 && status == TFM_OK && d->names[i]; i++) {
        tfm__lines r;
        status = tfm__lines_open(&r, d->names[i], 0);
        tfm__lines_close(&r);
    }
    if (status == TFM_OK)
        status = start(d, (tfm_data_position){0});
    if (status != TFM_OK)
        tfm_data_free(&d);
    *out = d;
    return status;
}

void tfm_data_free(tfm_data **pointer) {
    tfm_data *d = pointer ? *pointer : NULL;
    if (!d)
        return;
    *pointer = NULL;
    buffer_free(finish(d));
    buffer_free(d->now);
    free(d->padded);
    free(d->names[0]);
    free(d->names[1]);
    free(d);
}

/* Copies of the batch's ids, padded with zeros, and lengths. */
static tfm_status pad(tfm_data *d, tfm_pairs *out, const buffer *b, const batch *from) {
    int64_t widths[2] = {0, 0};
    for (size_t i = 0; i < from->count; i++) {
        const pair *p = b->order[from->first + i];
        widths[0] = p->source > widths[0] ? p->source : widths[0];
        widths[1] = p->target > widths[1] ? p->target : widths[1];
    }
    const size_t n = from->count, total = n * (size_t)(widths[0] + widths[1] + 2);
    tfm_status status = grow(&d->padded, &d->padded_room, total, sizeof(*d->padded));
    if (status != TFM_OK)
        return status;
    int32_t *sources = d->padded, *targets = sources + n * (size_t)widths[0],
            *lengths = targets + n * (size_t)widths[1];
    memset(d->padded, 0, total * sizeof(*d->padded));
    for (size_t i = 0; i < n; i++) {
        const pair *p = b->order[from->first + i];
        memcpy(sources + i * (size_t)widths[0], b->ids + p->at, (size_t)p->source * sizeof(int32_t));
        memcpy(targets + i * (size_t)widths[1], b->ids + p->at + p->source,
               (size_t)p->target * sizeof(int32_t));
        lengths[i] = p->source;
        lengths[n + i] = p->target;
    }
    *out = (tfm_pairs){(int64_t)n, widths[0], widths[1], sources, targets, lengths, lengths + n};
    return TFM_OK;
}

tfm_status tfm_data_next(tfm_data *d, tfm_pairs *out) {
    tfm_status status = TFM_OK;
    while (status == TFM_OK && (!d->now || (size_t)d->next_batch >= d->now->batch_count))
        status = advance(d);
    if (status == TFM_OK)
        status = pad(d, out, d->now, &d->now->batches[d->next_batch]);
    d->next_batch += status == TFM_OK;
    return status;
}

tfm_data_position tfm_data_tell(const tfm_data *d) {
    tfm_data_position at = d->now ? d->now->begin : d->from;
    at.batch = d->now ? d->next_batch : at.batch;
    if (d->now && (size_t)d->next_batch >= d->now->batch_count)
        at = d->now->next;
    return at;
}

tfm_status tfm_data_seek(tfm_data *d, tfm_data_position to) {
    buffer_free(finish(d));
    buffer_free(d->now);
    d->now = NULL;
    d->running = (tfm_data_counts){0};
    tfm_status status = start(d, to);
    if (status == TFM_OK)
        status = advance(d);
    if (status == TFM_OK && (to.batch < 0 || (size_t)to.batch > d->now->batch_count))
        return tfm__fail(TFM_ERROR_INPUT, "%s has no batch %lld there: it is not the file that it was",
                         d->names[0], (long long)to.batch);
    d->next_batch = to.batch;
    return status;
}

tfm_data_counts tfm_data_count(const tfm_data *d) {
    return d->has_last ? d->last : d->running;
}
