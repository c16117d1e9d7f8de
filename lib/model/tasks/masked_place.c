/* Positions of placeholders in a translation: between the words aligned with the source before them and the words
 * aligned with the source after them. */
#include <math.h>
#include <string.h>
#include "model/tasks/masked.h"
#include "text/bytes.h"

/* Distance scale of token weights, in tokens; bonus of an equal neighbor; penalty of another relative position. */
static const double NEAR = 3, ALIKE = 0.1, PLACE = 0.05;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n';
}

/* ---- Texts and tokens -------------------------------------------------------------------------------------------- */

/* The number of bytes before `at` that are not blanks. */
static size_t solid(const char *text, size_t at) {
    size_t count = 0;
    for (size_t i = 0; i < at; i++)
        count += !is_blank(text[i]);
    return count;
}

/* The bytes of a token in the text; 0: a special token. */
static size_t piece_bytes(const char *piece) {
    const size_t bytes = strlen(piece);
    if (bytes > 2 && ((piece[0] == '<' && piece[bytes - 1] == '>') || (piece[0] == '>' && piece[bytes - 1] == '<')))
        return strncmp(piece, "<0x", 3) == 0;
    const size_t mark = strncmp(piece, "\xE2\x96\x81", 3) == 0                                          ? 3
                        : strncmp(piece, "\xC4\xA0", 2) == 0 || (bytes > 2 && !strncmp(piece, "##", 2)) ? 2
                                                                                                        : 0;
    return bytes - mark;
}

/* starts[i]: the part of the text, from 0 to 1, before token i; starts[count] is 1. */
static double *starts_of(const tfm__masked_side *side) {
    double *starts = tfm__alloc(side->count + 1, sizeof(*starts));
    size_t sum = 0;
    for (size_t i = 0; starts && i < side->count; i++) {
        starts[i] = (double)sum;
        sum += piece_bytes(side->pieces[i]);
    }
    if (!starts)
        return NULL;
    starts[side->count] = (double)sum;
    for (size_t i = 0; i <= side->count; i++)
        starts[i] = sum ? starts[i] / (double)sum : 0;
    return starts;
}

/* Number of tokens before a byte position; a token counts if most of it is before. */
static size_t tokens_before(const tfm__masked_side *side, const double *starts, size_t at) {
    const size_t all = solid(side->text, side->bytes);
    const double part = all ? (double)solid(side->text, at) / (double)all : 0;
    size_t count = 0;
    while (count < side->count && (starts[count] + starts[count + 1]) / 2 < part && starts[count] < 1)
        count++;
    return count;
}

/* A text, its translation, and their alignment. */
typedef struct pair {
    const tfm__masked_side *source, *target;
    const float *weights;
    double *source_starts, *target_starts;
    bool *source_words, *target_words;
} pair;

/* ---- Positions --------------------------------------------------------------------------------------------------- */

static bool has_blanks(const tfm__masked_side *side) {
    for (size_t i = 1; i + 1 < side->bytes; i++)
        if (is_blank(side->text[i]))
            return true;
    return false;
}

/* Whether a placeholder may be at a byte: at both ends, before a blank, before punctuation at the end of a word; in
 * texts without blanks, between any characters. */
static bool may_stand(const tfm__masked_side *side, size_t at, bool blanks) {
    const char *text = side->text;
    if (at == 0 || at == side->bytes)
        return true;
    if (((unsigned char)text[at] & 0xC0) == 0x80 || is_blank(text[at - 1]))
        return false;
    if (is_blank(text[at]) || (!blanks && ((unsigned char)text[at] >= 0x80 || (unsigned char)text[at - 1] >= 0x80)))
        return true;
    size_t end = at;
    while (end < side->bytes && !is_blank(text[end]) && !tfm__alnum_after(text, end, side->bytes))
        end++;
    return !tfm__alnum_after(text, at, side->bytes) && (end == side->bytes || is_blank(text[end]));
}

/* Tokens of words: attention of punctuation and EOS is spread widely. */
static bool *words_among(const tfm__masked_side *side) {
    bool *words = tfm__alloc(side->count + 1, sizeof(*words));
    for (size_t i = 0; words && i < side->count; i++)
        words[i] = piece_bytes(side->pieces[i]) > 0 && tfm__has_alnum(side->pieces[i], strlen(side->pieces[i]));
    return words;
}

/* Cost of `rows` target tokens before a placeholder with `columns` source tokens before it: attention that crosses it
 * in either direction. */
static double cost(const pair *p, size_t columns, size_t rows) {
    double sum = 0;
    for (size_t r = 0; r < p->target->count; r++)
        for (size_t c = r < rows ? columns : 0; c < (r < rows ? p->source->count : columns); c++) {
            const size_t far = c < columns ? columns - 1 - c : c - columns;
            if (p->source_words[c] && p->target_words[r])
                sum += (double)p->weights[r * p->source->count + c] * exp(-(double)far / NEAR);
        }
    return sum;
}

/* Kind of the next character: a letter, the end, or the first byte of punctuation. */
static int kind_after(const char *text, size_t at, size_t bytes) {
    while (at < bytes && is_blank(text[at]))
        at++;
    return at == bytes ? 0 : tfm__alnum_after(text, at, bytes) ? 1 : (unsigned char)text[at];
}

/* Similarity of a unit's surroundings in both texts. At the end of a text without punctuation it goes before the mark
 * that the model added, unless it is an emoji. */
static double likeness(const tfm__masked_unit *unit, const pair *p, size_t at) {
    const tfm__masked_side *source = p->source, *target = p->target;
    const int here = kind_after(source->text, unit->at, source->bytes);
    const int there = kind_after(target->text, at, target->bytes);
    const bool added = here == 0 && there > 1 && tfm__alnum_before(source->text, source->bytes) &&
                       !tfm__has_alnum(target->text + at, target->bytes - at) && (unsigned char)unit->text[0] < 0x80;
    return added ? 2 * ALIKE : here == there ? ALIKE : 0;
}

