/* A subtitle's line to several of similar length, at the places where Unicode lets a line end (UAX #14, by ICU). */
#include <stdlib.h>
#include <string.h>
#include <unicode/ubrk.h>
#include <unicode/utext.h>
#include "documents/subtitles.h"

size_t subtitle_width(const char *text, size_t bytes, bool vtt) {
    size_t width = 0;
    for (size_t i = 0, tag; i < bytes; i += tag ? tag : 1) {
        tag = subtitle_tag(text + i, bytes - i, vtt);
        width += !tag && ((unsigned char)text[i] & 0xc0) != 0x80; /* the first byte of each */
    }
    return width;
}

/* ---- Where a line may end -------------------------------------------------------------------------------------- */

/* A text without its tags, and the places where a line of it may end. */
typedef struct plain {
    char *text;
    size_t *at; /* [bytes + 1]: where each of its bytes is in the text with tags */
    size_t bytes, indent;
    size_t *ends; /* [count], the last one is `bytes` */
    size_t count, room;
} plain;

static bool leave_tags(plain *p, const char *text, bool vtt) {
    const size_t bytes = strlen(text);
    p->text = malloc(bytes + 1);
    p->at = calloc(bytes + 1, sizeof(*p->at));
    for (size_t i = 0, tag; p->text && p->at && i < bytes; i += tag ? tag : 1) {
        tag = subtitle_tag(text + i, bytes - i, vtt);
        if (tag)
            continue;
        p->at[p->bytes] = i;
        p->text[p->bytes++] = text[i];
    }
    if (!p->text || !p->at)
        return false;
    p->text[p->bytes] = 0;
    p->at[p->bytes] = bytes;
    return true;
}

static bool find_ends(plain *p) {
    UErrorCode status = U_ZERO_ERROR;
    UText *text = utext_openUTF8(NULL, p->text, (int64_t)p->bytes, &status);
    UBreakIterator *breaks = ubrk_open(UBRK_LINE, "", NULL, 0, &status);
    ubrk_setUText(breaks, text, &status);
    bool good = U_SUCCESS(status);
    for (int32_t end = good ? ubrk_next(breaks) : UBRK_DONE; end != UBRK_DONE && good; end = ubrk_next(breaks)) {
        good = cli_grow(&p->ends, &p->room, p->count + 1, sizeof(*p->ends));
        if (good)
            p->ends[p->count++] = (size_t)end;
    }
    ubrk_close(breaks);
    utext_close(text);
    return good;
}

/* The characters from `start` to `end`, less the blanks at the end. */
static size_t width_of(const plain *p, size_t start, size_t end) {
    size_t width = 0;
    while (end > start && p->text[end - 1] == ' ')
        end--;
    for (size_t i = start; i < end; i++)
        width += ((unsigned char)p->text[i] & 0xc0) != 0x80;
    return width;
}

/* ---- The lines ------------------------------------------------------------------------------------------------- */

/* Fills lines of at most `width` characters, longer only where no line may end. Returns how many there are; `last`, if
 * not NULL, says of each end whether a line ends there. */
static size_t fill(const plain *p, size_t width, bool *last) {
    size_t lines = 1, used = p->indent, start = 0;
    for (size_t i = 0; i < p->count; i++) {
        const size_t word = width_of(p, start, p->ends[i]);
        if (i > 0 && used + word > width) {
            lines++;
            used = 0;
            if (last)
                last[i - 1] = true;
        }
        used += word;
        for (size_t b = p->ends[i]; b > start && p->text[b - 1] == ' '; b--)
            used++;
        start = p->ends[i];
    }
    return lines;
}

/* The least width that gives at most `lines` lines. */
static size_t least_width(const plain *p, size_t lines) {
    size_t low = 1, high = p->indent + p->bytes + 1;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (fill(p, middle, NULL) <= lines)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The text with a line's end at each chosen place, where a blank is left away. */
static char *write_lines(const plain *p, const char *text, const bool *last, bool vtt) {
    char *out = malloc(strlen(text) + p->count + 1), *to = out;
    size_t from = 0;
    for (size_t i = 0; out && i + 1 < p->count; i++) {
        size_t blank = p->ends[i];
        if (!last[i])
            continue;
        while (blank > 0 && p->text[blank - 1] == ' ')
            blank--;
        const size_t stop = p->at[blank], next = p->at[p->ends[i]];
        to = mempcpy(to, text + from, stop - from);
        *to++ = '\n';
        for (from = stop; from < next;) { /* tags between the words */
            const size_t tag = subtitle_tag(text + from, next - from, vtt);
            to = mempcpy(to, text + from, tag);
            from += tag ? tag : 1;
        }
    }
    if (out)
        strcpy(to, text + from);
    return out;
}

char *subtitle_wrap(const char *text, size_t indent, size_t lines, size_t limit, bool vtt) {
    plain p = {.indent = indent};
    char *out = NULL;
    bool *last = NULL;
    if (leave_tags(&p, text, vtt) && find_ends(&p) && (last = calloc(p.count + 1, sizeof(*last)))) {
        size_t width = least_width(&p, lines ? lines : 1);
        if (width > limit)
            width = least_width(&p, fill(&p, limit, NULL));
        fill(&p, width, last);
        out = write_lines(&p, text, last, vtt);
    }
    free(p.text);
    free(p.at);
    free(p.ends);
    free(last);
    return out;
}
