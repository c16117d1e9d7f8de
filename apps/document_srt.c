/* SubRip's subtitles as a document. Numbers, times and empty lines stay as they are. The lines of a cue are one text,
 * but for lines that begin with a dash, where another one speaks; tags are markup, as in HTML. */
#include <stdlib.h>
#include <string.h>
#include "document.h"

/* The characters that a line of subtitles usually has at most; and the bytes of a line that a sentence shows. */
enum { USUAL_WIDTH = 42, SHOWN = 60 };

typedef struct cue {
    size_t first, count; /* the lines of its text */
    size_t lead;         /* bytes of {\an8} and the like at its beginning, which stay there */
    markup *content;
    bool changed;
} cue;

/* A text of a cue: what one says. */
typedef struct part {
    size_t cue, run;
} part;

typedef struct srt {
    const char *file;
    char **lines;
    size_t line_count, line_room;
    cue *cues;
    size_t count, room;
    part *parts;
    size_t part_count, part_room;
} srt;

/* ---- Lines ----------------------------------------------------------------------------------------------------- */

static bool find_lines(srt *s, char *text) {
    for (char *at = text, *end; at; at = end) {
        if (!cli_grow(&s->lines, &s->line_room, s->line_count + 1, sizeof(*s->lines)))
            return false;
        s->lines[s->line_count++] = at;
        end = strchr(at, '\n');
        if (end)
            *end++ = 0;
    }
    return true;
}

static bool is_blank(const char *line) {
    return line[strspn(line, " \t")] == 0;
}

static bool is_number(const char *line) {
    const char *at = line + strspn(line, " \t");
    const size_t digits = strspn(at, "0123456789");
    return digits > 0 && is_blank(at + digits);
}

/* "01:02:03,500" at the beginning of a text; what is after it, or NULL. */
static const char *skip_time(const char *text) {
    const size_t hours = strspn(text, "0123456789");
    if (hours == 0 || text[hours] != ':')
        return NULL;
    const char *minutes = text + hours + 1;
    if (strspn(minutes, "0123456789") != 2 || minutes[2] != ':' || strspn(minutes + 3, "0123456789") != 2)
        return NULL;
    if ((minutes[5] != ',' && minutes[5] != '.') || strspn(minutes + 6, "0123456789") != 3)
        return NULL;
    return minutes[0] < '6' && minutes[3] < '6' ? minutes + 9 : NULL;
}

/* "00:00:01,000 --> 00:00:02,500", and maybe a place of the screen after it. */
static bool is_times(const char *line) {
    const char *at = skip_time(line + strspn(line, " \t"));
    at = at ? at + strspn(at, " \t") : NULL;
    if (!at || strncmp(at, "-->", 3) != 0)
        return false;
    at = skip_time(at + 3 + strspn(at + 3, " \t"));
    return at && (*at == 0 || *at == ' ' || *at == '\t');
}

/* The beginning of a line, for a sentence: control characters, which a terminal would obey, become '?'. */
static void show_line(char shown[SHOWN + 1], const char *line) {
    size_t bytes = strnlen(line, SHOWN), used = 0;
    while (bytes > 0 && ((unsigned char)line[bytes] & 0xc0) == 0x80)
        bytes--; /* no part of a character */
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)line[i], next = (unsigned char)line[i + 1];
        const bool wide = c == 0xc2 && next >= 0x80 && next < 0xa0; /* U+0080 to U+009F */
        shown[used++] = c < ' ' || c == 0x7f || wide ? '?' : line[i];
        i += wide;
    }
    shown[used] = 0;
}

static bool refuse(const srt *s, size_t line, const char *what) {
    char shown[SHOWN + 1];
    show_line(shown, s->lines[line]);
    cli_fail("%s, line %zu: '%s' is no %s: mend the file", s->file, line + 1, shown, what);
    return false;
}

