/* Joins translated sentences to lines, in the caller's order. */
#include "model/tasks/sentence_join.h"
#include <math.h>
#include <string.h>
#include "text/sentences.h"
#include "text/tokenizer.h"

void tfm__translation_result_clear(tfm__translation_result *result) {
    tfm_text_free(&result->text);
    tfm__hypothesis_clear(&result->hypothesis);
    free(result->alignment);
    free(result->words);
    result->alignment = NULL;
    result->words = NULL;
}

/* ---- Lines to sentences ---------------------------------------------------------------------------------------- */

/* Grows the arrays to `count` texts; *room is their capacity. */
static tfm_status grow(tfm__translations *t, size_t *room, size_t count) {
    size_t rooms[] = {*room, *room, *room, *room};
    if (tfm__grow(&t->sentences, &rooms[0], count, sizeof(*t->sentences)) != TFM_OK ||
        tfm__grow(&t->bytes, &rooms[1], count, sizeof(*t->bytes)) != TFM_OK ||
        tfm__grow(&t->line_of, &rooms[2], count, sizeof(*t->line_of)) != TFM_OK ||
        tfm__grow(&t->spans, &rooms[3], count, sizeof(*t->spans)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    *room = rooms[0];
    return TFM_OK;
}

/* Adds a text of a line, with its prefix. */
static tfm_status add_text(tfm__translations *t, size_t *room, size_t line, const char *text, size_t bytes,
                           const char *before, size_t before_bytes) {
    const size_t at = t->texts.count;
    if (grow(t, room, at + 1) != TFM_OK)
        return TFM_ERROR_MEMORY;
    t->sentences[at] = text;
    t->bytes[at] = bytes;
    t->spans[at] = (tfm__string_view){text, bytes};
    t->line_of[at] = line;
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

static tfm_status split_line(tfm__translations *t, tfm__sentence_splitter *splitter, size_t *room, size_t line,
                             const char *text, size_t bytes) {
    tfm_sentence *found = NULL;
    size_t count = 0;
    const size_t code = tfm__language_code_bytes(text, bytes);
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    tfm_status status = tfm__sentence_splitter_run(splitter, &found, &count, text + code, bytes - code);
    if (status == TFM_ERROR_INPUT) { /* the encoder reports the error */
        tfm__error_restore(saved_message);
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
    tfm__sentence_splitter *splitter = NULL;
    size_t room = 0;
    if (!language && t->model->tokenizer)
        language = tfm_tokenizer_language(t->model->tokenizer, TFM_SOURCE);
    tfm_status status = tfm__sentence_splitter_open(&splitter, language);
    t->texts.count = 0;
    for (size_t i = 0; i < t->count && status == TFM_OK; i++)
        status = split_line(t, splitter, &room, i, lines[i],
                            t->text->line_bytes ? t->text->line_bytes[i] : strlen(lines[i]));
    tfm__sentence_splitter_free(&splitter);
    t->texts = (tfm__text_batch){t->sentences, t->bytes, t->line_of, t->texts.count};
    return status;
}

/* ---- Sentences to lines ---------------------------------------------------------------------------------------- */

/* Texts of a line, and the joined hypothesis. */
typedef struct joined_line {
    size_t first, count;
    int best;
    tfm_translation view;
    char *text;
    int32_t *source_ids, *target_ids;
    const char **source_pieces, **target_pieces;
    float *log_probs, *alignment;
} joined_line;

static void joined_line_free(joined_line *w) {
    void *all[] = {w->text,          w->source_ids, w->target_ids, w->source_pieces,
                   w->target_pieces, w->log_probs,  w->alignment};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

static tfm__translation_result *result_of(const tfm__translations *t, const joined_line *w, size_t part) {
    return &t->results[(w->first + part) * (size_t)t->n_best + (size_t)w->best];
}

/* The text between a sentence and the next one of its line. */
static tfm__string_view gap_after(const tfm__translations *t, size_t text) {
    const char *end = t->spans[text].text + t->spans[text].bytes;
    return (tfm__string_view){end, (size_t)(t->spans[text + 1].text - end)};
}

/* Joins the translations, with the original blanks between the sentences. */
static tfm_status join_text(const tfm__translations *t, joined_line *w) {
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
            const tfm__string_view gap = gap_after(t, last - 1);
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

/* Words of placeholders count as tokens. */
static size_t words_in(const tfm__translations *t, size_t text) {
    return t->masked && t->masked[text].source ? t->masked[text].words : 0;
}

/* Merges the words of placeholders into `count` tokens: for each position the token's index, or -1 - index of the
 * word. */
static tfm_status order_of(ptrdiff_t **out, const tfm__masked_word *words, size_t word_count, size_t count) {
    ptrdiff_t *order = *out = tfm__alloc(count + word_count, sizeof(*order));
    size_t w = 0, at = 0;
    for (size_t i = 0; order && i <= count; i++) {
        for (; w < word_count && (words[w].at <= i || i == count); w++)
            order[at++] = -1 - (ptrdiff_t)words[w].word;
        if (i < count)
            order[at++] = (ptrdiff_t)i;
    }
    return order ? TFM_OK : TFM_ERROR_MEMORY;
}

/* A sentence of a line, with its placeholders' words. */
typedef struct part {
    const tfm__line *line;
    const tfm__translation_result *result;
    char *const *pieces; /* of the words */
    ptrdiff_t *source, *target;
    size_t sources, targets;
} part;

static tfm_status part_begin(part *p, const tfm__translations *t, const joined_line *w, size_t index) {
    const size_t text = w->first + index;
    *p = (part){.line = &t->lines[text], .result = result_of(t, w, index)};
    const size_t words = p->result->words ? words_in(t, text) : 0;
    p->sources = p->line->count + words;
    p->targets = (size_t)p->result->hypothesis.tokens + words;
    p->pieces = words ? t->masked[text].pieces : NULL;
    const tfm_status status = order_of(&p->source, words ? t->masked[text].source : NULL, words, p->line->count);
    return status == TFM_OK ? order_of(&p->target, p->result->words, words, p->targets - words) : status;
}

static void part_end(part *p) {
    free(p->source);
    free(p->target);
    *p = (part){0};
}

/* Concatenates ids and log probabilities. */
static void join_ids(const part *p, joined_line *w, size_t *sources, size_t *targets) {
    const tfm_hypothesis *h = &p->result->hypothesis;
    for (size_t i = 0; i < p->sources; i++)
        w->source_ids[(*sources)++] = p->source[i] < 0 ? -1 : p->line->ids[p->source[i]];
    for (size_t i = 0; i < p->targets; i++, ++*targets) {
        w->target_ids[*targets] = p->target[i] < 0 ? -1 : h->ids[p->target[i]];
        w->log_probs[*targets] = p->target[i] < 0 ? 0 : h->log_probs[p->target[i]];
    }
}

static void name_words(const part *p, joined_line *w, size_t *sources, size_t *targets) {
    for (size_t i = 0; i < p->sources; i++, ++*sources)
        if (p->source[i] < 0)
            w->source_pieces[*sources] = p->pieces[-1 - p->source[i]];
    for (size_t i = 0; i < p->targets; i++, ++*targets)
        if (p->target[i] < 0)
            w->target_pieces[*targets] = p->pieces[-1 - p->target[i]];
}

static tfm_status join_tokens(const tfm__translations *t, joined_line *w, const part *parts) {
    size_t sources = 0, targets = 0;
    for (size_t p = 0; p < w->count; p++) {
        sources += parts[p].sources;
        targets += parts[p].targets;
    }
    w->source_ids = tfm__alloc(sources, sizeof(*w->source_ids));
    w->target_ids = tfm__alloc(targets, sizeof(*w->target_ids));
    w->log_probs = tfm__alloc(targets, sizeof(*w->log_probs));
    if (!w->source_ids || !w->target_ids || !w->log_probs)
        return TFM_ERROR_MEMORY;
    sources = targets = 0;
    for (size_t p = 0; p < w->count; p++)
        join_ids(&parts[p], w, &sources, &targets);
    w->source_pieces = tfm__token_names(t->model, TFM_SOURCE, w->source_ids, sources);
    w->target_pieces = tfm__token_names(t->model, TFM_TARGET, w->target_ids, targets);
    if (!w->source_pieces || !w->target_pieces)
        return TFM_ERROR_MEMORY;
    w->view.source = (tfm_token_list){sources, w->source_ids, w->source_pieces};
    w->view.target = (tfm_token_list){targets, w->target_ids, w->target_pieces};
    w->view.log_probs = w->log_probs;
    sources = targets = 0;
    for (size_t p = 0; p < w->count; p++)
        name_words(&parts[p], w, &sources, &targets);
    return TFM_OK;
}

/* A block-diagonal matrix of the sentences' alignments. Words of placeholders are aligned with themselves. */
static tfm_status join_alignment(joined_line *w, const part *parts) {
    const size_t columns = w->view.source.count;
    float *to = w->alignment = tfm__alloc(w->view.target.count * columns, sizeof(*w->alignment));
    if (!to)
        return TFM_ERROR_MEMORY;
    for (size_t p = 0, column = 0; p < w->count; column += parts[p++].sources)
        for (size_t row = 0; row < parts[p].targets; row++, to += columns)
            for (size_t i = 0; i < parts[p].sources; i++) {
                const ptrdiff_t r = parts[p].target[row], c = parts[p].source[i];
                to[column + i] = r >= 0 && c >= 0
                                     ? parts[p].result->alignment[(size_t)r * parts[p].line->count + (size_t)c]
                                     : (float)(r < 0 && r == c);
            }
    w->view.alignment = w->alignment;
    return TFM_OK;
}

static tfm_status join_details(const tfm__translations *t, joined_line *w) {
    part *parts = tfm__alloc(w->count, sizeof(*parts));
    tfm_status status = parts ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t p = 0; parts && p < w->count; p++)
        parts[p] = (part){0};
    for (size_t p = 0; p < w->count && status == TFM_OK; p++)
        status = part_begin(&parts[p], t, w, p);
    if (status == TFM_OK)
        status = join_tokens(t, w, parts);
    if (status == TFM_OK && t->text->alignments)
        status = join_alignment(w, parts);
    for (size_t p = 0; parts && p < w->count; p++)
        part_end(&parts[p]);
    free(parts);
    return status;
}

/* Whether a text consists of placeholders. */
static bool is_copied(const tfm__translations *t, size_t text) {
    return t->masked && t->masked[text].copied && !t->lines[text].rejected;
}

static tfm_status emit_joined(const tfm__translations *t, joined_line *w) {
    tfm_status status = TFM_OK;
    w->view = (tfm_translation){.line = t->emitted, .rank = w->best};
    for (size_t p = 0; p < w->count; p++) {
        w->view.score += result_of(t, w, p)->hypothesis.score;
        w->view.log_prob += result_of(t, w, p)->hypothesis.log_prob;
        w->view.sentences += t->lines[w->first + p].ids != NULL || is_copied(t, w->first + p);
    }
    if (w->count == 1)
        w->view.text = result_of(t, w, 0)->text;
    else
        status = join_text(t, w);
    if (status == TFM_OK && t->detailed)
        status = join_details(t, w);
    if (status == TFM_OK && !t->emit(t->user, &w->view))
        status = tfm__fail(TFM_ERROR_CANCELLED, "translation was stopped at line %zu", t->emitted + 1);
    return status;
}

/* An empty or rejected line gives one empty line for any n_best. */
static tfm_status emit_nothing(const tfm__translations *t) {
    const tfm_translation nothing = {.line = t->emitted, .text = "", .score = (double)NAN, .log_prob = (double)NAN};
    return t->emit(t->user, &nothing)
               ? TFM_OK
               : tfm__fail(TFM_ERROR_CANCELLED, "translation was stopped at line %zu", t->emitted + 1);
}

static tfm_status emit_line(const tfm__translations *t, size_t texts, bool translated) {
    tfm_status status = translated ? TFM_OK : emit_nothing(t);
    for (int best = 0; best < t->n_best && translated && status == TFM_OK; best++) {
        joined_line w = {.first = t->next, .count = texts, .best = best};
        status = emit_joined(t, &w);
        joined_line_free(&w);
    }
    for (size_t i = 0; status == TFM_OK && i < texts * (size_t)t->n_best; i++)
        tfm__translation_result_clear(&t->results[t->next * (size_t)t->n_best + i]);
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
            translated = translated || t->lines[text].ids || is_copied(t, text);
        }
        const tfm_status status = emit_line(t, texts, translated);
        if (status != TFM_OK)
            return status;
        t->next += texts;
        t->emitted++;
    }
    return TFM_OK;
}

/* A line with a bad sentence is not translated. */
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
    tfm_status status = t->results ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < t->texts.count && status == TFM_OK; i++)
        if (is_copied(t, i))
            status = tfm__translations_copy(t, i);
    return status == TFM_OK ? tfm__translations_emit(t) : status;
}

void tfm__translations_free(tfm__translations *t) {
    tfm__language_choice_free(&t->languages);
    for (size_t i = 0; t->results && i < t->texts.count * (size_t)t->n_best; i++)
        tfm__translation_result_clear(&t->results[i]);
    free(t->results);
    tfm__lines_free(&t->prefixes, t->texts.count);
    tfm__lines_free(&t->lines, t->texts.count);
    for (size_t i = 0; t->sentences && i < t->texts.count; i++)
        if (t->sentences[i] != t->spans[i].text)
            free((char *)(uintptr_t)t->sentences[i]);
    for (size_t i = 0; t->masked && i < t->texts.count; i++)
        tfm__masked_free(&t->masked[i]);
    for (size_t i = 0; t->term_ids && i < TFM__TERM_KINDS * t->text->glossary_count; i++)
        tfm_ids_free(&t->term_ids[i]);
    free(t->term_ids);
    free(t->term_counts);
    free(t->masked);
    free(t->bare);
    free(t->bare_bytes);
    free(t->sentences);
    free(t->spans);
    free(t->bytes);
    free(t->line_of);
}
