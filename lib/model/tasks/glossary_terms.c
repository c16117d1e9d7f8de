/* Terms of a glossary in texts. */
#include <string.h>
#include "model/tasks/glossary.h"
#include "text/unicode.h"

static size_t char_bytes(const char *text) {
    const unsigned char c = (unsigned char)*text;
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

static bool is_continuation(char c) {
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Whether the character is of a script without blanks between words: U+0E00 to U+0EFF (Thai, Lao) and from U+2E80 on
 * (Chinese, Japanese), except Hangul, U+AC00 to U+D7FF. */
bool tfm__is_unspaced(const char *text) {
    const unsigned char a = (unsigned char)text[0], b = (unsigned char)text[1];
    return (a == 0xE0 && b >= 0xB8 && b <= 0xBB) || (a == 0xE2 && b >= 0xBA) || (a >= 0xE3 && a <= 0xE9) || a == 0xEF ||
           a >= 0xF0 || (a == 0xEA && b < 0xB0);
}

/* Whether a word may begin or end between two characters; NULL: the text ends there. */
static bool is_boundary(const char *left, const char *right) {
    return !left || !right || !tfm__unicode_has_alnum(left, char_bytes(left)) ||
           !tfm__unicode_has_alnum(right, char_bytes(right)) || tfm__is_unspaced(left) || tfm__is_unspaced(right);
}

/* Whether the text at `at` is the term, or the term with a capital first letter. */
static bool is_term(const char *at, size_t left, const char *term) {
    const size_t rest = strlen(term) - char_bytes(term), first = left > 0 ? char_bytes(at) : 0;
    return left > 0 && left >= first + rest && tfm__unicode_is_letter(at, term) &&
           memcmp(at + first, term + char_bytes(term), rest) == 0;
}

/* Whether a word may begin at `at`. */
static bool is_beginning(const char *text, size_t at) {
    size_t before = at;
    while (before > 0 && is_continuation(text[--before]))
        ;
    return is_boundary(at > 0 ? text + before : NULL, text + at);
}

/* The bytes of the term at `at`, where a word may begin; 0: it is not there, as a word or, without `whole`, as its
 * beginning. */
static size_t match(const char *text, size_t bytes, size_t at, const char *term, bool whole) {
    if (!is_term(text + at, bytes - at, term))
        return 0;
    const size_t length = strlen(term) - char_bytes(term) + char_bytes(text + at), end = at + length;
    size_t last = end;
    while (last > at && is_continuation(text[--last]))
        ;
    return !whole || is_boundary(text + last, end < bytes ? text + end : NULL) ? length : 0;
}

void tfm__glossary_find(bool *need, const tfm_glossary_term *terms, size_t count, const char *text, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        size_t best = 0, longest = 0;
        const bool begins = is_beginning(text, at);
        for (size_t i = 0; i < count && begins; i++) {
            const size_t length = match(text, bytes, at, terms[i].source, true);
            best = length > longest ? i : best;
            longest = length > longest ? length : longest;
        }
        if (longest > 0)
            need[best] = true;
        at += longest > 0 ? longest : char_bytes(text + at);
    }
}

bool tfm__glossary_has(const char *text, const char *term, bool whole) {
    const size_t bytes = strlen(text);
    for (size_t at = 0; at < bytes; at += char_bytes(text + at))
        if (match(text, bytes, at, term, whole) && is_beginning(text, at))
            return true;
    return false;
}
