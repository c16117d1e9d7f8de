/* A translation in place of a part: tags go around the words that come from theirs, line breaks where they fit. */
#include <stdlib.h>
#include <string.h>
#include "documents/marks.h"
#include "documents/subtitle_view.h"

/* The characters that a line of subtitles usually has at most. */
enum { USUAL_WIDTH = 42, DEEPEST = 64 };

typedef struct writer {
    const subtitle_view *view;
    bool vtt;
    FILE *out;
    size_t open[DEEPEST], depth; /* tags that are open, the outermost first */
    size_t dashes;               /* how many were written last */
} writer;

/* ---- Text ------------------------------------------------------------------------------------------------------ */

/* Text as the file has it: WebVTT's with references for what would be markup, SubRip's where the part has some. */
static void put_text(writer *w, const char *text, size_t bytes) {
    const subtitle_view *v = w->view;
    char decoded[HTML_CHARACTER];
    for (size_t i = 0; i < bytes; i++) {
        const bool reads = subtitle_reference(decoded, text + i, bytes - i) > 0;
        if (text[i] == '&' && (v->references || (w->vtt && (reads || !v->plain))))
            fputs("&amp;", w->out);
        else if (text[i] == '<' && (w->vtt || v->references))
            fputs("&lt;", w->out);
        else if (text[i] == '>' && (v->references || (w->vtt && w->dashes > 1)))
            fputs("&gt;", w->out);
        else
            fputc(text[i], w->out);
        w->dashes = text[i] == '-' ? w->dashes + 1 : 0;
    }
}

static void put_raw(writer *w, const char *at, size_t bytes) {
    fwrite(at, 1, bytes, w->out);
}

/* ---- Tags ------------------------------------------------------------------------------------------------------ */

static void close_to(writer *w, size_t depth) {
    while (w->depth > depth) {
        const subtitle_item *open = &w->view->items.at[w->open[--w->depth]], *close = &w->view->items.at[open->pair];
        put_raw(w, close->at, close->bytes);
    }
}

/* The tags around `mark`, the outermost first; returns how many. Of more than DEEPEST, which is damage, there are none.
 */
static size_t path_of(size_t path[DEEPEST], const subtitle_view *v, size_t mark) {
    size_t depth = 0, i = 0;
    for (size_t at = mark; at != SUBTITLE_NONE && depth <= DEEPEST; at = v->parents[at])
        depth++;
    if (depth > DEEPEST)
        return 0;
    for (size_t at = mark; at != SUBTITLE_NONE; at = v->parents[at])
        path[depth - ++i] = at;
    return depth;
}

/* Closes what does not go around `mark`; with `open`, opens what does. */
static void go_to(writer *w, size_t mark, bool open) {
    size_t path[DEEPEST], same = 0;
    const size_t depth = path_of(path, w->view, mark);
    while (same < w->depth && same < depth && w->open[same] == path[same])
        same++;
    close_to(w, same);
    while (open && w->depth < depth) {
        const subtitle_item *item = &w->view->items.at[path[w->depth]];
        put_raw(w, item->at, item->bytes);
        w->open[w->depth] = path[w->depth];
        w->depth++;
    }
}

/* A word; the stop at its end has the tags of the one in the source. */
static void put_word(writer *w, const subtitle_word *word, const char *text, size_t bytes) {
    size_t body = bytes;
    while (word->end != word->mark && body > 1 && strchr(".,;:!?", text[body - 1]))
        body--;
    go_to(w, word->mark, true);
    put_text(w, text, body);
    if (body < bytes) {
        go_to(w, word->end, true);
        put_text(w, text + body, bytes - body);
    }
}

/* ---- Atoms ----------------------------------------------------------------------------------------------------- */

