/* Where marks go in a translation: next to the words that correspond to their neighbors, and in their sentence. */
#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>
#include "documents/marks.h"

/* ---- Punctuation ----------------------------------------------------------------------------------------------- */

static UChar32 character(const char *text, size_t bytes) {
    UChar32 c = 0;
    int32_t at = 0;
    if (bytes > 0)
        U8_NEXT(text, at, bytes < 8 ? (int32_t)bytes : 8, c);
    return c;
}

bool marks_is_punctuation(const char *text, size_t bytes) {
    return u_ispunct(character(text, bytes));
}

/* Quotation marks begin a word in one language and end one in another. */
static bool is_quote(UChar32 c) {
    const int8_t type = u_charType(c);
    return c == '"' || c == '\'' || type == U_INITIAL_PUNCTUATION || type == U_FINAL_PUNCTUATION;
}

bool marks_is_opening(const char *text, size_t bytes) {
    const UChar32 c = character(text, bytes);
    return is_quote(c) || c == 0xa1 || c == 0xbf || u_charType(c) == U_START_PUNCTUATION;
}

bool marks_is_closing(const char *text, size_t bytes) {
    const UChar32 c = character(text, bytes);
    const size_t own = U8_LENGTH(c);
    if (is_quote(c))
        return bytes <= own || !u_isalnum(character(text + own, bytes - own));
    return c == '%' || c == 0x2026 || u_charType(c) == U_END_PUNCTUATION ||
           u_hasBinaryProperty(c, UCHAR_TERMINAL_PUNCTUATION);
}

bool marks_is_letter(const char *text, size_t bytes) {
    return u_isalpha(character(text, bytes));
}

bool marks_is_upper(const char *text, size_t bytes) {
    return u_isupper(character(text, bytes));
}

bool marks_is_digit(const char *text, size_t bytes) {
    return u_isdigit(character(text, bytes));
}

bool marks_is_joint(const char *text, size_t bytes) {
    const UChar32 c = character(text, bytes);
    return c == '+' || c == '=' || c == '/' || u_charType(c) == U_DASH_PUNCTUATION ||
           (c != '%' && !is_quote(c) && marks_is_closing(text, bytes));
}

bool marks_is_superscript(const char *text, size_t bytes) {
    const UChar32 c = character(text, bytes);
    return u_charType(c) == U_OTHER_NUMBER && u_getIntPropertyValue(c, UCHAR_DECOMPOSITION_TYPE) == U_DT_SUPER;
}

bool marks_is_sign(const char *text, size_t bytes) {
    static const UChar32 NOTES[] = {'*', '#', 0xA7, 0xB6, 0xB7, 0x2020, 0x2021, 0x2022};
    const UChar32 c = character(text, bytes);
    for (size_t i = 0; i < sizeof(NOTES) / sizeof(*NOTES); i++)
        if (c == NOTES[i])
            return true;
    return U_GET_GC_MASK(c) & (U_GC_SK_MASK | U_GC_SM_MASK | U_GC_SO_MASK | U_GC_PS_MASK | U_GC_PE_MASK | U_GC_PI_MASK |
                               U_GC_PF_MASK | U_GC_PD_MASK | U_GC_MN_MASK | U_GC_CF_MASK);
}

static bool is_stop(const marks_text *t, const marks_word *w) {
    size_t at = w->end;
    while (at > w->body_end) {
        at--;
        if (((unsigned char)t->text[at] & 0xc0) != 0x80 &&
            u_hasBinaryProperty(character(t->text + at, w->end - at), UCHAR_S_TERM))
            return true;
    }
    return false;
}

/* ---- Places ---------------------------------------------------------------------------------------------------- */

static bool ends_sentence(const marks_text *t, size_t word) {
    return word + 1 == t->count || t->words[word + 1].sentence != t->words[word].sentence;
}

