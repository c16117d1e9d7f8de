/* Masks placeholders in texts, and restores them in translations. */
#include "model/tasks/masked.h"
#include <math.h>
#include <string.h>
#include <strings.h>
#include "model/tasks/sentence_join.h"
#include "text/bytes.h"
#include "text/tokenizer.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n';
}

/* ---- Masking ----------------------------------------------------------------------------------------------------- */

/* A word of a unit as a token, with SentencePiece's mark if a blank precedes it. */
static tfm_status add_piece(tfm__masked *k, size_t *room, const char *word, size_t bytes, bool blank) {
    static const char MARK[] = "\xE2\x96\x81";
    tfm__bytes piece = {0};
    if (tfm__grow(&k->pieces, room, k->words + 1, sizeof(*k->pieces)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    tfm__bytes_add(&piece, MARK, blank ? sizeof(MARK) - 1 : 0);
    tfm__bytes_add(&piece, word, bytes);
    k->pieces[k->words] = tfm__bytes_take(&piece);
    return k->pieces[k->words++] ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status add_pieces(tfm__masked *k, size_t *room, const tfm__masked_unit *unit) {
    tfm_status status = TFM_OK;
    for (size_t at = 0, end; at < unit->bytes && status == TFM_OK; at = end) {
        while (at < unit->bytes && is_blank(unit->text[at]))
            at++;
        for (end = at; end < unit->bytes && !is_blank(unit->text[end]); end++)
            ;
        if (end > at)
            status = add_piece(k, room, unit->text + at, end - at, at > 0 || unit->blank_before);
    }
    return status;
}

/* Whether the unit separates words: a line break, as an escape or a tag. */
static bool parts(const char *unit, size_t bytes) {
    return (bytes >= 2 && unit[0] == '\\' && strchr("nrt", unit[1])) ||
           (bytes >= 4 && strncasecmp(unit, "<br", 3) == 0 && strchr(" />", unit[3]));
}

static bool opens(const tfm__bytes *bare) {
    const char last = bare->data[bare->count - 1];
    return last == '(' || last == '[' || last == '{' || last == '"';
}

/* Adds the text between two placeholders; `after` has the blanks around the previous one. One blank replaces both, but
 * none before a punctuation mark after the placeholder, or after an opening mark. */
static void add_between(tfm__bytes *bare, const char *text, size_t begin, size_t end, const tfm__masked_unit *after,
                        bool last) {
    while (after && begin < end && is_blank(text[begin]))
        begin++;
    while (!last && end > begin && is_blank(text[end - 1]))
        end--;
    if (after && bare->count > 0 && end > begin &&
        (after->parts || after->blank_after ? !opens(bare) : after->blank_before && tfm__alnum_after(text, begin, end)))
        tfm__bytes_add(bare, " ", 1);
    tfm__bytes_add(bare, text + begin, end - begin);
}

tfm_status tfm__masked_strip(tfm__masked *k, const char *text, size_t bytes, size_t code, const tfm__placeholder *found,
                             size_t count) {
    tfm__bytes bare = {0};
    size_t room = 0;
    *k = (tfm__masked){.original = tfm__alloc(bytes + 1, 1), .original_bytes = bytes, .count = count};
    k->units = tfm__alloc(count, sizeof(*k->units));
    tfm_status status = k->original && k->units ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        memcpy(k->original, text, bytes);
    for (size_t i = 0, begin = 0; status == TFM_OK && i <= count; i++) {
        const size_t end = i < count ? found[i].begin : bytes;
        add_between(&bare, text, begin, end, i > 0 ? &k->units[i - 1] : NULL, i == count);
        if (i == count)
            break;
        begin = found[i].end;
        k->units[i] = (tfm__masked_unit){.text = k->original + found[i].begin,
                                         .bytes = found[i].end - found[i].begin,
                                         .blank_before = end == code || is_blank(text[end - 1]),
                                         .blank_after = begin == bytes || is_blank(text[begin]),
                                         .glue_before = end > code && tfm__alnum_before(text, end),
                                         .glue_after = tfm__alnum_after(text, begin, bytes),
                                         .tag = strchr("<[]!*", text[found[i].begin]) != NULL,
                                         .parts = parts(text + found[i].begin, begin - found[i].begin)};
        k->units[i].at = bare.count;
        status = add_pieces(k, &room, &k->units[i]);
    }
    k->copied = !tfm__has_alnum(bare.data + (bare.count ? code : 0), bare.count > code ? bare.count - code : 0);
    k->bare_bytes = bare.count;
    tfm__bytes_add(&bare, "", 1); /* not NULL, even if empty */
    k->bare = status == TFM_OK ? tfm__bytes_take(&bare) : NULL;
    tfm__bytes_free(&bare);
    return status == TFM_OK && !k->bare ? TFM_ERROR_MEMORY : status;
}

void tfm__masked_free(tfm__masked *k) {
    for (size_t i = 0; i < k->words; i++)
        free(k->pieces[i]);
    free(k->pieces);
    free(k->units);
    free(k->source);
    free(k->original);
    free(k->bare);
    *k = (tfm__masked){0};
}

/* Allocates the bare texts; texts without placeholders are shared. */
static tfm_status begin_bare(tfm__translations *t) {
    const size_t count = t->texts.count;
    t->masked = tfm__alloc(count, sizeof(*t->masked));
    t->bare = tfm__alloc(count, sizeof(*t->bare));
    t->bare_bytes = tfm__alloc(count, sizeof(*t->bare_bytes));
    if (!t->masked || !t->bare || !t->bare_bytes)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        t->masked[i] = (tfm__masked){0};
        t->bare[i] = t->texts.text[i];
        t->bare_bytes[i] = t->texts.bytes ? t->texts.bytes[i] : strlen(t->texts.text[i]);
    }
    t->texts.text = t->bare;
    t->texts.bytes = t->bare_bytes;
    return TFM_OK;
}

tfm_status tfm__translations_mask_placeholders(tfm__translations *t) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; t->text->placeholders && i < t->texts.count && status == TFM_OK; i++) {
        const char *text = t->texts.text[i];
        const size_t bytes = t->texts.bytes ? t->texts.bytes[i] : strlen(text);
        tfm__placeholder *found = NULL;
        size_t count = 0;
        status = tfm__placeholders_find(t->text->placeholders, &found, &count, text, bytes);
        if (status == TFM_OK && count > 0 && !t->masked)
            status = begin_bare(t);
        if (status == TFM_OK && count > 0)
            status = tfm__masked_strip(&t->masked[i], text, bytes, tfm__language_code_bytes(text, bytes), found, count);
        if (status == TFM_OK && count > 0) {
            t->bare[i] = t->masked[i].copied ? "" : t->masked[i].bare;
            t->bare_bytes[i] = t->masked[i].copied ? 0 : t->masked[i].bare_bytes;
        }
        free(found);
    }
    return status;
}

