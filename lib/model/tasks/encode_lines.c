/* Encodes lines for calls that do not generate. */
#include "model/tasks/encode_lines.h"
#include <stdio.h>
#include <string.h>
#include "text/unicode.h"

/* ---- Special tokens ---- */

/* Number of special tokens around a text. */
static tfm_status count_special_tokens(tfm__line_encoder *r) {
    const tfm_tokenizer *tokenizer = r->model->tokenizer;
    const tfm_encode_options plain = {.no_special_tokens = true}, two = {.text_pair = "a", .text_pair_bytes = 1};
    int32_t *whole = NULL, *inner = NULL, *both = NULL;
    size_t count = 0, length = 0, of_both = 0;
    tfm_status status = tfm_tokenizer_encode(tokenizer, &whole, &count, TFM_SOURCE, "a", 1);
    if (status == TFM_OK)
        status = tfm_tokenizer_encode_with(tokenizer, &inner, &length, TFM_SOURCE, "a", 1, &plain);
    if (status == TFM_OK && r->options->text_pairs)
        status = tfm_tokenizer_encode_with(tokenizer, &both, &of_both, TFM_SOURCE, "a", 1, &two);
    if (status == TFM_OK) {
        const size_t room = count > length ? count - length : 0;
        while (r->before < room && memcmp(whole + r->before, inner, length * sizeof(*inner)) != 0)
            r->before++;
        r->after = room - r->before;
        r->between = of_both > 2 * length + room ? of_both - 2 * length - room : 0;
    }
    tfm_ids_free(&whole);
    tfm_ids_free(&inner);
    tfm_ids_free(&both);
    return status;
}

tfm_status tfm__line_encoder_open(tfm__line_encoder *r, const char *what) {
    if (r->options->token_ids)
        return r->options->text_pairs
                   ? tfm__fail(TFM_ERROR_ARGUMENT, "%s: token_ids and text_pairs are given: give one of them", what)
                   : TFM_OK;
    if (!r->model->tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: the model was opened without its tokenizer: it takes ids, not text",
                         what);
    const tfm_status status = count_special_tokens(r);
    const size_t special = r->before + r->after + r->between;
    if (status == TFM_OK && special >= r->max_tokens)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the model takes %zu tokens, and %zu of them are special ones", what,
                         r->max_tokens, special);
    return status;
}

/* ---- Truncation ---- */

/* Truncates two texts to `room` tokens together: the longer one first. */
static void share_room(size_t *first, size_t *second, size_t room) {
    size_t *shorter = *first > *second ? second : first, *longer = *first > *second ? first : second;
    if (*shorter > room / 2)
        *shorter = room / 2;
    *longer = room - *shorter;
}

/* Truncates ids = before, first, between, second, after. *first: its remaining length. */
static void truncate_ids(tfm__line_encoder *r, tfm__line *line, size_t *first, size_t second) {
    const size_t between = line->count - r->before - *first - second - r->after;
    const size_t room = r->max_tokens - r->before - r->after - between;
    const int32_t *from = line->ids + r->before + *first;
    if (between > 0)
        share_room(first, &second, room);
    else
        *first = room;
    int32_t *to = line->ids + r->before + *first;
    memmove(to, from, (between + second) * sizeof(*to));
    to += between + second;
    memmove(to, line->ids + line->count - r->after, r->after * sizeof(*to));
    line->count = r->max_tokens;
    r->stats.truncated++;
}

/* ---- One line ---- */

/* The text for the tokenizer: with the prompt, and lowercased if requested. The caller frees *owned. */
static tfm_status prepare(const tfm__line_encoder *r, char **owned, const char **text, size_t *bytes) {
    const size_t before = r->prompt ? strlen(r->prompt) : 0;
    *owned = NULL;
    tfm_status status = tfm_text_check(*text, *bytes);
    if (status != TFM_OK || (before == 0 && !r->lowercase))
        return status;
    char *whole = tfm__alloc(before + *bytes + 1, 1);
    if (!whole)
        return TFM_ERROR_MEMORY;
    memcpy(whole, r->prompt ? r->prompt : "", before);
    memcpy(whole + before, *text, *bytes);
    *owned = whole;
    *text = whole;
    *bytes += before;
    if (!r->lowercase)
        return TFM_OK;
    char *small = NULL;
    status = tfm__unicode_lower(&small, bytes, *text, *bytes);
    free(whole);
    *owned = small;
    *text = small;
    return status;
}

