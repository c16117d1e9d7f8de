/* The text of a cue as words, gaps, tags and what stands between them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>
#include "documents/subtitles.h"

/* How far back the tag that is closed may be, so that damaged text costs no time. */
enum { MOST_STEPS = 100 };

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\f' || c == '\v';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* ---- Tags ------------------------------------------------------------------------------------------------------ */

/* How many bytes a text has up to `close`, which is included, on one line and without `open` in it; 0: it has none. */
static size_t up_to(const char *text, size_t bytes, char open, char close) {
    for (size_t i = 1; i < bytes && text[i] != open && text[i] != '\n' && text[i] != '\r'; i++)
        if (text[i] == close)
            return i + 1;
    return 0;
}

/* "{\an8}" of SubStation Alpha; "{i}", "{/i}" and "{y:i}" of other formats, which players take too. */
static size_t override_bytes(const char *text, size_t bytes) {
    const size_t whole = up_to(text, bytes, '{', '}');
    if (whole < 3)
        return 0;
    const size_t letter = text[1] == '/' ? 2 : 1;
    const bool style = whole == letter + 2 && strchr("biusBIUS", text[letter]);
    return text[1] == '\\' || style || (whole > 4 && is_letter(text[1]) && text[2] == ':') ? whole : 0;
}

/* The bytes of the name at `at`. */
static size_t name_bytes(const char *at, const char *end) {
    const char *stop = at;
    while (stop < end && is_letter(*stop))
        stop++;
    return (size_t)(stop - at);
}

/* Tags that players know in SubRip. WebVTT takes any name for one. */
static bool is_known(const char *name, size_t bytes) {
    static const char *const NAMES[] = {"b",    "i",      "u",   "s",      "font", "br",  "c",     "v",
                                        "lang", "ruby",   "rt",  "span",   "em",   "p",   "small", "big",
                                        "tt",   "strike", "sub", "strong", "sup",  "div", "a",     "center"};
    for (size_t i = 0; i < CLI_COUNT(NAMES); i++)
        if (strlen(NAMES[i]) == bytes && strncasecmp(name, NAMES[i], bytes) == 0)
            return true;
    return false;
}

/* "<00:19.000>", when a word of karaoke is sung. */
static size_t timestamp_bytes(const char *text, size_t whole) {
    bool colon = false;
    for (size_t i = 1; i + 1 < whole; i++) {
        colon = colon || text[i] == ':';
        if (!is_digit(text[i]) && (i == 1 || !strchr(":.,", text[i])))
            return 0;
    }
    return colon ? whole : 0;
}

size_t subtitle_tag(const char *text, size_t bytes, bool vtt) {
    if (bytes < 3 || (*text != '<' && *text != '{'))
        return 0;
    if (*text == '{')
        return override_bytes(text, bytes);
    const size_t whole = up_to(text, bytes, '<', '>');
    if (whole < 3)
        return 0;
    if (is_digit(text[1]))
        return timestamp_bytes(text, whole);
    const char *name = text + 1 + (text[1] == '/'), *end = text + whole - 1;
    const size_t length = name_bytes(name, end);
    if (length == 0)
        return 0;
    const char after = name[length];
    return vtt || ((after == '>' || is_blank(after) || after == '/' || after == '.') && is_known(name, length)) ? whole
                                                                                                                : 0;
}

static bool is_named(const char *tag, const char *word) {
    const char *name = tag + 1 + (tag[1] == '/');
    const size_t bytes = strlen(word);
    return *tag == '<' && strncasecmp(name, word, bytes) == 0 && !is_letter(name[bytes]);
}

/* ---- Marks of speakers and songs ------------------------------------------------------------------------------- */

static size_t note_bytes(const char *text, size_t bytes) {
    /* U+2669 to U+266F, U+1F3B5 and U+1F3B6 */
    if (bytes >= 3 && memcmp(text, "\xE2\x99", 2) == 0 && (unsigned char)text[2] >= 0xA9 &&
        (unsigned char)text[2] <= 0xAF)
        return 3;
    return bytes >= 4 && memcmp(text, "\xF0\x9F\x8E", 3) == 0 && (text[3] == '\xB5' || text[3] == '\xB6') ? 4 : 0;
}

/* The bytes of the dash at the beginning of the text. */
static size_t dash_bytes(const char *text, const char *end) {
    static const char *const DASHES[] = {"-", "\xE2\x80\x90", "\xE2\x80\x93", "\xE2\x80\x94"};
    for (size_t i = 0; i < CLI_COUNT(DASHES); i++) {
        const size_t bytes = strlen(DASHES[i]);
        if ((size_t)(end - text) > bytes && memcmp(text, DASHES[i], bytes) == 0)
            return bytes;
    }
    return 0;
}

