/* Splits a cue's text into separately translated parts: the text of one speaker, or a line of a song. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "documents/subtitle_view.h"

/* ---- One part -------------------------------------------------------------------------------------------------- */

void subtitle_view_free(subtitle_view *view) {
    free(view->items.at);
    free(view->parents);
    free(view->text);
    free(view->words);
    free(view->atoms);
    *view = (subtitle_view){0};
}

bool subtitle_view_mark(const subtitle_view *v, size_t item) {
    const subtitle_item *i = &v->items.at[item];
    return i->kind == SUBTITLE_OPEN && i->pair != SUBTITLE_NONE && item >= v->lead && item < v->last;
}

/* Where the words begin and end. What is before them stays as it is, up to the first tag that is closed between them.
 */
static bool find_words(subtitle_view *v) {
    bool any = false;
    for (size_t i = 0; i < v->items.count; i++) {
        const subtitle_item *item = &v->items.at[i];
        if (item->kind != SUBTITLE_WORD)
            continue;
        v->first = any ? v->first : i;
        v->last = i;
        any = true;
    }
    for (size_t i = 0; any && i < v->first; i++)
        if (v->items.at[i].kind == SUBTITLE_MARK)
            v->lead = i + 1;
    for (; any && v->lead < v->first; v->lead++) {
        const subtitle_item *item = &v->items.at[v->lead];
        if (item->kind == SUBTITLE_OPEN && item->pair != SUBTITLE_NONE && item->pair < v->last)
            break;
    }
    return any;
}

/* Adds an item's text, with its character references decoded. */
static void add_text(subtitle_view *v, const subtitle_item *item) {
    for (size_t i = 0; i < item->bytes;) {
        char decoded[HTML_CHARACTER];
        const size_t bytes = subtitle_reference(decoded, item->at + i, item->bytes - i);
        if (bytes == 0)
            v->plain = v->plain || item->at[i] == '&';
        v->references = v->references || bytes > 0;
        if (bytes > 0)
            v->text_bytes = (size_t)(stpcpy(v->text + v->text_bytes, decoded) - v->text);
        else
            v->text[v->text_bytes++] = item->at[i];
        i += bytes ? bytes : 1;
    }
    v->text[v->text_bytes] = 0;
}

static bool is_stop(const subtitle_item *item) {
    for (size_t i = 0; i < item->bytes; i++)
        if (!strchr(".,;:!?)\"'", item->at[i]))
            return false;
    return true;
}

static bool add_word(subtitle_view *v, const subtitle_item *item, size_t mark, bool begins) {
    if (begins && !cli_grow(&v->words, &v->word_room, v->word_count + 1, sizeof(*v->words)))
        return false;
    if (begins)
        v->words[v->word_count++] = (subtitle_word){mark, mark};
    if (begins && v->text_bytes > 0)
        v->text[v->text_bytes++] = ' ';
    subtitle_word *word = &v->words[v->word_count - 1];
    if (word->mark == SUBTITLE_NONE && !is_stop(item))
        word->mark = mark; /* a bracket before <b> */
    word->end = mark;
    add_text(v, item);
    return true;
}

/* Whether an atom belongs to the word before it, as the reading of a ruby text does. Other tags may lie between. */
static bool goes_after(const subtitle_view *v, size_t index) {
    enum { NEAR = 64 };
    size_t before = index, behind = index;
    if (v->word_count == 0)
        return false;
    for (int i = 0; i < NEAR && (before == index || v->items.at[before].kind == SUBTITLE_ATOM ||
                                 v->items.at[before].kind == SUBTITLE_OPEN);
         i++)
        before--; /* a word stands before it */
    for (int i = 0; i < NEAR && (behind == index || v->items.at[behind].kind == SUBTITLE_ATOM ||
                                 v->items.at[behind].kind == SUBTITLE_CLOSE);
         i++)
        behind++; /* a word stands behind it */
    return v->items.at[before].kind == SUBTITLE_GAP
               ? v->items.at[behind].kind == SUBTITLE_GAP && v->items.at[behind].breaks > 0
               : v->items.at[behind].kind != SUBTITLE_OPEN;
}

/* An atom, with one of the gaps next to it where it has two, so that its neighbors keep their blanks. */
static bool add_atom(subtitle_view *v, size_t index, size_t mark) {
    const subtitle_item *item = &v->items.at[index], *before = index > v->lead ? item - 1 : NULL, *behind = item + 1;
    const bool gap_before = before && before->kind == SUBTITLE_GAP && before->breaks == 0;
    const bool after = goes_after(v, index);
    subtitle_atom atom = {item->at, item->bytes, v->word_count - after, mark, after};
    if (!cli_grow(&v->atoms, &v->atom_room, v->atom_count + 1, sizeof(*v->atoms)))
        return false;
    if (gap_before && !after && behind->kind == SUBTITLE_GAP)
        atom.bytes += behind->bytes;
    if (gap_before && after) {
        atom.at = before->at;
        atom.bytes += before->bytes;
    }
    v->atoms[v->atom_count++] = atom;
    return true;
}

