#include <stdio.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>
#include "text/placeholders.h"
#include "text/regex.h"
#include "text/utf8.h"

/* Extended_Pictographic and Emoji_Modifier, approximately, with arrows and geometric shapes: PCRE2 before 10.40 lacks
 * these properties. */
#define EMOJI                                                                                                          \
    "[\\x{A9}\\x{AE}\\x{203C}\\x{2049}\\x{2122}\\x{2139}\\x{2190}-\\x{21FF}\\x{231A}-\\x{23FF}\\x{25A0}-\\x{25FF}"     \
    "\\x{2600}-\\x{27BF}\\x{2934}\\x{2935}\\x{2B05}-\\x{2B55}\\x{3030}\\x{303D}\\x{3297}\\x{3299}\\x{1F000}-\\x{"      \
    "1FAFF}]"
#define TONE "[\\x{1F3FB}-\\x{1F3FF}]"

/* An address includes balanced closing brackets, but no final stop. */
#define ADDRESS                                                                                                        \
    "(?:[^\\s<>\"“”„«»‹›()]|\\([^\\s<>\"()]*\\))*(?:[^\\s<>\"“”„«»‹›.,;:!?'’()\\[\\]{}…。，]|\\([^\\s<>\"()]*\\))"

/* By kind. A printf conversion does not follow a digit, as in "100%ig", and has no blank as a flag, as in "5 % der". */
static const char KNOWN[] =
    "(?x)"
    "(?:https?|ftps?|sftp|file|wss?|git|ssh)://" ADDRESS "|\\b(?:mailto|tel):[\\w.+@-]*\\w"
    "|\\bwww\\.[\\w-]+\\." ADDRESS "|[\\w.+-]+@[\\w-]+(?:\\.[\\w-]+)+"
    "|(?<![\\w@.+-])@[A-Za-z_]\\w*(?:[.-]\\w+)*(?:\\([^()\\n]*\\))?(?!@)|(?<![\\w&\\#/])\\#\\w+"
    "|\\#\\#\\w+\\#\\#|@:[\\w.]*\\w|\\[\\^?\\d+\\]|^\\s*(?:[*>]|\\#{1,6})(?=\\s+\\S)|<!--[^\\n]*?-->"
    "|(?<![\\w./~:<])(?:~|\\.\\.?)/[\\w./+~-]*\\w/?|(?<![\\w./~:<])/[\\w.+@~-]+/[\\w./+@~-]*[\\w/]"
    "|\\b[A-Za-z]:\\\\(?:[^\\s\"<>|*?]*[\\w\\\\])?"
    "|(`+)(?!`)[^\\n]+?(?<!`)\\g{-1}(?!`)"
    "|!?\\[(?=[^\\[\\]\\n]+\\]\\([^()\\s])|\\]\\(" ADDRESS "(?:\\s+\"[^\"\\n]*\")?\\)"
    "|(?<!\\*)\\*\\*(?=[^\\s*])|(?<=[^\\s*])\\*\\*(?!\\*)"
    "|%%\\w+%%|\\*\\|[^|\\n]+\\|\\*|\\[[A-Z]+(?:[_-][A-Z0-9]+)+\\]"
    "|(?<!%)%%"
    "|(?<!\\w)%[A-Za-z_]\\w+%(?![\\w%])"
    "|(?<!\\d)%(?:\\d+\\$)?[-+\\#0']*(?:\\d+|\\*)?(?:\\.(?:\\d+|\\*))?(?:hh|ll|I64|[hlLqjzt])?[diouxXeEfFgGaAcCsSpn@]"
    "|%(?:\\d+\\$)?[-+\\#0']*\\d*\\([\\w.]+\\)[-+\\#0]*\\d*(?:\\.\\d+)?[a-zA-Z]"
    "|%\\{[^{}\\n]*\\}|%<\\w+>[-+\\#0]*\\d*(?:\\.\\d+)?[a-zA-Z]"
    "|(?<!\\d)%L?\\d{1,2}(?!\\d)|(?<!\\d)%[a-zA-Z](?![a-zA-Z])"
    "|\\{%[^\\n]*?%\\}|<%[^\\n]*?%>|<\\?[^\\n]*?\\?>"
    "|\\{!![^\\n]*?!!\\}"
    "|\\{\\{\\{?[^{}\\n]*\\}\\}\\}?"
    "|[$\\#@]\\{[^{}\\n]*\\}|\\$\\w*\\([\\w.:-]+\\)"
    "|\\{[^{}\\s]*\\}|\\{\\s*[\\w.\\[\\]$-]+\\s*\\}"
    "|(?<icu>\\{\\s*\\w+\\s*,(?:[^{}]++|(?<nested>\\{(?:[^{}]++|(?&nested))*+\\}))*+\\})"
    "|\\[\\[[^\\[\\]\\n]*\\]\\]"
    "|\\\\\\([^\\n]*?\\\\\\)|\\\\\\[[^\\n]*?\\\\\\]|\\$\\$[^$\\n]+\\$\\$"
    "|\\$(?![\\s$])[^$\\n]*[\\\\^_=][^$\\n]*(?<!\\s)\\$(?!\\w)"
    "|\\\\[nrt0\"'\\\\]|\\\\u[0-9a-fA-F]{4}"
    "|\\$[A-Za-z_]\\w*"
    "|(?<!\\w)\\p{Lu}{1,5}&\\p{Lu}{1,5}(?!\\w)"
    "|\\b__\\w+?__\\b|@@\\w+@@"
    "|(?<![\\w:]):[A-Za-z_][\\w+-]*:(?!\\w)|(?<!\\S):[a-z_]{2,}\\w*"
    "|</?[A-Za-z][\\w:.-]*(?:\\s+[\\w:@.-]+\\s*=\\s*(?:\"[^\"]*\"|'[^']*'|[^\\s\"'<>]+))*\\s*/?>|</?\\d+\\s*/?>"
    "|&(?!amp;)(?:[A-Za-z]\\w{1,30}|\\#\\d{1,7}|\\#[xX][0-9a-fA-F]{1,6});"
    "|[\\x{1F1E6}-\\x{1F1FF}]{2}"
    "|" EMOJI "(?:[\\x{FE0E}\\x{FE0F}]|" TONE ")?(?:\\x{200D}" EMOJI "(?:\\x{FE0F}|" TONE ")?)*[\\x{E0020}-\\x{E007F}]*"
    "|[0-9\\#*]\\x{FE0F}?\\x{20E3}";

