/* The cues of a subtitle file, found as players find them: by their lines of times. Everything else is optional. */
#include <stdlib.h>
#include <string.h>
#include "documents/subtitles.h"

/* ---- Lines ----------------------------------------------------------------------------------------------------- */

/* A line ends in LF, CR LF, CR CR LF (text that was converted twice) or CR. */
static size_t line_end_bytes(const char *at, const char *end) {
    const char *stop = at;
    while (stop < end && *stop == '\r')
        stop++;
    return stop < end && *stop == '\n' ? (size_t)(stop - at) + 1 : stop > at;
}

static bool find_lines(subtitle_file *f) {
    const char *end = f->text + f->bytes;
    for (const char *at = f->text, *stop; at < end; at = stop + line_end_bytes(stop, end)) {
        for (stop = at; stop < end && *stop != '\n' && *stop != '\r'; stop++)
            ;
        if (!cli_grow(&f->lines, &f->line_room, f->line_count + 1, sizeof(*f->lines)))
            return false;
        f->lines[f->line_count++] = (subtitle_line){at, (size_t)(stop - at)};
    }
    return true;
}

static bool is_one_of(char c, const char *set) {
    return c && strchr(set, c);
}

/* The bytes at the beginning that are in `set`. */
static size_t span(const char *at, const char *end, const char *set) {
    const char *stop = at;
    while (stop < end && is_one_of(*stop, set))
        stop++;
    return (size_t)(stop - at);
}

static bool is_blank(const subtitle_file *f, size_t line) {
    const subtitle_line *l = &f->lines[line];
    return span(l->at, l->at + l->bytes, " \t\f\v\x1a") == l->bytes;
}

/* Whether a block ends before this line. In WebVTT a line of blanks is text. */
static bool ends_block(const subtitle_file *f, size_t line) {
    return f->vtt ? f->lines[line].bytes == 0 : is_blank(f, line);
}

/* A cue number: digits, with what some programs write around them, as in "#12" or "12.". */
static bool is_number(const subtitle_file *f, size_t line, uint64_t *number) {
    const char *at = f->lines[line].at, *end = at + f->lines[line].bytes;
    at += end - at >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* of a file that was appended */
    at += span(at, end, " \t");
    at += span(at, end, "#");
    const size_t digits = span(at, end, "0123456789");
    *number = 0;
    for (size_t i = 0; i < digits; i++)
        *number = *number * 10 + (uint64_t)(at[i] - '0'); /* unsigned: may wrap around */
    at += digits;
    return digits > 0 && at + span(at, end, " \t.:)") == end;
}

/* ---- Times ----------------------------------------------------------------------------------------------------- */

static const char TIME[] = "0123456789:.,;-+ \t", DIGITS[] = "0123456789";

/* The bytes of a dash at the beginning of the text. */
static size_t dash_bytes(const char *at, const char *end) {
    static const char *const DASHES[] = {
        "-", "=", "\xE2\x80\x90", "\xE2\x80\x93", "\xE2\x80\x94", "\xE2\x80\x95", "\xE2\x88\x92"};
    for (size_t i = 0; i < CLI_COUNT(DASHES); i++)
        if ((size_t)(end - at) >= strlen(DASHES[i]) && memcmp(at, DASHES[i], strlen(DASHES[i])) == 0)
            return strlen(DASHES[i]);
    return 0;
}

/* An arrow: "-->", "->", "- ->", "==>", "--&gt;" or U+2192. */
typedef struct arrow {
    const char *at, *end; /* at: NULL where there is none */
    size_t dashes;
} arrow;

static arrow find_arrow(const subtitle_line *line) {
    const char *end = line->at + line->bytes;
    for (const char *at = line->at, *stop; at<end; at = stop> at ? stop : at + 1) {
        arrow a = {.at = at};
        if (end - at >= 3 && memcmp(at, "\xE2\x86\x92", 3) == 0)
            return (arrow){at, at + 3, 2};
        stop = at;
        for (size_t dash; (dash = dash_bytes(stop, end)); a.dashes++) {
            stop += dash;
            stop += span(stop, end, " \t");
        }
        a.end = stop + (end - stop >= 4 && memcmp(stop, "&gt;", 4) == 0 ? 4 : stop < end && *stop == '>');
        if (a.dashes > 0 && a.end > stop)
            return a;
    }
    return (arrow){0};
}

/* What is next to an arrow. */
typedef enum side { GARBAGE, NOTHING, GARBLED, TIME_LIKE } side;

