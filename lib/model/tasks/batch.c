/* Encodes lines of text to checked ids. */
#include <stdio.h>
#include <string.h>
#include "model/tasks/batch.h"
#include "text/utf8.h"

tfm_status tfm__line_reject(tfm__line *line, const char *what, const tfm_text_options *options, tfm_status status,
                            const char *saved_message) {
    char reason[512];
    snprintf(reason, sizeof(reason), "%s%s", what, tfm_error_message());
    free(line->ids);
    line->ids = NULL;
    line->count = 0;
    line->rejected = true;
    if (!options || !options->reject)
        return tfm__fail(status, "line %zu: %s", line->line + 1, reason);
    if (!options->reject(options->reject_user, line->line, reason))
        return tfm__fail(TFM_ERROR_CANCELLED, "stopped at line %zu: %s", line->line + 1, reason);
    tfm__error_restore(saved_message);
    return TFM_OK;
}

/* Tokens of the text, and EOS. */
static tfm_status encode_plain(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side) {
    int32_t *ids = NULL;
    size_t count;
    tfm_status status = tfm_tokenizer_encode_with(model->tokenizer, &ids, &count, side, text, bytes,
                                                  &(tfm_encode_options){.no_special_tokens = true});
    if (status != TFM_OK)
        return status;
    line->ids = tfm__alloc(count + 1, sizeof(*ids));
    if (line->ids) {
        memcpy(line->ids, ids, count * sizeof(*ids));
        line->ids[count] = model->rules.eos_id;
        line->count = count + 1;
    }
    tfm_ids_free(&ids);
    return line->ids ? TFM_OK : TFM_ERROR_MEMORY;
}

/* A source text after its prefix. */
static tfm_status encode_after_prefix(const tfm_model *model, tfm__line *line, const char *before, const char *text,
                                      size_t bytes, const tfm_encode_options *options) {
    const size_t first = strlen(before);
    char *both = tfm__alloc(first + bytes + 1, 1);
    if (!both)
        return TFM_ERROR_MEMORY;
    memcpy(both, before, first);
    memcpy(both + first, text, bytes);
    const tfm_status status =
        tfm_tokenizer_encode_with(model->tokenizer, &line->ids, &line->count, TFM_SOURCE, both, first + bytes, options);
    free(both);
    return status;
}

/* The size of an invisible character that does not separate words: soft hyphen, zero width space, word joiner, byte
 * order mark. Models have not seen them in words. U+200C and U+200D are part of words. */
static size_t invisible_bytes(const char *text, size_t bytes) {
    static const char *const UNSEEN[] = {"\xC2\xAD", "\xE2\x80\x8B", "\xE2\x81\xA0", "\xEF\xBB\xBF"};
    for (size_t i = 0; i < sizeof(UNSEEN) / sizeof(*UNSEEN) && (unsigned char)*text >= 0xc2; i++)
        if (strlen(UNSEEN[i]) <= bytes && memcmp(text, UNSEEN[i], strlen(UNSEEN[i])) == 0)
            return strlen(UNSEEN[i]);
    return 0;
}

/* Removes such characters from a source text; the caller frees *owned. Invalid UTF-8 is kept: the tokenizer reports
 * it. */
static tfm_status strip_invisible(char **owned, const char **text, size_t *bytes) {
    size_t at = 0, kept;
    *owned = NULL;
    while (at < *bytes && invisible_bytes(*text + at, *bytes - at) == 0)
        at++;
    if (at == *bytes || tfm__utf8_valid(*text, *bytes) != *bytes)
        return TFM_OK;
    char *out = *owned = tfm__alloc(*bytes + 1, 1);
    if (!out)
        return TFM_ERROR_MEMORY;
    memcpy(out, *text, kept = at);
    for (size_t skip; at < *bytes; at += skip ? skip : 1)
        if ((skip = invisible_bytes(*text + at, *bytes - at)) == 0)
            out[kept++] = (*text)[at];
    *text = out;
    *bytes = kept;
    return TFM_OK;
}

static tfm_status encode_visible(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side,
                                 const tfm__language_choice *languages) {
    const tfm_encode_options options = {.language = side == TFM_SOURCE ? languages->source : languages->target};
    if (side == TFM_TARGET && languages->plain)
        return encode_plain(model, line, text, bytes, side);
    if (side == TFM_SOURCE && languages->before)
        return encode_after_prefix(model, line, languages->before, text, bytes, &options);
    return tfm_tokenizer_encode_with(model->tokenizer, &line->ids, &line->count, side, text, bytes, &options);
}

