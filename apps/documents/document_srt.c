/* Subtitles as documents: SubRip and WebVTT. Every byte that is no translated text stays as it is. */
#include <stdlib.h>
#include <string.h>
#include "documents/document.h"
#include "documents/subtitles.h"

/* The bytes of a line that a sentence shows. */
enum { SHOWN = 60 };

typedef struct subtitles {
    subtitle_file file;
    subtitle_parts parts;
    char line_end[4]; /* of the first line */
} subtitles;

/* ---- In -------------------------------------------------------------------------------------------------------- */

/* The beginning of a line, for a sentence: control characters, which a terminal would obey, become '?'. */
static void show_line(char shown[SHOWN + 1], const subtitle_line *line) {
    const char *text = line->at;
    size_t bytes = line->bytes < SHOWN ? line->bytes : SHOWN, used = 0;
    while (bytes > 0 && bytes < line->bytes && ((unsigned char)text[bytes] & 0xc0) == 0x80)
        bytes--; /* no part of a character */
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i], next = (unsigned char)(i + 1 < bytes ? text[i + 1] : 0);
        const bool wide = c == 0xc2 && next >= 0x80 && next < 0xa0; /* U+0080 to U+009F */
        shown[used++] = c < ' ' || c == 0x7f || wide ? '?' : text[i];
        i += wide;
    }
    shown[used] = 0;
}

/* A file that has text and no cue is no subtitles; text outside of cues is counted. */
static bool check(const subtitle_file *f, char message[DOCUMENT_MESSAGE]) {
    char shown[SHOWN + 1];
    if (f->lost == 0)
        return true;
    show_line(shown, &f->lines[f->first_lost - 1]);
    const bool cues = f->heads > 0 || f->vtt;
    if (cues)
        snprintf(message, DOCUMENT_MESSAGE, "%s: %zu line%s outside the cues stay%s untranslated, first line %zu: '%s'",
                 f->name, f->lost, f->lost == 1 ? "" : "s", f->lost == 1 ? "s" : "", f->first_lost, shown);
    else
        snprintf(message, DOCUMENT_MESSAGE,
                 "%s has no cue: line %zu is '%s', and no line has times such as 00:00:01,000 --> 00:00:02,500; "
                 "convert it to SubRip or WebVTT",
                 f->name, f->first_lost, shown);
    return cues;
}

static void find_line_end(subtitles *s) {
    const char *at = s->file.text + strcspn(s->file.text, "\r\n");
    const size_t bytes = strspn(at, "\r");
    strcpy(s->line_end, "\n");
    if (bytes > 0 && bytes < 3)
        snprintf(s->line_end, sizeof(s->line_end), "%.*s%s", at[bytes] == '\n' ? (int)bytes : 1, at,
                 at[bytes] == '\n' ? "\n" : "");
}

static void free_subtitles(void *content) {
    subtitles *s = content;
    if (s) {
        subtitle_file_free(&s->file);
        subtitle_parts_free(&s->parts);
    }
    free(s);
}

static void *read_subtitles(const char *name, const char *text, size_t bytes, bool vtt,
                            char message[DOCUMENT_MESSAGE]) {
    subtitles *s = calloc(1, sizeof(*s));
    bool good = s && subtitle_file_read(&s->file, name, text, bytes, vtt);
    for (size_t i = 0; good && i < s->file.cue_count; i++)
        good = subtitle_parts_add(&s->parts, &s->file.cues[i], s->file.vtt);
    if (good && check(&s->file, message)) {
        find_line_end(s);
        return s;
    }
    free_subtitles(s);
    return NULL;
}

static void *read_srt(const char *name, const char *text, size_t bytes, char message[DOCUMENT_MESSAGE]) {
    return read_subtitles(name, text, bytes, false, message);
}

static void *read_vtt(const char *name, const char *text, size_t bytes, char message[DOCUMENT_MESSAGE]) {
    return read_subtitles(name, text, bytes, true, message);
}

/* ---- Texts ----------------------------------------------------------------------------------------------------- */

static size_t count_parts(const void *content) {
    const subtitles *s = content;
    return s->parts.count;
}

static const char *text_of(const void *content, size_t i) {
    const subtitles *s = content;
    return s->parts.at[i].text;
}

static bool is_marked(const void *content, size_t i) {
    const subtitles *s = content;
    return s->parts.at[i].marked;
}

static void where_is(char *out, size_t room, const void *content, size_t i) {
    const subtitles *s = content;
    snprintf(out, room, "line %zu", s->parts.at[i].line);
}

static bool put(void *content, size_t i, const char *translation, const json_t *alignment) {
    subtitles *s = content;
    return subtitle_put(&s->parts.at[i], s->file.vtt, s->line_end, translation, alignment);
}

/* ---- Out ------------------------------------------------------------------------------------------------------- */

static char *write_subtitles(const void *content) {
    const subtitles *s = content;
    const char *at = s->file.text;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (size_t i = 0; i < s->parts.count; i++) {
        const subtitle_part *part = &s->parts.at[i];
        if (!part->written)
            continue;
        fwrite(at, 1, (size_t)(part->from - at), out);
        fputs(part->written, out);
        at = part->from + part->bytes;
    }
    fwrite(at, 1, (size_t)(s->file.text + s->file.bytes - at), out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

const document_kind document_srt = {"SubRip subtitles", read_srt, count_parts,     text_of,       is_marked,
                                    where_is,           put,      write_subtitles, free_subtitles};
const document_kind document_vtt = {"WebVTT subtitles", read_vtt, count_parts,     text_of,       is_marked,
                                    where_is,           put,      write_subtitles, free_subtitles};