/* The cues, each up to the next empty line. */
static bool find_cues(srt *s) {
    static const char times[] = "times of a cue, which are as in 00:00:01,000 --> 00:00:02,500";
    for (size_t i = 0; i < s->line_count;) {
        const size_t head = i;
        cue c = {0};
        if (is_blank(s->lines[i])) {
            i++;
            continue;
        }
        i += is_number(s->lines[i]);
        if (i == s->line_count || !is_times(s->lines[i]))
            return i > head && i < s->line_count ? refuse(s, i, times)
                   : i > head                    ? refuse(s, head, "cue: it has no times")
                   : strstr(s->lines[i], "-->")  ? refuse(s, i, times)
                                                 : refuse(s, i, "number of a cue and no times");
        for (c.first = ++i; i < s->line_count && !is_blank(s->lines[i]); i++)
            if (strstr(s->lines[i], "-->"))
                return refuse(s, i, is_times(s->lines[i]) ? "text: an empty line is missing before the cue" : times);
        c.count = i - c.first;
        if (!cli_grow(&s->cues, &s->room, s->count + 1, sizeof(*s->cues)))
            return cli_fail("out of memory for the cues of %s", s->file) == CLI_OK;
        s->cues[s->count++] = c;
    }
    return true;
}

/* ---- A cue's text ---------------------------------------------------------------------------------------------- */

/* The bytes of a dash that says that another one speaks, with the blanks after it; 0: there is none. */
static size_t dash_of(const char *text) {
    static const char *const DASHES[] = {"-", "\xE2\x80\x90", "\xE2\x80\x93", "\xE2\x80\x94"};
    for (size_t i = 0; i < CLI_COUNT(DASHES); i++) {
        const size_t bytes = strlen(DASHES[i]);
        if (strncmp(text, DASHES[i], bytes) == 0 && !strchr("-0123456789", text[bytes]))
            return bytes;
    }
    return 0;
}

/* Where a line's text begins, after its blanks and tags. */
static const char *skip_tags(const char *line) {
    for (size_t tag; (tag = srt_tag(line)) || *line == ' ' || *line == '\t'; line += tag ? tag : 1)
        ;
    return line;
}

/* Writes what is between tags, as HTML has it; a dash and {\i1} are kept as comments. */
static void put_html(FILE *out, const char *line, const char *dash, size_t dash_bytes) {
    for (size_t tag; *line; line += tag ? tag : 1) {
        tag = line == dash ? dash_bytes : srt_tag(line);
        if (tag && *line == '<')
            fwrite(line, 1, tag, out);
        else if (tag)
            fprintf(out, "<!--%.*s-->", (int)tag, line);
        else if (*line == '<')
            fputs("&lt;", out);
        else if (*line == '&')
            fputs("&amp;", out);
        else
            fputc(*line, out);
        if (tag && line == dash)
            tag += strspn(line + tag, " \t"); /* one blank is written after it */
    }
}

static bool read_cue(srt *s, cue *c) {
    const char *why = "out of memory for this cue";
    char *html = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&html, &bytes);
    for (size_t i = 0; out && i < c->count; i++) {
        const char *line = s->lines[c->first + i];
        for (size_t tag; i == 0 && *line == '{' && (tag = srt_tag(line)) > 0; line += tag)
            c->lead += tag;
        const char *begin = skip_tags(line);
        const size_t dash = dash_of(begin);
        fputs(i == 0 ? "" : dash ? "<br>" : " ", out);
        put_html(out, line, begin, dash);
    }
    if (out && fclose(out) == 0)
        c->content = markup_read(&why, html, bytes);
    free(html);
    if (!c->content)
        return cli_fail("%s, line %zu: %s", s->file, c->first + 1, why) == CLI_OK;
    for (size_t run = 0; run < markup_runs(c->content); run++) {
        if (!cli_grow(&s->parts, &s->part_room, s->part_count + 1, sizeof(*s->parts)))
            return cli_fail("out of memory for the cues of %s", s->file) == CLI_OK;
        s->parts[s->part_count++] = (part){(size_t)(c - s->cues), run};
    }
    return true;
}