/* The bytes of the bracket that opens at the beginning of the text, of what is heard, as in "[Musik]", and closes
 * again. `close` is the bracket that closes it. */
static size_t bracket_bytes(const char **close, const char *text, size_t bytes) {
    const char end = *text == '[' ? ']' : *text == '(' ? ')' : 0;
    const char *at = text + 1;
    for (; end && at < text + bytes && !strchr("[]()", *at); at++)
        ;
    *close = end && at < text + bytes && *at == end && at > text + 1 ? at : NULL;
    return *close ? 1 : 0;
}

/* A mark that begins the line of another speaker, or of a song. */
static size_t lead_mark(const char *text, size_t bytes) {
    static const char *const MARKS[] = {">>", "&gt;&gt;"};
    size_t mark = dash_bytes(text, text + bytes);
    for (size_t i = 0; i < CLI_COUNT(MARKS); i++)
        if (bytes > strlen(MARKS[i]) && memcmp(text, MARKS[i], strlen(MARKS[i])) == 0)
            mark = strlen(MARKS[i]);
    if (mark > 0)
        return !strchr("->", text[mark]) && !is_digit(text[mark]) ? mark : 0;
    return note_bytes(text, bytes);
}

bool subtitle_ends_sentence(const subtitle_item *word) {
    const char *from = word->at, *end = from + word->bytes;
    static const char *const STOPS[] = {".", "!", "?", "\xE2\x80\xA6", "\xE3\x80\x82", "\xEF\xBC\x81", "\xEF\xBC\x9F"};
    while (end > from && strchr("\"')", end[-1]))
        end--;
    for (size_t i = 0; i < CLI_COUNT(STOPS); i++) {
        const size_t bytes = strlen(STOPS[i]);
        if ((size_t)(end - from) >= bytes && memcmp(end - bytes, STOPS[i], bytes) == 0)
            return true;
    }
    return false;
}

bool subtitle_has_text(const char *text, size_t bytes, bool digits) {
    for (int32_t i = 0; i < (int32_t)bytes;) {
        UChar32 c;
        U8_NEXT(text, i, (int32_t)bytes, c);
        if (c >= 0 && (u_isalpha(c) || (digits && u_isdigit(c)) ||
                       (u_getIntPropertyValue(c, UCHAR_GENERAL_CATEGORY_MASK) & U_GC_M_MASK)))
            return true;
    }
    return false;
}

/* ---- Character references -------------------------------------------------------------------------------------- */

size_t subtitle_reference(char out[HTML_CHARACTER], const char *text, size_t bytes) {
    const size_t used = *text == '&' ? html_character(out, text, bytes, true) : 0;
    return used > 1 && text[used - 1] == ';' && (unsigned char)*out > ' ' ? used : 0;
}

/* ---- Items ----------------------------------------------------------------------------------------------------- */

/* The bytes of a line break: a line end, <br>, or SubStation Alpha's \N. */
static size_t break_bytes(const char *text, size_t bytes, bool vtt) {
    if (*text == '\n')
        return 1;
    if (*text == '\r') {
        size_t end = 0;
        while (end < bytes && text[end] == '\r')
            end++;
        return end + (end < bytes && text[end] == '\n');
    }
    if (!vtt && bytes >= 2 && memcmp(text, "\\N", 2) == 0)
        return 2;
    const size_t tag = *text == '<' ? subtitle_tag(text, bytes, false) : 0;
    return tag && is_named(text, "br") ? tag : 0;
}

static subtitle_item gap_at(const char *at, const char *end, bool vtt) {
    subtitle_item gap = {SUBTITLE_GAP, at, 0, 0, SUBTITLE_NONE};
    for (const char *stop = at; stop < end; stop = at + gap.bytes) {
        const size_t bytes = is_blank(*stop) ? 1 : break_bytes(stop, (size_t)(end - stop), vtt);
        if (bytes == 0)
            break;
        gap.breaks += !is_blank(*stop);
        gap.bytes += bytes;
    }
    return gap;
}

/* "{\i1}" and "{\i0}", "{i}" and "{/i}" are pairs as <i> and </i> are. */
static subtitle_kind override_kind(const char *at, size_t bytes) {
    if (bytes == 5 && at[1] == '\\' && strchr("bius", at[2]))
        return at[3] == '1' ? SUBTITLE_OPEN : at[3] == '0' ? SUBTITLE_CLOSE : SUBTITLE_ATOM;
    return bytes == 3 ? SUBTITLE_OPEN : bytes == 4 && at[1] == '/' ? SUBTITLE_CLOSE : SUBTITLE_ATOM;
}