/* Where each atom goes: 2 * row before a word of the translation, 2 * row + 1 behind it. They keep their order. */
static bool place_atoms(size_t *places, const subtitle_view *v, const size_t *from, size_t rows) {
    size_t *first = malloc((v->word_count + 1) * sizeof(*first)), *last = calloc(v->word_count + 1, sizeof(*last));
    size_t least = 0;
    const bool good = first && last;
    for (size_t i = 0; good && i <= v->word_count; i++)
        first[i] = SUBTITLE_NONE; /* no word comes from it */
    for (size_t r = 0; good && r < rows; r++) {
        first[from[r]] = r < first[from[r]] ? r : first[from[r]];
        last[from[r]] = r;
    }
    for (size_t i = 0; good && i < v->atom_count; i++) {
        const subtitle_atom *atom = &v->atoms[i];
        const size_t by_place = rows > 0 && v->word_count > 0 ? atom->word * rows / v->word_count : 0;
        const size_t row = first[atom->word] == SUBTITLE_NONE ? by_place : (atom->after ? last : first)[atom->word];
        const size_t place = 2 * row + (atom->after && rows > 0);
        least = place > least ? place : least;
        places[i] = least;
    }
    free(first);
    free(last);
    return good;
}

static void put_atoms(writer *w, const size_t *places, size_t *next, size_t place) {
    const subtitle_view *v = w->view;
    for (; *next < v->atom_count && places[*next] <= place; ++*next) {
        const subtitle_atom *atom = &v->atoms[*next];
        go_to(w, atom->mark, true);
        put_raw(w, atom->at, atom->bytes);
    }
}

/* ---- Words ----------------------------------------------------------------------------------------------------- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* The next word of a text; false where there is none. */
static bool next_word(const char **at, size_t *bytes) {
    for (*at += *bytes; is_blank(**at); ++*at)
        ;
    for (*bytes = 0; (*at)[*bytes] && !is_blank((*at)[*bytes]);)
        ++*bytes;
    return *bytes > 0;
}

static size_t count_words(const char *text) {
    size_t count = 0, bytes = 0;
    for (const char *at = text; next_word(&at, &bytes);)
        count++;
    return count;
}

/* The words of a translation with their tags, in one line. */
static void put_words(writer *w, const char *translation, const size_t *from, const size_t *places) {
    size_t row = 0, bytes = 0, atom = 0;
    for (const char *at = translation; next_word(&at, &bytes); row++) {
        const subtitle_word *word = &w->view->words[from[row]];
        if (row > 0) {
            go_to(w, word->mark, false);
            fputc(' ', w->out);
        }
        put_atoms(w, places, &atom, 2 * row);
        put_word(w, word, at, bytes);
        put_atoms(w, places, &atom, 2 * row + 1);
    }
    put_atoms(w, places, &atom, SUBTITLE_NONE);
    close_to(w, 0);
}

/* The source word of each word of the translation. A tag without such a word gets the best corresponding one, so that
 * no tag is lost. */
static bool find_sources(size_t *from, const subtitle_view *v, size_t rows, const char *translation,
                         const json_t *alignment) {
    marks_pair pair;
    bool *used = calloc(v->items.count + 1, sizeof(*used));
    const bool good = marks_align(&pair, v->text, translation, alignment) && used &&
                      pair.source.count == v->word_count && pair.target.count == rows;
    for (size_t r = 0; good && r < rows; r++) {
        const size_t mark = v->words[from[r] = pair.target.words[r].other].mark;
        used[mark == SUBTITLE_NONE ? v->items.count : mark] = true;
    }
    for (size_t c = 0; good && rows > 0 && c < v->word_count; c++) {
        const size_t mark = v->words[c].mark;
        if (mark == SUBTITLE_NONE || used[mark])
            continue;
        from[pair.source.words[c].other] = c;
        used[mark] = true;
    }
    marks_free(&pair);
    free(used);
    return good;
}

