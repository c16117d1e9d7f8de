/* A run of what was found: its text, the elements in it, and what stands between its words. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "documents/markup_internal.h"

int run_around(const markup_run *run, int a, int b) {
    while (a != b && a >= 0 && b >= 0) {
        const bool first = run->elements[a].depth >= run->elements[b].depth;
        *(first ? &a : &b) = run->elements[first ? a : b].parent;
    }
    return a == b ? a : -1;
}

/* The run as it is made. */
typedef struct maker {
    const markup *m;
    markup_run *run;
    int element;                       /* that is open */
    size_t group;                      /* the first atom since the last character */
    bool gap;                          /* a blank came after the last character or atom */
    bool opening;                      /* the last character may begin a word, as a bracket does */
    size_t last, last_begin, last_end; /* the last character, in the text and in the source */
    bool chained;                      /* after the last atom is only punctuation, without a gap */
    size_t chain_bytes, chain_group;
    size_t begin, end; /* of all characters in the source; SIZE_MAX: none yet */
    bool out_of_memory;
} maker;

static void add_bytes(maker *k, const char *text, size_t bytes) {
    markup_run *r = k->run;
    if (!cli_grow(&r->text, &r->room, r->bytes + bytes + 1, 1)) {
        k->out_of_memory = true;
        return;
    }
    memcpy(r->text + r->bytes, text, bytes);
    r->bytes += bytes;
    r->text[r->bytes] = 0;
}

/* ---- Characters ------------------------------------------------------------------------------------------------ */

static bool is_word(const char *c, size_t bytes) {
    return marks_is_letter(c, bytes) || marks_is_digit(c, bytes);
}

/* Whether an atom is in an element of the last character that ends before the next one. */
static bool ends_with_last(const maker *k, int element) {
    const markup_run *r = k->run;
    const int last = r->span_count > 0 ? r->spans[r->span_count - 1].element : -1;
    const int left = run_around(r, element, last), right = run_around(r, element, k->element);
    return (left < 0 ? -1 : r->elements[left].depth) > (right < 0 ? -1 : r->elements[right].depth);
}

/* What stands between two words: which of the blanks around the atoms is the text's own. The others are theirs. */
static void settle(maker *k, const char *next, bool closing) {
    markup_run *r = k->run;
    const size_t at = r->bytes, count = r->atom_count - k->group;
    run_atom *atoms = count > 0 ? r->atoms + k->group : NULL;
    size_t split = count; /* the atoms from here on are after the text's own blank, before the next word */
    bool blank = k->gap && at > 0 && !(count > 0 && k->opening), solid = false;
    for (size_t i = 0; i < count; i++) {
        solid = solid || atoms[i].solid;
        if (!k->gap && !closing && atoms[i].gap && at > 0)
            split = i, blank = true;
    }
    for (size_t i = split; blank && i < count; i++)
        split = ends_with_last(k, atoms[i].element) ? i + 1 : split;
    const bool elsewhere = blank && !(split < count ? atoms[split].gap : k->gap); /* the blank stands among the atoms */
    const bool ended = at > 0 && (is_word(r->text + k->last, at - k->last) ||
                                  (!k->opening && marks_is_closing(r->text + k->last, at - k->last)));
    const bool parts = solid && !blank && !k->gap && ended && is_word(next, strlen(next)) && !atoms[0].gap;
    for (size_t i = 0; i < count; i++) {
        atoms[i].mark = (marks_mark){.at = at + (i >= split), .index = k->group + i};
        atoms[i].mark.blank_before = atoms[i].gap && i != split && (at > 0 || i > 0);
        atoms[i].mark.blank_after = i + 1 == count && k->gap && !blank;
        atoms[i].mark.parts = (i + 1 == split && elsewhere) || (i + 1 == count && parts);
    }
    k->chained = count > 0 && !k->gap && atoms[count - 1].solid;
    k->chain_bytes = at;
    k->chain_group = k->group;
    if (blank || parts)
        add_bytes(k, " ", 1);
    k->gap = false;
    k->group = r->atom_count;
}

static void take_back(maker *k, size_t bytes, size_t group) {
    markup_run *r = k->run;
    r->text[r->bytes = bytes] = 0;
    while (r->span_count > 0 && r->spans[r->span_count - 1].at >= bytes)
        r->span_count--;
    k->group = group;
    k->gap = k->opening = k->chained = false;
    k->last = bytes;
    k->last_begin = k->last_end = 0;
}

/* "(X)" is an atom with its brackets. */
static bool absorb(maker *k, size_t begin, size_t end, bool closing) {
    markup_run *r = k->run;
    run_atom *atom = r->atom_count == k->group + 1 ? &r->atoms[k->group] : NULL;
    if (!atom || !k->opening || !closing || k->gap || atom->gap || !atom->solid || atom->begin != k->last_end ||
        atom->end != begin)
        return false;
    size_t bytes = k->last;
    const bool gap = bytes > 0 && r->text[bytes - 1] == ' ';
    if (k->group > 0 && r->atoms[k->group - 1].mark.at >= bytes)
        return false;
    atom->begin = k->last_begin;
    atom->end = end;
    atom->gap = gap;
    take_back(k, bytes - gap, k->group);
    return true;
}