/* Number of ids of a text without special tokens. */
static tfm_status count_plain(const tfm__line_encoder *r, size_t *out, const char *text, size_t bytes) {
    int32_t *ids = NULL;
    const tfm_status status = tfm_tokenizer_encode_with(r->model->tokenizer, &ids, out, TFM_SOURCE, text, bytes,
                                                        &(tfm_encode_options){.no_special_tokens = true});
    tfm_ids_free(&ids);
    return status;
}

static tfm_status encode_pair(tfm__line_encoder *r, tfm__line *line, const char *text, size_t bytes,
                              const char *second) {
    const tfm_encode_options pair = {.text_pair = second, .text_pair_bytes = strlen(second)};
    size_t first_count = 0, second_count = 0;
    tfm_status status = count_plain(r, &first_count, text, bytes);
    if (status == TFM_OK)
        status = count_plain(r, &second_count, second, pair.text_pair_bytes);
    if (status == TFM_OK)
        status =
            tfm_tokenizer_encode_with(r->model->tokenizer, &line->ids, &line->count, TFM_SOURCE, text, bytes, &pair);
    if (status == TFM_OK && line->count < first_count + second_count + r->before + r->after)
        return tfm__fail(TFM_ERROR_INPUT, "its two texts have other tokens together than separately");
    if (status == TFM_OK && line->count > r->max_tokens)
        truncate_ids(r, line, &first_count, second_count);
    if (status == TFM_OK && r->between == 1)
        line->first = r->before + first_count + 1;
    return status;
}

static tfm_status encode_line(tfm__line_encoder *r, tfm__line *line, const char *text, size_t bytes,
                              const char *second) {
    char *owned = NULL;
    tfm_status status = prepare(r, &owned, &text, &bytes);
    if (status == TFM_OK && second) {
        status = encode_pair(r, line, text, bytes, second);
    } else if (status == TFM_OK) {
        status = tfm_tokenizer_encode(r->model->tokenizer, &line->ids, &line->count, TFM_SOURCE, text, bytes);
        size_t inner = line->count - r->before - r->after;
        if (status == TFM_OK && line->count > r->max_tokens)
            truncate_ids(r, line, &inner, 0);
    }
    free(owned);
    line->cost = line->count;
    return status;
}

/* A line of given ids. */
static tfm_status copy_ids(const tfm__line_encoder *r, tfm__line *line, const tfm_prompt *given) {
    const tfm__arch *arch = &r->model->arch;
    const int vocabulary = arch->encoder.layers > 0 ? arch->encoder.vocabulary : arch->decoder.vocabulary;
    if (!given->ids || given->count == 0 || given->count > r->max_tokens)
        return tfm__fail(TFM_ERROR_INPUT, "it has %zu token ids, and the model takes 1 to %zu",
                         given->ids ? given->count : 0, r->max_tokens);
    for (size_t i = 0; i < given->count; i++)
        if (given->ids[i] < 0 || given->ids[i] >= vocabulary)
            return tfm__fail(TFM_ERROR_INPUT, "it has the token id %d, and the vocabulary ends at %d",
                             (int)given->ids[i], vocabulary - 1);
    line->ids = tfm__alloc(given->count, sizeof(*line->ids));
    if (!line->ids)
        return TFM_ERROR_MEMORY;
    memcpy(line->ids, given->ids, given->count * sizeof(*line->ids));
    line->count = line->cost = given->count;
    return TFM_OK;
}

tfm_status tfm__line_encoder_encode(tfm__line_encoder *r, tfm__line **out, const char *const *lines, size_t count) {
    const tfm_embed_options *o = r->options;
    const tfm_text_options reject = {.reject = o->reject, .reject_user = o->reject_user};
    tfm__line *encoded = *out = tfm__alloc(count, sizeof(*encoded));
    tfm_status status = encoded ? TFM_OK : TFM_ERROR_MEMORY;
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        encoded[i].index = encoded[i].line = i;
        status = o->token_ids
                     ? copy_ids(r, &encoded[i], &o->token_ids[i])
                     : encode_line(r, &encoded[i], lines[i], o->line_bytes ? o->line_bytes[i] : strlen(lines[i]),
                                   o->text_pairs ? o->text_pairs[i] : NULL);
        if (status == TFM_ERROR_INPUT)
            status = tfm__line_reject(&encoded[i], "", &reject, status, saved_message);
    }
    if (status != TFM_OK)
        tfm__lines_free(out, count);
    return status;
}