/* The translation in one line, which the caller frees; NULL when out of memory. */
static char *write_line(const subtitle_view *v, bool vtt, const char *translation, const json_t *alignment) {
    const size_t rows = count_words(translation);
    size_t *from = calloc(rows + 1, sizeof(*from)), *places = calloc(v->atom_count + 1, sizeof(*places)), bytes;
    char *line = NULL;
    writer w = {.view = v, .vtt = vtt};
    if (from && places && find_sources(from, v, rows, translation, alignment) && place_atoms(places, v, from, rows))
        w.out = open_memstream(&line, &bytes);
    if (w.out) {
        put_words(&w, translation, from, places);
        if (fclose(w.out) != 0) {
            free(line);
            line = NULL;
        }
    }
    free(from);
    free(places);
    return line;
}

/* ---- Lines ----------------------------------------------------------------------------------------------------- */

/* How many lines the words of a part have, the width of the longest one, and what stands on the first before them. */
static size_t measure(const subtitle_view *v, bool vtt, size_t *longest, size_t *indent) {
    size_t lines = 1, width = 0;
    *longest = *indent = 0;
    for (size_t i = 0; i <= v->last; i++) {
        const subtitle_item *item = &v->items.at[i];
        const bool breaks = item->kind == SUBTITLE_GAP && item->breaks > 0;
        if (i == v->lead)
            *indent = width;
        lines += breaks && i > v->first;
        width = breaks ? 0 : width + subtitle_width(item->at, item->bytes, vtt);
        *longest = width > *longest ? width : *longest;
    }
    return lines;
}

/* The next gap from item `i` on that breaks a line between words; item `last` where there is none. */
static size_t next_break(const subtitle_view *v, size_t i) {
    for (i = i > v->first ? i : v->first; i < v->last; i++)
        if (v->items.at[i].kind == SUBTITLE_GAP && v->items.at[i].breaks > 0)
            break;
    return i;
}

/* The lines with the breaks that the part has, and further ones like its last one. */
static void put_lines(writer *w, const char *lines, const char *line_end) {
    const subtitle_view *v = w->view;
    size_t gap = next_break(v, 0), used = v->last;
    for (const char *at = lines; *at;) {
        const size_t bytes = strcspn(at, "\n");
        put_raw(w, at, bytes);
        at += bytes;
        if (!*at++)
            break;
        if (gap < v->last) {
            put_raw(w, v->items.at[gap].at, v->items.at[gap].bytes);
            used = gap;
            gap = next_break(v, gap + 1);
        } else if (used < v->last && v->items.at[used].breaks == 1) {
            put_raw(w, v->items.at[used].at, v->items.at[used].bytes);
        } else {
            fputs(line_end, w->out);
        }
    }
}

/* The items around the words, less the tags that are written with the words. */
static void put_items(writer *w, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        const subtitle_item *item = &w->view->items.at[i];
        if (item->kind != SUBTITLE_CLOSE || item->pair == SUBTITLE_NONE || !subtitle_view_mark(w->view, item->pair))
            put_raw(w, item->at, item->bytes);
    }
}

static char *write_part(const subtitle_view *v, bool vtt, const char *line_end, const char *line) {
    size_t longest, indent, bytes;
    const size_t lines = measure(v, vtt, &longest, &indent);
    char *wrapped = subtitle_wrap(line, indent, lines, longest > USUAL_WIDTH ? longest : USUAL_WIDTH, vtt),
         *text = NULL;
    writer w = {.view = v, .vtt = vtt, .out = wrapped ? open_memstream(&text, &bytes) : NULL};
    if (w.out) {
        put_items(&w, 0, v->lead);
        put_lines(&w, wrapped, line_end);
        put_items(&w, v->last + 1, v->items.count);
        if (fclose(w.out) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(wrapped);
    return text;
}

bool subtitle_put(subtitle_part *part, bool vtt, const char *line_end, const char *translation,
                  const json_t *alignment) {
    subtitle_view view;
    free(part->written);
    part->written = NULL;
    if (strcmp(translation, part->text) == 0)
        return true;
    if (subtitle_view_read(&view, part->from, part->bytes, vtt)) {
        char *line = write_line(&view, vtt, translation, alignment);
        part->written = line ? write_part(&view, vtt, line_end, line) : NULL;
        free(line);
    }
    subtitle_view_free(&view);
    return part->written != NULL;
}
