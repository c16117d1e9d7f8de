/* Incremental detokenization to final text: whole characters, truncated before a stop string. */
#include "model/tasks/incremental_detokenizer.h"
#include <string.h>
#include "text/tokenizer.h"

/* Ids of the prompt decoded before the new ones, since some tokenizers drop the blank before a text's first word. */
enum { CONTEXT_TOKENS = 6 };

static tfm_status push(tfm__incremental_detokenizer *s, int32_t id) {
    const tfm_status status = tfm__grow(&s->ids, &s->room, s->count + 1, sizeof(*s->ids));
    if (status == TFM_OK)
        s->ids[s->count++] = id;
    return status;
}

tfm_status tfm__incremental_detokenizer_begin(tfm__incremental_detokenizer *out, const tfm_tokenizer *tokenizer,
                                              const char *const *stops, size_t stop_count, const int32_t *prompt,
                                              size_t prompt_count) {
    *out = (tfm__incremental_detokenizer){.tokenizer = tokenizer, .stops = stops, .stop_count = stop_count};
    tfm_status status = tfm__grow(&out->text, &out->text_room, 1, 1);
    for (size_t i = prompt_count > CONTEXT_TOKENS ? prompt_count - CONTEXT_TOKENS : 0;
         i < prompt_count && status == TFM_OK; i++)
        status = push(out, prompt[i]);
    if (status == TFM_OK)
        out->text[0] = 0;
    out->taken = out->count;
    return status;
}

static bool ends_within_character(const char *text, size_t bytes) {
    static const char replacement[] = "\xEF\xBF\xBD"; /* replaces incomplete bytes */
    const size_t size = sizeof(replacement) - 1;
    return bytes >= size && memcmp(text + bytes - size, replacement, size) == 0;
}

static tfm_status append(tfm__incremental_detokenizer *s, const char *text, size_t bytes) {
    const tfm_status status = tfm__grow(&s->text, &s->text_room, s->bytes + bytes + 1, 1);
    if (status != TFM_OK)
        return status;
    memcpy(s->text + s->bytes, text, bytes);
    s->bytes += bytes;
    s->text[s->bytes] = 0;
    return TFM_OK;
}

/* Truncates the text at the first stop string at `from` or later. */
static void find_stop_string(tfm__incremental_detokenizer *s, size_t from) {
    const char *first = NULL;
    for (size_t i = 0; i < s->stop_count; i++) {
        const char *at = s->stops[i][0] ? strstr(s->text + from, s->stops[i]) : NULL;
        first = at && (!first || at < first) ? at : first;
    }
    if (!first)
        return;
    s->bytes = (size_t)(first - s->text);
    s->text[s->bytes] = 0;
    s->stopped = true;
}

static size_t longest_stop(const tfm__incremental_detokenizer *s) {
    size_t most = 0;
    for (size_t i = 0; i < s->stop_count; i++)
        most = strlen(s->stops[i]) > most ? strlen(s->stops[i]) : most;
    return most;
}

/* The first character boundary in `after` from `taken_bytes` on. If the prompt ends within a byte sequence, texts
 * before and after a token may differ in their first bytes. */
static size_t whole_character(const char *after, size_t taken_bytes) {
    while (((unsigned char)after[taken_bytes] & 0xc0) == 0x80)
        taken_bytes++;
    return taken_bytes;
}

/* Decodes the ids from `taken` on and appends the text, if it is whole characters, or `all` of it. */
static tfm_status decode_pending(tfm__incremental_detokenizer *s, bool all) {
    const size_t taken_bytes = s->bytes, count = s->count - s->from;
    const size_t held = all ? 0 : tfm__tokenizer_incomplete(s->tokenizer, s->ids + s->from, count),
                 end = s->count - held;
    char *before = NULL, *after = NULL;
    if (end <= s->taken)
        return TFM_OK;
    tfm_status status = tfm_tokenizer_decode(s->tokenizer, &before, s->ids + s->from, s->taken - s->from);
    if (status == TFM_OK)
        status = tfm_tokenizer_decode(s->tokenizer, &after, s->ids + s->from, end - s->from);
    const size_t old = before ? strlen(before) : 0, whole = after ? strlen(after) : 0;
    if (status == TFM_OK && whole > old && (all || !ends_within_character(after, whole))) {
        const size_t from = whole_character(after, old);
        status = append(s, after + from, whole - from);
        s->from = s->taken;
        s->taken = end;
        const size_t reach = longest_stop(s);
        if (status == TFM_OK && reach > 0)
            find_stop_string(s, taken_bytes > reach ? taken_bytes - reach : 0);
    }
    tfm_text_free(&before);
    tfm_text_free(&after);
    return status;
}

tfm_status tfm__incremental_detokenizer_push(tfm__incremental_detokenizer *s, int32_t id) {
    if (s->stopped)
        return TFM_OK;
    const tfm_status status = push(s, id);
    return status == TFM_OK ? decode_pending(s, false) : status;
}

tfm_status tfm__incremental_detokenizer_finish(tfm__incremental_detokenizer *s) {
    return s->stopped ? TFM_OK : decode_pending(s, true);
}

size_t tfm__incremental_detokenizer_final_bytes(const tfm__incremental_detokenizer *s, bool ended) {
    size_t held = 0;
    if (ended || s->stopped)
        return s->bytes;
    for (size_t i = 0; i < s->stop_count; i++) {
        const size_t length = strlen(s->stops[i]);
        for (size_t n = length - (length > 0); n > held; n--)
            if (n <= s->bytes && memcmp(s->text + s->bytes - n, s->stops[i], n) == 0)
                held = n;
    }
    return s->bytes - held;
}

bool tfm__incremental_detokenizer_emit(tfm__incremental_detokenizer *s, bool ended, tfm_text_fn on_text, void *user,
                                       size_t prompt, int rank) {
    const size_t final = tfm__incremental_detokenizer_final_bytes(s, ended);
    if (final <= s->emitted_bytes)
        return true;
    char *const end = s->text + final;
    const char kept = *end;
    *end = 0;
    const bool more = on_text(user, prompt, rank, s->text + s->emitted_bytes);
    *end = kept;
    s->emitted_bytes = final;
    return more;
}

void tfm__incremental_detokenizer_free(tfm__incremental_detokenizer *s) {
    free(s->ids);
    free(s->text);
    *s = (tfm__incremental_detokenizer){0};
}
