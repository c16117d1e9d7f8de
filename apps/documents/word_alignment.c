/* Word alignment of a text and its translation, by the highest attention weight. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "documents/marks.h"

/* Larger ones would take too much memory and time. */
enum { MOST_WEIGHTS = 1 << 22 };

typedef struct matrix {
    double *at; /* [rows][columns]: attention weights of target words over source words; NULL: unknown */
    size_t rows, columns;
} matrix;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* ---- Words ----------------------------------------------------------------------------------------------------- */

/* The bytes of the character that ends at `end`. */
static size_t last_character(const char *text, size_t begin, size_t end) {
    size_t at = end - 1;
    while (at > begin && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    return end - at;
}

static size_t first_character(const char *text, size_t bytes) {
    size_t count = 1;
    while (count < bytes && ((unsigned char)text[count] & 0xc0) == 0x80)
        count++;
    return count;
}

/* A word without letters has its body at its beginning, so that all of it is punctuation that ends it. */
static void find_body(marks_word *w, const char *text) {
    w->body = w->begin;
    w->body_end = w->end;
    while (w->body_end > w->begin) {
        const size_t bytes = last_character(text, w->begin, w->body_end);
        if (!marks_is_punctuation(text + w->body_end - bytes, bytes))
            break;
        w->body_end -= bytes;
    }
    while (w->body < w->body_end) {
        const size_t bytes = first_character(text + w->body, w->body_end - w->body);
        if (!marks_is_punctuation(text + w->body, bytes))
            break;
        w->body += bytes;
    }
}

static bool find_words(marks_text *t, const char *text) {
    size_t room = 0;
    *t = (marks_text){.text = text, .bytes = strlen(text)};
    for (size_t at = 0; at < t->bytes;) {
        marks_word w = {.begin = at};
        while (at < t->bytes && !is_blank(text[at]))
            at++;
        w.end = at;
        if (w.end > w.begin) {
            if (!cli_grow(&t->words, &room, t->count + 1, sizeof(*t->words)))
                return false;
            find_body(&w, text);
            t->words[t->count++] = w;
        }
        at += at < t->bytes;
    }
    return true;
}

/* ---- Weights of words from those of tokens --------------------------------------------------------------------- */

/* Whether a token begins a word: SentencePiece's mark, or that of byte-level BPE. */
static bool begins_word(const char *token) {
    return strncmp(token, "\xE2\x96\x81", 3) == 0 || strncmp(token, "\xC4\xA0", 2) == 0;
}

/* The word of each token of a sentence, from `first` on; returns how many words there are by then. The last token is
 * the end of the sentence, which is no word: it stays with the last one, and weighs little. */
static size_t words_of_tokens(size_t *words, const json_t *tokens, size_t first) {
    size_t next = first;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const char *token = json_string_value(json_array_get(tokens, i));
        if (i == 0 || (token && begins_word(token)))
            next++;
        words[i] = next - 1;
    }
    return next;
}

static size_t all_tokens(const json_t *alignment, const char *side) {
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(alignment); i++)
        count += json_array_size(json_object_get(json_array_get(alignment, i), side));
    return count;
}

/* Words as the tokens have them and words between blanks may differ in number: then by their place. */
static size_t scaled(size_t word, size_t from, size_t to) {
    return from == 0 || to == 0 ? 0 : from == to ? word : word * to / from;
}

static void add_weights(matrix *m, const json_t *weights, const size_t *rows, size_t row_words, const size_t *columns,
                        size_t column_words) {
    for (size_t r = 0; r < json_array_size(weights); r++) {
        const json_t *row = json_array_get(weights, r);
        for (size_t c = 0; c + 1 < json_array_size(row); c++) /* the last one is the end of the sentence */
            m->at[scaled(rows[r], row_words, m->rows) * m->columns + scaled(columns[c], column_words, m->columns)] +=
                json_number_value(json_array_get(row, c));
    }
}

