/* From tokens to runs: which elements are open, by what HTML 5 says of tags that are left out and of end tags that fit
 * nothing (WHATWG HTML, 13.2.6). */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "cli/cli.h"
#include "documents/markup_internal.h"

/* How far an end tag looks for its start tag, as browsers nest elements; and elements with their own text within
 * each other in the middle of sentences, beyond which they end them. */
enum { DEEPEST = 512, ISLANDS = 16 };

typedef enum space { IN_HTML, IN_SVG, IN_MATH } space;

typedef struct open_element {
    const html_element *element;
    size_t name, name_bytes, begin;
    space space;
    bool point;  /* HTML goes on in this one of svg or math */
    bool kept;   /* its text is not translated */
    bool lines;  /* they are kept */
    bool island; /* has its own builder */
    size_t event, generation;
    size_t parts; /* runs and edits before it */
} open_element;

typedef struct walker {
    markup *m;
    html_lexer lexer;
    open_element *stack;
    size_t count, room;
    run_builder builders[ISLANDS + 1];
    size_t island;
} walker;

static const open_element *top(const walker *w) {
    static const html_element nothing = {"", 0, HTML_OTHER};
    static const open_element none = {.element = &nothing};
    return w->count > 0 ? &w->stack[w->count - 1] : &none;
}

static run_builder *builder(walker *w) {
    return &w->builders[w->island];
}

static bool in_foreign(const walker *w) {
    return top(w)->space != IN_HTML && !top(w)->point;
}

static size_t parts_of(const markup *m) {
    return m->count + m->edit_count;
}

static size_t add(walker *w, event_kind kind, size_t begin, size_t end, bool solid) {
    const size_t event = top(w)->kept ? NO_EVENT : run_add(w->m, builder(w), kind, begin, end);
    if (event != NO_EVENT)
        builder(w)->events[event].solid = solid;
    return event;
}

/* ---- Ends ------------------------------------------------------------------------------------------------------ */

/* Closes the last element, whose content ends at `inner`, and itself at `end`; with `tag` by its own end tag. */
static void pop(walker *w, size_t inner, size_t end, bool tag) {
    const open_element e = w->stack[w->count - 1];
    const bool block = (e.element->flags & HTML_BLOCK) || e.space != IN_HTML;
    if (e.island || block || e.event == NO_EVENT)
        run_finish(w->m, builder(w));
    w->island -= e.island;
    w->count--;
    if (e.island) {
        const size_t event = add(w, EVENT_ATOM, e.begin, end, !(e.element->flags & HTML_BLIND));
        if (event != NO_EVENT)
            builder(w)->events[event].deep = parts_of(w->m) > e.parts;
    } else if (!block && tag && add(w, EVENT_CLOSE, inner, end, false) != NO_EVENT && e.event != NO_EVENT &&
               e.generation == builder(w)->generation) {
        run_pair(w->m, builder(w), e.event, e.element->id == HTML_ID_SUP);
    }
}

static void pop_to(walker *w, size_t count, size_t at) {
    while (w->count > count)
        pop(w, at, at, false);
}

/* ---- What start tags end --------------------------------------------------------------------------------------- */

static bool is_plain_container(const open_element *e, const char *text) {
    return html_is(text, e->name, e->name + e->name_bytes, "div") ||
           html_is(text, e->name, e->name + e->name_bytes, "address") || e->element->id == HTML_ID_P;
}

/* Whether an open element keeps the start tag of `id` from ending those around it. */
static bool shields(const open_element *e, html_id id, const char *text) {
    switch (id) {
    case HTML_ID_LI:
    case HTML_ID_DD:
    case HTML_ID_DT:
        return (e->element->flags & HTML_SPECIAL) && !is_plain_container(e, text);
    case HTML_ID_CELL:
    case HTML_ID_ROW:
    case HTML_ID_SECTION:
        return e->element->id == HTML_ID_TABLE || e->element->id == HTML_ID_TEMPLATE;
    case HTML_ID_RT:
        return e->element->id == HTML_ID_RUBY || (e->element->flags & HTML_SPECIAL);
    case HTML_ID_P:
        return (e->element->flags & HTML_SCOPE) || e->element->id == HTML_ID_BUTTON;
    case HTML_ID_A:
    case HTML_ID_NOBR:
        return e->element->flags & HTML_SPECIAL;
    default:
        return e->element->flags & HTML_SCOPE;
    }
}