/* Punctuation before a blank and behind an atom that begins a sentence is part of it: "A. <code>x</code>: b". */
static bool extend_atom(maker *k, const char *c, size_t begin, size_t end, const char *rest, size_t rest_bytes) {
    const markup_run *r = k->run;
    run_atom *atom = r->atom_count > k->group ? &r->atoms[r->atom_count - 1] : NULL;
    const bool starts = r->bytes == 0 || (atom && atom->gap && strchr(".!?", r->text[r->bytes - 1]));
    if (!atom || !starts || !atom->solid || k->gap || atom->end != begin || !marks_is_joint(c, strlen(c)) ||
        (rest_bytes > 0 && !html_is_blank(*rest) && !marks_is_joint(rest, rest_bytes)))
        return false;
    atom->end = end;
    return true;
}

static void begin_span(maker *k) {
    markup_run *r = k->run;
    const int now = r->span_count > 0 ? r->spans[r->span_count - 1].element : -1;
    if (now == k->element && r->span_count > 0)
        return;
    if (!cli_grow(&r->spans, &r->span_room, r->span_count + 1, sizeof(*r->spans))) {
        k->out_of_memory = true;
        return;
    }
    r->spans[r->span_count++] = (run_span){r->bytes, k->element};
    for (int e = k->element; e >= 0 && r->elements[e].first == SIZE_MAX; e = r->elements[e].parent)
        r->elements[e].first = r->bytes;
}

static void add_character(maker *k, const char *c, size_t begin, size_t end, const char *rest, size_t rest_bytes) {
    const size_t bytes = strlen(c);
    char now[HTML_CHARACTER + 8]; /* what comes after a quote says whether it ends something */
    strcpy(now, c);
    strncat(now, rest, rest_bytes < 7 ? rest_bytes : 7);
    const bool closing = marks_is_closing(now, strlen(now));
    k->begin = k->begin == SIZE_MAX ? begin : k->begin;
    k->end = end;
    if (*c > 0 && !c[1])
        (k->m->text[begin] == '\\' && end == begin + 2 ? k->run->escaped : k->run->literal)[*c / 64] |= (uint64_t)1
                                                                                                        << (*c % 64);
    if (absorb(k, begin, end, closing) || extend_atom(k, c, begin, end, rest, rest_bytes))
        return;
    const bool fresh = k->run->bytes == 0 || k->gap || k->group < k->run->atom_count || k->opening;
    const bool chained = k->chained && k->group == k->run->atom_count && !k->gap && k->last_end == begin;
    const bool follows = k->group < k->run->atom_count && k->run->atoms[k->run->atom_count - 1].end == begin;
    if (!chained)
        settle(k, c, closing);
    k->chained = k->chained && (chained || follows) && !is_word(c, bytes);
    k->opening = fresh && marks_is_opening(c, bytes);
    begin_span(k);
    k->last = k->run->bytes;
    k->last_begin = begin;
    k->last_end = end;
    add_bytes(k, c, bytes);
}

/* Whether the text of an event begins after the backslash of an escape, which is no text. */
static bool after_backslash(const maker *k, const run_event *e, size_t at) {
    return k->m->markdown && at == e->begin && at > 0 && k->m->text[at - 1] == '\\' && k->last_end != at;
}

static void add_text(maker *k, const run_event *e) {
    char c[HTML_CHARACTER];
    for (size_t at = e->begin, bytes; at < e->end && !k->out_of_memory; at += bytes) {
        bytes = html_character(c, k->m->text + at, e->end - at, e->references);
        if (html_character_is_blank(c))
            k->gap = true, k->chained = false;
        else if (!html_character_is_unseen(c))
            add_character(k, c, at - after_backslash(k, e, at), at + bytes, k->m->text + at + bytes,
                          e->end - at - bytes);
    }
}

/* ---- Atoms and elements ---------------------------------------------------------------------------------------- */

static void add_atom(maker *k, const run_event *e) {
    markup_run *r = k->run;
    if (k->chained && e->solid && k->group == r->atom_count &&
        e->begin == k->last_end) { /* <kbd>Ctrl</kbd>+<kbd>C</kbd> */
        take_back(k, k->chain_bytes, k->chain_group);
        r->atoms[r->atom_count - 1].end = e->end;
        r->atoms[r->atom_count - 1].deep |= e->deep;
        return;
    }
    k->chained = false;
    if (!cli_grow(&r->atoms, &r->atom_room, r->atom_count + 1, sizeof(*r->atoms))) {
        k->out_of_memory = true;
        return;
    }
    r->atoms[r->atom_count++] = (run_atom){
        .begin = e->begin, .end = e->end, .element = k->element, .gap = k->gap, .solid = e->solid, .deep = e->deep};
    k->gap = false;
}