static bool begins_sentence(const marks_text *t, size_t word) {
    return word == 0 || t->words[word - 1].sentence != t->words[word].sentence;
}

/* The last word of the target's sentence, or with `first` its first one; `otherwise` where the sentence has none. */
static size_t edge(const marks_text *t, size_t sentence, bool first, size_t otherwise) {
    size_t low = 0, high = t->count; /* sentences do not decrease */
    const size_t wanted = sentence + !first;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->words[middle].sentence < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    const size_t word = first ? low : low - 1;
    return word < t->count && t->words[word].sentence == sentence ? word : otherwise;
}

/* The word that `at` is in or at the beginning or end of; of two, the former. */
static size_t word_at(const marks_text *t, size_t at) {
    size_t low = 0, high = t->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->words[middle].end < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first of the words of the target that correspond to a word of the source and stand together. */
static size_t first_of(const marks_pair *p, size_t word) {
    size_t t = p->source.words[word].other;
    while (t > 0 && p->target.words[t].other == word && p->target.words[t - 1].other == word)
        t--;
    return t;
}

/* At the beginning of a word: before the first word that corresponds to it. */
static size_t before_word(const marks_pair *p, size_t word) {
    const marks_word *s = &p->source.words[word];
    size_t t = first_of(p, word);
    if (begins_sentence(&p->source, word))
        t = edge(&p->target, s->sentence, true, t);
    return p->target.words[t].begin;
}

/* Behind a word, or the punctuation at its end. */
static size_t behind_word(const marks_pair *p, size_t word, const marks_mark *mark) {
    const marks_word *s = &p->source.words[word];
    const bool stops = is_stop(&p->source, s) && ends_sentence(&p->source, word);
    const bool alone = mark->at < s->end && mark->blank_before; /* "a X.", where X is a separate word */
    size_t t = s->other;
    if (stops && (mark->at == s->end || alone))
        t = edge(&p->target, s->sentence, false, t);
    const marks_word *to = &p->target.words[t];
    const bool within = !ends_sentence(&p->source, word) && ends_sentence(&p->target, t); /* it goes before the stop */
    return mark->at == s->end && s->body_end < s->end && !within ? to->end
           : to->body_end > to->begin                            ? to->body_end
                                                                 : to->end;
}

static size_t place(const marks_pair *p, const marks_mark *mark) {
    const size_t word = word_at(&p->source, mark->at);
    if (p->target.count == 0 || p->source.count == 0)
        return 0;
    if (word == p->source.count)
        return p->target.bytes;
    const marks_word *s = &p->source.words[word], *t = &p->target.words[s->other];
    if (mark->at <= s->begin)
        return before_word(p, word);
    if (mark->at < s->end && s->whole != SIZE_MAX)
        return s->whole + mark->at - s->begin;
    if (mark->at >= s->body_end)
        return behind_word(p, word, mark);
    if (mark->at <= s->body) /* after a bracket */
        return p->target.words[first_of(p, word)].body;
    return t->body_end;
}

static marks_mark placed(const marks_pair *p, const marks_mark *mark) {
    const marks_text *t = &p->target;
    marks_mark to = {.at = place(p, mark), .index = mark->index};
    const bool closing = to.at < t->bytes && marks_is_closing(t->text + to.at, t->bytes - to.at);
    to.parts = mark->parts && to.at < t->bytes && t->text[to.at] == ' ';
    to.blank_before = mark->blank_before && to.at > 0 && t->text[to.at - 1] != ' ';
    to.blank_after = mark->blank_after && to.at < t->bytes && t->text[to.at] != ' ' && !closing;
    return to;
}

static int by_place(const void *a, const void *b) {
    const marks_mark *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->index > y->index) - (x->index < y->index);
}

void marks_place(marks_mark *marks, size_t count, const marks_pair *p) {
    for (size_t i = 0; i < count; i++)
        marks[i] = placed(p, &marks[i]);
    qsort(marks, count, sizeof(*marks), by_place);
}