tfm_status tfm__line_encoder_prompt_tokens(const tfm__line_encoder *r, int64_t *out) {
    tfm__line_encoder alone = *r;
    tfm__line line = {0};
    const tfm_status status = encode_line(&alone, &line, "", 0, NULL);
    *out = status == TFM_OK ? (int64_t)(line.count - r->after) : 0;
    tfm_ids_free(&line.ids);
    return status;
}

/* ---- Batches ---- */

static size_t widest(tfm__line *const *batch, size_t n) {
    size_t most = 1;
    for (size_t i = 0; i < n; i++)
        most = batch[i]->count > most ? batch[i]->count : most;
    return most;
}

tfm_status tfm__line_encoder_upload(const tfm__line_encoder *r, tfm_context *ctx, tfm__encoded_batch *out,
                                    tfm__line *const *batch, size_t n) {
    const size_t most = widest(batch, n), width = most > r->width ? most : r->width;
    const bool typed = r->between == 1 && r->model->arch.encoder.token_types > 1;
    const int64_t dims[] = {(int64_t)n, (int64_t)width};
    int32_t *ids = tfm__alloc(n * (2 * width + 1), sizeof(*ids));
    if (!ids)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "no host memory for a batch of %zu lines", n);
    int32_t *types = ids + n * width, *lengths = types + n * width;
    for (size_t i = 0; i < n; i++) {
        tfm__ids_pad(ids + i * width, (int64_t)width, batch[i]->ids, batch[i]->count, 0, 0,
                     r->width ? r->fill : r->model->rules.pad_id);
        for (size_t k = 0; k < width; k++)
            types[i * width + k] = batch[i]->first > 0 && k >= batch[i]->first && k < batch[i]->count;
        lengths[i] = (int32_t)batch[i]->count;
    }
    tfm_tensor_new(ctx, &out->ids, TFM_I32, 2, dims);
    tfm_tensor_write(ctx, out->ids, ids);
    if (typed) {
        tfm_tensor_new(ctx, &out->types, TFM_I32, 2, dims);
        tfm_tensor_write(ctx, out->types, types);
    }
    tfm_tensor_new(ctx, &out->lengths, TFM_I32, 1, dims);
    tfm_tensor_write(ctx, out->lengths, lengths);
    free(ids);
    return tfm_context_status(ctx);
}

tfm_status tfm__line_encoder_run(tfm__line_encoder *r, tfm__line *lines, size_t count,
                                 tfm_status (*run)(void *user, tfm_model *on, tfm__line *const *batch, size_t n),
                                 void *user) {
    const tfm_embed_options *o = r->options;
    const tfm_text_options text = {.progress = o->progress, .progress_user = o->progress_user};
    const int64_t tokens =
        o->batch_tokens > 0 ? o->batch_tokens : tfm__context_tuning(r->model->ctx)->encode_batch_tokens;
    const tfm__batch_limit limit = {
        .tokens = (size_t)tokens, .lines = SIZE_MAX, .ahead = SIZE_MAX}; /* there are no results before the end */
    const tfm_status status = tfm__batches_run(r->model, lines, count, limit, &text,
                                               &(tfm__batch_work){.kind = TFM__BATCH_ENCODE, .run = run, .user = user});
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        r->stats.lines += lines[i].ids != NULL;
        r->stats.tokens += lines[i].count;
    }
    return status;
}

void tfm__line_encoder_count(const tfm__line_encoder *r, double start) {
    tfm_embed_stats *to = r->options->stats;
    if (!to)
        return;
    to->lines += r->stats.lines;
    to->tokens += r->stats.tokens;
    to->truncated += r->stats.truncated;
    to->seconds += tfm__seconds() - start;
}