static bool read_items(subtitle_view *v) {
    size_t mark = SUBTITLE_NONE;
    bool good = true, gap = true;
    for (size_t i = v->lead; i <= v->last && good; i++) {
        const subtitle_item *item = &v->items.at[i];
        const bool closes = item->kind == SUBTITLE_CLOSE && item->pair != SUBTITLE_NONE && item->pair >= v->lead;
        if (item->kind == SUBTITLE_GAP) {
            gap = true;
        } else if (item->kind == SUBTITLE_WORD) {
            good = add_word(v, item, mark, gap);
            gap = false;
        } else if (subtitle_view_mark(v, i)) {
            v->parents[i] = mark;
            mark = i;
            v->marked = true;
        } else if (closes) {
            mark = v->parents[item->pair];
        } else {
            good = add_atom(v, i, mark);
            v->marked = true;
        }
    }
    return good;
}

bool subtitle_view_read(subtitle_view *view, const char *text, size_t bytes, bool vtt) {
    *view = (subtitle_view){0};
    if (!subtitle_tokenize(&view->items, text, bytes, vtt))
        return false;
    subtitle_match(&view->items, 0, view->items.count);
    if (!find_words(view))
        return true;
    view->parents = calloc(view->items.count, sizeof(*view->parents));
    view->text = malloc(2 * bytes + 1); /* "&nGt;" is 6 bytes of UTF-8 */
    return view->parents && view->text && read_items(view);
}

/* ---- Parts ----------------------------------------------------------------------------------------------------- */

static bool add_part(subtitle_parts *parts, const char *from, const char *end, size_t line, bool vtt) {
    subtitle_view view;
    bool good = subtitle_view_read(&view, from, (size_t)(end - from), vtt);
    if (good && view.text && subtitle_has_text(view.text, view.text_bytes, false)) {
        good = cli_grow(&parts->at, &parts->room, parts->count + 1, sizeof(*parts->at));
        if (good) {
            parts->at[parts->count++] = (subtitle_part){from, (size_t)(end - from), line, view.marked, view.text, NULL};
            view.text = NULL;
        }
    }
    subtitle_view_free(&view);
    return good;
}

static bool opens_voice(const subtitle_item *item) {
    return item->kind == SUBTITLE_OPEN && strncasecmp(item->at, "<v", 2) == 0 && strchr(" \t.>", item->at[2]);
}

/* The item after a closing bracket and the punctuation behind it, as in "[Tom]: Ja.". */
static size_t behind_bracket(const subtitle_items *items, size_t bracket) {
    size_t i = bracket + 1;
    while (i < items->count && items->at[i].kind == SUBTITLE_WORD && is_stop(&items->at[i]))
        i++;
    return i;
}

/* The end of the part that begins at item `first`; `next`: the beginning of the next part. */
static size_t part_end(const subtitle_items *items, size_t first, size_t *next) {
    size_t gap = first, word = items->count;
    for (size_t i = first; i < items->count; i++) {
        const subtitle_item *item = &items->at[i];
        const bool begun = word < items->count;
        if (item->kind == SUBTITLE_WORD) {
            word = i;
        } else if (item->kind == SUBTITLE_GAP) {
            gap = gap > word && begun ? gap : i; /* the first one after a word */
            *next = i + 1;
            if (begun && item->breaks > 1 && subtitle_ends_sentence(&items->at[word]))
                return i;
        } else if (begun && item->kind == SUBTITLE_MARK && strchr(")]", *item->at)) {
            *next = behind_bracket(items, i);
            return i + 1;
        } else if (begun && item->kind == SUBTITLE_MARK && item->breaks) {
            *next = gap + 1;
            return gap;
        } else if (begun && opens_voice(item)) {
            return *next = i;
        }
    }
    return *next = items->count;
}

static size_t line_ends(const subtitle_item *item) {
    size_t ends = 0;
    for (size_t i = 0; i < item->bytes && item->kind == SUBTITLE_GAP; i++)
        ends +=
            item->at[i] == '\n' || (item->at[i] == '\r' && (i + 1 == item->bytes || !strchr("\r\n", item->at[i + 1])));
    return ends;
}

bool subtitle_parts_add(subtitle_parts *parts, const subtitle_cue *cue, bool vtt) {
    subtitle_items items = {0};
    const char *end = cue->text + cue->bytes;
    bool good = subtitle_tokenize(&items, cue->text, cue->bytes, vtt);
    size_t line = cue->line;
    for (size_t first = 0, next = 0; good && first < items.count; first = next) {
        const size_t stop = part_end(&items, first, &next);
        const char *from = items.at[first].at, *to = stop < items.count ? items.at[stop].at : end;
        good = add_part(parts, from, to, line, vtt);
        for (size_t i = first; i < next; i++)
            line += line_ends(&items.at[i]);
    }
    free(items.at);
    return good;
}

void subtitle_parts_free(subtitle_parts *parts) {
    for (size_t i = 0; i < parts->count; i++) {
        free(parts->at[i].text);
        free(parts->at[i].written);
    }
    free(parts->at);
    *parts = (subtitle_parts){0};
}
