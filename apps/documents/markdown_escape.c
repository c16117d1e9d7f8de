/* What a translation in Markdown escapes. */
#include <string.h>
#include "documents/markup_internal.h"

static bool has(const uint64_t set[2], char c) {
    return c > 0 && (set[c / 64] >> (c % 64) & 1);
}

bool markdown_is_escaped(const markup_run *run, const char *text, size_t at) {
    const char c = text[at];
    const bool word_before = at > 0 && marks_is_letter(text + at - 1, 1);
    const bool escaped = has(run->escaped, c), literal = has(run->literal, c);
    char reference[HTML_CHARACTER];
    const bool stop = strchr(".,:;!?)", c) && (text[at + 1] == ' ' || !text[at + 1]); /* of a sentence */
    if ((escaped && !literal && !stop) || (run->places & MARKUP_IN_CELL && c == '|') ||
        (c == '&' && html_character(reference, text + at, strlen(text + at), true) > 1))
        return true;
    if ((escaped || !literal) &&
        (strchr("\\`*[]<~", c) || (c == '_' && !(word_before && marks_is_letter(text + at + 1, 1)))))
        return true;
    if (run->places & MARKUP_IN_LINE)
        return false;
    const size_t digits = strspn(text, "0123456789");
    return (at == 0 && (strchr("#>+-=~", c) && (c != '-' || text[1] == ' ' || text[1] == '-'))) ||
           (at == digits && digits > 0 && digits < 10 && (c == '.' || c == ')') && text[at + 1] == ' ');
}
