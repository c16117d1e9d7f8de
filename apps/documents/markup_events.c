/* What is found between the ends of two blocks, until it is a run. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "documents/markup_internal.h"

/* The most bytes of a footnote's mark, and of a template's expression in which separators are looked for. */
enum { NOTE = 24, EXPRESSION = 1024 };

size_t run_add(markup *m, run_builder *b, event_kind kind, size_t begin, size_t end) {
    if (!cli_grow(&b->events, &b->room, b->count + 1, sizeof(*b->events))) {
        m->out_of_memory = true;
        return NO_EVENT;
    }
    b->events[b->count] = (run_event){
        .kind = kind, .begin = begin, .end = end, .partner = NO_EVENT, .seen = b->seen, .letters = b->letters};
    return b->count++;
}

/* ---- Text ------------------------------------------------------------------------------------------------------ */

/* Whether lines are kept and one, or a column, ends at a character. */
static bool ends_line(const char *c, bool after_blank) {
    return *c == '\n' || *c == '\r' || *c == '\t' || (after_blank && html_character_is_blank(c));
}

static bool is_gap(const char *c) {
    return html_character_is_blank(c) || *c == 0;
}

/* Whether a character is what stands between the items of a line of navigation or of a title, between blanks. */
static bool is_separator(const char *before, const char *c, const char *text, size_t bytes) {
    static const char *const SEPARATORS[] = {"|",           "\xC2\xA6", "\xC2\xB7", "\xE2\x80\xA2", "\xE2\x97\x8F",
                                             "\xE2\x96\xAA"};
    char after[HTML_CHARACTER] = "";
    bool found = false;
    for (size_t i = 0; i < CLI_COUNT(SEPARATORS) && !found; i++)
        found = strcmp(c, SEPARATORS[i]) == 0;
    if (found && bytes > 0)
        html_character(after, text, bytes, true);
    return found && is_gap(before) && is_gap(after);
}

/* The bytes of a template's expression at the beginning of a text, as {{ a | b }} or [[ a | b ]], where a separator
 * parts no items; 0: it begins with none. */
static size_t expression_bytes(const char *text, size_t bytes) {
    const char open = bytes > 1 && text[0] == '[' && text[1] == '[' ? '[' : '{', close = open == '[' ? ']' : '}';
    size_t depth = 0;
    for (size_t i = 0; i < bytes && i < EXPRESSION && (i > 0 || *text == open); i++) {
        depth += text[i] == open;
        depth -= text[i] == close;
        if (depth == 0)
            return i + 1;
    }
    return 0;
}

/* Text from `at` on that begins a run. */
static size_t begin_run(markup *m, run_builder *b, size_t event, size_t at, size_t end) {
    b->events[event].end = at;
    run_finish(m, b);
    return run_add(m, b, EVENT_TEXT, at, end);
}

void run_add_text(markup *m, run_builder *b, size_t begin, size_t end, bool references, bool lines) {
    const bool escaped = begin > 0 && m->text[begin - 1] == '\\'; /* in Markdown */
    char c[HTML_CHARACTER], before[HTML_CHARACTER] = {escaped ? '\\' : 0};
    bool blank = false, parted = false; /* after a separator */
    size_t event = run_add(m, b, EVENT_TEXT, begin, end), expression_end = begin;
    for (size_t at = begin, bytes; at < end && !m->out_of_memory; at += bytes) {
        bytes = html_character(c, m->text + at, end - at, references);
        if (at >= expression_end)
            expression_end = at + expression_bytes(m->text + at, end - at);
        const bool separator = at >= expression_end && is_separator(before, c, m->text + at + bytes, end - at - bytes);
        if (parted || separator || (lines && ends_line(c, blank)))
            event = begin_run(m, b, event, at, end);
        if (m->out_of_memory)
            return;
        parted = separator;
        strcpy(before, c);
        b->events[event].references = references;
        blank = html_character_is_blank(c);
        b->events[event].solid |= blank;
        if (blank || html_character_is_unseen(c))
            continue;
        b->seen++;
        b->letters += marks_is_letter(c, strlen(c));
    }
    if (parted)
        run_finish(m, b);
}

void run_part_sentences(markup *m, run_builder *b, size_t stop, size_t at) {
    size_t i = b->count, before = stop;
    for (; i > 0 && b->events[i - 1].kind == EVENT_CLOSE && b->events[i - 1].end == before; i--)
        before = b->events[i - 1].begin;
    const run_event *e = i > 0 ? &b->events[i - 1] : NULL;
    if (!e || e->kind != EVENT_TEXT || e->end != before || before - e->begin < 3 || (before == stop && at == stop))
        return;
    const char *end = m->text + before;
    if (!strchr(".!?", end[-1]) || !islower((unsigned char)end[-2]) || !islower((unsigned char)end[-3]) ||
        !marks_is_upper(m->text + at, m->bytes - at))
        return;
    const size_t event = run_add(m, b, EVENT_ATOM, stop, stop);
    if (event != NO_EVENT)
        b->events[event].solid = true;
}

/* ---- Controls -------------------------------------------------------------------------------------------------- */

/* Whether a tag is that of a control of a form. */
static bool is_control(const markup *m, size_t begin, size_t end) {
    static const char *const NAMES[] = {"label", "input", "select", "textarea", "button"};
    if (end - begin < 2)
        return false;
    const size_t name = begin + 1 + (m->text[begin + 1] == '/');
    size_t stop = name;
    while (stop < end && !html_is_blank(m->text[stop]) && !strchr("/>", m->text[stop]))
        stop++;
    for (size_t i = 0; i < CLI_COUNT(NAMES); i++)
        if (html_is(m->text, name, stop, NAMES[i]))
            return true;
    return false;
}