/* Bytes at or near the beginning of every match of KNOWN: a text without them has no match. */
static const char HINTS[] = "%{[$@_:&<wW#/\\`*>";

struct tfm_placeholders {
    tfm__regex **regexes; /* the built-in ones first */
    size_t count;
};

/* ---- Patterns -------------------------------------------------------------------------------------------------- */

static tfm_status check_pattern(const tfm__regex *regex, const char *pattern) {
    tfm__regex_memory memory = {0};
    tfm__regex_iter iter = {0};
    bool found = false;
    const tfm_status status = tfm__regex_next(regex, &memory, &found, &iter, "", 0);
    tfm__regex_memory_free(&memory);
    return status == TFM_OK && found
               ? tfm__fail(TFM_ERROR_ARGUMENT, "placeholders: the pattern \"%.200s\" matches the empty text", pattern)
               : status;
}

tfm_status tfm_placeholders_new(tfm_placeholders **out, const char *const *patterns, size_t count) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("placeholders_new", out, count == 0 || patterns ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_placeholders *p = *out = tfm__alloc(1, sizeof(*p));
    tfm_status status = p && (p->regexes = tfm__alloc(count + 1, sizeof(tfm__regex *))) ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; status == TFM_OK && i <= count; i++) {
        const char *pattern = i == 0 ? KNOWN : patterns[i - 1];
        status = pattern ? tfm__regex_new_pcre2(&p->regexes[i], pattern, strlen(pattern), "placeholders")
                         : tfm__fail(TFM_ERROR_ARGUMENT, "placeholders: pattern %zu is NULL", i);
        if (status == TFM_ERROR_FORMAT)
            status = TFM_ERROR_ARGUMENT;
        p->count += status == TFM_OK;
        if (status == TFM_OK && i > 0)
            status = check_pattern(p->regexes[i], pattern);
    }
    if (status != TFM_OK)
        tfm_placeholders_free(out);
    return status;
}

void tfm_placeholders_free(tfm_placeholders **placeholders) {
    tfm_placeholders *p = placeholders ? *placeholders : NULL;
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        tfm__regex_free(&p->regexes[i]);
    free(p->regexes);
    free(p);
    *placeholders = NULL;
}

/* ---- Characters ------------------------------------------------------------------------------------------------ */

bool tfm__alnum_before(const char *text, size_t at) {
    int32_t i = (int32_t)at;
    UChar32 c = -1;
    if (i > 0)
        U8_PREV((const uint8_t *)text, 0, i, c);
    return c >= 0 && (u_isalnum(c) || u_charType(c) == U_NON_SPACING_MARK);
}

bool tfm__alnum_after(const char *text, size_t at, size_t bytes) {
    UChar32 c = -1;
    if (at < bytes)
        U8_NEXT((const uint8_t *)text, at, bytes, c);
    return c >= 0 && u_isalnum(c);
}

bool tfm__has_alnum(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes;) {
        UChar32 c;
        U8_NEXT((const uint8_t *)text, i, bytes, c);
        if (c >= 0 && u_isalnum(c))
            return true;
    }
    return false;
}

/* ---- Finding --------------------------------------------------------------------------------------------------- */

typedef struct found {
    tfm__placeholder *items;
    size_t count, capacity;
} found;