/* Whether a start tag of `id` ends an open element. */
static bool ends(html_id id, html_id open) {
    switch (id) {
    case HTML_ID_DD:
    case HTML_ID_DT:
        return open == HTML_ID_DD || open == HTML_ID_DT;
    case HTML_ID_OPTGROUP:
        return open == HTML_ID_OPTGROUP || open == HTML_ID_OPTION;
    case HTML_ID_ROW:
        return open == HTML_ID_ROW || open == HTML_ID_CELL;
    case HTML_ID_SECTION:
        return open == HTML_ID_SECTION || open == HTML_ID_ROW || open == HTML_ID_CELL;
    case HTML_ID_BODY:
        return open == HTML_ID_HEAD;
    default:
        return open == id;
    }
}

static void end_implied(walker *w, html_id id, size_t at) {
    size_t found = w->count;
    for (size_t i = w->count, far = 0; i-- > 0 && far < DEEPEST; far++) {
        const open_element *e = &w->stack[i];
        if (ends(id, e->element->id))
            found = i;
        else if (e->point || shields(e, id, w->m->text))
            break;
    }
    pop_to(w, found, at);
}

static void end_what_is_implied(walker *w, const html_element *element, size_t at) {
    if (element->flags & HTML_ENDS_P)
        end_implied(w, HTML_ID_P, at);
    switch (element->id) {
    case HTML_ID_A:
    case HTML_ID_BODY:
    case HTML_ID_BUTTON:
    case HTML_ID_CELL:
    case HTML_ID_DD:
    case HTML_ID_DT:
    case HTML_ID_LI:
    case HTML_ID_NOBR:
    case HTML_ID_OPTGROUP:
    case HTML_ID_OPTION:
    case HTML_ID_ROW:
    case HTML_ID_RT:
    case HTML_ID_SECTION:
        end_implied(w, element->id, at);
        break;
    case HTML_ID_HEADING:
        pop_to(w, w->count - (top(w)->element->id == HTML_ID_HEADING), at);
        break;
    default:
        break;
    }
}

/* ---- Start tags ------------------------------------------------------------------------------------------------ */

static open_element *push(walker *w, const html_element *element, const html_token *t, space in) {
    const open_element *parent = top(w);
    const open_element e = {.element = element,
                            .name = t->name,
                            .name_bytes = t->name_bytes,
                            .begin = t->begin,
                            .space = in,
                            .kept = markup_keeps(w->m, element, t, parent->kept),
                            .lines = parent->lines || (element->flags & HTML_PRE),
                            .event = NO_EVENT,
                            .parts = parts_of(w->m)};
    if (!cli_grow(&w->stack, &w->room, w->count + 1, sizeof(*w->stack))) {
        w->m->out_of_memory = true;
        return NULL;
    }
    w->stack[w->count++] = e;
    return &w->stack[w->count - 1];
}

/* Links and buttons that touch one another are separate words, though no blank stands between them. */
static void part_neighbors(walker *w, const html_element *element, const html_token *t) {
    const run_builder *b = builder(w);
    const run_event *last = b->count > 0 && !top(w)->kept ? &b->events[b->count - 1] : NULL;
    const char *text = w->m->text;
    if ((element->id != HTML_ID_A && element->id != HTML_ID_BUTTON) || !last || last->kind != EVENT_CLOSE)
        return;
    const size_t name = last->begin + strlen("</");
    if (last->end == t->begin && html_is(text, name, name + t->name_bytes, element->name) &&
        last->end == name + t->name_bytes + 1)
        add(w, EVENT_ATOM, t->begin, t->begin, true);
}