/* The words of a side's tokens, all sentences after one another; sets the sentence of each word of the text. */
static bool side_words(size_t **words, size_t *count, marks_text *t, const json_t *alignment, const char *side) {
    size_t used = 0, next = 0;
    *count = 0;
    *words = calloc(all_tokens(alignment, side) + 1, sizeof(**words));
    size_t *ends = calloc(json_array_size(alignment) + 1, sizeof(*ends));
    const bool good = *words && ends;
    for (size_t i = 0; good && i < json_array_size(alignment); i++) {
        const json_t *tokens = json_object_get(json_array_get(alignment, i), side);
        ends[i] = *count = words_of_tokens(*words + used, tokens, *count);
        used += json_array_size(tokens);
    }
    for (size_t w = 0; good && w < t->count; w++) {
        while (next + 1 < json_array_size(alignment) && scaled(w, t->count, *count) >= ends[next])
            next++;
        t->words[w].sentence = next;
    }
    free(ends);
    return good;
}

static bool weigh(matrix *m, marks_pair *p, const json_t *alignment) {
    size_t *columns = NULL, *rows = NULL, column_words, row_words;
    const bool known = side_words(&columns, &column_words, &p->source, alignment, "source") &&
                       side_words(&rows, &row_words, &p->target, alignment, "target");
    const bool weighed =
        known && json_array_size(alignment) > 0 && m->rows && m->columns && m->rows <= MOST_WEIGHTS / m->columns;
    if (weighed)
        m->at = calloc(m->rows * m->columns, sizeof(*m->at));
    for (size_t i = 0, c = 0, r = 0; m->at && i < json_array_size(alignment); i++) {
        const json_t *one = json_array_get(alignment, i);
        add_weights(m, json_object_get(one, "weights"), rows + r, row_words, columns + c, column_words);
        c += json_array_size(json_object_get(one, "source"));
        r += json_array_size(json_object_get(one, "target"));
    }
    free(columns);
    free(rows);
    return known && (m->at || !weighed);
}

/* ---- Which is whose -------------------------------------------------------------------------------------------- */

/* The source word with the highest weight for each target word. */
static void choose_sources(marks_pair *p, const matrix *m) {
    for (size_t r = 0; r < m->rows && m->columns > 0; r++) {
        size_t best = m->columns * r / m->rows; /* by place, where nothing weighs */
        for (size_t c = 0; m->at && c < m->columns; c++)
            if (m->at[r * m->columns + c] > m->at[r * m->columns + best])
                best = c;
        p->target.words[r].other = best;
    }
}

/* The last target word aligned with each source word, else the one with the highest weight. */
static bool choose_targets(marks_pair *p, const matrix *m) {
    bool *taken = calloc(m->columns + 1, sizeof(*taken));
    for (size_t r = 0; taken && r < m->rows && m->columns > 0; r++) {
        p->source.words[p->target.words[r].other].other = r;
        taken[p->target.words[r].other] = true;
    }
    for (size_t c = 0; taken && c < m->columns && m->rows > 0; c++) {
        size_t best = c * m->rows / m->columns;
        for (size_t r = 0; !taken[c] && m->at && r < m->rows; r++)
            if (m->at[r * m->columns + c] > m->at[best * m->columns + c])
                best = r;
        if (!taken[c])
            p->source.words[c].other = best;
    }
    free(taken);
    return taken != NULL;
}

static size_t whole_word(const marks_pair *p, const marks_word *s, const marks_word *t) {
    const char *found =
        memmem(p->target.text + t->begin, t->end - t->begin, p->source.text + s->begin, s->end - s->begin);
    return found ? (size_t)(found - p->target.text) : SIZE_MAX;
}

static void find_whole(marks_pair *p) {
    if (p->source.count == 0 || p->target.count == 0)
        return;
    for (size_t i = 0; i < p->target.count; i++)
        p->target.words[i].whole = whole_word(p, &p->source.words[p->target.words[i].other], &p->target.words[i]);
    for (size_t i = 0; i < p->source.count; i++)
        p->source.words[i].whole = whole_word(p, &p->source.words[i], &p->target.words[p->source.words[i].other]);
}

bool marks_align(marks_pair *p, const char *source, const char *target, const json_t *alignment) {
    *p = (marks_pair){0};
    if (!find_words(&p->source, source) || !find_words(&p->target, target))
        return false;
    matrix m = {.rows = p->target.count, .columns = p->source.count};
    bool good = weigh(&m, p, alignment);
    if (good) {
        choose_sources(p, &m);
        good = choose_targets(p, &m);
        find_whole(p);
    }
    free(m.at);
    return good;
}

void marks_free(marks_pair *p) {
    free(p->source.words);
    free(p->target.words);
    *p = (marks_pair){0};
}
