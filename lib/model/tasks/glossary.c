/* Glossary: a translation without a required term is searched again with the term forced at the beginnings of those
 * words that attend most to the term in the source, or of all words, by greedy search. The place with the most probable
 * translation is searched with the full beam. Of several terms the first in the translation is placed first, and the
 * others behind it. */
#include "model/tasks/glossary.h"
#include <math.h>
#include <string.h>
#include "model/decode/search.h"
#include "text/unicode.h"

/* Places of one search, and of a term whose source tokens are known. */
enum { MOST_PLACES = 64, ATTENDING_PLACES = 3 };

/* ---- Places ---- */

/* A term forced after `prefix` ids of the translation so far. */
typedef struct place {
    size_t term, prefix;
    double attention; /* of the word there to the term in the source */
    double log_prob;  /* of the translation */
    bool whole;       /* the translation has the term as a word, not only as its beginning */
    int32_t next;     /* the token after the term; -1: any */
} place;

typedef struct job {
    const tfm__translations *t;
    tfm_model *on;
    const tfm__line *line;
    tfm_search_options greedy, full;
    int64_t limit;               /* ids of a prefix */
    int32_t *ids;                /* [count]: the translation so far, without the directory's first token and EOS */
    size_t count, forced, first; /* ids, fixed ids, and first tokens of the directory */
    bool *begins;                /* [count + 1]: a word may begin with the token */
    float *weights;              /* [tokens][line->count]: attention of the translation so far */
    size_t tokens;               /* with EOS and the first token */
    place *places;
    size_t place_count, room;
} job;

/* Sets whether a word may begin with each token, or at the end. */
static tfm_status find_beginnings(job *j) {
    tfm_status status = TFM_OK;
    free(j->begins);
    j->begins = tfm__alloc(j->count + 1, sizeof(*j->begins));
    if (!j->begins)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < j->count && status == TFM_OK; i++) {
        char *bytes = NULL;
        size_t count = 0;
        status = tfm_tokenizer_token_bytes(j->t->model->tokenizer, &bytes, &count, j->ids[i]);
        j->begins[i] = i == 0 || (count > 0 && (*bytes == ' ' || tfm__is_unspaced(bytes)));
        tfm_text_free(&bytes);
        status = status == TFM_ERROR_MEMORY ? status : TFM_OK; /* others have no piece */
    }
    j->begins[j->count] = true;
    return status;
}

/* The tokens of a place's term: with a capital letter at the beginning of the translation. */
static size_t ids_of(const place *p) {
    return TFM__TERM_KINDS * p->term + (p->prefix == 0 ? TFM__TERM_CAPITAL : TFM__TERM_TARGET);
}

/* The ids of a place's prefix: `out` has room for them. */
static size_t put_prefix(const job *j, const place *p, int32_t *out) {
    const size_t which = ids_of(p), count = j->t->term_counts[which];
    if (p->prefix > 0)
        memcpy(out, j->ids, p->prefix * sizeof(*out));
    if (count > 0)
        memcpy(out + p->prefix, j->t->term_ids[which], count * sizeof(*out));
    if (p->next >= 0)
        out[p->prefix + count] = p->next;
    return p->prefix + count + (p->next >= 0);
}

static size_t most_ids(const job *j) {
    size_t most = 1;
    for (size_t i = 0; i < TFM__TERM_KINDS * j->t->text->glossary_count; i++)
        most = j->t->term_counts[i] > most ? j->t->term_counts[i] : most;
    return j->count + most + 1;
}

/* The first token of the term among the source tokens; their number: it is not there. */
static size_t find_source(const job *j, size_t term) {
    const int32_t *ids = j->t->term_ids[TFM__TERM_KINDS * term + TFM__TERM_SOURCE];
    const size_t count = j->t->term_counts[TFM__TERM_KINDS * term + TFM__TERM_SOURCE];
    for (size_t at = 0; count > 0 && at + count <= j->line->count; at++)
        if (memcmp(j->line->ids + at, ids, count * sizeof(*ids)) == 0)
            return at;
    return j->line->count;
}

/* The token after the word that begins at `at`. */
static size_t end_of_word(const job *j, size_t at) {
    size_t end = at + 1;
    while (end < j->count && !j->begins[end])
        end++;
    return end;
}