/* An element in the middle of a sentence. */
static void push_phrasing(walker *w, const html_element *element, const html_token *t, space in) {
    const bool outer = top(w)->kept;
    part_neighbors(w, element, t);
    if (!top(w)->kept)
        run_part_sentences(w->m, builder(w), t->begin, t->end);
    const size_t event = add(w, EVENT_OPEN, t->begin, t->end, false); /* before it is open */
    open_element *e = push(w, element, t, in);
    if (!e)
        return;
    const bool translated = (element->flags & HTML_KEPT) && !e->kept; /* it says so */
    if ((e->kept && !outer) || ((element->flags & HTML_ISLAND) && !translated)) {
        if (event != NO_EVENT)
            builder(w)->count--;
        e->island = w->island < ISLANDS;
        if (!e->island)
            run_finish(w->m, builder(w));
        w->island += e->island;
        run_finish(w->m, builder(w)); /* it is empty, except what an island before it has left */
    } else {
        e->event = event;
        e->generation = builder(w)->generation;
    }
}

static void set_state(walker *w, const html_element *element, const html_token *t) {
    html_lexer *l = &w->lexer;
    l->raw = *t;
    if (element->id == HTML_ID_TITLE || element->id == HTML_ID_TEXTAREA)
        l->state = HTML_RCDATA;
    else if (element->id == HTML_ID_SCRIPT)
        l->state = HTML_SCRIPT;
    else if (element->id == HTML_ID_PLAINTEXT)
        l->state = HTML_PLAINTEXT;
    else if (element->flags & HTML_RAW)
        l->state = HTML_RAWTEXT;
}

/* Whether HTML goes on inside of an element of svg or math. */
static bool is_point(const markup *m, const html_token *t, space in) {
    static const char *const SVG[] = {"foreignobject", "desc", "title"}, *const MATH[] = {"mi", "mo", "mn", "ms",
                                                                                          "mtext"};
    const char *const *names = in == IN_SVG ? SVG : MATH;
    size_t value[2];
    for (size_t i = 0; i < (in == IN_SVG ? CLI_COUNT(SVG) : CLI_COUNT(MATH)); i++)
        if (html_is(m->text, t->name, t->name + t->name_bytes, names[i]))
            return true;
    return in == IN_MATH && html_is(m->text, t->name, t->name + t->name_bytes, "annotation-xml") &&
           html_attribute(value, NULL, m->text, t, "encoding") &&
           (html_is(m->text, value[0], value[1], "text/html") ||
            html_is(m->text, value[0], value[1], "application/xhtml+xml"));
}

/* A start tag in svg or math; false: it ends them. */
static bool start_foreign(walker *w, const html_element *element, const html_token *t) {
    const markup *m = w->m;
    const bool font = element->id == HTML_ID_FONT && (html_attribute(NULL, NULL, m->text, t, "color") ||
                                                      html_attribute(NULL, NULL, m->text, t, "face") ||
                                                      html_attribute(NULL, NULL, m->text, t, "size"));
    if (font || (element->flags & HTML_BREAKOUT)) {
        while (in_foreign(w))
            pop(w, t->begin, t->begin, false);
        return false;
    }
    static const html_element foreign = {"", HTML_BLOCK, HTML_OTHER};
    if (t->self_closing)
        return true;
    const space in = top(w)->space;
    run_finish(w->m, builder(w));
    open_element *e = push(w, &foreign, t, in);
    if (e)
        e->point = is_point(m, t, in);
    return true;
}

static void start(walker *w, const html_token *t) {
    markup *m = w->m;
    const html_element *element = html_element_of(m->text + t->name, t->name_bytes);
    if (in_foreign(w) && start_foreign(w, element, t))
        return;
    const bool block = element->flags & HTML_BLOCK;
    const space in = element->id == HTML_ID_SVG ? IN_SVG : element->id == HTML_ID_MATH ? IN_MATH : IN_HTML;
    end_what_is_implied(w, element, t->begin);
    if (block)
        run_finish(m, builder(w));
    else if (!top(w)->kept)
        run_part_controls(m, builder(w), t);
    const size_t edits = m->edit_count;
    if (element->id == HTML_ID_META)
        markup_edit_encoding(m, t);
    if ((element->flags & HTML_VOID) || (in != IN_HTML && t->self_closing)) {
        const size_t event = block ? NO_EVENT : add(w, EVENT_ATOM, t->begin, t->end, !(element->flags & HTML_BLIND));
        if (event != NO_EVENT)
            builder(w)->events[event].deep = m->edit_count > edits;
        return;
    }
    if (block)
        push(w, element, t, in);
    else
        push_phrasing(w, element, t, in);
    set_state(w, element, t);
}

