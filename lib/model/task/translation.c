/* What becomes of the search's results: lines put together from their sentences, in the caller's order. */
#include "model/task/translation.h"
#include <math.h>
#include <string.h>
#include "text/sentences.h"
#include "text/tokenizer.h"

void tfm__result_clear(tfm__result *result) {
    tfm_text_free(&result->text);
    tfm__hypothesis_clear(&result->hypothesis);
    free(result->alignment);
    result->alignment = NULL;
}

/* ---- Lines to sentences ---------------------------------------------------------------------------------------- */

/* Room for `count` texts in each of the arrays, which have *room. */
static tfm_status grow(tfm__translations *t, size_t *room, size_t count) {
    size_t rooms[] = {*room, *room, *room, *room};
    if (tfm__grow(&t->sentences, &rooms[0], count, sizeof(*t->sentences)) != TFM_OK ||
        tfm__grow(&t->bytes, &rooms[1], count, sizeof(*t->bytes)) != TFM_OK ||
        tfm__grow(&t->owners, &rooms[2], count, sizeof(*t->owners)) != TFM_OK ||
        tfm__grow(&t->spans, &rooms[3], count, sizeof(*t->spans)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    *room = rooms[0];
    return TFM_OK;
}

/* A text of a line, with what is put before it. */
static tfm_status add_text(tfm__translations *t, size_t *room, size_t line, const char *text, size_t bytes,
                           const char *before, size_t before_bytes) {
    const size_t at = t->texts.count;
    if (grow(t, room, at + 1) != TFM_OK)
        return TFM_ERROR_MEMORY;
    t->sentences[at] = text;
    t->bytes[at] = bytes;
    t->spans[at] = (tfm__span){text, bytes};
    t->owners[at] = line;
    if (before_bytes > 0) {
        char *copy = tfm__alloc(before_bytes + bytes, 1);
        if (!copy)
            return TFM_ERROR_MEMORY;
        memcpy(copy, before, before_bytes);
        memcpy(copy + before_bytes, text, bytes);
        t->sentences[at] = copy;
        t->bytes[at] += before_bytes;
    }
    t->texts.count++;
    return TFM_OK;
}

static tfm_status split_line(tfm__translations *t, tfm__splitter *splitter, size_t *room, size_t line, const char *text,
                             size_t bytes) {
    tfm_sentence *found = NULL;
    size_t count = 0;
    const size_t code = tfm__code_bytes(text, bytes);
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
    tfm_status status = tfm__splitter_run(splitter, &found, &count, text + code, bytes - code);
    if (status == TFM_ERROR_INPUT) { /* the encoder says what is wrong */
        tfm__error_restore(kept);
        return add_text(t, room, line, text, bytes, NULL, 0);
    }
    if (status == TFM_OK && count == 0)
        return add_text(t, room, line, text, bytes, NULL, 0);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = add_text(t, room, line, text + code + found[i].start, found[i].bytes, text,
                          code ? code + found[0].start : 0);
    tfm_sentences_free(&found);
    return status;
}

tfm_status tfm__translations_split(tfm__translations *t, const char *const *lines) {
    const char *language = t->text->language;
    tfm__splitter *splitter = NULL;
    size_t room = 0;
    if (!language && t->model->tokenizer)
        language = tfm_tokenizer_language(t->model->tokenizer, TFM_SOURCE);
    tfm_status status = tfm__splitter_open(&splitter, language);
    t->texts.count = 0;
    for (size_t i = 0; i < t->count && status == TFM_OK; i++)
        status = split_line(t, splitter, &room, i, lines[i],
                            t->text->line_bytes ? t->text->line_bytes[i] : strlen(lines[i]));
    tfm__splitter_free(&splitter);
    t->texts = (tfm__texts){t->sentences, t->bytes, t->owners, t->texts.count};
    return status;
}

/* ---- Sentences to lines ---------------------------------------------------------------------------------------- */

/* The texts of one line, and the hypothesis that is put together from them. */
typedef struct whole {
    size_t first, count;
    int best;
    tfm_translation view;
    char *text;
    int32_t *source_ids, *target_ids;
    const char **source_pieces, **target_pieces;
    float *log_probs, *alignment;
} whole;

static void whole_free(whole *w) {
    void *all[] = {w->text,          w->source_ids, w->target_ids, w->source_pieces,
                   w->target_pieces, w->log_probs,  w->alignment};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

static tfm__result *result_of(const tfm__translations *t, const whole *w, size_t part) {
    return &t->results[(w->first + part) * (size_t)t->n_best + (size_t)w->best];
}

/* What stood between a text and the next one of its line. */
static tfm__span gap_after(const tfm__translations *t, size_t text) {
    const char *end = t->spans[text].text + t->spans[text].bytes;
    return (tfm__span){end, (size_t)(t->spans[text + 1].text - end)};
}

/* The sentences' translations, with the blank space that was between the sentences. */
static tfm_status join_text(const tfm__translations *t, whole *w) {
    size_t bytes = 1;
    for (size_t p = 0; p < w->count; p++) {
        const char *text = result_of(t, w, p)->text;
        bytes += (text ? strlen(text) : 0) + 1 + (p + 1 < w->count ? gap_after(t, w->first + p).bytes : 0);
    }
    char *out = w->text = tfm__alloc(bytes, 1);
    if (!out)
        return TFM_ERROR_MEMORY;
    for (size_t p = 0; p < w->count; p++) {
        const char *text = result_of(t, w, p)->text;
        const size_t length = text ? strlen(text) : 0, last = w->first + p;
        if (p > 0) {
            const tfm__span gap = gap_after(t, last - 1);
            memcpy(out, gap.text, gap.bytes);
            out += gap.bytes;
            *out = 0;
            if (gap.bytes == 0 && tfm__sentences_need_space(w->text, text ? text : ""))
                *out++ = ' ';
        }
        memcpy(out, text ? text : "", length);
        out += length;
    }
    w->view.text = w->text;
    return TFM_OK;
}

/* Ids and log probabilities, one sentence after the other. */
static tfm_status join_tokens(const tfm__translations *t, whole *w) {
    size_t sources = 0, targets = 0;
    for (size_t p = 0; p < w->count; p++) {
        sources += t->lines[w->first + p].count;
        targets += (size_t)result_of(t, w, p)->hypothesis.tokens;
    }
    w->source_ids = tfm__alloc(sources, sizeof(*w->source_ids));
    w->target_ids = tfm__alloc(targets, sizeof(*w->target_ids));
    w->log_probs = tfm__alloc(targets, sizeof(*w->log_probs));
    if (!w->source_ids || !w->target_ids || !w->log_probs)
        return TFM_ERROR_MEMORY;
    sources = targets = 0;
    for (size_t p = 0; p < w->count; p++) {
        const tfm__line *line = &t->lines[w->first + p];
        const tfm_hypothesis *h = &result_of(t, w, p)->hypothesis;
        for (size_t i = 0; i < line->count; i++)
            w->source_ids[sources++] = line->ids[i];
        for (size_t i = 0; i < (size_t)h->tokens; i++, targets++) {
            w->target_ids[targets] = h->ids[i];
            w->log_probs[targets] = h->log_probs[i];
        }
    }
    w->source_pieces = tfm__pieces_name(t->model, TFM_SOURCE, w->source_ids, sources);
    w->target_pieces = tfm__pieces_name(t->model, TFM_TARGET, w->target_ids, targets);
    w->view.source = (tfm_attention_axis){sources, w->source_ids, w->source_pieces};
    w->view.target = (tfm_attention_axis){targets, w->target_ids, w->target_pieces};
    w->view.log_probs = w->log_probs;
    return w->source_pieces && w->target_pieces ? TFM_OK : TFM_ERROR_MEMORY;
}

/* One matrix, with the sentences' own along its diagonal. */
static tfm_status join_alignment(const tfm__translations *t, whole *w) {
    const size_t columns = w->view.source.count;
    float *to = w->alignment = tfm__alloc(w->view.target.count * columns, sizeof(*w->alignment));
    if (!to)
        return TFM_ERROR_MEMORY;
    for (size_t p = 0, column = 0; p < w->count; p++) {
        const size_t width = t->lines[w->first + p].count;
        const tfm__result *r = result_of(t, w, p);
        for (size_t row = 0; row < (size_t)r->hypothesis.tokens; row++, to += columns)
            memcpy(to + column, r->alignment + row * width, width * sizeof(*to));
        column += width;
    }
    w->view.alignment = w->alignment;
    return TFM_OK;
}

static tfm_status emit_whole(const tfm__translations *t, whole *w) {
    tfm_status status = TFM_OK;
    w->view = (tfm_translation){.line = t->emitted, .best = w->best};
    for (size_t p = 0; p < w->count; p++) {
        w->view.score += result_of(t, w, p)->hypothesis.score;
        w->view.log_prob += result_of(t, w, p)->hypothesis.log_prob;
        w->view.sentences += t->lines[w->first + p].ids != NULL;
    }
    if (w->count == 1)
        w->view.text = result_of(t, w, 0)->text;
    else
        status = join_text(t, w);
    if (status == TFM_OK && t->detailed)
        status = join_tokens(t, w);
    if (status == TFM_OK && t->detailed && t->text->alignments)
        status = join_alignment(t, w);
    if (status == TFM_OK && !t->emit(t->user, &w->view))
        status = tfm__fail(TFM_ERROR_CANCELLED, "translation was stopped at line %zu", t->emitted + 1);
    return status;
}

/* An empty or rejected line is one empty line, whatever the n. */
static tfm_status emit_nothing(const tfm__translations *t) {
    const tfm_translation nothing = {.line = t->emitted, .text = "", .score = (double)NAN, .log_prob = (double)NAN};
    return t->emit(t->user, &nothing)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "translation was stopped at line %zu", t->emitted + 1);
}

static tfm_status emit_line(const tfm__translations *t, size_t texts, bool translated) {
    tfm_status status = translated ? TFM_OK : emit_nothing(t);
    for (int best = 0; best < t->n_best && translated && status == TFM_OK; best++) {
        whole w = {.first = t->next, .count = texts, .best = best};
        status = emit_whole(t, &w);
        whole_free(&w);
    }
    for (size_t i = 0; status == TFM_OK && i < texts * (size_t)t->n_best; i++)
        tfm__result_clear(&t->results[t->next * (size_t)t->n_best + i]);
    return status;
}

tfm_status tfm__translations_emit(tfm__translations *t) {
    while (t->emitted < t->count) {
        size_t texts = 0;
        bool translated = false;
        for (; t->next + texts < t->texts.count && t->lines[t->next + texts].line == t->emitted; texts++) {
            const size_t text = t->next + texts;
            if (t->lines[text].ids && !t->lines[text].done)
                return TFM_OK;
            translated = translated || t->lines[text].ids;
        }
        const tfm_status status = emit_line(t, texts, translated);
        if (status != TFM_OK)
            return status;
        t->next += texts;
        t->emitted++;
    }
    return TFM_OK;
}

/* A line of which one sentence is bad is not translated. */
static void drop_rejected(tfm__translations *t) {
    for (size_t first = 0, next; first < t->texts.count; first = next) {
        bool rejected = false;
        for (next = first; next < t->texts.count && t->lines[next].line == t->lines[first].line; next++)
            rejected = rejected || t->lines[next].rejected;
        for (size_t i = first; i < next && rejected; i++) {
            tfm_ids_free(&t->lines[i].ids);
            t->lines[i].count = 0;
        }
    }
}

tfm_status tfm__translations_begin(tfm__translations *t) {
    drop_rejected(t);
    t->results = tfm__alloc(t->texts.count * (size_t)t->n_best, sizeof(*t->results));
    return t->results ? tfm__translations_emit(t) : TFM_ERROR_MEMORY;
}

void tfm__translations_free(tfm__translations *t) {
    tfm__spoken_free(&t->spoken);
    for (size_t i = 0; t->results && i < t->texts.count * (size_t)t->n_best; i++)
        tfm__result_clear(&t->results[i]);
    free(t->results);
    tfm__lines_free(&t->prefixes, t->texts.count);
    tfm__lines_free(&t->lines, t->texts.count);
    for (size_t i = 0; t->sentences && i < t->texts.count; i++)
        if (t->sentences[i] != t->spans[i].text)
            free((char *)(uintptr_t)t->sentences[i]);
    free(t->sentences);
    free(t->spans);
    free(t->bytes);
    free(t->owners);
}
