/* Character references, by Gumbo, which parses documents: one of a letter and the reference. */
#include <gumbo.h>
#include <stdio.h>
#include <string.h>
#include "documents/html_lexer.h"

/* The longest of HTML is "&CounterClockwiseContourIntegral;"; a number may have any number of zeros. */
enum { LONGEST = 64, KEPT = 256 };

typedef struct reference {
    char name[LONGEST + 2], out[HTML_CHARACTER];
    size_t used;
} reference;

/* What Gumbo makes of "x" and a candidate. */
static void ask_gumbo(char *out, size_t room, const char *candidate) {
    char document[LONGEST + 4] = "x";
    strcat(document, candidate);
    GumboOutput *parsed = gumbo_parse(document);
    const GumboNode *node = parsed ? parsed->root : NULL;
    while (node && node->type == GUMBO_NODE_ELEMENT) {
        const GumboVector *children = &node->v.element.children;
        node = children->length > 0 ? children->data[children->length - 1] : NULL;
    }
    const char *text =
        node && (node->type == GUMBO_NODE_TEXT || node->type == GUMBO_NODE_WHITESPACE) ? node->v.text.text : document;
    out[0] = 0;
    strncat(out, text + 1, room - 1);
    if (parsed)
        gumbo_destroy_output(&kGumboDefaultOptions, parsed);
}

/* "&ampx" becomes "&x": what both have at their ends is no part of the reference. */
static void decode(reference *r) {
    char text[2 * LONGEST];
    ask_gumbo(text, sizeof(text), r->name);
    const size_t in = strlen(r->name), got = strlen(text);
    size_t same = 0;
    while (same + 1 < got && same < in && r->name[in - 1 - same] == text[got - 1 - same])
        same++;
    r->used = strcmp(r->name, text) == 0 || got - same >= sizeof(r->out) ? 0 : in - same;
    snprintf(r->out, sizeof(r->out), "%.*s", r->used > 0 ? (int)(got - same) : 0, text);
}

/* The bytes that may be a reference, from '&' to ';'. */
static size_t candidate(const char *text, size_t bytes) {
    size_t end = 1;
    end += end < bytes && text[end] == '#';
    while (end < bytes && end < LONGEST &&
           ((text[end] >= '0' && text[end] <= '9') || (text[end] >= 'A' && text[end] <= 'Z') ||
            (text[end] >= 'a' && text[end] <= 'z')))
        end++;
    return end > 1 ? end + (end < bytes && text[end] == ';') : 0;
}

static size_t read_reference(char out[HTML_CHARACTER], const char *text, size_t bytes) {
    static _Thread_local reference kept[KEPT];
    const size_t length = candidate(text, bytes);
    unsigned hash = 0;
    if (length == 0)
        return 0;
    for (size_t i = 0; i < length; i++)
        hash = hash * 31 + (unsigned char)text[i];
    reference *r = &kept[hash % KEPT];
    if (strncmp(r->name, text, length) != 0 || r->name[length]) {
        memcpy(r->name, text, length);
        r->name[length] = 0;
        decode(r);
    }
    strcpy(out, r->out);
    return r->used;
}

size_t html_character(char out[HTML_CHARACTER], const char *text, size_t bytes, bool references) {
    const size_t reference_bytes = references && *text == '&' ? read_reference(out, text, bytes) : 0;
    if (reference_bytes > 0)
        return reference_bytes;
    size_t count = 1;
    while (count < bytes && count < 4 && ((unsigned char)text[count] & 0xc0) == 0x80)
        count++;
    memcpy(out, text, count);
    out[count] = 0;
    return count;
}

bool html_character_is_blank(const char *c) {
    return (html_is_blank(c[0]) && !c[1]) || strcmp(c, "\xC2\xA0") == 0;
}

/* The soft hyphen, the zero width space, the word joiner and the byte order mark say where a line may end, and nothing
 * of the word. U+200C and U+200D are part of it. */
bool html_character_is_unseen(const char *c) {
    return strcmp(c, "\xC2\xAD") == 0 || strcmp(c, "\xE2\x80\x8B") == 0 || strcmp(c, "\xE2\x81\xA0") == 0 ||
           strcmp(c, "\xEF\xBB\xBF") == 0;
}