bool tfm__translations_has_placeholders(const tfm__translations *t, size_t text) {
    return t->masked && t->masked[text].bare && !t->masked[text].copied;
}

tfm_status tfm__translations_copy(tfm__translations *t, size_t text) {
    const tfm__masked *kept = &t->masked[text];
    const size_t code = tfm__language_code_bytes(kept->original, kept->original_bytes), n_best = (size_t)t->n_best;
    char *copy = tfm__alloc(kept->original_bytes - code + 1, 1);
    if (!copy)
        return TFM_ERROR_MEMORY;
    memcpy(copy, kept->original + code, kept->original_bytes - code);
    copy[kept->original_bytes - code] = 0;
    t->results[text * n_best].text = copy;
    for (size_t best = 1; best < n_best; best++) {
        tfm__translation_result *none = &t->results[text * n_best + best];
        none->hypothesis.score = -INFINITY;
        none->text = tfm__alloc(1, 1);
        if (!none->text)
            return TFM_ERROR_MEMORY;
        *none->text = 0;
    }
    return TFM_OK;
}

/* ---- Restoring --------------------------------------------------------------------------------------------------- */

static tfm_status place(tfm__translations *t, tfm__masked *k, const tfm__masked_side *source,
                        tfm__translation_result *r) {
    const size_t tokens = (size_t)r->hypothesis.tokens;
    const char **pieces = tfm__token_names(t->model, TFM_TARGET, r->hypothesis.ids, tokens);
    const tfm__masked_side target = {r->text, strlen(r->text), pieces, tokens};
    char *text = NULL;
    const tfm_status status =
        pieces ? tfm__masked_restore(k, &text, &r->words, source, &target, r->alignment) : TFM_ERROR_MEMORY;
    free(pieces);
    if (status != TFM_OK)
        return status;
    tfm_text_free(&r->text);
    r->text = text;
    return TFM_OK;
}

/* Frees details that were only needed for placement. */
static void drop_details(const tfm__translations *t, tfm__translation_result *r) {
    if (!t->detailed || !t->text->alignments) {
        free(r->alignment);
        r->alignment = NULL;
    }
    if (!t->detailed) {
        tfm_ids_free(&r->hypothesis.ids);
        free(r->hypothesis.log_probs);
        r->hypothesis.log_probs = NULL;
    }
}

tfm_status tfm__translations_restore_placeholders(tfm__translations *t, size_t text) {
    const tfm__line *line = &t->lines[text];
    const char **pieces = tfm__token_names(t->model, TFM_SOURCE, line->ids, line->count);
    const tfm__masked_side source = {t->texts.text[text], t->texts.bytes[text], pieces, line->count};
    tfm_status status = pieces ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < (size_t)t->n_best && status == TFM_OK; i++) {
        tfm__translation_result *r = &t->results[text * (size_t)t->n_best + i];
        if (r->hypothesis.tokens > 0 && r->alignment)
            status = place(t, &t->masked[text], &source, r);
        drop_details(t, r);
    }
    free(pieces);
    return status;
}