/* `stop`: where the time ends, before settings or other text. */
static side side_of(const char *at, const char *end, bool last, const char **stop) {
    at += span(at, end, " \t");
    while (end > at && is_one_of(end[-1], " \t"))
        end--;
    *stop = at + span(at, end, TIME);
    if (at == end)
        return NOTHING;
    bool digit = false;
    for (const char *c = at; c < *stop; c++)
        digit = digit || is_one_of(*c, DIGITS);
    if (digit && (last || *stop == end))
        return TIME_LIKE;
    const char *word = at;
    bool colon = false;
    for (digit = false; word < end && !is_one_of(*word, " \t"); word++) {
        digit = digit || is_one_of(*word, DIGITS);
        colon = colon || *word == ':';
    }
    *stop = word;
    return digit && colon && (last || word == end) ? GARBLED : GARBAGE; /* "00:OO:01,000" */
}

/* Whether a line is two times of hours, minutes and seconds, with dashes, a comma or blanks between them. */
static bool is_two_times(const subtitle_line *line) {
    const char *at = line->at, *end = at + line->bytes;
    int colons = 0;
    for (size_t bytes = 1; at < end && bytes > 0; at += bytes) {
        colons += *at == ':';
        bytes = is_one_of(*at, TIME) ? 1 : dash_bytes(at, end);
    }
    return at == end && colons == 4 && is_one_of(end[-1], DIGITS);
}

/* Whether a line has the times of a cue: "00:00:01,000 --> 00:00:02,500", however they are written. One of them may be
 * missing or garbled. `rest` is what follows them. */
static bool is_times(const subtitle_file *f, size_t line, const char **rest) {
    const subtitle_line *l = &f->lines[line];
    const char *end = l->at + l->bytes, *stop;
    const arrow a = find_arrow(l);
    *rest = end;
    if (!a.at)
        return is_two_times(l);
    const side left = side_of(l->at, a.at, false, &stop), right = side_of(a.end, end, true, rest);
    if (a.dashes == 1 && !memchr(l->at, ':', l->bytes)) /* "3 -> 4" is text */
        return false;
    return (left == TIME_LIKE && right != GARBAGE) || (right == TIME_LIKE && left != GARBAGE);
}

static bool has_times(const subtitle_file *f, size_t line) {
    const char *rest;
    return line < f->line_count && is_times(f, line, &rest);
}

/* ---- Heads ----------------------------------------------------------------------------------------------------- */

static size_t skip_blank(const subtitle_file *f, size_t line) {
    while (line < f->line_count && is_blank(f, line))
        line++;
    return line;
}

/* A line before times that is no number: one word, or one with a digit, as in "Cue 7". */
static bool is_identifier(const subtitle_file *f, size_t line) {
    const char *at = f->lines[line].at, *end = at + f->lines[line].bytes;
    bool digit = false, several = false;
    at += span(at, end, " \t");
    while (end > at && is_one_of(end[-1], " \t"))
        end--;
    for (const char *c = at; c < end; c++) {
        digit = digit || is_one_of(*c, DIGITS);
        several = several || *c == ' ';
    }
    return end > at && !strchr(".!?,", end[-1]) && (digit || !several);
}

/* Where the text begins of a cue whose head begins on this line, which is not blank; 0: none begins here. `fresh`: the
 * line before is blank, or there is none. */
static size_t after_head(const subtitle_file *f, size_t line, bool fresh) {
    uint64_t number;
    if (has_times(f, line))
        return line + 1;
    if (!is_number(f, line, &number))
        return fresh && (f->vtt || is_identifier(f, line)) && has_times(f, line + 1) ? line + 2 : 0;
    if (has_times(f, line + 1))
        return line + 2;
    if (!fresh)
        return 0;
    const size_t next = skip_blank(f, line + 1);
    if (has_times(f, next))
        return next + 1;
    if (next == f->line_count || f->vtt)
        return line + 1;
    if (next == line + 1 && find_arrow(&f->lines[next]).at) /* times that nobody can read */
        return next + 1;
    return f->heads > 0 && number == f->number + 1 ? line + 1 : 0; /* times are missing */
}

static void lose(subtitle_file *f, size_t line) {
    if (f->lost++ == 0)
        f->first_lost = line + 1;
}

