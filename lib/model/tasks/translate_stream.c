/* Translation of a stream of lines. Each line is a call of one line (translate.c); all share one search with continuous
 * batching (decode/fed.c). */
#include "model/tasks/translate_stream.h"
#include "model/multi_device/fleet.h"

/* Waiting sentences are admitted if they are at least 1/JOIN_PART of the live ones, or after JOIN_STEPS steps: small
 * encoder batches are less efficient. */
enum { JOIN_PART = 2, JOIN_STEPS = 4 };
/* Limit of cross-attention memory, relative to a batch without admission. */
enum { MOST_BATCHES = 2 };
/* Assumed minimum of tokens per line on average, for the size of a batch. */
enum { TOKENS_PER_LINE = 8 };

typedef struct tfm__stream_call stream_call;
typedef struct tfm__fed_line fed_line;

/* A text of a line: a sentence, or the whole line. */
typedef struct fed_text {
    fed_line *line;
    size_t index;
} fed_text;

/* An unfinished line. */
struct tfm__fed_line {
    stream_call *of;
    size_t number;
    const char *text; /* the caller's */
    size_t bytes;
    tfm_text_options options;
    tfm__translations call;
    fed_text *texts; /* [call.texts.count] */
    size_t given;    /* texts passed to the search, or without work */
    size_t left;     /* unfinished texts */
    fed_line *next;
};

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

static bool emit_line(void *user, const tfm_translation *translation) {
    const fed_line *line = user;
    tfm_translation numbered = *translation;
    numbered.line = line->number;
    return line->of->emit(line->of->emit_user, &numbered);
}

static bool reject_line(void *user, size_t unused, const char *message) {
    const fed_line *line = user;
    (void)unused;
    return line->of->text->reject(line->of->text->reject_user, line->number, message);
}

static void line_free(fed_line *line) {
    line->call.languages = (tfm__language_choice){0}; /* owned by the stream */
    tfm__translations_free(&line->call);
    free(line->texts);
    free(line);
}

