/* From lines of text to buffers of pairs or texts, and from buffers to batches. */
#include "train/corpus.h"
#include <stdio.h>
#include <string.h>
#include "text/spm.h"
#include "text/tokenizer.h"

/* ---- Reading ---- */

/* The result of checking a pair of lines. */
typedef enum line_check { LINE_VALID, LINE_EMPTY, LINE_TOO_LONG, LINE_INVALID } line_check;

/* Sets the error of a side with `tokens` tokens; for invalid text the tokenizer has set it. */
static void set_line_error(line_check v, const char *side, size_t count, size_t most) {
    char message[512];
    if (v == LINE_EMPTY)
        tfm__fail(TFM_ERROR_INPUT, "the %s is empty", side);
    if (v == LINE_TOO_LONG)
        tfm__fail(TFM_ERROR_INPUT, "the %s has %zu tokens, and max_length is %zu", side, count, most);
    if (v == LINE_INVALID) {
        snprintf(message, sizeof(message), "%s", tfm_error_message());
        tfm__fail(TFM_ERROR_INPUT, "the %s: %s", side, message);
    }
}

/* Replaces the best segmentation by a sampled one. Pairs are checked with the best one, so that all passes have the
 * same pairs; a sampled one that is too long is dropped. */
static tfm_status sample_segmentation(const tfm__corpus *c, int32_t **ids, size_t *count, tfm_side side,
                                      const tfm__string_view *text, size_t most) {
    int32_t *sampled;
    size_t sampled_count;
    tfm_status status = tfm__tokenizer_encode_sampled(c->tokenizer, &sampled, &sampled_count, side, text->text,
                                                      text->bytes, c->options.subword_alpha);
    if (status == TFM_OK && sampled_count <= most) {
        int32_t *best = *ids;
        *ids = sampled;
        *count = sampled_count;
        sampled = best;
    }
    tfm_ids_free(&sampled);
    return status;
}

/* Adds the ids of a valid pair; else sets the error message. */
static tfm_status add_pair(const tfm__corpus *c, tfm__shuffle_buffer *b, const tfm__string_view *sides,
                           line_check *check) {
    const size_t most = (size_t)(c->options.max_length ? c->options.max_length : 256), at = b->id_count;
    tfm__example p = {.at = at};
    *check = LINE_VALID;
    b->tokenized_lines++;
    for (int side = 0; side < 2 && *check == LINE_VALID; side++) {
        int32_t *ids = NULL;
        size_t count = 0;
        tfm_status status = tfm_tokenizer_encode(c->tokenizer, &ids, &count, side ? TFM_TARGET : TFM_SOURCE,
                                                 sides[side].text, sides[side].bytes);
        if (status != TFM_OK && status != TFM_ERROR_INPUT)
            return status;
        *check = status != TFM_OK                   ? LINE_INVALID
                 : count <= c->special_tokens[side] ? LINE_EMPTY
                 : count > most                     ? LINE_TOO_LONG
                                                    : LINE_VALID;
        if (*check == LINE_VALID && c->options.subword_alpha > 0 &&
            (status = sample_segmentation(c, &ids, &count, side ? TFM_TARGET : TFM_SOURCE, &sides[side], most)) !=
                TFM_OK) {
            tfm_ids_free(&ids);
            return status;
        }
        set_line_error(*check, side ? "target" : "source", count, most);
        if (*check == LINE_VALID &&
            (status = tfm__grow(&b->ids, &b->id_capacity, b->id_count + count, sizeof(*ids))) != TFM_OK) {
            tfm_ids_free(&ids);
            return status;
        }
        if (*check == LINE_VALID) {
            memcpy(b->ids + b->id_count, ids, count * sizeof(*ids));
            b->id_count += count;
            *(side ? &p.target : &p.source) = (int32_t)count;
        }
        tfm_ids_free(&ids);
    }
    if (*check != LINE_VALID) {
        b->id_count = at;
        return TFM_OK;
    }
    tfm_status status = tfm__grow(&b->examples, &b->example_capacity, b->example_count + 1, sizeof(tfm__example));
    if (status == TFM_OK)
        b->examples[b->example_count++] = p;
    return status;
}

