#include <string.h>
#include <strings.h>
#include "documents/html_lexer.h"

bool html_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

bool html_is(const char *text, size_t begin, size_t end, const char *name) {
    return strlen(name) == end - begin && strncasecmp(text + begin, name, end - begin) == 0;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Whether the text at `at` begins with these, in any case of letters. */
static bool has(const html_lexer *l, size_t at, const char *what) {
    const size_t bytes = strlen(what);
    return l->bytes - at >= bytes && strncasecmp(l->text + at, what, bytes) == 0;
}

/* The byte after the next `what`; the end of the text where there is none. */
static size_t after(const html_lexer *l, size_t from, const char *what) {
    const size_t bytes = strlen(what);
    const char *found = from < l->bytes ? memmem(l->text + from, l->bytes - from, what, bytes) : NULL;
    return found ? (size_t)(found - l->text) + bytes : l->bytes;
}

/* ---- Templates ------------------------------------------------------------------------------------------------- */

/* The end of what a template language has at `at`, in which '<' and '>' are no markup: <?php ?>, <% %>, {% %}, {# #},
 * and with `tag` {{ }}, which is text elsewhere; 0: there is nothing of it. What reaches over an end tag or begins once
 * more has no end, except PHP and comments. */
static size_t template_end(const char *text, size_t at, size_t bytes, bool tag) {
    static const struct {
        const char *open, *close;
        bool any;
    } PAIRS[] = {{"<?php", "?>", true}, {"<?=", "?>", true}, {"{# ", "#}", true},
                 {"<%", "%>", false},   {"{%", "%}", false}, {"{{", "}}", false}};
    enum { LONGEST = 4096 }; /* looked at, so that many that have no end cost no more */
    const size_t end = bytes - at > LONGEST ? at + LONGEST : bytes;
    for (size_t i = 0; i < sizeof(PAIRS) / sizeof(*PAIRS) - !tag; i++) {
        const size_t open = strlen(PAIRS[i].open), from = at + open;
        if (end - at < open || strncasecmp(text + at, PAIRS[i].open, open) != 0)
            continue;
        const char *found = memmem(text + from, end - from, PAIRS[i].close, 2);
        const size_t inner = found ? (size_t)(found - text) - from : 0;
        const bool whole = found && (PAIRS[i].any || (!memmem(text + from, inner, PAIRS[i].open, open) &&
                                                      !memmem(text + from, inner, "</", 2)));
        return whole ? from + inner + 2 : 0;
    }
    return 0;
}

/* ---- Tags ------------------------------------------------------------------------------------------------------ */

typedef struct attribute {
    size_t begin, name_end, value, value_end, end; /* value == value_end: it has none, or an empty one */
} attribute;

/* The attribute at or after `at`; false: the tag ends at *end, or 0 where the text ends in it. */
static bool next_attribute(attribute *a, size_t *end, bool *self_closing, const char *text, size_t at, size_t bytes) {
    *self_closing = false;
    for (; at < bytes && (html_is_blank(text[at]) || text[at] == '/'); at++)
        *self_closing = text[at] == '/';
    *end = at < bytes && text[at] == '>' ? at + 1 : 0;
    if (at >= bytes || text[at] == '>')
        return false;
    a->begin = at;
    const size_t code = template_end(text, at, bytes, true);
    for (at = code ? code : at + 1; at < bytes && !html_is_blank(text[at]) && !strchr("/>=", text[at]); at++)
        ;
    a->name_end = a->value = a->value_end = a->end = at;
    for (; at < bytes && html_is_blank(text[at]); at++)
        ;
    if (at >= bytes || text[at] != '=')
        return true;
    for (at++; at < bytes && html_is_blank(text[at]); at++)
        ;
    const char quote = at < bytes ? text[at] : 0;
    const bool quoted = quote == '"' || quote == '\'';
    a->value = at += quoted;
    const size_t filled = quoted ? 0 : template_end(text, at, bytes, true);
    for (at = filled ? filled : at;
         at < bytes && (quoted ? text[at] != quote : !html_is_blank(text[at]) && text[at] != '>'); at++)
        ;
    a->value_end = at;
    a->end = at + (quoted && at < bytes);
    return true;
}

static void read_tag(html_token *t, html_lexer *l) {
    attribute a;
    size_t at = t->name, end;
    while (at < l->bytes && !html_is_blank(l->text[at]) && l->text[at] != '/' && l->text[at] != '>')
        at++;
    t->name_bytes = at - t->name;
    while (next_attribute(&a, &end, &t->self_closing, l->text, at, l->bytes))
        at = a.end;
    t->end = end;
    if (end == 0) {
        t->kind = HTML_COMMENT; /* the text ends within the tag, of which browsers then show nothing */
        t->end = l->bytes;
    }
}

bool html_attribute(size_t value[2], size_t whole[2], const char *text, const html_token *t, const char *name) {
    attribute a;
    bool closing;
    for (size_t at = t->name + t->name_bytes, end; next_attribute(&a, &end, &closing, text, at, t->end); at = a.end) {
        if (!html_is(text, a.begin, a.name_end, name))
            continue;
        if (value)
            value[0] = a.value, value[1] = a.value_end;
        if (whole)
            whole[0] = at, whole[1] = a.end;
        return true;
    }
    return false;
}

/* ---- Comments -------------------------------------------------------------------------------------------------- */

/* The end of a comment whose first byte after "<!--" is at `at`. */
static size_t comment_end(const html_lexer *l, size_t at) {
    if (has(l, at, ">"))
        return at + 1;
    if (has(l, at, "->"))
        return at + 2;
    for (; (at = after(l, at, "--")) < l->bytes; at--) /* "--->" */
        if (l->text[at] == '>')
            return at + 1;
        else if (has(l, at, "!>"))
            return at + 2;
    return l->bytes;
}

static void read_declaration(html_token *t, html_lexer *l) {
    t->kind = HTML_COMMENT;
    if (has(l, t->begin, "<!--")) {
        t->end = comment_end(l, t->begin + 4);
    } else if (l->foreign && l->bytes - t->begin >= 9 && memcmp(l->text + t->begin, "<![CDATA[", 9) == 0) {
        t->kind = HTML_CDATA;
        t->end = after(l, t->begin + 9, "]]>");
    } else {
        t->end = after(l, t->begin, ">");
    }
}

/* ---- Text ------------------------------------------------------------------------------------------------------ */

/* Whether the end tag, or with `slash` 0 the start tag, of a name begins at `at`. */
static bool is_tag(const html_lexer *l, size_t at, const char *slash, const char *name, size_t bytes) {
    if (!has(l, at, "<") || !has(l, at + 1, slash))
        return false;
    at += 1 + strlen(slash);
    return l->bytes - at > bytes && strncasecmp(l->text + at, name, bytes) == 0 &&
           (html_is_blank(l->text[at + bytes]) || strchr("/>", l->text[at + bytes]));
}

/* Where the end tag is that ends RCDATA, RAWTEXT or, unless it stands in what a comment hides, script data. */
static size_t raw_end(const html_lexer *l) {
    const char *name = l->text + l->raw.name;
    enum { PLAIN, ESCAPED, DOUBLY } hidden = PLAIN;
    for (size_t at = l->at; at < l->bytes; at++) {
        if (l->state == HTML_SCRIPT && hidden != PLAIN && has(l, at, "-->"))
            hidden = PLAIN;
        if (l->text[at] != '<')
            continue;
        const bool ends = is_tag(l, at, "/", name, l->raw.name_bytes);
        if (ends && hidden != DOUBLY)
            return at;
        if (l->state == HTML_SCRIPT && hidden == PLAIN && has(l, at, "<!--")) {
            hidden = has(l, at + 4, ">") || has(l, at + 4, "->") ? PLAIN : ESCAPED;
            at += 3;
        } else if (ends) {
            hidden = ESCAPED;
        } else if (hidden == ESCAPED && is_tag(l, at, "", "script", 6)) {
            hidden = DOUBLY;
        }
    }
    return l->bytes;
}

static bool begins_token(const html_lexer *l, size_t at) {
    const char next = l->text[at] == '<' && at + 1 < l->bytes ? l->text[at + 1] : 0;
    if (template_end(l->text, at, l->bytes, false) > 0)
        return true;
    if (l->text[at] == '{')
        return false;
    return is_letter(next) || next == '!' || next == '?' || (next == '/' && at + 2 < l->bytes);
}

static size_t text_end(const html_lexer *l) {
    if (l->state == HTML_PLAINTEXT)
        return l->bytes;
    if (l->state != HTML_DATA)
        return raw_end(l);
    for (size_t at = l->at; at < l->bytes; at++) {
        at += strcspn(l->text + at, "<{");
        if (at >= l->bytes || begins_token(l, at))
            return at < l->bytes ? at : l->bytes;
    }
    return l->bytes;
}

void html_next(html_token *t, html_lexer *l) {
    *t = (html_token){.kind = HTML_EOF, .begin = l->at, .end = l->at};
    if (l->at >= l->bytes)
        return;
    const size_t end = text_end(l);
    if (end > l->at) {
        t->kind = HTML_TEXT;
        t->end = end;
    } else if ((t->end = template_end(l->text, l->at, l->bytes, false)) > 0) {
        t->kind = HTML_TEMPLATE;
    } else if (is_letter(l->text[l->at + 1])) {
        t->kind = HTML_START;
        t->name = l->at + 1;
        read_tag(t, l);
    } else if (l->text[l->at + 1] == '/' && is_letter(l->text[l->at + 2])) {
        t->kind = HTML_END;
        t->name = l->at + 2;
        read_tag(t, l);
    } else {
        read_declaration(t, l); /* also "</ x>", which is a comment */
    }
    if (t->kind != HTML_TEXT)
        l->state = HTML_DATA;
    l->at = t->end;
}
