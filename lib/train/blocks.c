/* Language model data: lines to ids, and ids to blocks of fixed length. */
#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "text/documents.h"
#include "text/tokenizer.h"
#include "train/corpus.h"

/* ---- Reading ---- */

tfm_status tfm__lm_corpus_open(tfm__corpus *c) {
    int32_t *ids = NULL;
    tfm_status status = tfm_tokenizer_encode(c->tokenizer, &ids, &c->special_tokens[1], TFM_TARGET, "", 0);
    tfm_ids_free(&ids);
    c->end = c->options.has_eos_id ? c->options.eos_id : tfm_tokenizer_get_info(c->tokenizer)->target_eos;
    return status;
}

/* The next text of the files; *more is false after the last. */
static tfm_status next_text(const tfm__corpus *c, tfm__corpus_reader *reader, bool *more) {
    const tfm_document_options *form = &c->options.documents;
    tfm_status status = tfm__document_next(&reader->files[0], form, more);
    for (bool others = true; status == TFM_OK && !*more && others;) {
        status = tfm__corpus_reader_next_file(c, reader, &others);
        if (status == TFM_OK && others)
            status = tfm__document_next(&reader->files[0], form, more);
    }
    return status;
}

/* Adds the ids of a valid text and its end token; a conversation has its own. */
static tfm_status add_text(const tfm__corpus *c, tfm__shuffle_buffer *b, const int32_t *ids, size_t count) {
    const bool ends = !c->options.chat && c->end >= 0 && ids[count - 1] != c->end;
    const tfm__example text = {.at = b->id_count, .target = (int32_t)(count + ends)};
    tfm_status status = tfm__grow(&b->ids, &b->id_capacity, b->id_count + count + 1, sizeof(*b->ids));
    if (status == TFM_OK)
        status = tfm__grow(&b->examples, &b->example_capacity, b->example_count + 1, sizeof(*b->examples));
    if (status != TFM_OK)
        return status;
    memcpy(b->ids + b->id_count, ids, count * sizeof(*ids));
    b->id_count += count;
    if (ends)
        b->ids[b->id_count++] = c->end;
    b->examples[b->example_count++] = text;
    b->counts.pairs++;
    return TFM_OK;
}

static tfm_status encode(const tfm__corpus *c, int32_t **ids, size_t *count, const tfm__line_reader *line) {
    return c->options.chat ? tfm_chat_encode_example(c->options.chat, ids, count, c->tokenizer, line->text, line->bytes)
                           : tfm__tokenizer_encode_sampled(c->tokenizer, ids, count, TFM_TARGET, line->text,
                                                           line->bytes, c->options.subword_alpha);
}

static size_t seq_len(const tfm__corpus *c) {
    return c->options.seq_len ? (size_t)c->options.seq_len : 256;
}

/* Blank lines between paragraphs or conversations are not errors. */
static bool is_empty(const tfm__corpus *c, const tfm__line_reader *line) {
    return c->options.chat && tfm__json_skip_bom(line->text, line->bytes) == line->bytes;
}

/* Counts a bad line, or with `strict` rejects it; the library's error message has the reason. */
static tfm_status reject_text(const tfm__corpus *c, const tfm__shuffle_buffer *b, uint64_t *count,
                              tfm__corpus_reader *reader) {
    char message[512];
    (*count)++;
    if (!c->options.strict)
        return TFM_OK;
    snprintf(message, sizeof(message), "%s", tfm_error_message());
    return tfm__fail(TFM_ERROR_INPUT, "%s, %s %lld: %s", reader->files[0].name,
                     tfm__document_name(&c->options.documents),
                     (long long)tfm__corpus_reader_line(c, reader, 0, b->next.line), message);
}