static void open_element(maker *k, const run_event *e, bool whole) {
    markup_run *r = k->run;
    const int depth = k->element < 0 ? 0 : r->elements[k->element].depth + 1;
    if (!whole || depth == MARKUP_DEEPEST) {
        add_atom(k, e);
        return;
    }
    if (!cli_grow(&r->elements, &r->element_room, r->element_count + 1, sizeof(*r->elements))) {
        k->out_of_memory = true;
        return;
    }
    r->elements[r->element_count] =
        (run_element){.open = e->begin, .open_end = e->end, .first = SIZE_MAX, .parent = k->element, .depth = depth};
    k->element = (int)r->element_count++;
}

static void close_element(maker *k, const run_event *e, const run_event *open) {
    run_element *element = k->element < 0 ? NULL : &k->run->elements[k->element];
    if (!element || !open || element->open != open->begin) {
        add_atom(k, e);
        return;
    }
    element->close = e->begin;
    element->close_end = e->end;
    k->element = element->parent;
}

/* ---- The run --------------------------------------------------------------------------------------------------- */

/* Whether all text is in the element that an event opens. */
static bool holds_all(const run_builder *b, const run_event *open) {
    return open->partner == NO_EVENT || (open->seen == 0 && b->events[open->partner].seen == b->seen);
}

/* Where the sentence begins in text after an atom: behind punctuation before a blank or an atom, as in "<code>x</code>:
 * a", "<kbd>x</kbd>+<kbd>y</kbd> a", and behind the hyphen of a compound. */
static size_t behind_punctuation(const markup *m, const run_event *e) {
    char c[HTML_CHARACTER];
    size_t at = e->begin, kept = at;
    for (size_t bytes; at < e->end; at += bytes) {
        bytes = html_character(c, m->text + at, e->end - at, e->references);
        if (html_character_is_blank(c))
            kept = at + bytes;
        else if (marks_is_letter(c, strlen(c)) && at == e->begin + 1 && m->text[e->begin] == '-')
            return at;
        else if (!marks_is_joint(c, strlen(c)))
            return kept;
    }
    return at;
}

/* The events that are part of the run: what stands before or after all text stays there. */
static void trim(size_t *first, size_t *end, const markup *m, const run_builder *b) {
    for (*first = 0; *first < b->count; ++*first) {
        run_event *e = &b->events[*first];
        const size_t next = *first + 1 < b->count ? e[1].seen : b->seen;
        if (*first > 0 && e->kind == EVENT_TEXT && e[-1].kind == EVENT_ATOM && e[-1].solid)
            e->begin = behind_punctuation(m, e);
        if ((e->kind == EVENT_TEXT && next > 0 && e->begin < e->end) || (e->kind == EVENT_OPEN && !holds_all(b, e)))
            break;
    }
    for (*end = b->count; *end > *first; --*end) {
        const run_event *e = &b->events[*end - 1];
        const bool text = e->kind == EVENT_TEXT && e->seen < b->seen;
        if (text || (e->kind == EVENT_CLOSE && e->partner != NO_EVENT && e->partner >= *first))
            break;
    }
}

bool run_make(markup_run *run, const markup *m, const run_builder *b) {
    maker k = {.m = m, .run = run, .element = -1, .begin = SIZE_MAX};
    size_t first, end;
    run->places = m->places;
    trim(&first, &end, m, b);
    for (size_t i = first; i < end && !k.out_of_memory; i++) {
        const run_event *e = &b->events[i];
        const bool paired = e->partner != NO_EVENT && e->partner >= first && e->partner < end;
        if (e->kind == EVENT_TEXT)
            add_text(&k, e);
        else if (e->kind == EVENT_OPEN)
            open_element(&k, e, paired);
        else if (e->kind == EVENT_CLOSE)
            close_element(&k, e, paired ? &b->events[e->partner] : NULL);
        else
            add_atom(&k, e);
    }
    k.gap = false;
    settle(&k, "", true);
    const run_event *from = &b->events[first], *to = &b->events[end - 1];
    run->begin = from->kind == EVENT_TEXT ? k.begin : from->begin;
    run->end = to->kind == EVENT_TEXT ? k.end : to->end;
    return !k.out_of_memory;
}

size_t run_expression(const markup_run *run, const markup *m, const char *text) {
    static const char *const PAIRS[][2] = {{"{{", "}}"}, {"{%", "%}"}, {"<%", "%>"}, {"<?", "?>"}, {"${", "}"}};
    for (size_t i = 0; i < CLI_COUNT(PAIRS); i++) {
        const size_t left = strncmp(text, PAIRS[i][0], 2) == 0 ? strnlen(text, 4096) : 0;
        const char *close = left > 0 ? memmem(text + 2, left - 2, PAIRS[i][1], strlen(PAIRS[i][1])) : NULL;
        const size_t bytes = close ? (size_t)(close - text) + strlen(PAIRS[i][1]) : 0;
        if (bytes > 0 && (memchr(text, '&', bytes) || memchr(text, '<', bytes) || memchr(text, '>', bytes)) &&
            memmem(m->text + run->begin, run->end - run->begin, text, bytes))
            return bytes;
    }
    return 0;
}