/* Best position of a unit, from byte `from` on. */
static size_t best_place(const tfm__masked_unit *unit, const pair *p, size_t columns, size_t from) {
    const tfm__masked_side *source = p->source, *target = p->target;
    const bool blanks = has_blanks(target);
    const double part = source->bytes ? (double)unit->at / (double)source->bytes : 0;
    double least = INFINITY;
    size_t best = target->bytes;
    for (size_t at = from; at <= target->bytes; at++) {
        if (!may_stand(target, at, blanks))
            continue;
        const double there = target->bytes ? (double)at / (double)target->bytes : 0;
        double now = cost(p, columns, tokens_before(target, p->target_starts, at));
        now += PLACE * fabs(part - there) - likeness(unit, p, at);
        if (now < least)
            least = now, best = at;
    }
    return best;
}

/* ---- The text ---------------------------------------------------------------------------------------------------- */

typedef struct placed {
    size_t at, unit, rows; /* byte position, unit, and number of tokens before it */
} placed;

static int by_place(const void *a, const void *b) {
    const placed *left = a, *right = b;
    return left->at != right->at ? (left->at < right->at ? -1 : 1) : left->unit < right->unit ? -1 : 1;
}

static void write_unit(tfm__bytes *out, const tfm__masked_unit *unit, const char *rest, size_t bytes, bool more) {
    const char last = out->count ? out->data[out->count - 1] : ' ';
    const bool word = tfm__alnum_before(out->data, out->count);
    if ((unit->blank_before || (word && !unit->glue_before)) && !is_blank(last) && !strchr("([{", last))
        tfm__bytes_add(out, " ", 1);
    tfm__bytes_add(out, unit->text, unit->bytes);
    if (!unit->glue_after && !more && bytes > 0 && tfm__alnum_after(rest, 0, bytes))
        tfm__bytes_add(out, " ", 1);
}

/* A blank after a placeholder's position moves to where a word followed directly. */
static char *write_text(const tfm__masked *k, const tfm__masked_side *target, const placed *places) {
    tfm__bytes out = {0};
    size_t at = 0;
    for (size_t i = 0; i < k->count; i++) {
        const tfm__masked_unit *unit = &k->units[places[i].unit];
        tfm__bytes_add(&out, target->text + at, places[i].at - at);
        at = places[i].at;
        const bool more = i + 1 < k->count && places[i + 1].at == at;
        const bool blank = at < target->bytes && is_blank(target->text[at]);
        write_unit(&out, unit, target->text + at, target->bytes - at, more);
        if (blank && !more && (unit->glue_after || (unit->parts && !unit->blank_after)))
            at++;
    }
    tfm__bytes_add(&out, target->text + at, target->bytes - at);
    tfm__bytes_add(&out, "", 1);
    char *text = tfm__bytes_take(&out);
    return text;
}

/* ---- Restoring --------------------------------------------------------------------------------------------------- */

static size_t words_of(const tfm__masked_unit *unit) {
    size_t count = 0;
    for (size_t i = 0; i < unit->bytes; i++)
        count += !is_blank(unit->text[i]) && (i == 0 || is_blank(unit->text[i - 1]));
    return count;
}

/* The words of the units in the order of their positions, each with the token after it. */
static tfm__masked_word *place_words(const tfm__masked *k, const placed *places) {
    tfm__masked_word *words = tfm__alloc(k->words, sizeof(*words));
    size_t count = 0;
    for (size_t i = 0; words && i < k->count; i++) {
        size_t first = 0;
        for (size_t u = 0; u < places[i].unit; u++)
            first += words_of(&k->units[u]);
        for (size_t w = 0; w < words_of(&k->units[places[i].unit]) && count < k->words; w++)
            words[count++] = (tfm__masked_word){places[i].rows, first + w};
    }
    return words;
}

static void choose(const tfm__masked *k, placed *target_places, placed *source_places, const pair *p) {
    size_t tag = 0;
    for (size_t i = 0; i < k->count; i++) {
        const tfm__masked_unit *unit = &k->units[i];
        const size_t columns = tokens_before(p->source, p->source_starts, unit->at);
        const size_t at = best_place(unit, p, columns, unit->tag ? tag : 0);
        tag = unit->tag ? at : tag; /* an end tag does not precede its start tag */
        source_places[i] = (placed){unit->at, i, columns};
        target_places[i] = (placed){at, i, tokens_before(p->target, p->target_starts, at)};
    }
    qsort(target_places, k->count, sizeof(*target_places), by_place);
}

tfm_status tfm__masked_restore(tfm__masked *k, char **out, tfm__masked_word **words, const tfm__masked_side *source,
                               const tfm__masked_side *target, const float *weights) {
    placed *places = tfm__alloc(2 * k->count, sizeof(*places)), *sources = places ? places + k->count : NULL;
    const pair p = {
        source, target, weights, starts_of(source), starts_of(target), words_among(source), words_among(target)};
    tfm_status status = TFM_ERROR_MEMORY;
    if (places && p.source_starts && p.target_starts && p.source_words && p.target_words) {
        choose(k, places, sources, &p);
        *out = write_text(k, target, places);
        *words = place_words(k, places);
        if (!k->source)
            k->source = place_words(k, sources);
        status = *out && *words && k->source ? TFM_OK : TFM_ERROR_MEMORY;
    }
    free(p.source_starts);
    free(p.target_starts);
    free(p.source_words);
    free(p.target_words);
    free(places);
    return status;
}
