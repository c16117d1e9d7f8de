/* Translation: lines or their sentences are encoded, batched, searched, detokenized, and emitted in order, each line as
 * soon as all earlier lines are finished. */
#include "model/tasks/glossary.h"

/* Stores the search result of a text, and takes ownership of its arrays. */
static tfm_status keep_result(tfm__translations *t, tfm__translation_result *r, tfm_hypothesis *hypothesis,
                              bool detailed) {
    tfm__translation_result_clear(r);
    tfm_status status =
        tfm_tokenizer_decode(t->model->tokenizer, &r->text, hypothesis->ids, (size_t)hypothesis->tokens);
    r->hypothesis = *hypothesis;
    *hypothesis = (tfm_hypothesis){0};
    if (!detailed) {
        tfm_ids_free(&r->hypothesis.ids);
        free(r->hypothesis.log_probs);
        r->hypothesis.log_probs = NULL;
    }
    return status;
}

tfm_status tfm__translations_keep(tfm__translations *t, size_t text, tfm_hypothesis *items) {
    const size_t n_best = (size_t)t->n_best;
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < n_best && status == TFM_OK; i++)
        status = keep_result(t, &t->results[text * n_best + i], &items[i],
                             t->detailed || tfm__translations_has_placeholders(t, text));
    return status;
}

static tfm_status keep_results(tfm__translations *t, tfm__line *const *batch, size_t n, tfm_hypotheses *found) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < n && status == TFM_OK; i++)
        status = tfm__translations_keep(t, batch[i]->index, &found->items[i * (size_t)t->n_best]);
    return status;
}

/* Computes the alignments of a batch: all if requested, else only for texts with placeholders. */
static tfm_status align(tfm__translations *t, tfm_model *on, tfm__line *const *batch, size_t n) {
    const bool all = t->text->alignments && t->detailed;
    const size_t n_best = (size_t)t->n_best;
    const int32_t start = t->search->has_decoder_start_id ? t->search->decoder_start_id : on->rules.start_id;
    tfm__aligned *pairs = tfm__alloc(n * n_best, sizeof(*pairs));
    size_t count = 0;
    tfm_status status = pairs ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < n * n_best && status == TFM_OK; i++) {
        const tfm__line *line = batch[i / n_best];
        tfm__translation_result *r = &t->results[line->index * n_best + i % n_best];
        const size_t tokens = (size_t)r->hypothesis.tokens;
        if (tokens == 0 ||
            !(all || tfm__translations_has_placeholders(t, line->index))) /* the search found fewer than n */
            continue;
        r->alignment = tfm__alloc(tokens * line->count, sizeof(*r->alignment));
        pairs[count++] = (tfm__aligned){line->ids, r->hypothesis.ids, line->count, tokens, r->alignment};
        status = r->alignment ? TFM_OK : TFM_ERROR_MEMORY;
    }
    if (status == TFM_OK)
        status = tfm__align(on, pairs, count, start, t->text);
    free(pairs);
    for (size_t i = 0; i < n && status == TFM_OK; i++)
        if (tfm__translations_has_placeholders(t, batch[i]->index))
            status = tfm__translations_restore_placeholders(t, batch[i]->index);
    return status;
}

/* Concatenates the ids of a batch for tfm_search, without the last `eos` tokens of each. */
static tfm_status join(int32_t **ids, size_t *counts, tfm__line *const *batch, size_t n, size_t eos) {
    size_t total = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        total += counts[i] = batch[i]->count > eos ? batch[i]->count - eos : 0;
    *ids = tfm__alloc(total, sizeof(**ids));
    for (size_t i = 0; *ids && i < n; i++)
        for (size_t k = 0; k < counts[i]; k++)
            (*ids)[at++] = batch[i]->ids[k];
    return *ids ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Ids of a batch, and of its prefixes, if any. */
typedef struct batch_ids {
    int32_t *ids, *prefixes;
    size_t *counts; /* [2 n]: of the lines, then of the prefixes */
} batch_ids;

static tfm_status gather_ids(batch_ids *out, const tfm__translations *t, tfm__line *const *batch, size_t n) {
    *out = (batch_ids){.counts = tfm__alloc(2 * n, sizeof(*out->counts))};
    tfm__line **prefixes = t->prefixes ? tfm__alloc(n, sizeof(*prefixes)) : NULL;
    tfm_status status =
        out->counts && (prefixes || !t->prefixes) ? join(&out->ids, out->counts, batch, n, 0) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && prefixes) {
        for (size_t i = 0; i < n; i++)
            prefixes[i] = &t->prefixes[batch[i]->index];
        status = join(&out->prefixes, out->counts + n, prefixes, n, 1);
    }
    free(prefixes);
    return status;
}