/* A tag; that of a ruby text reaches to its end, since what it says is how the word before it is read. */
static subtitle_item tag_at(const char *at, size_t bytes, size_t tag) {
    subtitle_item item = {SUBTITLE_ATOM, at, tag, 0, SUBTITLE_NONE};
    if (*at == '{')
        item.kind = override_kind(at, tag);
    if (*at == '{' || is_digit(at[1]))
        return item;
    item.kind = at[1] == '/' ? SUBTITLE_CLOSE : SUBTITLE_OPEN;
    if (at[1] == '/' || !is_named(at, "rt"))
        return item;
    for (size_t i = tag; i < bytes; i++)
        if (at[i] == '<' && (tag = subtitle_tag(at + i, bytes - i, true)) &&
            (is_named(at + i, "rt") || is_named(at + i, "ruby"))) {
            const bool own = is_named(at + i, "rt") && at[i + 1] == '/';
            item.kind = SUBTITLE_ATOM;
            item.bytes = i + (own ? tag : 0);
            break;
        }
    return item;
}

static subtitle_item word_at(const char *at, const char *end, bool vtt) {
    const char *stop = at;
    do
        stop++;
    while (stop < end && !is_blank(*stop) && !break_bytes(stop, (size_t)(end - stop), vtt) &&
           !note_bytes(stop, (size_t)(end - stop)) && !subtitle_tag(stop, (size_t)(end - stop), vtt));
    return (subtitle_item){SUBTITLE_WORD, at, (size_t)(stop - at), 0, SUBTITLE_NONE};
}

static subtitle_item item_at(const char *at, const char *end, bool begins, bool vtt) {
    const size_t bytes = (size_t)(end - at), tag = subtitle_tag(at, bytes, vtt);
    subtitle_item item = gap_at(at, end, vtt); /* of which <br> is one */
    if (item.bytes > 0)
        return item;
    if (tag)
        return tag_at(at, bytes, tag);
    const size_t mark = begins ? lead_mark(at, bytes) : note_bytes(at, bytes);
    return mark ? (subtitle_item){SUBTITLE_MARK, at, mark, begins, SUBTITLE_NONE} : word_at(at, end, vtt);
}

bool subtitle_tokenize(subtitle_items *items, const char *text, size_t bytes, bool vtt) {
    const char *end = text + bytes;
    bool begins = true, stopped = false; /* no word stands on this line so far; a sentence has ended before */
    const char *close = NULL;            /* of the bracket that the line began with */
    for (const char *at = text; at < end;) {
        const bool answers = stopped && dash_bytes(at, end) && is_blank(at[dash_bytes(at, end)]); /* "Ja? - Nein." */
        const size_t bracket = begins && !close ? bracket_bytes(&close, at, (size_t)(end - at)) : at == close;
        const subtitle_item item = bracket ? (subtitle_item){SUBTITLE_MARK, at, 1, begins || at == close, SUBTITLE_NONE}
                                           : item_at(at, close ? close : end, begins || answers, vtt);
        if (!cli_grow(&items->at, &items->room, items->count + 1, sizeof(*items->at)))
            return false;
        items->at[items->count++] = item;
        begins = (begins && item.kind != SUBTITLE_WORD) || (item.kind == SUBTITLE_GAP && item.breaks > 0);
        if (at == close) {
            close = NULL;
            begins = true;
        }
        stopped = item.kind == SUBTITLE_WORD ? subtitle_ends_sentence(&item) : stopped;
        at += item.bytes;
    }
    return true;
}

static bool same_name(const subtitle_item *open, const subtitle_item *close) {
    const char *one = open->at + 1, *two = close->at + 2;
    if (*open->at == '{' || *close->at == '{') /* the letter is the last one, or before a number */
        return *open->at == *close->at && open->bytes + 1 - open->bytes / 5 == close->bytes &&
               open->at[open->bytes / 5 + 1] == close->at[2];
    const size_t bytes = name_bytes(one, open->at + open->bytes);
    return bytes == name_bytes(two, close->at + close->bytes) && strncasecmp(one, two, bytes) == 0;
}

void subtitle_match(subtitle_items *items, size_t first, size_t end) {
    for (size_t i = first; i < end; i++)
        items->at[i].pair = SUBTITLE_NONE;
    for (size_t i = first; i < end; i++) {
        size_t open = i;
        if (items->at[i].kind != SUBTITLE_CLOSE)
            continue;
        for (int steps = 0; open > first && steps < MOST_STEPS; steps++) { /* back to its own, over whole pairs */
            const subtitle_item *item = &items->at[--open];
            if (item->kind == SUBTITLE_CLOSE && item->pair != SUBTITLE_NONE) {
                open = item->pair;
            } else if (item->kind == SUBTITLE_OPEN && same_name(item, &items->at[i])) {
                items->at[i].pair = open;
                items->at[open].pair = i;
                break;
            }
        }
    }
}