static tfm_status encode(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side,
                         const tfm__language_choice *languages) {
    char *owned = NULL;
    tfm_status status = side == TFM_SOURCE ? strip_invisible(&owned, &text, &bytes) : TFM_OK;
    if (status == TFM_OK)
        status = encode_visible(model, line, text, bytes, side, languages);
    free(owned);
    return status;
}

/* The number of special tokens after any text, such as EOS, or with mBART EOS and the language. */
static tfm_status count_suffix(size_t *count, const tfm_model *model, const tfm__line *line, tfm_side side,
                               const tfm__language_choice *languages) {
    tfm__line empty = {0};
    tfm_status status = encode(model, &empty, "", 0, side, languages);
    *count = 0;
    while (*count < empty.count && *count < line->count &&
           empty.ids[empty.count - 1 - *count] == line->ids[line->count - 1 - *count])
        ++*count;
    tfm_ids_free(&empty.ids);
    return status;
}

tfm_status tfm__line_encode(const tfm_model *model, tfm__line *line, const char *text, size_t bytes, tfm_side side,
                            const tfm__language_choice *languages, bool truncate) {
    size_t behind = 0, most = (size_t)(side == TFM_SOURCE ? &model->arch.encoder : &model->arch.decoder)->max_positions;
    tfm_status status = encode(model, line, text, bytes, side, languages);
    if (status != TFM_OK || line->count <= most)
        return status;
    if (!truncate)
        return tfm__fail(TFM_ERROR_INPUT,
                         "the line has %zu tokens, and the model takes at most %zu: split it into sentences (split) or "
                         "truncate it (truncate)",
                         line->count, most);
    status = count_suffix(&behind, model, line, side, languages);
    behind = behind < most ? behind : most;
    memmove(line->ids + most - behind, line->ids + line->count - behind, behind * sizeof(*line->ids));
    line->count = most;
    return status;
}

/* Independent of the tokenizer. */
static bool is_blank(const char *text, size_t bytes) {
    static const char BLANKS[] = {' ', '\t', '\v', '\f', '\r'};
    size_t i = 0;
    while (i < bytes && memchr(BLANKS, text[i], sizeof(BLANKS)))
        i++;
    return i == bytes;
}

tfm_status tfm__lines_encode(tfm_model *model, tfm__line **out, const tfm__text_batch *texts, tfm_side side,
                             const char *what, const tfm__language_choice *languages, const tfm_text_options *options) {
    *out = NULL;
    if (!model->tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "the model was opened without its tokenizer: it takes ids, not text");
    tfm__line *encoded = tfm__alloc(texts->count, sizeof(*encoded));
    tfm_status status = encoded ? TFM_OK : TFM_ERROR_MEMORY;
    tfm__line empty = {0};
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    if (status == TFM_OK)
        status = encode(model, &empty, "", 0, side, languages);
    tfm_ids_free(&empty.ids);
    for (size_t i = 0; i < texts->count && status == TFM_OK; i++) {
        tfm__line *line = &encoded[i];
        const size_t bytes = texts->bytes ? texts->bytes[i] : strlen(texts->text[i]);
        line->index = i;
        line->line = texts->line_of ? texts->line_of[i] : i;
        line->rejected = i > 0 && line->line == line[-1].line && line[-1].rejected;
        if (line->rejected || is_blank(texts->text[i], bytes))
            continue;
        status = tfm__line_encode(model, line, texts->text[i], bytes, side, languages, options && options->truncate);
        if (status == TFM_ERROR_INPUT)
            status = tfm__line_reject(line, what, options, status, saved_message);
        if (line->count <= empty.count) { /* other blanks leave only special tokens, such as EOS */
            tfm_ids_free(&line->ids);
            line->count = 0;
        }
        line->cost = line->count;
    }
    if (status != TFM_OK)
        tfm__lines_free(&encoded, texts->count);
    *out = encoded;
    return status;
}

void tfm__lines_free(tfm__line **lines, size_t count) {
    for (size_t i = 0; *lines && i < count; i++)
        free((*lines)[i].ids);
    free(*lines);
    *lines = NULL;
}

void tfm__stats_add(tfm_search_stats *to, const tfm_search_stats *more) {
    to->sentences += more->sentences;
    to->source_tokens += more->source_tokens;
    to->target_tokens += more->target_tokens;
    to->seconds += more->seconds;
}