/* Whether text follows the times on their line: what is no setting such as "X1:100" or "align:start". */
static bool has_text_behind(const subtitle_line *line, const char *rest) {
    const char *end = line->at + line->bytes;
    for (const char *at = rest, *stop; at < end; at = stop) {
        at += span(at, end, " \t");
        const char *sign = at + span(at, end, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
        for (stop = at; stop < end && !is_one_of(*stop, " \t"); stop++)
            ;
        if (stop > at && (sign == at || !is_one_of(*sign, ":=") || sign + 1 == stop) &&
            subtitle_has_text(at, stop - at, true))
            return true;
    }
    return false;
}

/* What the lines of a head say. */
static void note_head(subtitle_file *f, size_t first, size_t end) {
    const char *rest;
    uint64_t number;
    f->heads++;
    for (size_t i = first; i < end; i++) {
        if (is_blank(f, i))
            continue;
        if (is_number(f, i, &number))
            f->number = number;
        else if (is_times(f, i, &rest) ? has_text_behind(&f->lines[i], rest) : !f->vtt)
            lose(f, i);
    }
}

/* ---- Cues ------------------------------------------------------------------------------------------------------ */

/* Whether a line begins with a word, as WebVTT has it. */
static bool begins_with(const subtitle_file *f, size_t line, const char *word) {
    const subtitle_line *l = &f->lines[line];
    const size_t bytes = strlen(word);
    return l->bytes >= bytes && memcmp(l->at, word, bytes) == 0 &&
           (l->bytes == bytes || is_one_of(l->at[bytes], " \t"));
}

/* Whether a comment, a style or a region of WebVTT begins on this line. */
static bool is_silent(const subtitle_file *f, size_t line) {
    return f->vtt && (begins_with(f, line, "NOTE") || begins_with(f, line, "STYLE") || begins_with(f, line, "REGION"));
}

/* The first line after the text that begins on this one. Text goes on after blank lines. */
static size_t after_text(const subtitle_file *f, size_t first) {
    size_t line = first;
    for (; line < f->line_count; line++) {
        const bool fresh = line > first && is_blank(f, line - 1);
        if (!is_blank(f, line) && (after_head(f, line, fresh) || (fresh && is_silent(f, line))))
            break;
    }
    return line;
}

static bool add_cue(subtitle_file *f, size_t first, size_t end) {
    first = skip_blank(f, first);
    while (end > first && is_blank(f, end - 1))
        end--;
    if (first >= end)
        return true;
    const subtitle_line *from = &f->lines[first], *to = &f->lines[end - 1];
    if (!cli_grow(&f->cues, &f->cue_room, f->cue_count + 1, sizeof(*f->cues)))
        return false;
    f->cues[f->cue_count++] = (subtitle_cue){from->at, (size_t)(to->at + to->bytes - from->at), first + 1};
    return true;
}

/* After a block that is no cue: up to a blank line or times. In WebVTT it may be a comment, a style or a region. */
static size_t after_block(subtitle_file *f, size_t line) {
    uint64_t number;
    const bool silent = is_silent(f, line);
    for (size_t first = line; line < f->line_count && !ends_block(f, line); line++) {
        if (line > first && after_head(f, line, false))
            break;
        if (!silent && !is_number(f, line, &number) && subtitle_has_text(f->lines[line].at, f->lines[line].bytes, true))
            lose(f, line);
    }
    return line;
}

/* After WebVTT's header, which ends before a blank line or times. */
static size_t after_header(const subtitle_file *f, size_t line) {
    while (line < f->line_count && !ends_block(f, line) && !has_times(f, line))
        line++;
    return line;
}

/* WebVTT has a header; without one, its fractions have points where SubRip's have commas. */
static bool is_vtt(const subtitle_file *f, bool requested) {
    const size_t first = skip_blank(f, 0);
    if (first < f->line_count && begins_with(f, first, "WEBVTT"))
        return true;
    for (size_t i = first; i < f->line_count && requested; i++)
        if (has_times(f, i))
            return !memchr(f->lines[i].at, ',', f->lines[i].bytes);
    return false;
}

bool subtitle_file_read(subtitle_file *f, const char *name, const char *text, size_t bytes, bool vtt) {
    *f = (subtitle_file){.name = name, .text = text, .bytes = bytes};
    if (!find_lines(f))
        return false;
    f->vtt = is_vtt(f, vtt);
    size_t line = skip_blank(f, 0);
    if (f->vtt && line < f->line_count && begins_with(f, line, "WEBVTT"))
        line = after_header(f, line);
    for (bool fresh = true; line<f->line_count; fresh = line> 0 && is_blank(f, line - 1)) {
        if (is_blank(f, line)) {
            line++;
            continue;
        }
        const size_t first = after_head(f, line, fresh);
        if (first == 0) {
            line = after_block(f, line);
            continue;
        }
        note_head(f, line, first);
        line = after_text(f, first);
        if (!add_cue(f, first, line))
            return false;
    }
    return true;
}

void subtitle_file_free(subtitle_file *f) {
    free(f->lines);
    free(f->cues);
    *f = (subtitle_file){0};
}