tfm_status tfm__lm_read_text(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__corpus_reader *reader, bool *end) {
    const tfm__line_reader *line = &reader->files[0];
    int32_t *ids = NULL;
    size_t count = 0;
    bool more = true;
    tfm_status status = next_text(c, reader, &more);
    *end = status == TFM_OK && !more;
    if ((status != TFM_OK && status != TFM_ERROR_INPUT) || !more)
        return status;
    b->next.line++;
    if ((c->options.holdout_every > 0 && b->next.line % c->options.holdout_every == 0) ||
        tfm__shuffle_buffer_skips_line(b))
        return TFM_OK;
    b->tokenized_lines++;
    const bool empty = is_empty(c, line);
    if (status == TFM_OK && !empty) /* else it is a JSON line without a text */
        status = encode(c, &ids, &count, line);
    if (status == TFM_ERROR_INPUT) {
        status = reject_text(c, b, &b->counts.invalid, reader);
    } else if (status == TFM_OK && (empty || (!c->options.chat && count <= c->special_tokens[1]))) {
        b->counts.empty++;
    } else if (status == TFM_OK && c->options.chat && count > seq_len(c)) {
        tfm__fail(TFM_ERROR_INPUT, "the conversation has %zu tokens, and seq_len is %zu", count, seq_len(c));
        status = reject_text(c, b, &b->counts.too_long, reader);
    } else if (status == TFM_OK) {
        status = add_text(c, b, ids, count);
    }
    tfm_ids_free(&ids);
    return status;
}

tfm_status tfm__lm_no_text_error(const tfm__corpus *c, const tfm_data_counts *counts) {
    return tfm__fail(TFM_ERROR_INPUT,
                     "%s%s: there is no %s of text to train on: %llu are empty, %llu are too long, %llu are not %s",
                     c->paths[0], tfm__corpus_other_files(c), tfm__document_name(&c->options.documents),
                     (unsigned long long)counts->empty, (unsigned long long)counts->too_long,
                     (unsigned long long)counts->invalid, c->options.chat ? "conversations" : "text");
}

/* ---- Packing ---- */

/* Concatenates the texts, shuffled unless the order is kept. */
static tfm_status concatenate_texts(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__random *random) {
    const tfm__example **order = tfm__alloc(b->example_count, sizeof(*order));
    if (!b->packed)
        b->packed = tfm__alloc(b->id_count, sizeof(*b->packed));
    if (!order || !b->packed) {
        free(order);
        return TFM_ERROR_MEMORY;
    }
    for (size_t i = 0; i < b->example_count; i++)
        order[i] = &b->examples[i];
    for (size_t i = b->example_count; i > 1 && !c->options.in_order; i--) {
        const size_t k = (size_t)tfm__random_below(random, i);
        const tfm__example *swapped = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swapped;
    }
    int32_t *to = b->packed;
    for (size_t i = 0; i < b->example_count; i++) {
        memcpy(to, b->ids + order[i]->at, (size_t)order[i]->target * sizeof(*to));
        to += order[i]->target;
    }
    free(order);
    return TFM_OK;
}

/* Each block begins with the last token of the previous one, so that every token but the first is a target once. */
tfm_status tfm__lm_pack_blocks(const tfm__corpus *c, tfm__shuffle_buffer *b, tfm__random *random) {
    const size_t block = seq_len(c);
    b->row_count = b->id_count < 2 ? 0 : (b->id_count - 2) / block + 1;
    if (b->row_count == 0 && b->begin.line > 0) /* the last block may be shorter */
        return TFM_OK;
    if (b->row_count == 0)
        return tfm__fail(TFM_ERROR_INPUT, "%s: the text is a single token, and training needs at least two",
                         c->paths[0]);
    if (!b->blocks)
        b->blocks = tfm__alloc(b->row_count, sizeof(*b->blocks));
    if (!b->order)
        b->order = tfm__alloc(b->row_count, sizeof(*b->order));
    if (!b->blocks || !b->order || concatenate_texts(c, b, random) != TFM_OK)
        return TFM_ERROR_MEMORY;
    b->row_ids = b->packed;
    for (size_t i = 0; i < b->row_count; i++) {
        const size_t at = i * block, left = b->id_count - at;
        b->blocks[i] = (tfm__example){.at = at, .target = (int32_t)(left < block + 1 ? left : block + 1)};
        b->order[i] = &b->blocks[i];
    }
    for (size_t i = b->row_count; i > 1 && !c->options.in_order; i--) {
        const size_t k = (size_t)tfm__random_below(random, i);
        tfm__example *swapped = b->order[i - 1];
        b->order[i - 1] = b->order[k];
        b->order[k] = swapped;
    }
    return TFM_OK;
}