/* The mean attention of the word's tokens to the `count` source tokens from `source` on. */
static double attention_of(const job *j, size_t at, size_t source, size_t count) {
    const size_t end = end_of_word(j, at);
    double sum = 0;
    for (size_t i = at + j->first; i < end + j->first && i < j->tokens; i++)
        for (size_t k = 0; k < count; k++)
            sum += (double)j->weights[i * j->line->count + source + k];
    return sum / (double)(end - at);
}

/* Leaves the places with the most attention among those from `from` on, which are of one term. */
static void leave_attending(job *j, size_t from) {
    double most[ATTENDING_PLACES] = {0}; /* the largest first */
    size_t kept = from;
    for (size_t i = from; i < j->place_count; i++) {
        double one = j->places[i].attention;
        for (int k = 0; k < ATTENDING_PLACES; k++) {
            const double less = most[k] < one ? most[k] : one;
            most[k] = most[k] < one ? one : most[k];
            one = less;
        }
    }
    for (size_t i = from; i < j->place_count; i++)
        if (j->places[i].attention >= most[ATTENDING_PLACES - 1])
            j->places[kept++] = j->places[i];
    j->place_count = kept;
}

/* Adds a place if the model can generate it. `ids`: for the longest prefix. */
static tfm_status add_place(job *j, place one, int32_t *ids) {
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    if (tfm__search_check_prefix(&j->on->rules, ids, put_prefix(j, &one, ids), j->limit) != TFM_OK) {
        tfm__error_restore(saved_message);
        return TFM_OK;
    }
    const tfm_status status = tfm__grow(&j->places, &j->room, j->place_count + 1, sizeof(*j->places));
    if (status == TFM_OK)
        j->places[j->place_count++] = one;
    return status;
}

/* The places of a term: before any token, and instead of a word, before the next one. */
static tfm_status add_places(job *j, size_t term, int32_t *ids) {
    const size_t source = find_source(j, term), from = j->place_count;
    tfm_status status = TFM_OK;
    for (size_t at = j->forced; at <= j->count && status == TFM_OK; at++) {
        place one = {.term = term, .prefix = at, .next = -1};
        if (!j->begins[at])
            continue;
        if (source < j->line->count)
            one.attention = attention_of(j, at, source, j->t->term_counts[TFM__TERM_KINDS * term + TFM__TERM_SOURCE]);
        status = add_place(j, one, ids);
        if (status == TFM_OK && at < j->count && end_of_word(j, at) < j->count) {
            one.next = j->ids[end_of_word(j, at)];
            status = add_place(j, one, ids);
        }
    }
    if (source < j->line->count && status == TFM_OK)
        leave_attending(j, from);
    return status;
}

static tfm_status find_places(job *j, const bool *need) {
    int32_t *ids = tfm__alloc(most_ids(j), sizeof(*ids));
    tfm_status status = ids ? TFM_OK : TFM_ERROR_MEMORY;
    j->place_count = 0;
    for (size_t i = 0; i < j->t->text->glossary_count && status == TFM_OK; i++)
        if (need[i])
            status = add_places(j, i, ids);
    free(ids);
    return status;
}

/* Searches the places [count] together. */
static tfm_status search_places(const job *j, tfm_hypotheses *found, const place *places, size_t count,
                                const tfm_search_options *options) {
    size_t total = 0;
    int32_t *ids = tfm__alloc(count * j->line->count, sizeof(*ids));
    int32_t *prefixes = tfm__alloc(count * most_ids(j), sizeof(*prefixes));
    size_t *counts = tfm__alloc(2 * count, sizeof(*counts));
    tfm_status status = ids && prefixes && counts ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        memcpy(ids + i * j->line->count, j->line->ids, j->line->count * sizeof(*ids));
        counts[i] = j->line->count;
        total += counts[count + i] = put_prefix(j, &places[i], prefixes + total);
    }
    if (status == TFM_OK)
        status = tfm_search(j->on, found, ids, counts, count, prefixes, counts + count, options);
    free(ids);
    free(prefixes);
    free(counts);
    return status;
}