static tfm_status count_line(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__corpus_reader *from, line_check v) {
    uint64_t *const counts[] = {&b->counts.pairs, &b->counts.empty, &b->counts.too_long, &b->counts.invalid};
    char message[512];
    (*counts[v])++;
    if (v == LINE_VALID || !c->options.strict)
        return TFM_OK;
    snprintf(message, sizeof(message), "%s", tfm_error_message());
    return tfm__fail(TFM_ERROR_INPUT, "%s%s%s, line %lld: %s", from->files[0].name, c->sides > 1 ? " and " : "",
                     c->sides > 1 ? from->files[1].name : "",
                     (long long)tfm__corpus_reader_line(c, from, 0, b->next.line), message);
}

/* Counts the remaining lines of one side after the other side has ended. */
static tfm_status count_unpaired(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__corpus_reader *from, int side,
                                 bool more) {
    tfm__line_reader *longer = &from->files[side];
    if (c->options.strict && more)
        return tfm__fail(TFM_ERROR_INPUT, "%s has more lines than %s, which ends after line %lld", longer->name,
                         from->files[1 - side].name,
                         (long long)tfm__corpus_reader_line(c, from, 1 - side, b->next.line));
    tfm_status status = TFM_OK;
    for (; more && status == TFM_OK; b->counts.unpaired++)
        status = tfm__line_reader_next(longer, &more);
    return status;
}

/* The next line of each side; *more is false after the last. Surplus lines of one file are skipped, so that the next
 * files begin aligned. */
static tfm_status next_lines(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__corpus_reader *from, bool *more) {
    for (;;) {
        bool has[2];
        tfm_status status = tfm__line_reader_next(&from->files[0], &has[0]);
        has[1] = has[0];
        if (status == TFM_OK && c->sides > 1)
            status = tfm__line_reader_next(&from->files[1], &has[1]);
        *more = status == TFM_OK && has[0] && has[1];
        if (status != TFM_OK || *more)
            return status;
        status = count_unpaired(c, b, from, has[1] ? 1 : 0, has[0] != has[1]);
        if (status == TFM_OK)
            status = tfm__corpus_reader_next_file(c, from, more);
        if (status != TFM_OK || !*more)
            return status;
    }
}

/* The next pair, if valid; *end: no more lines. */
static tfm_status read_pair(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__corpus_reader *from, bool *end) {
    const tfm__line_reader *reader = from->files;
    bool more;
    tfm__string_view sides[2];
    line_check v = LINE_INVALID;
    tfm_status status = next_lines(c, b, from, &more);
    *end = status == TFM_OK && !more;
    if (status != TFM_OK || !more)
        return status;
    b->next.line++;
    if ((c->options.holdout_every > 0 && b->next.line % c->options.holdout_every == 0) ||
        tfm__shuffle_buffer_skips_line(b))
        return TFM_OK;
    sides[0] = (tfm__string_view){reader[0].text, reader[0].bytes};
    sides[1] = (tfm__string_view){reader[1].text, reader[1].bytes};
    if (c->sides == 1 && !tfm__tsv_split(sides, reader[0].text, reader[0].bytes))
        tfm__fail(TFM_ERROR_INPUT, "there is no tab in it");
    else
        status = add_pair(c, b, sides, &v);
    return status == TFM_OK ? count_line(c, b, from, v) : status;
}

tfm_status tfm__corpus_read_example(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__corpus_reader *reader,
                                    bool *end) {
    return c->monolingual ? tfm__lm_read_text(c, b, reader, end) : read_pair(c, b, reader, end);
}

/* Looks past a full buffer. If no valid pair follows, sets *end and counts the bad pairs there. Otherwise everything
 * read here belongs to the next buffer and `b` is unchanged; likewise for a pair that `strict` rejects, since the pairs
 * before it are valid. */
static tfm_status look_ahead(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__corpus_reader *reader, bool *end) {
    const size_t pairs = b->example_count, ids = b->id_count;
    const tfm_data_counts counts = b->counts;
    const int64_t line = b->next.line;
    tfm_status status = TFM_OK;
    while (status == TFM_OK && !*end && b->example_count == pairs)
        status = tfm__corpus_read_example(c, b, reader, end);
    if (c->options.strict && status == TFM_ERROR_INPUT) {
        status = TFM_OK;
        *end = false;
    }
    if (*end)
        return status;
    b->example_count = pairs;
    b->id_count = ids;
    b->counts = counts;
    b->next.line = line;
    return status;
}