static tfm_status add_matches(found *f, const tfm__regex *regex, tfm__regex_memory *memory, const char *text,
                              size_t bytes) {
    tfm__regex_iter iter = {0};
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (bool any = true; any;) {
        const tfm_status status = tfm__regex_next(regex, memory, &any, &iter, text, bytes);
        if (status == TFM_ERROR_INPUT) { /* too many steps */
            tfm__error_restore(saved_message);
            return TFM_OK;
        }
        if (status != TFM_OK)
            return status;
        if (any && iter.end > iter.begin) {
            if (tfm__grow(&f->items, &f->capacity, f->count + 1, sizeof(*f->items)) != TFM_OK)
                return TFM_ERROR_MEMORY;
            f->items[f->count++] = (tfm__placeholder){iter.begin, iter.end};
        }
    }
    return TFM_OK;
}

static int by_begin(const void *a, const void *b) {
    const tfm__placeholder *left = a, *right = b;
    return left->begin != right->begin ? (left->begin < right->begin ? -1 : 1) : left->end > right->end ? -1 : 1;
}

/* Whether a bracket or quote opens before `begin` and closes at `end`: their bytes, or 0. */
static size_t pair_around(size_t *closing, const char *text, size_t begin, size_t end, size_t bytes) {
    static const char *const PAIRS[][2] = {{"(", ")"}, {"[", "]"}, {"\"", "\""}, {"'", "'"}, {"`", "`"}, {"„", "“"},
                                           {"“", "”"}, {"‚", "‘"}, {"‘", "’"},   {"«", "»"}, {"»", "«"}, {"‹", "›"}};
    for (size_t i = 0; i < TFM__COUNT(PAIRS); i++) {
        const size_t open = strlen(PAIRS[i][0]), close = strlen(PAIRS[i][1]);
        if (begin >= open && end + close <= bytes && memcmp(text + begin - open, PAIRS[i][0], open) == 0 &&
            memcmp(text + end, PAIRS[i][1], close) == 0) {
            *closing = close;
            return open;
        }
    }
    return 0;
}

/* Whether there is no word and no sentence end between two placeholders. */
static bool are_adjacent(const char *text, size_t end, size_t begin) {
    for (size_t i = end; i + 1 < begin; i++)
        if (strchr(".!?", text[i]) && text[i + 1] == ' ')
            return false;
    return begin <= end || (begin - end <= 4 && !tfm__has_alnum(text + end, begin - end));
}

/* Joins placeholders that overlap or have no word between them, with surrounding quotes or brackets. */
static void join(found *f, const char *text, size_t bytes) {
    size_t kept = 0, closing;
    for (size_t i = 0; i < f->count; i++) {
        tfm__placeholder now = f->items[i];
        if (kept > 0 && now.begin < f->items[kept - 1].end)
            now.begin = f->items[kept - 1].end;
        if (now.end <= now.begin)
            continue;
        for (size_t open; (open = pair_around(&closing, text, now.begin, now.end, bytes)) > 0;)
            now.begin -= open, now.end += closing;
        tfm__placeholder *last = kept > 0 ? &f->items[kept - 1] : NULL;
        if (last && are_adjacent(text, last->end, now.begin))
            last->end = now.end;
        else
            f->items[kept++] = now;
    }
    f->count = kept;
}

/* Quick check for possible placeholders: most texts have none. */
static bool may_have(const tfm_placeholders *p, const char *text, size_t bytes) {
    if (p->count > 1)
        return true;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == 0xC2 || c == 0xE2 || c == 0xE3 || c == 0xF0 || (c < 0x80 && c && strchr(HINTS, c)))
            return true;
    }
    return false;
}

tfm_status tfm__placeholders_find(const tfm_placeholders *p, tfm__placeholder **out, size_t *count, const char *text,
                                  size_t bytes) {
    found f = {0};
    tfm__regex_memory memory = {0};
    tfm_status status = TFM_OK;
    const bool look = may_have(p, text, bytes) && tfm__utf8_valid(text, bytes) == bytes;
    for (size_t i = 0; look && i < p->count && status == TFM_OK; i++)
        status = add_matches(&f, p->regexes[i], &memory, text, bytes);
    tfm__regex_memory_free(&memory);
    if (f.count > 1)
        qsort(f.items, f.count, sizeof(*f.items), by_begin);
    join(&f, text, bytes);
    if (status != TFM_OK || f.count == 0) {
        free(f.items);
        f = (found){0};
    }
    *out = f.items;
    *count = f.count;
    return status;
}

size_t tfm_placeholders_count(const tfm_placeholders *placeholders, const char *text, size_t bytes) {
    tfm__placeholder *items = NULL;
    size_t count = 0;
    if (placeholders && text && tfm__placeholders_find(placeholders, &items, &count, text, bytes) != TFM_OK)
        count = 0;
    free(items);
    return count;
}