/* Sets what the search of a place has found. A token that ends the term is the place's next one. */
static tfm_status rate(const job *j, place *p, const tfm_hypothesis *h) {
    const size_t count = p->prefix + j->t->term_counts[ids_of(p)];
    char *text = NULL;
    p->log_prob = h->ids ? h->log_prob : -INFINITY;
    const tfm_status status =
        h->ids ? tfm_tokenizer_decode(j->t->model->tokenizer, &text, h->ids, (size_t)h->tokens) : TFM_OK;
    p->whole = text && tfm__glossary_has(text, j->t->text->glossary[p->term].target, true);
    if (p->whole && count + j->first < h->count)
        p->next = h->ids[count + j->first];
    tfm_text_free(&text);
    return status;
}

static bool is_better(const place *a, const place *b) {
    return a->whole != b->whole ? a->whole : a->log_prob > b->log_prob;
}

/* The first one of the best places of each term, by greedy search. */
static tfm_status find_best(job *j, size_t *best) {
    tfm_status status = TFM_OK;
    for (size_t first = 0; first < j->place_count && status == TFM_OK; first += MOST_PLACES) {
        const size_t left = j->place_count - first, count = left < MOST_PLACES ? left : MOST_PLACES;
        tfm_hypotheses found = {0};
        status = search_places(j, &found, j->places + first, count, &j->greedy);
        for (size_t i = 0; i < count && status == TFM_OK; i++)
            status = rate(j, &j->places[first + i], &found.items[i]);
        tfm_hypotheses_free(&found);
    }
    *best = j->place_count;
    for (size_t i = 0, end; i < j->place_count && status == TFM_OK; i = end) {
        size_t one = i;
        for (end = i; end < j->place_count && j->places[end].term == j->places[i].term; end++)
            one = is_better(&j->places[end], &j->places[one]) ? end : one;
        if (*best == j->place_count || j->places[one].prefix < j->places[*best].prefix)
            *best = one;
    }
    return status;
}

/* ---- The calls ---- */

/* Takes the ids of the translation so far, and computes its attention. */
static tfm_status set_ids(job *j, const tfm_hypothesis *h) {
    const int32_t start = j->full.has_decoder_start_id ? j->full.decoder_start_id : j->on->rules.start_id;
    free(j->ids);
    free(j->weights);
    j->first = (j->full.has_forced_bos_id || j->on->rules.forced_bos_id >= 0) && h->count > 0;
    j->count = h->count - j->first;
    j->tokens = (size_t)h->tokens;
    j->ids = tfm__alloc(j->count, sizeof(*j->ids));
    j->weights = tfm__alloc(j->tokens * j->line->count, sizeof(*j->weights));
    if (!j->ids || !j->weights)
        return TFM_ERROR_MEMORY;
    if (j->count > 0)
        memcpy(j->ids, h->ids + j->first, j->count * sizeof(*j->ids));
    const tfm_status status = find_beginnings(j);
    return status != TFM_OK
               ? status
               : tfm__align(j->on, &(tfm__aligned){j->line->ids, h->ids, j->line->count, j->tokens, j->weights},
                            j->tokens > 0, start, j->t->text);
}

/* Leaves the terms that the translation has. */
static tfm_status drop_found(const job *j, bool *need, const tfm_hypothesis *h, bool *any) {
    char *text = NULL;
    const tfm_status status = tfm_tokenizer_decode(j->t->model->tokenizer, &text, h->ids, (size_t)h->tokens);
    *any = false;
    for (size_t i = 0; i < j->t->text->glossary_count && status == TFM_OK; i++) {
        need[i] = need[i] && !tfm__glossary_has(text, j->t->text->glossary[i].target, false);
        *any = *any || need[i];
    }
    tfm_text_free(&text);
    return status;
}

/* Forces one of the needed terms. *any: whether there was room for one. */
static tfm_status force_one(job *j, bool *need, tfm_hypothesis *hypothesis, bool *any) {
    tfm_hypotheses found = {0};
    size_t best = 0;
    tfm_status status = set_ids(j, hypothesis);
    if (status == TFM_OK)
        status = find_places(j, need);
    *any = j->place_count > 0;
    if (status != TFM_OK || !*any)
        return status;
    status = find_best(j, &best);
    if (status == TFM_OK)
        status = search_places(j, &found, &j->places[best], 1, &j->full);
    if (status == TFM_OK) {
        j->forced = j->places[best].prefix + j->t->term_counts[ids_of(&j->places[best])];
        need[j->places[best].term] = false;
        const tfm_hypothesis old = *hypothesis;
        *hypothesis = found.items[0];
        found.items[0] = old;
    }
    tfm_hypotheses_free(&found);
    return status;
}