/* ---- End tags -------------------------------------------------------------------------------------------------- */

/* Whether an open element keeps an end tag from reaching those around it. */
static bool bounds(const open_element *e, const html_element *ended) {
    if (e->point)
        return true;
    switch (ended->id) {
    case HTML_ID_CELL:
    case HTML_ID_ROW:
    case HTML_ID_SECTION:
    case HTML_ID_TABLE:
        return e->element->id == HTML_ID_TABLE || e->element->id == HTML_ID_TEMPLATE;
    case HTML_ID_LI:
        return (e->element->flags & HTML_SCOPE) || strcmp(e->element->name, "ul") == 0 ||
               strcmp(e->element->name, "ol") == 0;
    default:
        break;
    }
    return e->element->flags & (ended->flags & (HTML_BLOCK | HTML_FORMAT) ? HTML_SCOPE : HTML_SPECIAL);
}

/* An end tag such as </b> between blocks: the blocks stay open. */
static void take_out(walker *w, size_t at, const html_token *t) {
    add(w, EVENT_CLOSE, t->begin, t->end, false);
    memmove(&w->stack[at], &w->stack[at + 1], (w->count - at - 1) * sizeof(*w->stack));
    w->count--;
}

static void end_tag(walker *w, const html_token *t) {
    const char *name = w->m->text + t->name;
    const html_element *ended = html_element_of(name, t->name_bytes);
    bool over = false; /* special elements */
    for (size_t i = w->count, far = 0; i-- > 0 && far < DEEPEST; far++) {
        const open_element *e = &w->stack[i];
        const bool heading = ended->id == HTML_ID_HEADING && e->element->id == HTML_ID_HEADING;
        if (heading ||
            (e->name_bytes == t->name_bytes && strncasecmp(w->m->text + e->name, name, t->name_bytes) == 0)) {
            if (over && (ended->flags & HTML_FORMAT) && !e->island && !e->kept) {
                take_out(w, i, t);
                return;
            }
            pop_to(w, i + 1, t->begin);
            pop(w, t->begin, t->end, true);
            return;
        }
        if (bounds(e, ended))
            break;
        over = over || (e->element->flags & HTML_SPECIAL);
    }
    if (ended->flags & HTML_BLOCK)
        run_finish(w->m, builder(w));
    else
        add(w, EVENT_CLOSE, t->begin, t->end, false);
}

/* ---- All ------------------------------------------------------------------------------------------------------- */

static void text(walker *w, const html_token *t) {
    const bool cdata = t->kind == HTML_CDATA;
    if (top(w)->kept)
        return;
    run_part_sentences(w->m, builder(w), t->begin, t->begin);
    const size_t begin = t->begin + (cdata ? strlen("<![CDATA[") : 0);
    const bool whole = cdata && t->end - begin >= 3 && memcmp(w->m->text + t->end - 3, "]]>", 3) == 0;
    run_add_text(w->m, builder(w), begin, t->end - (whole ? 3 : 0), !cdata, top(w)->lines);
}

void markup_walk(markup *m) {
    walker w = {.m = m, .lexer = {.text = m->text, .bytes = m->bytes}};
    html_token t;
    for (html_next(&t, &w.lexer); t.kind != HTML_EOF && !m->out_of_memory; html_next(&t, &w.lexer)) {
        if (t.kind == HTML_START)
            start(&w, &t);
        else if (t.kind == HTML_END)
            end_tag(&w, &t);
        else if (t.kind == HTML_COMMENT || t.kind == HTML_TEMPLATE)
            add(&w, EVENT_ATOM, t.begin, t.end, t.kind == HTML_TEMPLATE);
        else
            text(&w, &t);
        w.lexer.foreign = in_foreign(&w);
    }
    pop_to(&w, 0, m->bytes);
    run_finish(m, builder(&w));
    for (size_t i = 0; i <= ISLANDS; i++)
        free(w.builders[i].events);
    free(w.stack);
}