size_t tfm__corpus_buffer_size(const tfm__corpus *c) {
    return c->options.buffer_size ? (size_t)c->options.buffer_size : 200000;
}

/* Reads up to a buffer of pairs or texts, and sets where the next buffer begins. */
static tfm_status fill_buffer(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__corpus_reader *reader) {
    const size_t most = tfm__corpus_buffer_size(c);
    tfm_status status = TFM_OK;
    bool end = false;
    while (status == TFM_OK && !end && b->example_count < most &&
           (!c->monolingual || b->id_count < TFM__MAX_BUFFER_IDS))
        status = tfm__corpus_read_example(c, b, reader, &end);
    const tfm_data_position at = tfm__corpus_reader_tell(c, reader, b->next.line);
    b->next.source_offset = at.source_offset;
    b->next.target_offset = at.target_offset;
    if (status == TFM_OK && !end)
        status = look_ahead(c, b, reader, &end);
    b->whole = end && b->begin.line == 0 && c->options.subword_alpha == 0;
    if (end)
        b->next = (tfm_data_position){.epoch = b->begin.epoch + 1};
    return status;
}

/* ---- Batches ---- */

/* The buffer's random stream for `purpose`. */
static tfm__random buffer_random(const tfm__corpus *c, const tfm__shuffle_buffer *b, uint64_t purpose) {
    return tfm__random_new(c->options.seed ^ purpose << 32, (uint64_t)b->begin.epoch << 40 ^ (uint64_t)b->begin.line);
}

/* Input tokens of a row: of a block all but the last. */
static int32_t row_length(const tfm__example *p) {
    return p->source == 0 ? p->target - 1 : p->source > p->target ? p->source : p->target;
}

static int by_length(const void *a, const void *b) {
    const tfm__example *x = *(tfm__example *const *)a, *y = *(tfm__example *const *)b;
    if (row_length(x) != row_length(y))
        return row_length(x) < row_length(y) ? -1 : 1;
    if (x->target != y->target)
        return x->target < y->target ? -1 : 1;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static void make_batches(const tfm__corpus *c, tfm__shuffle_buffer *b) {
    const int64_t most = c->options.batch_tokens ? c->options.batch_tokens : 4096;
    int64_t width = 0;
    b->batch_count = 0;
    for (size_t i = 0; i < b->row_count; i++) {
        const int64_t n = row_length(b->order[i]);
        tfm__example_range *last = b->batch_count ? &b->batches[b->batch_count - 1] : NULL;
        if (!last || (n > width ? n : width) * (int64_t)(last->count + 1) > most) {
            last = &b->batches[b->batch_count++];
            *last = (tfm__example_range){i, 0};
            width = 0;
        }
        last->count++;
        width = n > width ? n : width;
    }
}

/* The rows are the pairs or conversations, sorted by length. */
static tfm_status sort_by_length(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__random *random) {
    b->row_count = b->example_count;
    b->row_ids = b->ids;
    if (!b->order)
        b->order = tfm__alloc(b->row_count, sizeof(*b->order));
    if (!b->order)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < b->example_count; i++) {
        b->examples[i].key = tfm__random_next(random);
        b->order[i] = &b->examples[i];
    }
    if (!c->options.in_order)
        qsort(b->order, b->example_count, sizeof(*b->order), by_length);
    return TFM_OK;
}

/* A pass whose first buffer has no pair has none at all. */
static tfm_status no_pair_error(const tfm__corpus *c, const tfm_data_counts *counts) {
    return tfm__fail(TFM_ERROR_INPUT,
                     "%s%s%s%s: there is no valid pair of lines: %llu have an empty side, %llu are too long, %llu are "
                     "not text, %llu have no counterpart",
                     c->paths[0], c->sides > 1 ? " and " : "", c->sides > 1 ? c->paths[c->count] : "",
                     tfm__corpus_other_files(c), (unsigned long long)counts->empty,
                     (unsigned long long)counts->too_long, (unsigned long long)counts->invalid,
                     (unsigned long long)counts->unpaired);
}