static bool is_choice(const markup *m, const html_token *t) {
    size_t value[2];
    return html_is(m->text, t->name, t->name + t->name_bytes, "input") &&
           html_attribute(value, NULL, m->text, t, "type") &&
           (html_is(m->text, value[0], value[1], "radio") || html_is(m->text, value[0], value[1], "checkbox"));
}

void run_part_controls(markup *m, run_builder *b, const html_token *t) {
    size_t last = b->count;
    if (!is_control(m, t->begin, t->end))
        return;
    while (last > 0 && b->events[last - 1].kind == EVENT_TEXT && b->events[last - 1].seen == b->seen)
        last--; /* blanks */
    const run_event *e = last > 0 ? &b->events[last - 1] : NULL;
    const bool follows = e && (e->kind == EVENT_CLOSE || e->kind == EVENT_ATOM) && is_control(m, e->begin, e->end);
    if (follows || is_choice(m, t))
        run_finish(m, b);
}

/* ---- Elements -------------------------------------------------------------------------------------------------- */

/* Whether a text is what footnotes have: digits and signs, or anything short in brackets. */
static bool is_note(const char *text) {
    const size_t bytes = strlen(text);
    if (bytes > 2 && text[0] == '[' && text[bytes - 1] == ']')
        return true;
    for (size_t i = 0; i < bytes; i++)
        if (marks_is_letter(text + i, bytes - i))
            return false;
    return bytes > 0;
}

/* Whether a text is nothing but signs that are no part of a sentence, as an arrow or a bracket is: those of a currency,
 * and stops, are. */
static bool is_signs(const char *text) {
    bool any = false;
    for (size_t i = 0, bytes = strlen(text); i < bytes; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80) {
            any = true;
            if (!marks_is_sign(text + i, bytes - i))
                return false;
        }
    return any;
}

/* Whether a text is digits above the line and punctuation, as a footnote's mark is without <sup>. */
static bool is_superscript(const char *text) {
    bool any = false;
    for (size_t i = 0, bytes = strlen(text); i < bytes; i++) {
        if (marks_is_letter(text + i, bytes - i) || marks_is_digit(text + i, bytes - i))
            return false;
        any = any || marks_is_superscript(text + i, bytes - i);
    }
    return any;
}

/* Whether the text of the events after `open` is no word: signs, or with `note` a footnote's mark. */
static bool holds_no_words(const markup *m, const run_builder *b, size_t open, bool note, bool *signs) {
    char text[NOTE + HTML_CHARACTER], c[HTML_CHARACTER];
    size_t used = 0;
    for (size_t i = open + 1; i < b->count; i++) {
        const run_event *e = &b->events[i];
        for (size_t at = e->begin, bytes; e->kind == EVENT_TEXT && at < e->end; at += bytes) {
            bytes = html_character(c, m->text + at, e->end - at, e->references);
            if (html_character_is_blank(c) || html_character_is_unseen(c))
                continue;
            strcpy(text + used, c);
            used += strlen(c);
            if (used > NOTE)
                return false;
        }
    }
    *signs = used > 0 && is_signs(text);
    const bool number = used > 0 && b->events[open].seen == 0 && strchr(".)", text[used - 1]); /* "1." of a list */
    text[used] = 0;
    return *signs || is_superscript(text) || ((note || number) && is_note(text));
}

void run_pair(markup *m, run_builder *b, size_t open, bool note) {
    const size_t close = b->count - 1;
    run_event *first = &b->events[open];
    first->partner = close;
    b->events[close].partner = open;
    const bool empty = first->seen == b->seen;
    bool signs = false;
    if (!empty && !(b->seen - first->seen <= NOTE && holds_no_words(m, b, open, note, &signs)))
        return;
    for (size_t i = open + 1; i < b->count; i++) {
        first->deep |= b->events[i].deep;
        first->solid |= b->events[i].solid && empty;
    }
    first->solid |= signs;
    first->kind = EVENT_ATOM;
    first->end = b->events[close].end;
    first->partner = NO_EVENT;
    b->count = open + 1;
    b->seen = first->seen;
    b->letters = first->letters;
}

/* ---- Runs ------------------------------------------------------------------------------------------------------ */

static long count_lines(const char *text, size_t begin, size_t end) {
    long lines = 0;
    for (const char *at = text + begin; (at = memchr(at, '\n', (size_t)(text + end - at))); at++)
        lines++;
    return lines;
}

static long line_of(markup *m, size_t at) {
    if (at < m->counted)
        return m->lines - count_lines(m->text, at, m->counted);
    m->lines += count_lines(m->text, m->counted, at);
    m->counted = at;
    return m->lines;
}

void run_free(markup_run *run) {
    free(run->text);
    free(run->spans);
    free(run->elements);
    free(run->atoms);
    free(run->put);
    free(run->inserts);
}

void run_finish(markup *m, run_builder *b) {
    if (b->letters > 0 && !m->out_of_memory) {
        markup_run run = {0};
        if (!run_make(&run, m, b) || !cli_grow(&m->runs, &m->room, m->count + 1, sizeof(*m->runs))) {
            m->out_of_memory = true;
            run_free(&run);
        } else {
            size_t at = m->count++;
            run.line = 1 + line_of(m, run.begin);
            for (; at > 0 && m->runs[at - 1].begin > run.begin; at--) /* those in its atoms */
                m->runs[at] = m->runs[at - 1];
            m->runs[at] = run;
        }
    }
    b->count = b->seen = b->letters = 0;
    b->generation++;
}