/* Encodes a line. Texts that need no translation are emitted. */
static tfm_status line_begin(fed_line *line) {
    stream_call *f = line->of;
    line->options = *f->text;
    line->options.line_bytes = &line->bytes;
    line->options.reject = f->text->reject ? reject_line : NULL;
    line->options.reject_user = line;
    line->options.progress = NULL;
    line->options.stats = NULL;
    line->call = (tfm__translations){.model = f->model,
                                     .text = &line->options,
                                     .search = &f->search,
                                     .count = 1,
                                     .n_best = f->rules.n_best,
                                     .emit = emit_line,
                                     .user = line,
                                     .detailed = true,
                                     .languages = f->languages};
    tfm_status status = tfm__translations_encode(&line->call, &line->text);
    if (status == TFM_OK)
        status = tfm__translations_begin(&line->call);
    if (status != TFM_OK)
        return tfm__stream_name_line(status, &line->number, 1);
    line->texts = tfm__alloc(line->call.texts.count, sizeof(*line->texts));
    for (size_t i = 0; line->texts && i < line->call.texts.count; i++) {
        line->texts[i] = (fed_text){line, i};
        line->left += line->call.lines[i].ids != NULL;
    }
    f->ready += line->left;
    return line->texts ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Requests another line. *came: whether there is one; lines without work are finished on return. */
static tfm_status admit_line(stream_call *f, bool *came) {
    const char *text = NULL;
    size_t bytes = 0;
    *came = f->more(f->more_user, &text, &bytes);
    if (!*came)
        return TFM_OK;
    if (!text)
        return tfm__fail(TFM_ERROR_ARGUMENT, "translate_stream: line %zu is NULL", f->numbers + 1);
    fed_line *line = tfm__alloc(1, sizeof(*line));
    if (!line)
        return TFM_ERROR_MEMORY;
    *line = (fed_line){.of = f, .number = f->numbers++, .text = text, .bytes = bytes};
    const tfm_status status = line_begin(line);
    if (status != TFM_OK || line->left == 0) {
        line_free(line);
        return status;
    }
    if (f->last)
        f->last->next = line;
    else
        f->first = line;
    f->last = line;
    return TFM_OK;
}

static void remove_line(stream_call *f, fed_line *line) {
    fed_line *before = NULL;
    for (fed_line *at = f->first; at != line; at = at->next)
        before = at;
    if (before)
        before->next = line->next;
    else
        f->first = line->next;
    if (f->last == line)
        f->last = before;
    line_free(line);
}

/* ---- Callbacks of the search ------------------------------------------------------------------------------------- */

/* The next text not yet passed to the search, or NULL; advances *line and its `given`. */
static tfm__line *next_text(fed_line **line) {
    for (; *line; *line = (*line)->next)
        for (; (*line)->given < (*line)->call.texts.count; (*line)->given++)
            if ((*line)->call.lines[(*line)->given].ids)
                return &(*line)->call.lines[(*line)->given];
    return NULL;
}

/* Requests lines until the batch is full. */
static void gather(stream_call *f, size_t most) {
    const size_t tokens = f->limit.tokens;
    bool came = true;
    while (came && f->status == TFM_OK && f->ready < most) {
        size_t waiting = 0;
        fed_line *at = f->first;
        for (fed_line *line = f->first; line; line = line->next)
            for (size_t i = line->given; i < line->call.texts.count; i++)
                waiting += line->call.lines[i].count;
        if (next_text(&at) && f->tokens + waiting >= tokens)
            return;
        f->status = admit_line(f, &came);
        if (f->status != TFM_OK)
            tfm__error_save(f->message);
    }
}

static size_t take(void *user, tfm__fed_sentence *out, size_t most) {
    stream_call *f = user;
    const bool joins = f->live > 0;
    size_t count = 0, longest = 0;
    if (!joins)
        f->places = f->widest = 0;
    gather(f, most);
    if (f->status != TFM_OK || f->ready == 0)
        return 0;
    if (joins && f->ready * JOIN_PART < f->live && ++f->waited < JOIN_STEPS)
        return 0;
    f->waited = 0;
    fed_line *line = f->first;
    for (tfm__line *text = next_text(&line); text && count < most && f->live < f->limit.lines;
         text = next_text(&line)) {
        longest = text->count > longest ? text->count : longest;
        const size_t widest = longest > f->widest ? longest : f->widest;
        const size_t places = f->live + 1 > f->places ? f->live + 1 : f->places;
        /* New texts are padded to the longest, and so are all cross-attention inputs. A text that does not fit waits
         * until the batch is empty, and later ones wait behind it. */
        if (count > 0 && longest * (count + 1) > f->limit.tokens)
            break;
        if (joins && (f->tokens + text->count > f->limit.tokens || places * widest > MOST_BATCHES * f->limit.tokens))
            break;
        f->places = places;
        f->widest = widest;
        out[count++] = (tfm__fed_sentence){text->ids, text->count, &line->texts[line->given++]};
        f->tokens += text->count;
        f->live++;
        f->ready--;
    }
    return count;
}

static void count_line(const stream_call *f, const tfm__translations *call) {
    tfm_search_stats *stats = f->text->stats;
    for (size_t i = 0; stats && i < call->texts.count; i++) {
        if (!call->lines[i].ids)
            continue;
        stats->target_tokens += (uint64_t)call->results[i * (size_t)call->n_best].hypothesis.tokens;
        stats->source_tokens += call->lines[i].count;
        stats->sentences++;
    }
}

static tfm_status found(void *user, void *owner, tfm_hypothesis *items) {
    stream_call *f = user;
    fed_line *line = ((fed_text *)owner)->line;
    tfm__translations *call = &line->call;
    tfm__line *text = &call->lines[((fed_text *)owner)->index];
    tfm_status status = tfm__translations_keep(call, text->index, items);
    f->live--;
    f->tokens -= text->count;
    text->done = status == TFM_OK;
    if (status != TFM_OK || --line->left > 0)
        return status;
    count_line(f, call);
    status = tfm__stream_name_line(tfm__translations_emit(call), &line->number, 1);
    remove_line(f, line);
    if (status != TFM_OK) { /* not repeated: some of it may have been emitted */
        f->status = status;
        tfm__error_save(f->message);
    }
    return status;
}

static bool should_continue(void *user) {
    const stream_call *f = user;
    return f->status == TFM_OK &&
           (!f->asked || !f->asked->should_continue || f->asked->should_continue(f->asked->should_continue_user));
}

/* Unfinished lines, and then all further ones. */
static tfm_status run_chunks(stream_call *f) {
    tfm__chunk waiting = {.of = f};
    tfm_status status = TFM_OK;
    while (f->first && status == TFM_OK) {
        status = tfm__chunk_add(&waiting, f->first->text, f->first->bytes, f->first->number);
        remove_line(f, f->first);
    }
    return tfm__stream_chunks(&waiting, status);
}

/* ---- Call -------------------------------------------------------------------------------------------------------- */

/* If the continuous search runs out of memory or needs smaller work-groups, the rest is translated in separate
 * calls. */
static tfm_status run_joined(stream_call *f) {
    tfm_context *ctx = f->model->ctx;
    const int depth = tfm__scope_depth(ctx);
    const tfm__feed asks = {.take = take, .found = found, .user = f, .most = f->limit.lines};
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    const tfm_status status = tfm__search_fed(f->model, &asks, &f->search);
    if (f->status != TFM_OK) {
        tfm__error_restore(f->message);
        return f->status;
    }
    const bool again = tfm__context_retry(ctx, depth, status);
    if (!again && status != TFM_ERROR_MEMORY)
        return status;
    if (!again) {
        tfm__log(TFM_LOG_INFO, "%zu sentences at a time do not fit: %s", f->live, tfm_error_message());
        tfm__context_recover(ctx, depth);
    }
    tfm__error_restore(saved_message);
    return run_chunks(f);
}

static tfm_status run(stream_call *f) {
    tfm_status status = tfm__context_ready(f->model->ctx, "translate_stream");
    if (status == TFM_OK)
        status =
            tfm__model_needs(f->model, "translate_stream", TFM__NEEDS_ENCODER | TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT);
    if (status == TFM_OK && f->text->prefixes)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "translate_stream: prefixes are not supported: leave them out");
    if (status == TFM_OK)
        status = tfm__language_choice_read(&f->languages, f->model, f->text);
    if (status == TFM_OK) {
        tfm__language_choice_apply(&f->search, &f->languages, f->asked);
        f->search.should_continue = should_continue;
        f->search.should_continue_user = f;
        status = tfm__search_params_of(&f->rules, f->model, &f->search);
    }
    if (status == TFM_OK)
        status = tfm__translations_check(
            &(tfm__translations){.model = f->model, .text = f->text, .n_best = f->rules.n_best});
    if (status == TFM_OK) {
        f->limit = tfm__batch_limits(f->model, f->text->batch_tokens, f->rules.beam_size);
        const size_t lines = f->limit.tokens / TOKENS_PER_LINE;
        f->limit.lines = f->limit.lines < lines ? f->limit.lines : lines > 0 ? lines : 1;
        const bool alone = !f->text->alignments && !f->text->placeholders && f->text->glossary_count == 0 &&
                           (!f->model->replicas || f->model->replicas->fleet->count == 1);
        status = alone ? run_joined(f) : run_chunks(f);
    }
    while (f->first)
        remove_line(f, f->first);
    tfm__language_choice_free(&f->languages);
    return status;
}

tfm_status tfm_translate_stream(tfm_model *model, tfm_next_line_fn next_line, void *next_line_user,
                                const tfm_text_options *text, const tfm_search_options *search, tfm_translation_fn emit,
                                void *user) {
    static const tfm_text_options defaults;
    if (TFM__NEEDS("translate_stream", model, next_line ? "" : NULL, emit ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const double start = tfm__seconds();
    stream_call f = {.model = model,
                     .text = text ? text : &defaults,
                     .asked = search,
                     .more = next_line,
                     .more_user = next_line_user,
                     .emit = emit,
                     .emit_user = user};
    const tfm_status status = run(&f);
    if (f.text->stats)
        f.text->stats->seconds += tfm__seconds() - start;
    return status;
}
