/* SubRip's subtitles as a document. Numbers, times and empty lines stay as they are. The lines of a cue are one text,
 * but for lines that begin with a dash, where another one speaks; tags are markup. */
#include <stdlib.h>
#include <string.h>
#include "document.h"

/* The characters that a line of subtitles usually has at most; and the bytes of a line that a sentence shows. */
enum { USUAL_WIDTH = 42, SHOWN = 60 };

typedef struct cue {
    size_t first, count; /* the lines of its text */
} cue;

/* What one says in a cue. */
typedef struct part {
    size_t first, count; /* lines */
    size_t lead;         /* bytes of {\an8}, a dash and the like at its beginning, which stay there */
    char *text;          /* the rest, as one line */
    markup *content;
    bool changed;
} part;

/* A text of a part. */
typedef struct part_run {
    size_t part, run;
} part_run;

typedef struct srt {
    const char *file;
    char **lines;
    size_t line_count, line_room;
    cue *cues;
    size_t count, room;
    part *parts;
    size_t part_count, part_room;
    part_run *runs;
    size_t run_count, run_room;
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

/* The bytes of a cue's line before its text: of the first one {\an8}; of one where another one speaks its dash. */
static size_t lead_of(const char *line, bool first) {
    const char *begin = skip_tags(line);
    const size_t dash = dash_of(begin);
    size_t lead = 0;
    if (dash)
        return (size_t)(begin - line) + dash + strspn(begin + dash, " \t");
    for (size_t tag; first && line[lead] == '{' && (tag = srt_tag(line + lead)) > 0; lead += tag)
        ;
    return lead;
}

static bool read_part(srt *s, size_t first, size_t count, size_t lead) {
    part p = {.first = first, .count = count, .lead = lead};
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(s->lines[first + i]) + 1;
    p.text = malloc(bytes);
    char *to = p.text ? stpcpy(p.text, s->lines[first] + lead) : NULL;
    for (size_t i = 1; to && i < count; i++)
        to = stpcpy(stpcpy(to, " "), s->lines[first + i]);
    p.content = to ? markup_read(p.text, (size_t)(to - p.text), MARKUP_SRT) : NULL;
    bool good = p.content && cli_grow(&s->parts, &s->part_room, s->part_count + 1, sizeof(*s->parts));
    if (!good) {
        markup_free(p.content);
        free(p.text);
        return false;
    }
    s->parts[s->part_count++] = p;
    for (size_t run = 0; good && run < markup_runs(p.content); run++) {
        good = cli_grow(&s->runs, &s->run_room, s->run_count + 1, sizeof(*s->runs));
        if (good)
            s->runs[s->run_count++] = (part_run){s->part_count - 1, run};
    }
    return good;
}

static bool read_cue(srt *s, const cue *c) {
    bool good = true;
    for (size_t i = 0, next; good && i < c->count; i = next) {
        for (next = i + 1; next < c->count && !dash_of(skip_tags(s->lines[c->first + next])); next++)
            ;
        good = read_part(s, c->first + i, next - i, lead_of(s->lines[c->first + i], i == 0));
    }
    return good || cli_fail("out of memory for the cues of %s", s->file) == CLI_OK;
}

static void free_srt(void *content) {
    srt *s = content;
    for (size_t i = 0; s && i < s->part_count; i++) {
        markup_free(s->parts[i].content);
        free(s->parts[i].text);
    }
    if (s) {
        free(s->lines);
        free(s->cues);
        free(s->parts);
        free(s->runs);
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
        good = read_cue(s, &s->cues[i]);
    if (good)
        return s;
    free_srt(s);
    return NULL;
}

/* ---- Texts ----------------------------------------------------------------------------------------------------- */

static size_t count_runs(const void *content) {
    const srt *s = content;
    return s->run_count;
}

static const char *text_of(const void *content, size_t i) {
    const srt *s = content;
    return markup_text(s->parts[s->runs[i].part].content, s->runs[i].run);
}

static bool is_marked(const void *content, size_t i) {
    const srt *s = content;
    return markup_marked(s->parts[s->runs[i].part].content, s->runs[i].run);
}

static void where_is(char *out, size_t room, const void *content, size_t i) {
    const srt *s = content;
    snprintf(out, room, "line %zu", s->parts[s->runs[i].part].first + 1);
}

static bool put(void *content, size_t i, const char *translation, const json_t *alignment) {
    srt *s = content;
    part *p = &s->parts[s->runs[i].part];
    p->changed = p->changed || strcmp(translation, text_of(content, i)) != 0;
    return markup_put(p->content, s->runs[i].run, translation, alignment);
}

/* ---- Out ------------------------------------------------------------------------------------------------------- */

static bool write_part(FILE *out, const srt *s, const part *p) {
    char *text = markup_write(p->content), *wrapped = NULL, *line = NULL;
    size_t limit = USUAL_WIDTH;
    for (size_t i = 0; i < p->count; i++) {
        const char *old = s->lines[p->first + i];
        const size_t width = srt_width(old, strlen(old));
        limit = width > limit ? width : limit;
    }
    if (text && asprintf(&line, "%.*s%s", (int)p->lead, s->lines[p->first], text + strspn(text, " ")) >= 0) {
        for (size_t last = strlen(line); last > p->lead && line[last - 1] == ' '; last--)
            line[last - 1] = 0;
        wrapped = srt_wrap(line, p->count, limit);
        free(line);
    }
    fputs(wrapped ? wrapped : "", out);
    const bool good = wrapped != NULL;
    free(wrapped);
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
        while (next < s->part_count && s->parts[next].first < i)
            next++;
        if (next < s->part_count && s->parts[next].first == i && s->parts[next].changed) {
            good = write_part(out, s, &s->parts[next]);
            i += s->parts[next].count - 1;
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
    "SubRip's subtitles", true, read_srt, count_runs, text_of, is_marked, where_is, put, write_srt, free_srt};
