/* From lines of text to buffers of pairs, or of texts, and from those to batches. */
#include "train/corpus.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "text/spm.h"
#include "text/tokenizer.h"

/* ---- Reading ---- */

/* What a line's two texts come to. */
typedef enum verdict { GOOD, EMPTY, LONG, INVALID } verdict;

/* What is wrong with a side of so many tokens; of an invalid one the tokenizer has said it. */
static void say_why(verdict v, const char *side, size_t count, size_t most) {
    char sentence[512];
    if (v == EMPTY)
        tfm__fail(TFM_ERROR_INPUT, "the %s is empty", side);
    if (v == LONG)
        tfm__fail(TFM_ERROR_INPUT, "the %s has %zu tokens, and max_length is %zu", side, count, most);
    if (v == INVALID) {
        snprintf(sentence, sizeof(sentence), "%s", tfm_error_message());
        tfm__fail(TFM_ERROR_INPUT, "the %s: %s", side, sentence);
    }
}

/* Puts a drawn segmentation in the place of the best one, by which pairs are judged, so that each pass has
 * the same: where it is too long, the best one stays. */
static tfm_status draw(const tfm__corpus *c, int32_t **ids, size_t *count, tfm_side side, const tfm__span *text,
                       size_t most) {
    int32_t *drawn;
    size_t drawn_count;
    tfm_status status = tfm__tokenizer_encode(c->tokenizer, &drawn, &drawn_count, side, text->text, text->bytes,
                                              c->options.subword_alpha);
    if (status == TFM_OK && drawn_count <= most) {
        int32_t *best = *ids;
        *ids = drawn;
        *count = drawn_count;
        drawn = best;
    }
    tfm_ids_free(&drawn);
    return status;
}

