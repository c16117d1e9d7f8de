/* Subtitle files: SubRip (.srt) and WebVTT (.vtt). subtitle_cues.c finds the cues, subtitle_items.c tokenizes the text
 * of a cue, subtitle_put.c writes a translation in its place, subtitle_wrap.c breaks lines; document_srt.c joins them.
 */
#ifndef TFM_SUBTITLES_H
#define TFM_SUBTITLES_H

#include <jansson.h>
#include <stdint.h>
#include "cli/cli.h"
#include "documents/html_lexer.h"

/* ---- Cues (subtitle_cues.c) ------------------------------------------------------------------------------------ */

typedef struct subtitle_cue {
    const char *text;   /* in the file's bytes, from its first line that is not blank to the end of its last one */
    size_t bytes, line; /* line: of the text, from 1 */
} subtitle_cue;

typedef struct subtitle_line {
    const char *at;
    size_t bytes; /* without the line end, which reaches to the next line */
} subtitle_line;

/* A file, whose bytes belong to the caller. */
typedef struct subtitle_file {
    const char *name;
    const char *text;
    size_t bytes;
    bool vtt;
    subtitle_line *lines;
    size_t line_count, line_room;
    subtitle_cue *cues; /* cues with text */
    size_t cue_count, cue_room, heads;
    uint64_t number; /* the last cue number */
    /* Lines that may have text and belong to no cue. */
    size_t lost, first_lost;
} subtitle_file;

/* Finds the cues of a file as players do; other lines are kept. `vtt` is the format that was requested: a first
 * line WEBVTT, or times with commas, say otherwise. False when out of memory. */
bool subtitle_file_read(subtitle_file *f, const char *name, const char *text, size_t bytes, bool vtt);
void subtitle_file_free(subtitle_file *f);

/* ---- The text of a cue (subtitle_items.c) ---------------------------------------------------------------------- */

typedef enum subtitle_kind {
    SUBTITLE_WORD,  /* text without blanks */
    SUBTITLE_GAP,   /* blanks and line breaks */
    SUBTITLE_OPEN,  /* <i> */
    SUBTITLE_CLOSE, /* </i> */
    SUBTITLE_ATOM,  /* {\an8}, <00:19.000>, <rt>...</rt> */
    SUBTITLE_MARK   /* the dash of a speaker, the notes of a song, brackets around what is heard */
} subtitle_kind;

#define SUBTITLE_NONE SIZE_MAX

typedef struct subtitle_item {
    subtitle_kind kind;
    const char *at;
    size_t bytes;
    size_t breaks; /* line breaks in a gap; of a mark: 1 where it begins a line */
    size_t pair;   /* the index of the tag that closes or opens this one, or SUBTITLE_NONE */
} subtitle_item;

typedef struct subtitle_items {
    subtitle_item *at;
    size_t count, room;
} subtitle_items;

/* Tokenizes text. False when out of memory; the caller frees items->at in any case. */
bool subtitle_tokenize(subtitle_items *items, const char *text, size_t bytes, bool vtt);
/* Matches the tags from `first` to before `end`. */
void subtitle_match(subtitle_items *items, size_t first, size_t end);
/* The bytes of the tag at the beginning of the text, such as <i>, </font>, {\an8} or <00:19.000>; 0: none. */
size_t subtitle_tag(const char *text, size_t bytes, bool vtt);
/* Whether a word ends a sentence. */
bool subtitle_ends_sentence(const subtitle_item *word);
/* Whether text has a letter, or with `digits` a digit. */
bool subtitle_has_text(const char *text, size_t bytes, bool digits);
/* Decodes the character reference, as in HTML but with its ';', at the beginning of the text. Returns its bytes and
 * writes UTF-8; 0: none. */
size_t subtitle_reference(char out[HTML_CHARACTER], const char *text, size_t bytes);

/* ---- Parts of a cue (subtitle_parts.c, subtitle_put.c) --------------------------------------------------------- */

/* A unit of translation: a cue, or the text of one speaker in it. */
typedef struct subtitle_part {
    const char *from; /* in the file's bytes */
    size_t bytes, line;
    bool marked;   /* tags stand between its words */
    char *text;    /* its words, one blank between them */
    char *written; /* what replaces its bytes, or NULL: they stay */
} subtitle_part;

typedef struct subtitle_parts {
    subtitle_part *at;
    size_t count, room;
} subtitle_parts;

/* Adds the parts of a cue. False when out of memory. */
bool subtitle_parts_add(subtitle_parts *parts, const subtitle_cue *cue, bool vtt);
void subtitle_parts_free(subtitle_parts *parts);
/* Writes part->written; a translation that equals the text leaves the bytes as they are. `line_end` is for lines that
 * the part did not have. False when out of memory. */
bool subtitle_put(subtitle_part *part, bool vtt, const char *line_end, const char *translation,
                  const json_t *alignment);

/* ---- Lines (subtitle_wrap.c) ----------------------------------------------------------------------------------- */

/* The characters of a line, tags not counted. */
size_t subtitle_width(const char *text, size_t bytes, bool vtt);
/* Breaks a line that begins after `indent` characters into `lines` lines of similar length, or more where one would
 * have more than `limit` characters. Tags are not counted, and stay whole. The caller frees it; NULL when out of
 * memory. */
char *subtitle_wrap(const char *text, size_t indent, size_t lines, size_t limit, bool vtt);

#endif