tfm_status tfm__shuffle_buffer_make_batches(const tfm__corpus *c, tfm__shuffle_buffer *b) {
    if (b->example_count == 0 && b->begin.line > 0)
        return TFM_OK;
    if (b->example_count == 0)
        return c->monolingual ? tfm__lm_no_text_error(c, &b->counts) : no_pair_error(c, &b->counts);
    tfm__random random = buffer_random(c, b, 0);
    const bool packed = c->monolingual && !c->options.chat;
    tfm_status status = packed ? tfm__lm_pack_blocks(c, b, &random) : sort_by_length(c, b, &random);
    if (status == TFM_OK && !b->batches && !(b->batches = tfm__alloc(b->row_count, sizeof(*b->batches))))
        status = TFM_ERROR_MEMORY;
    if (status != TFM_OK)
        return status;
    make_batches(c, b);
    for (size_t i = b->batch_count; i > 1 && !c->options.in_order; i--) {
        const size_t k = (size_t)tfm__random_below(&random, i);
        const tfm__example_range swapped = b->batches[i - 1];
        b->batches[i - 1] = b->batches[k];
        b->batches[k] = swapped;
    }
    return TFM_OK;
}

/* ---- Buffers ---- */

void tfm__shuffle_buffer_free(tfm__shuffle_buffer *b) {
    if (!b)
        return;
    free(b->ids);
    free(b->examples);
    free(b->packed);
    free(b->blocks);
    free(b->order);
    free(b->batches);
    free(b);
}

tfm_status tfm__shuffle_buffer_read(const tfm__corpus *c, tfm__shuffle_buffer *b) {
    tfm__corpus_reader reader = {0};
    tfm_status status = tfm__corpus_reader_open(c, &reader, b->begin);
    tfm__random random = buffer_random(c, b, 1);
    const bool sampled = c->options.subword_alpha > 0;
    if (sampled)
        tfm__spm_sampling_begin(tfm__random_next(&random));
    if (status == TFM_OK)
        status = fill_buffer(c, b, &reader);
    if (sampled)
        tfm__spm_sampling_end();
    status = tfm__corpus_check_unchanged(c, &reader, status);
    tfm__corpus_reader_close(&reader);
    return status;
}

/* ---- Open and close ---- */

/* Counts the special tokens around a text, and stamps the files. */
static tfm_status inspect_corpus(tfm__corpus *c) {
    tfm_status status = TFM_OK;
    for (int side = 0; !c->monolingual && side < 2 && status == TFM_OK; side++) {
        int32_t *ids;
        status =
            tfm_tokenizer_encode(c->tokenizer, &ids, &c->special_tokens[side], side ? TFM_TARGET : TFM_SOURCE, "", 0);
        tfm_ids_free(&ids);
    }
    return status == TFM_OK ? tfm__corpus_stamp_files(c) : status;
}

tfm_status tfm__corpus_open(tfm__corpus *c, const tfm_tokenizer *tokenizer, const char *const *sides[2], size_t count,
                            const tfm_data_options *options) {
    c->tokenizer = tfm__tokenizer_retain(tokenizer);
    c->options = options ? *options : (tfm_data_options){0};
    c->sides = sides[1] ? 2 : 1;
    c->count = count;
    c->paths = tfm__alloc(c->sides * count, sizeof(*c->paths));
    c->stamps = tfm__alloc(c->sides * count, sizeof(*c->stamps));
    if (!c->monolingual) {
        c->options.documents = (tfm_document_options){0};
        c->options.chat = NULL;
    }
    const char *separator = c->options.documents.separator;
    c->options.documents.separator = c->separator = separator ? tfm__strdup(separator) : NULL;
    if (!c->paths || !c->stamps || (separator && !c->separator))
        return TFM_ERROR_MEMORY;
    for (size_t *i = &c->path_count; *i < c->sides * count; ++*i)
        if (!(c->paths[*i] = tfm__strdup(sides[*i / count][*i % count])))
            return TFM_ERROR_MEMORY;
    tfm_status status = inspect_corpus(c);
    return status == TFM_OK && c->monolingual ? tfm__lm_corpus_open(c) : status;
}

void tfm__corpus_close(tfm__corpus *c) {
    tfm_tokenizer_free(&c->tokenizer);
    for (size_t i = 0; i < c->path_count; i++)
        free(c->paths[i]);
    free(c->paths);
    free(c->separator);
    free(c->stamps);
}
