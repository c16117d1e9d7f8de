/* What attributes say of a translation. */
#include <string.h>
#include "cli/cli.h"
#include "documents/markup_internal.h"

/* Whether a value has this word among others. */
static bool has_word(const char *text, const size_t value[2], const char *word) {
    for (size_t at = value[0], end; at < value[1]; at = end + 1) {
        for (end = at; end < value[1] && !html_is_blank(text[end]); end++)
            ;
        if (html_is(text, at, end, word))
            return true;
    }
    return false;
}

int markup_says_translate(const markup *m, const html_token *t) {
    size_t value[2];
    if (html_attribute(value, NULL, m->text, t, "class") && has_word(m->text, value, "notranslate"))
        return 0;
    if (!html_attribute(value, NULL, m->text, t, "translate"))
        return -1;
    return html_is(m->text, value[0], value[1], "no")                            ? 0
           : value[0] == value[1] || html_is(m->text, value[0], value[1], "yes") ? 1
                                                                                 : -1;
}

bool markup_keeps(const markup *m, const html_element *element, const html_token *t, bool outer) {
    const int says = element->flags & HTML_RAW ? -1 : markup_says_translate(m, t); /* raw text cannot be escaped */
    return says >= 0 ? says == 0 : outer || (element->flags & HTML_KEPT);
}

void markup_edit_encoding(markup *m, const html_token *t) {
    static const char key[] = "charset=";
    size_t value[2], kind[2];
    const bool charset = html_attribute(value, NULL, m->text, t, "charset");
    if (!charset) {
        if (!html_attribute(kind, NULL, m->text, t, "http-equiv") ||
            !html_is(m->text, kind[0], kind[1], "content-type") || !html_attribute(value, NULL, m->text, t, "content"))
            return;
        size_t at = value[0];
        while (at < value[1] && !html_is(m->text, at, at + strlen(key) < value[1] ? at + strlen(key) : value[1], key))
            at++;
        value[0] = at < value[1] ? at + strlen(key) : at;
        for (at = value[0]; at < value[1] && !html_is_blank(m->text[at]) && m->text[at] != ';'; at++)
            ;
        value[1] = at;
    }
    if (value[0] == value[1] || html_is(m->text, value[0], value[1], "utf-8"))
        return;
    if (!cli_grow(&m->edits, &m->edit_room, m->edit_count + 1, sizeof(*m->edits)))
        m->out_of_memory = true;
    else
        m->edits[m->edit_count++] = (markup_edit){value[0], value[1], "utf-8"};
}
