/* A translation in place of a run: its words are in the elements that the words which they correspond to are in,
 * and what stands between words goes where marks.c says. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "documents/markup_internal.h"

/* An element that no word of the translation came to, and the word that gets it. */
typedef struct lost {
    size_t word;
    int element;
} lost;

typedef struct writer {
    const markup *m;
    markup_run *run;
    const char *target;
    size_t looked, code_end; /* how far expressions were looked for, and where the last one ends */
    marks_pair words;
    marks_mark *marks; /* [run->atom_count], where they go */
    size_t next_mark;
    lost *lost;
    size_t lost_count, lost_room, next_lost;
    run_words *used; /* [run->element_count] */
    bool *opened;    /* [run->element_count] */
    run_path open;
    bool out_of_memory;
} writer;

/* ---- Bytes ----------------------------------------------------------------------------------------------------- */

static void put(writer *w, const char *text, size_t bytes) {
    markup_run *r = w->run;
    if (w->out_of_memory || !cli_grow(&r->put, &r->put_room, r->put_bytes + bytes + 1, 1)) {
        w->out_of_memory = true;
        return;
    }
    memcpy(r->put + r->put_bytes, text, bytes);
    r->put_bytes += bytes;
}

/* A part of the source; with `deep` whatever becomes of it. */
static void put_source(writer *w, size_t begin, size_t end, bool deep) {
    markup_run *r = w->run;
    if (!deep)
        put(w, w->m->text + begin, end - begin);
    else if (cli_grow(&r->inserts, &r->insert_room, r->insert_count + 1, sizeof(*r->inserts)))
        r->inserts[r->insert_count++] = (run_insert){r->put_bytes, begin, end};
    else
        w->out_of_memory = true;
}

/* Whether a byte of the translation, requested in order, is of a template's expression of the source. */
static bool in_expression(writer *w, size_t at) {
    for (; w->looked <= at && w->target[w->looked]; w->looked++) {
        const size_t bytes = w->looked < w->code_end ? 0 : run_expression(w->run, w->m, w->target + w->looked);
        w->code_end = bytes > 0 ? w->looked + bytes : w->code_end;
    }
    return at < w->code_end;
}