tfm_status tfm__glossary_apply(const tfm__translations *t, tfm_model *on, const tfm__line *line,
                               tfm_hypothesis *hypothesis) {
    const char *text = t->texts.text[line->index];
    const size_t bytes = t->texts.bytes ? t->texts.bytes[line->index] : strlen(text);
    tfm__search_params rules;
    job j = {.t = t, .on = on, .line = line, .full = *t->search, .greedy = *t->search};
    bool *need = tfm__alloc(t->text->glossary_count, sizeof(*need)), any = false;
    if (!need)
        return TFM_ERROR_MEMORY;
    j.full.n_best = j.greedy.n_best = j.greedy.beam_size = 1;
    j.greedy.skip_scores = false;
    tfm__glossary_find(need, t->text->glossary, t->text->glossary_count, text, bytes);
    tfm_status status = tfm__search_params_of(&rules, on, &j.full);
    if (status == TFM_OK)
        status = drop_found(&j, need, hypothesis, &any);
    if (status == TFM_OK) {
        j.limit = tfm__search_limit(&rules, on, line->count) - j.full.has_forced_bos_id;
        j.forced = t->prefixes && t->prefixes[line->index].ids ? t->prefixes[line->index].count - 1 : 0;
    }
    while (any && status == TFM_OK) {
        status = force_one(&j, need, hypothesis, &any);
        if (status == TFM_OK && any)
            status = drop_found(&j, need, hypothesis, &any);
    }
    free(need);
    free(j.ids);
    free(j.weights);
    free(j.begins);
    free(j.places);
    return status;
}

/* Encodes a text of a term; `kind` decides the side. */
static tfm_status encode(tfm__translations *t, size_t term, int kind, const char *text) {
    const tfm_encode_options plain = {.no_special_tokens = true};
    return tfm_tokenizer_encode_with(t->model->tokenizer, &t->term_ids[TFM__TERM_KINDS * term + (size_t)kind],
                                     &t->term_counts[TFM__TERM_KINDS * term + (size_t)kind],
                                     kind == TFM__TERM_SOURCE ? TFM_SOURCE : TFM_TARGET, text, strlen(text), &plain);
}

static tfm_status check_tokens(const tfm__translations *t, size_t term) {
    const int32_t unk = tfm_tokenizer_get_info(t->model->tokenizer)->target_unk;
    for (size_t k = 0; k < t->term_counts[TFM__TERM_KINDS * term + TFM__TERM_TARGET]; k++)
        if (t->term_ids[TFM__TERM_KINDS * term + TFM__TERM_TARGET][k] == unk)
            return tfm__fail(TFM_ERROR_ARGUMENT,
                             "translate: the vocabulary has no tokens for \"%.100s\", the translation of \"%.100s\" in "
                             "the glossary",
                             t->text->glossary[term].target, t->text->glossary[term].source);
    return TFM_OK;
}

tfm_status tfm__glossary_begin(tfm__translations *t) {
    const size_t count = t->text->glossary_count;
    if (count == 0)
        return TFM_OK;
    t->term_ids = tfm__alloc(TFM__TERM_KINDS * count, sizeof(*t->term_ids));
    t->term_counts = tfm__alloc(TFM__TERM_KINDS * count, sizeof(*t->term_counts));
    tfm_status status = t->term_ids && t->term_counts ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        char *capital = NULL;
        status = encode(t, i, TFM__TERM_TARGET, t->text->glossary[i].target);
        if (status == TFM_OK)
            status = check_tokens(t, i);
        if (status == TFM_OK)
            status = tfm__unicode_capitalize(&capital, t->text->glossary[i].target);
        if (status == TFM_OK)
            status = encode(t, i, TFM__TERM_CAPITAL, capital);
        if (status == TFM_OK)
            status = encode(t, i, TFM__TERM_SOURCE, t->text->glossary[i].source);
        free(capital);
    }
    return status;
}