static void free_srt(void *content) {
    srt *s = content;
    for (size_t i = 0; s && i < s->count; i++)
        markup_free(s->cues[i].content);
    if (s) {
        free(s->lines);
        free(s->cues);
        free(s->parts);
    }
    free(s);
}

static void *read_srt(const char *file, char *text, size_t bytes) {
    (void)bytes;
    srt *s = calloc(1, sizeof(*s));
    if (s)
        s->file = file;
    bool good = s && find_lines(s, text);
    if (!good)
        cli_fail("out of memory for the lines of %s", file);
    good = good && find_cues(s);
    for (size_t i = 0; good && i < s->count; i++)
        good = s->cues[i].count == 0 || read_cue(s, &s->cues[i]);
    if (good)
        return s;
    free_srt(s);
    return NULL;
}

/* ---- Texts ----------------------------------------------------------------------------------------------------- */

static size_t count_parts(const void *content) {
    const srt *s = content;
    return s->part_count;
}

static const char *text_of(const void *content, size_t i) {
    const srt *s = content;
    return markup_text(s->cues[s->parts[i].cue].content, s->parts[i].run);
}

static bool is_marked(const void *content, size_t i) {
    const srt *s = content;
    return markup_marked(s->cues[s->parts[i].cue].content, s->parts[i].run);
}

static void where_is(char *out, size_t room, const void *content, size_t i) {
    const srt *s = content;
    snprintf(out, room, "line %zu", s->cues[s->parts[i].cue].first + 1);
}

static bool put(void *content, size_t i, const char *translation, const json_t *alignment) {
    srt *s = content;
    cue *c = &s->cues[s->parts[i].cue];
    c->changed = true;
    return markup_put(c->content, s->parts[i].run, translation, alignment);
}

/* ---- Out ------------------------------------------------------------------------------------------------------- */

/* How many lines of the cue the part from its line `from` on has, and how long the longest is. */
static size_t lines_of_part(const srt *s, const cue *c, size_t from, size_t *longest) {
    size_t count = 0;
    do {
        const char *line = s->lines[c->first + from + count];
        const size_t width = srt_width(line, strlen(line));
        *longest = width > *longest ? width : *longest;
        count++;
    } while (from + count < c->count && !dash_of(skip_tags(s->lines[c->first + from + count])));
    return count;
}

static bool write_cue(FILE *out, const srt *s, const cue *c) {
    char *text = markup_write_plain(c->content);
    bool good = text != NULL;
    fwrite(s->lines[c->first], 1, c->lead, out);
    size_t from = 0;
    for (char *at = text, *end; at && good; at = end) {
        size_t limit = USUAL_WIDTH, lines = from < c->count ? lines_of_part(s, c, from, &limit) : 1;
        from += lines;
        end = strchr(at, '\n');
        if (end)
            *end++ = 0;
        at += strspn(at, " ");
        for (size_t last = strlen(at); last > 0 && at[last - 1] == ' '; last--)
            at[last - 1] = 0;
        char *wrapped = srt_wrap(at, lines, limit);
        good = wrapped != NULL;
        if (good)
            fprintf(out, "%s%s", wrapped, end ? "\n" : "");
        free(wrapped);
    }
    free(text);
    return good;
}

static char *write_srt(const void *content) {
    const srt *s = content;
    char *text = NULL;
    size_t bytes = 0, next = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool good = out != NULL;
    for (size_t i = 0; good && i < s->line_count; i++) {
        while (next < s->count && (s->cues[next].count == 0 || s->cues[next].first < i))
            next++;
        if (next < s->count && s->cues[next].first == i && s->cues[next].changed) {
            good = write_cue(out, s, &s->cues[next]);
            i += s->cues[next].count - 1;
        } else {
            fputs(s->lines[i], out);
        }
        if (i + 1 < s->line_count)
            fputc('\n', out);
    }
    if (out && fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

const document_kind document_srt = {
    "SubRip's subtitles", read_srt, count_parts, text_of, is_marked, where_is, put, write_srt, free_srt};