/* Text, with what would be markup as references, in Markdown after a backslash. */
static void put_text(writer *w, size_t begin, size_t end) {
    for (size_t at = begin; w->m->markdown && at < end; at++) {
        if (w->target[at] && markdown_is_escaped(w->run, w->target, at) && !in_expression(w, at))
            put(w, "\\", 1);
        put(w, w->target + at, 1);
    }
    if (w->m->markdown)
        return;
    static const char *const REFERENCES[][2] = {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\xC2\xA0", "&nbsp;"}};
    for (size_t at = begin, bytes; at < end; at += bytes) {
        const char *text = w->target + at, *reference = NULL;
        const bool code = in_expression(w, at);
        bytes = 1;
        for (size_t i = 0; i < CLI_COUNT(REFERENCES) && !reference && !code; i++)
            if (strncmp(text, REFERENCES[i][0], strlen(REFERENCES[i][0])) == 0) {
                reference = REFERENCES[i][1];
                bytes = strlen(REFERENCES[i][0]);
            }
        put(w, reference ? reference : text, reference ? strlen(reference) : bytes);
    }
}

/* ---- Elements -------------------------------------------------------------------------------------------------- */

static void put_open(writer *w, int element) {
    const run_element *e = &w->run->elements[element];
    size_t id[2] = {e->open_end, e->open_end};
    if (w->opened[element] && w->m->text[e->open] == '<') { /* a second copy has no id */
        html_lexer l = {.text = w->m->text, .bytes = e->open_end, .at = e->open};
        html_token t;
        html_next(&t, &l);
        html_attribute(NULL, id, w->m->text, &t, "id");
    }
    w->opened[element] = true;
    put_source(w, e->open, id[0], false);
    put_source(w, id[1], e->open_end, false);
}

static void put_close(writer *w, int element) {
    const run_element *e = &w->run->elements[element];
    put_source(w, e->close, e->close_end, false);
}

static void close_to(writer *w, int count) {
    while (w->open.count > count)
        put_close(w, w->open.elements[--w->open.count]);
}

static void go_to(writer *w, const run_path *to) {
    close_to(w, run_path_common(&w->open, to));
    while (w->open.count < to->count) {
        put_open(w, to->elements[w->open.count]);
        w->open.elements[w->open.count] = to->elements[w->open.count];
        w->open.count++;
    }
}

/* ---- Which elements words are in ------------------------------------------------------------------------------- */

/* The elements of a word of the translation: of what is before its body, of that, and of what is after it. */
typedef struct places {
    int lead, body, trail;
    bool same;    /* it has the whole word of the source, whose elements are where they are there, */
    size_t begin; /* from this byte of the translation on */
} places;

/* The element of the stop of the source's sentence that a word is in; where it has none, of all of the sentence. */
static int element_of_stop(const writer *w, const marks_word *word) {
    const marks_text *source = &w->words.source;
    const marks_word *first = word, *last = word, *end = source->words + source->count;
    while (last + 1 < end && last[1].sentence == word->sentence)
        last++;
    if (last->body_end < last->end)
        return run_element_at(w->run, last->end - 1);
    while (first > source->words && first[-1].sentence == word->sentence)
        first--;
    return run_around(w->run, run_element_at(w->run, first->begin), run_element_at(w->run, last->end - 1));
}

static places places_of(const writer *w, size_t word) {
    const marks_text *source = &w->words.source, *target = &w->words.target;
    if (source->count == 0)
        return (places){-1, -1, -1, false, 0};
    const marks_word *t = &target->words[word], *s = &source->words[t->other];
    places p = {.body = run_element_of(w->run, s->body < s->body_end ? s->body : s->begin,
                                       s->body < s->body_end ? s->body_end : s->end)};
    p.same = t->whole != SIZE_MAX;
    p.begin = p.same ? t->whole : t->begin;
    p.lead = s->begin < s->body ? run_element_at(w->run, s->begin) : p.body;
    p.trail = s->body_end < s->end ? run_element_at(w->run, s->end - 1) : p.body;
    const bool last = word + 1 == target->count || t[1].sentence != t->sentence;
    if (s->body_end == s->end && t->body_end < t->end) /* a separate stop: outside of elements that end here */
        p.trail = run_around(w->run, p.body,
                             last ? element_of_stop(w, s) : run_element_at(w->run, source->words[t[1].other].begin));
    return p;
}

/* The elements that put_word writes. */
static void use_word(const writer *w, size_t word) {
    const markup_run *run = w->run;
    const marks_word *t = &w->words.target.words[word], *s = &w->words.source.words[t->other];
    const places p = places_of(w, word);
    for (size_t at = s->begin; p.same && at < s->end; at++)
        run_words_add(w->used, run, run_element_at(run, at), word);
    if (p.same)
        return;
    if (t->begin < t->body)
        run_words_add(w->used, run, p.lead, word);
    if (t->body < t->body_end)
        run_words_add(w->used, run, p.body, word);
    if (t->body_end < t->end)
        run_words_add(w->used, run, p.trail, word);
}

static int by_word(const void *a, const void *b) {
    const lost *x = a, *y = b;
    return x->word != y->word ? (x->word > y->word) - (x->word < y->word) : x->element - y->element;
}

/* Elements that no word came to go to the word that looked at their first one most, so that no link is lost. */
static void find_lost(writer *w) {
    const markup_run *run = w->run;
    for (size_t i = 0; i < w->words.target.count && !w->out_of_memory; i++)
        use_word(w, i);
    for (size_t e = run->element_count, word = 0; e-- > 0 && !w->out_of_memory;) {
        if (w->used[e].most_end > 0)
            continue;
        run_words_add(w->used, run, (int)e, w->words.target.count);
        for (size_t low = 0, high = w->words.source.count; low < high;) { /* the word that it begins in */
            word = low + (high - low) / 2;
            if (w->words.source.words[word].end <= run->elements[e].first)
                low = ++word;
            else
                high = word;
        }
        if (!cli_grow(&w->lost, &w->lost_room, w->lost_count + 1, sizeof(*w->lost)))
            w->out_of_memory = true;
        else
            w->lost[w->lost_count++] = (lost){w->words.source.words[word].other, (int)e};
    }
    if (w->lost_count > 0)
        qsort(w->lost, w->lost_count, sizeof(*w->lost), by_word);
}

/* Whether an element is a link or picture of Markdown with words, which is written once: only its most consecutive
 * words are in it. */
static bool is_single(const writer *w, int element) {
    return w->m->markdown && strchr("![", w->m->text[w->run->elements[element].open]) &&
           w->used[element].most_end <= w->words.target.count;
}

static bool is_elsewhere(const writer *w, int element, size_t word) {
    return is_single(w, element) && (word < w->used[element].most || word >= w->used[element].most_end);
}

/* ---- The translation ------------------------------------------------------------------------------------------- */

/* Goes to where an atom is to stand: into its own elements, but if it is not seen, or in none, no others are closed for
 * it that go on after it. */
static void go_to_atom(writer *w, const run_atom *atom, const run_path *next) {
    const run_path all = run_path_to(w->run, atom->element);
    run_path own = {.count = 0};
    for (int i = 0; i < all.count; i++)
        if (!is_single(w, all.elements[i]) || run_path_has(&w->open, all.elements[i]) ||
            run_path_has(next, all.elements[i]))
            own.elements[own.count++] = all.elements[i];
    const int kept = run_path_common(&w->open, next);
    const bool inside = run_path_common(&own, &w->open) == own.count, before = run_path_common(&own, next) == own.count;
    if (own.count < kept && (inside || !atom->solid))
        close_to(w, kept);
    else if (inside || before || atom->solid)
        go_to(w, &own);
    else
        close_to(w, kept);
}

/* The atoms that stand before a byte of the translation, after which text of other elements comes. Returns whether the
 * blank there is left out. */
static bool put_marks(writer *w, size_t at, const run_path *next) {
    bool parts = false;
    for (; w->next_mark < w->run->atom_count && w->marks[w->next_mark].at <= at; w->next_mark++) {
        const marks_mark *mark = &w->marks[w->next_mark];
        const run_atom *atom = &w->run->atoms[mark->index];
        const markup_run *r = w->run;
        if (mark->blank_before && !(r->put_bytes > 0 && r->put[r->put_bytes - 1] == ' ')) {
            const run_path own = run_path_to(r, atom->element);
            close_to(w, atom->solid ? run_path_common(&w->open, &own) : w->open.count);
            put(w, " ", 1);
        }
        go_to_atom(w, atom, next);
        put_source(w, atom->begin, atom->end, atom->deep);
        if (mark->blank_after)
            put(w, " ", 1);
        parts = parts || mark->parts;
    }
    return parts;
}

/* Bytes of one element, and the atoms between them. */
static void put_part(writer *w, size_t begin, size_t end, const run_path *p) {
    for (size_t at = begin; at < end;) {
        size_t stop = end;
        put_marks(w, at, p);
        if (w->next_mark < w->run->atom_count && w->marks[w->next_mark].at < end)
            stop = w->marks[w->next_mark].at;
        go_to(w, p);
        put_text(w, at, stop);
        at = stop;
    }
}

static run_path path_of_word(writer *w, size_t word, int element) {
    const run_path all = run_path_to(w->run, element);
    run_path p = {.count = 0};
    for (int k = 0; k < all.count; k++)
        if (!is_elsewhere(w, all.elements[k], word))
            p.elements[p.count++] = all.elements[k];
    for (size_t i = w->next_lost; i < w->lost_count && w->lost[i].word == word; i++) {
        const run_path own = run_path_to(w->run, w->lost[i].element);
        for (int k = 0; k < own.count; k++)
            if (!is_elsewhere(w, own.elements[k], word))
                run_path_join(&p, w->m, w->run, own.elements[k]);
    }
    return p;
}

/* Elements of the next word that it cannot have as well: without text, before it. */
static void put_empty(writer *w, size_t word, const run_path *p) {
    for (size_t i = w->next_lost; i < w->lost_count && w->lost[i].word == word; i++) {
        if (!run_path_has(p, w->lost[i].element)) {
            close_to(w, 0);
            put_open(w, w->lost[i].element);
            put_close(w, w->lost[i].element);
        }
    }
}

static void put_same(writer *w, size_t word, const places *p) {
    const marks_word *t = &w->words.target.words[word], *s = &w->words.source.words[t->other];
    const size_t end = p->begin + (s->end - s->begin);
    for (size_t at = t->begin, stop; at < t->end; at = stop) {
        const size_t from = at > p->begin ? s->begin + at - p->begin : s->begin;
        const int element = at < end ? run_element_at(w->run, from) : p->trail;
        for (stop = at + 1; stop < t->end; stop++)
            if (stop == end ||
                (stop > p->begin && stop < end && run_element_at(w->run, s->begin + stop - p->begin) != element))
                break;
        const run_path now = path_of_word(w, word, element);
        put_part(w, at, stop, &now);
    }
}

static void put_word(writer *w, size_t word) {
    const marks_word *t = &w->words.target.words[word];
    const places p = places_of(w, word);
    const run_path lead = path_of_word(w, word, p.lead), body = path_of_word(w, word, p.body),
                   trail = path_of_word(w, word, p.trail);
    const run_path own =
        path_of_word(w, word, p.same ? run_element_at(w->run, w->words.source.words[t->other].begin) : p.lead);
    const run_path *first = p.same ? &own : t->body == t->body_end ? &trail : t->begin < t->body ? &lead : &body;
    put_empty(w, word, p.same ? &own : t->body == t->body_end ? &trail : &body);
    if (word > 0) {
        const size_t blank = w->words.target.words[word - 1].end;
        const bool parts = put_marks(w, blank, first);
        close_to(w, run_path_common(&w->open, first));
        if (!parts)
            put(w, " ", 1);
    }
    if (p.same) {
        put_same(w, word, &p);
    } else if (t->body == t->body_end) {
        put_part(w, t->begin, t->end, &trail);
    } else {
        put_part(w, t->begin, t->body, &lead);
        put_part(w, t->body, t->body_end, &body);
        put_part(w, t->body_end, t->end, &trail);
    }
    while (w->next_lost < w->lost_count && w->lost[w->next_lost].word == word)
        w->next_lost++;
}

static void put_all(writer *w) {
    const run_path none = {.count = 0};
    for (size_t i = 0; i < w->words.target.count && !w->out_of_memory; i++)
        put_word(w, i);
    put_marks(w, SIZE_MAX, &none);
    for (size_t i = w->next_lost; i < w->lost_count; i++) { /* there are no words */
        go_to(w, &none);
        put_open(w, w->lost[i].element);
        put_close(w, w->lost[i].element);
    }
    go_to(w, &none);
}

bool markup_put(markup *m, size_t index, const char *translation, const json_t *alignment) {
    markup_run *run = &m->runs[index];
    writer w = {.m = m, .run = run, .target = translation};
    run->put_bytes = run->insert_count = 0;
    if (strcmp(translation, run->text) == 0) {
        free(run->put);
        run->put = NULL;
        run->put_room = 0;
        return true;
    }
    if (!markup_marked(m, index)) {
        put_text(&w, 0, strlen(translation));
        put(&w, "", 0); /* there is something even of an empty one */
        return !w.out_of_memory;
    }
    w.used = calloc(run->element_count + 1, sizeof(*w.used));
    w.opened = calloc(run->element_count + 1, sizeof(*w.opened));
    w.marks = calloc(run->atom_count + 1, sizeof(*w.marks));
    w.out_of_memory = !w.used || !w.opened || !w.marks || !marks_align(&w.words, run->text, translation, alignment);
    for (size_t i = 0; i < run->atom_count && !w.out_of_memory; i++)
        w.marks[i] = run->atoms[i].mark;
    put(&w, "", 0);
    if (!w.out_of_memory) {
        marks_place(w.marks, run->atom_count, &w.words);
        find_lost(&w);
        put_all(&w);
    }
    marks_free(&w.words);
    free(w.used);
    free(w.opened);
    free(w.marks);
    free(w.lost);
    return !w.out_of_memory;
}