/* Adds the pair's ids, if it is good; if not, a sentence says why. */
static tfm_status add_pair(const tfm__corpus *c, tfm__pair_buffer *b, const tfm__span *sides, verdict *verdict_out) {
    const size_t most = (size_t)(c->options.max_length ? c->options.max_length : 256), at = b->id_count;
    tfm__pair p = {.at = at};
    *verdict_out = GOOD;
    b->encoded++;
    for (int side = 0; side < 2 && *verdict_out == GOOD; side++) {
        int32_t *ids = NULL;
        size_t count = 0;
        tfm_status status = tfm_tokenizer_encode(c->tokenizer, &ids, &count, side ? TFM_TARGET : TFM_SOURCE,
                                                 sides[side].text, sides[side].bytes);
        if (status != TFM_OK && status != TFM_ERROR_INPUT)
            return status;
        *verdict_out = status != TFM_OK ? INVALID : count <= c->around[side] ? EMPTY : count > most ? LONG : GOOD;
        if (*verdict_out == GOOD && c->options.subword_alpha > 0 &&
            (status = draw(c, &ids, &count, side ? TFM_TARGET : TFM_SOURCE, &sides[side], most)) != TFM_OK) {
            tfm_ids_free(&ids);
            return status;
        }
        say_why(*verdict_out, side ? "target" : "source", count, most);
        if (*verdict_out == GOOD &&
            (status = tfm__grow(&b->ids, &b->id_room, b->id_count + count, sizeof(*ids))) != TFM_OK) {
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
    tfm_status status = tfm__grow(&b->pairs, &b->pair_room, b->pair_count + 1, sizeof(tfm__pair));
    if (status == TFM_OK)
        b->pairs[b->pair_count++] = p;
    return status;
}

static tfm_status count_verdict(const tfm__corpus *c, tfm__pair_buffer *b, verdict v) {
    uint64_t *const counts[] = {&b->counts.pairs, &b->counts.empty, &b->counts.long_, &b->counts.invalid};
    char sentence[512];
    (*counts[v])++;
    if (v == GOOD || !c->options.strict)
        return TFM_OK;
    snprintf(sentence, sizeof(sentence), "%s", tfm_error_message());
    return tfm__fail(TFM_ERROR_INPUT, "%s%s%s, line %lld: %s", c->names[0], c->names[1] ? " and " : "",
                     c->names[1] ? c->names[1] : "", (long long)b->next.line, sentence);
}

/* Lines that one file has and the other has not. */
static tfm_status count_rest(const tfm__corpus *c, tfm__pair_buffer *b, tfm__lines *longer, bool more) {
    if (c->options.strict && more)
        return tfm__fail(TFM_ERROR_INPUT, "%s has more lines than the other file, which ends after line %lld",
                         longer->name, (long long)b->next.line);
    tfm_status status = TFM_OK;
    for (; more && status == TFM_OK; b->counts.unpaired++)
        status = tfm__lines_next(longer, &more);
    return status;
}

/* The next pair, if it is good; *end: the files are over. */
static tfm_status read_pair(const tfm__corpus *c, tfm__pair_buffer *b, tfm__readers *from, bool *end) {
    tfm__lines *readers = from->files;
    const bool tsv = !c->names[1];
    bool more[2];
    tfm__span sides[2];
    verdict v = INVALID;
    tfm_status status = tfm__lines_next(&readers[0], &more[0]);
    more[1] = more[0];
    if (status == TFM_OK && !tsv)
        status = tfm__lines_next(&readers[1], &more[1]);
    if (status != TFM_OK)
        return status;
    if (!more[0] || !more[1]) {
        *end = true;
        return count_rest(c, b, &readers[more[1] ? 1 : 0], more[0] != more[1]);
    }
    b->next.line++;
    if ((c->options.hold_every > 0 && b->next.line % c->options.hold_every == 0) || tfm__pair_buffer_passes(b))
        return TFM_OK;
    sides[0] = (tfm__span){readers[0].text, readers[0].bytes};
    sides[1] = (tfm__span){readers[1].text, readers[1].bytes};
    if (tsv && !tfm__tsv_split(sides, readers[0].text, readers[0].bytes))
        tfm__fail(TFM_ERROR_INPUT, "there is no tab in it");
    else
        status = add_pair(c, b, sides, &v);
    return status == TFM_OK ? count_verdict(c, b, v) : status;
}

tfm_status tfm__corpus_read(const tfm__corpus *c, tfm__pair_buffer *b, tfm__readers *readers, bool *end) {
    return c->texts ? tfm__text_read(c, b, readers, end) : read_pair(c, b, readers, end);
}

/* Looks at what follows a full buffer. If no good pair follows, it sets *end, and the bad pairs there are counted. If
 * one does, all that was read here belongs to the next buffer, and `b` is as it was. The same holds for a pair that
 * `strict` refuses, since the pairs before it are good. */
static tfm_status look_ahead(const tfm__corpus *c, tfm__pair_buffer *b, tfm__readers *readers, bool *end) {
    const size_t pairs = b->pair_count, ids = b->id_count;
    const tfm_data_counts counts = b->counts;
    const int64_t line = b->next.line;
    tfm_status status = TFM_OK;
    while (status == TFM_OK && !*end && b->pair_count == pairs)
        status = tfm__corpus_read(c, b, readers, end);
    if (c->options.strict && status == TFM_ERROR_INPUT) {
        status = TFM_OK;
        *end = false;
    }
    if (*end)
        return status;
    b->pair_count = pairs;
    b->id_count = ids;
    b->counts = counts;
    b->next.line = line;
    return status;
}

size_t tfm__corpus_most(const tfm__corpus *c) {
    return c->options.buffer ? (size_t)c->options.buffer : 200000;
}

tfm_data_position tfm__readers_tell(const tfm__corpus *c, const tfm__readers *readers, int64_t line) {
    const tfm__lines *files = readers->files;
    return (tfm_data_position){.line = line,
                               .source_at = files[0].file ? ftello(files[0].file) : 0,
                               .target_at = c->texts      ? (int64_t)readers->file
                                            : c->names[1] ? ftello(files[1].file)
                                                          : 0};
}

/* Up to so many pairs or texts, and where the next buffer begins. */
static tfm_status read_all(const tfm__corpus *c, tfm__pair_buffer *b, tfm__readers *readers) {
    const size_t most = tfm__corpus_most(c);
    tfm_status status = TFM_OK;
    bool end = false;
    while (status == TFM_OK && !end && b->pair_count < most && (!c->texts || b->id_count < TFM__MOST_IDS))
        status = tfm__corpus_read(c, b, readers, &end);
    const tfm_data_position at = tfm__readers_tell(c, readers, b->next.line);
    b->next.source_at = at.source_at;
    b->next.target_at = at.target_at;
    if (status == TFM_OK && !end)
        status = look_ahead(c, b, readers, &end);
    b->whole = end && b->begin.line == 0 && c->options.subword_alpha == 0;
    if (end)
        b->next = (tfm_data_position){.epoch = b->begin.epoch + 1};
    return status;
}

/* ---- Order ---- */

/* A random stream of the buffer's own, for `purpose`. */
static tfm__random random_of(const tfm__corpus *c, const tfm__pair_buffer *b, uint64_t purpose) {
    return tfm__random_new(c->options.seed ^ purpose << 32, (uint64_t)b->begin.epoch << 40 ^ (uint64_t)b->begin.line);
}

/* How many tokens of a row are read: of a block all but the last. */
static int32_t wider(const tfm__pair *p) {
    return p->source == 0 ? p->target - 1 : p->source > p->target ? p->source : p->target;
}

static int by_length(const void *a, const void *b) {
    const tfm__pair *x = *(tfm__pair *const *)a, *y = *(tfm__pair *const *)b;
    if (wider(x) != wider(y))
        return wider(x) < wider(y) ? -1 : 1;
    if (x->target != y->target)
        return x->target < y->target ? -1 : 1;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static void cut(const tfm__corpus *c, tfm__pair_buffer *b) {
    const int64_t most = c->options.tokens ? c->options.tokens : 4096;
    int64_t width = 0;
    b->batch_count = 0;
    for (size_t i = 0; i < b->row_count; i++) {
        const int64_t n = wider(b->order[i]);
        tfm__pair_batch *last = b->batch_count ? &b->batches[b->batch_count - 1] : NULL;
        if (!last || (n > width ? n : width) * (int64_t)(last->count + 1) > most) {
            last = &b->batches[b->batch_count++];
            *last = (tfm__pair_batch){i, 0};
            width = 0;
        }
        last->count++;
        width = n > width ? n : width;
    }
}

/* The pairs are the rows, by length. */
static tfm_status sort(const tfm__corpus *c, tfm__pair_buffer *b, tfm__random *random) {
    b->row_count = b->pair_count;
    b->row_ids = b->ids;
    if (!b->order)
        b->order = tfm__alloc(b->row_count, sizeof(*b->order));
    if (!b->order)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < b->pair_count; i++) {
        b->pairs[i].key = tfm__random_next(random);
        b->order[i] = &b->pairs[i];
    }
    if (!c->options.in_order)
        qsort(b->order, b->pair_count, sizeof(*b->order), by_length);
    return TFM_OK;
}

/* A pass whose first buffer has no pair has none at all. */
static tfm_status no_pair(const tfm__corpus *c, const tfm_data_counts *counts) {
    return tfm__fail(TFM_ERROR_INPUT,
                     "%s%s%s: there is no good pair of lines: %llu have an empty side, %llu are too long, %llu are no "
                     "text, %llu have no partner",
                     c->names[0], c->names[1] ? " and " : "", c->names[1] ? c->names[1] : "",
                     (unsigned long long)counts->empty, (unsigned long long)counts->long_,
                     (unsigned long long)counts->invalid, (unsigned long long)counts->unpaired);
}

tfm_status tfm__pair_buffer_arrange(const tfm__corpus *c, tfm__pair_buffer *b) {
    if (b->pair_count == 0 && b->begin.line > 0)
        return TFM_OK;
    if (b->pair_count == 0)
        return c->texts ? tfm__texts_none(c, &b->counts) : no_pair(c, &b->counts);
    tfm__random random = random_of(c, b, 0);
    tfm_status status = c->texts ? tfm__texts_pack(c, b, &random) : sort(c, b, &random);
    if (status == TFM_OK && !b->batches && !(b->batches = tfm__alloc(b->row_count, sizeof(*b->batches))))
        status = TFM_ERROR_MEMORY;
    if (status != TFM_OK)
        return status;
    cut(c, b);
    for (size_t i = b->batch_count; i > 1 && !c->options.in_order; i--) {
        const size_t k = (size_t)tfm__random_below(&random, i);
        const tfm__pair_batch swapped = b->batches[i - 1];
        b->batches[i - 1] = b->batches[k];
        b->batches[k] = swapped;
    }
    return TFM_OK;
}

/* ---- A buffer ---- */

void tfm__pair_buffer_free(tfm__pair_buffer *b) {
    if (!b)
        return;
    free(b->ids);
    free(b->pairs);
    free(b->packed);
    free(b->blocks);
    free(b->order);
    free(b->batches);
    free(b);
}

static tfm__stamp stamp_of(FILE *file) {
    struct stat info;
    return fstat(fileno(file), &info) == 0 ? (tfm__stamp){info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, 0}
                                           : (tfm__stamp){-1, 0, 0, 0};
}

static uint64_t hash_of(FILE *file, int64_t bytes) {
    enum { BLOCK = 4096, BLOCKS = 1024 };
    const int64_t blocks = tfm__divide_up(bytes, BLOCK), step = tfm__divide_up(blocks, BLOCKS);
    unsigned char block[BLOCK];
    tfm__hash hash = {0};
    for (int64_t i = 0; i < blocks; i += step) {
        const ssize_t got = pread(fileno(file), block, BLOCK, (off_t)(i * BLOCK));
        tfm__hash_add(&hash, block, got > 0 ? (size_t)got : 0);
    }
    return tfm__hash_end(&hash);
}

tfm_status tfm__corpus_open(tfm__corpus *c) {
    tfm_status status = TFM_OK;
    for (int side = 0; !c->texts && side < 2 && status == TFM_OK; side++) {
        int32_t *ids;
        status = tfm_tokenizer_encode(c->tokenizer, &ids, &c->around[side], side ? TFM_TARGET : TFM_SOURCE, "", 0);
        tfm_ids_free(&ids);
    }
    for (size_t i = 0; i < c->name_count && status == TFM_OK; i++) {
        tfm__lines r;
        status = tfm__lines_open(&r, c->names[i], 0);
        if (status == TFM_OK)
            c->stamps[i] = stamp_of(r.file);
        if (status == TFM_OK)
            c->stamps[i].hash = hash_of(r.file, c->stamps[i].bytes);
        tfm__lines_close(&r);
    }
    return status;
}

/* What was read during a change, or after it, belongs to neither text. */
tfm_status tfm__corpus_check(const tfm__corpus *c, size_t i, FILE *file) {
    const tfm__stamp was = c->stamps[i], is = file ? stamp_of(file) : was;
    const bool later = is.seconds != was.seconds || is.nanoseconds != was.nanoseconds;
    if (is.bytes != was.bytes || (later && hash_of(file, is.bytes) != was.hash))
        return tfm__fail(TFM_ERROR_IO, "%s has changed while it was trained on: a run needs one text to its end",
                         c->names[i]);
    return TFM_OK;
}

tfm_status tfm__corpus_check_read(const tfm__corpus *c, const tfm__readers *readers, tfm_status status) {
    for (size_t i = 0; i < 2 && (status == TFM_OK || status == TFM_ERROR_INPUT); i++) {
        FILE *const file = readers->files[i].file;
        if (file && tfm__corpus_check(c, c->texts ? readers->file : i, file) != TFM_OK)
            status = TFM_ERROR_IO;
    }
    return status;
}

tfm_status tfm__readers_open(const tfm__corpus *c, tfm__readers *readers, tfm_data_position at) {
    if (c->texts)
        return tfm__texts_begin(c, readers, at);
    tfm_status status = tfm__lines_open(&readers->files[0], c->names[0], at.source_at);
    return status == TFM_OK && c->names[1] ? tfm__lines_open(&readers->files[1], c->names[1], at.target_at) : status;
}

void tfm__readers_close(tfm__readers *readers) {
    tfm__lines_close(&readers->files[0]);
    tfm__lines_close(&readers->files[1]);
}

tfm_status tfm__pair_buffer_read(const tfm__corpus *c, tfm__pair_buffer *b) {
    tfm__readers readers = {0};
    tfm_status status = tfm__readers_open(c, &readers, b->begin);
    tfm__random random = random_of(c, b, 1);
    const bool sampled = c->options.subword_alpha > 0;
    if (sampled)
        tfm__spm_draws_begin(tfm__random_next(&random));
    if (status == TFM_OK)
        status = read_all(c, b, &readers);
    if (sampled)
        tfm__spm_draws_end();
    status = tfm__corpus_check_read(c, &readers, status);
    tfm__readers_close(&readers);
    return status;
}