static tfm_status translate_batch(void *user, tfm_model *on, tfm__line *const *batch, size_t n) {
    tfm__translations *t = user;
    tfm_hypotheses found = {0};
    batch_ids in;
    tfm_status status = gather_ids(&in, t, batch, n);
    if (status == TFM_OK)
        status =
            tfm_search(on, &found, in.ids, in.counts, n, in.prefixes, in.prefixes ? in.counts + n : NULL, t->search);
    free(in.ids);
    free(in.prefixes);
    free(in.counts);
    for (size_t i = 0; i < n && t->term_ids && status == TFM_OK; i++)
        status = tfm__glossary_apply(t, on, batch[i], &found.items[i]);
    if (status == TFM_OK)
        status = keep_results(t, batch, n, &found);
    tfm_hypotheses_free(&found);
    if (status == TFM_OK && ((t->text->alignments && t->detailed) || t->masked))
        status = align(t, on, batch, n);
    if (status == TFM_OK)
        return TFM_OK;
    for (size_t i = 0; i < n; i++) /* the batch may be repeated in two parts */
        for (size_t best = 0; best < (size_t)t->n_best; best++)
            tfm__translation_result_clear(&t->results[batch[i]->index * (size_t)t->n_best + best]);
    return status;
}

/* Counts a batch, and emits the lines that are finished. */
static tfm_status batch_done(void *user, tfm__line *const *batch, size_t n) {
    tfm__translations *t = user;
    tfm_search_stats *stats = t->text->stats;
    for (size_t i = 0; i < n && stats; i++) {
        stats->target_tokens += (uint64_t)t->results[batch[i]->index * (size_t)t->n_best].hypothesis.tokens;
        stats->source_tokens += batch[i]->count;
        stats->sentences++;
    }
    for (size_t i = 0; i < n; i++)
        batch[i]->done = true;
    return tfm__translations_emit(t);
}

tfm_status tfm__translations_encode(tfm__translations *t, const char *const *lines) {
    t->texts = (tfm__text_batch){lines, t->text->line_bytes, NULL, t->count};
    tfm_status status = t->text->split ? tfm__translations_split(t, lines) : TFM_OK;
    if (status == TFM_OK)
        status = tfm__translations_mask_placeholders(t);
    return status == TFM_OK ? tfm__lines_encode(t->model, &t->lines, &t->texts, TFM_SOURCE, "", &t->languages, t->text)
                            : status;
}

/* Encodes the prefixes. A line's prefix applies to its first sentence. */
static tfm_status encode_prefixes(tfm__translations *t, const tfm__search_params *rules) {
    if (!t->text->prefixes)
        return TFM_OK;
    const size_t count = t->texts.count;
    const char **texts = tfm__alloc(count, sizeof(*texts));
    if (!texts)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const size_t line = t->lines[i].line;
        const bool first = i == 0 || t->lines[i - 1].line != line;
        texts[i] = first && t->text->prefixes[line] ? t->text->prefixes[line] : "";
    }
    const tfm__language_choice bare = {.plain = true};
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    tfm_status status =
        tfm__lines_encode(t->model, &t->prefixes, &(tfm__text_batch){texts, NULL, t->texts.line_of, count}, TFM_TARGET,
                          "its prefix: ", &bare, t->text);
    free(texts);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        tfm__line *line = &t->lines[i], *prefix = &t->prefixes[i];
        const bool forced =
            t->search->has_forced_bos_id && t->model->rules.forced_bos_id < 0; /* a token before the prefix */
        const int64_t limit = tfm__search_limit(rules, t->model, line->count) - forced;
        if (line->ids && prefix->ids)
            status = tfm__search_check_prefix(&t->model->rules, prefix->ids, prefix->count - 1, limit);
        if (status != TFM_OK)
            status = tfm__line_reject(prefix, "its prefix: ", t->text, status, saved_message);
        line->rejected = line->rejected || prefix->rejected;
    }
    return status;
}

tfm_status tfm__translations_check(const tfm__translations *t) {
    const tfm_text_options *text = t->text;
    const tfm__stack_arch *decoder = &t->model->arch.decoder;
    if (TFM__RESERVED_SET(text))
        return tfm__fail(TFM_ERROR_ARGUMENT, "translate: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__batch_check("translate", text->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (text->split && t->n_best > 1)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "translate: split cannot be combined with %d hypotheses a line: only the best translations of "
                         "a line's sentences form a line",
                         t->n_best);
    if (text->glossary_count > 0 && (!text->glossary || t->n_best > 1))
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "translate: glossary is %p with %zu terms, and n_best %d: give terms, and one hypothesis a line",
            (const void *)text->glossary, text->glossary_count, t->n_best);
    for (size_t i = 0; i < text->glossary_count; i++)
        if (!text->glossary[i].source || !*text->glossary[i].source || !text->glossary[i].target ||
            !*text->glossary[i].target)
            return tfm__fail(TFM_ERROR_ARGUMENT, "translate: term %zu of the glossary has an empty side: leave it out",
                             i + 1);
    if (text->alignment_layer < 0 || text->alignment_layer > decoder->layers)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "translate: the layer of alignments is %d: give 1 to %d, or 0 for the last",
                         text->alignment_layer, decoder->layers);
    if (text->alignment_head < 0 || text->alignment_head > decoder->heads)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "translate: the head of alignments is %d: give 1 to %d, or 0 for the mean over all",
                         text->alignment_head, decoder->heads);
    return TFM_OK;
}

/* Reads the options and encodes the lines. */
static tfm_status prepare(tfm__translations *t, tfm__search_params *rules, const char *const *lines) {
    tfm_status status = tfm__context_ready(t->model->ctx, "translate");
    if (status == TFM_OK)
        status = tfm__model_needs(t->model, "translate", TFM__NEEDS_ENCODER | TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT);
    if (status == TFM_OK)
        status = tfm__language_choice_read(&t->languages, t->model, t->text);
    if (status == TFM_OK) {
        tfm__language_choice_apply(&t->own, &t->languages, t->search);
        t->search = &t->own;
        status = tfm__search_params_of(rules, t->model, t->search);
    }
    if (status == TFM_OK) {
        t->n_best = rules->n_best;
        status = tfm__translations_check(t);
    }
    if (status == TFM_OK)
        status = tfm__translations_encode(t, lines);
    if (status == TFM_OK)
        status = encode_prefixes(t, rules);
    if (status == TFM_OK)
        status = tfm__glossary_begin(t);
    return status == TFM_OK ? tfm__translations_begin(t) : status;
}

/* On several devices, cancellation replaces should_continue. */
static tfm_status translate(tfm__translations *t, const char *const *lines) {
    tfm__search_params rules;
    const double start = tfm__seconds();
    tfm_status status = prepare(t, &rules, lines);
    if (status == TFM_OK) {
        tfm__cancellation cancellation = {.should_continue = t->own.should_continue,
                                          .user = t->own.should_continue_user};
        const tfm__batch_work work = {.kind = TFM__BATCH_TRANSLATE,
                                      .run = translate_batch,
                                      .done = batch_done,
                                      .user = t,
                                      .cancellation = &cancellation};
        const tfm__batch_limit limit = tfm__batch_limits(t->model, t->text->batch_tokens, rules.beam_size);
        tfm__batches_open_spare(t->model, t->lines, t->texts.count, limit);
        if (tfm__batches_are_parallel(t->model)) {
            t->own.should_continue = tfm__not_cancelled;
            t->own.should_continue_user = &cancellation;
        }
        status = tfm__batches_run(t->model, t->lines, t->texts.count, limit, t->text, &work);
    }
    if (t->text->stats)
        t->text->stats->seconds += tfm__seconds() - start;
    tfm__translations_free(t);
    return status;
}

tfm_status tfm_translate_lines(tfm_model *model, const char *const *lines, size_t count, const tfm_text_options *text,
                               const tfm_search_options *search, tfm_translation_fn emit, void *user) {
    static const tfm_text_options defaults;
    if (TFM__NEEDS("translate_lines", model, lines, emit ? "" : NULL) != TFM_OK ||
        tfm__needs_texts("translate_lines", "lines", lines, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return translate(&(tfm__translations){.model = model,
                                          .text = text ? text : &defaults,
                                          .search = search,
                                          .count = count,
                                          .emit = emit,
                                          .user = user,
                                          .detailed = true},
                     lines);
}

/* User data of the simple form. */
typedef struct simple {
    tfm_emit_fn emit;
    void *user;
} simple;

static bool emit_simple(void *user, const tfm_translation *t) {
    const simple *s = user;
    return s->emit(s->user, t->line, t->rank, t->text, t->score);
}

tfm_status tfm_translate(tfm_model *model, const char *const *lines, size_t count, const tfm_search_options *options,
                         tfm_emit_fn emit, void *user) {
    static const tfm_text_options defaults;
    if (TFM__NEEDS("translate", model, lines, emit ? "" : NULL) != TFM_OK ||
        tfm__needs_texts("translate", "lines", lines, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return translate(&(tfm__translations){.model = model,
                                          .text = &defaults,
                                          .search = options,
                                          .count = count,
                                          .emit = emit_simple,
                                          .user = &(simple){emit, user}},
                     lines);
}
