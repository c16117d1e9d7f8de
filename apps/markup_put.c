/* A translation in the place of a run: each of its words gets the marks of the word that the model looked at most as it
 * wrote it. Words are what blanks part; in a text without blanks all words have the marks of the first one. */
#include <stdlib.h>
#include <string.h>
#include "cli.h"
#include "markup_tree.h"

/* Larger ones would take too much memory and time. */
enum { MOST_WEIGHTS = 1 << 22 };

typedef struct matrix {
    double *at; /* [rows][columns]; NULL: there are no weights, and words go by place */
    size_t rows, columns;
} matrix;

static size_t count_words(const char *text) {
    size_t count = 0;
    for (bool in = false; *text; text++) {
        count += !in && !markup_is_blank(*text);
        in = !markup_is_blank(*text);
    }
    return count;
}

/* ---- Which word is whose --------------------------------------------------------------------------------------- */

/* Whether a token begins a word: SentencePiece's mark, or that of byte-level BPE. */
static bool begins_word(const char *token) {
    return strncmp(token, "\xE2\x96\x81", 3) == 0 || strncmp(token, "\xC4\xA0", 2) == 0;
}

/* The word of each token of a sentence, from `first` on; returns how many words there are by then. The last token is
 * the end of the sentence, which is no word: it stays with the last one, and weighs little. */
static size_t words_of_tokens(size_t *words, const json_t *tokens, size_t first) {
    size_t next = first;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const char *token = json_string_value(json_array_get(tokens, i));
        if (i == 0 || (token && begins_word(token)))
            next++;
        words[i] = next - 1;
    }
    return next;
}

static size_t all_tokens(const json_t *alignment, const char *side) {
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(alignment); i++)
        count += json_array_size(json_object_get(json_array_get(alignment, i), side));
    return count;
}

/* Words as the tokens have them and words between blanks may differ in number: then by their place. */
static size_t scaled(size_t word, size_t from, size_t to) {
    return from == 0 || to == 0 ? 0 : from == to ? word : word * to / from;
}

static void add_weights(matrix *m, const json_t *weights, const size_t *rows, size_t row_words, const size_t *columns,
                        size_t column_words) {
    for (size_t r = 0; r < json_array_size(weights); r++) {
        const json_t *row = json_array_get(weights, r);
        for (size_t c = 0; c + 1 < json_array_size(row); c++) /* the last one is the end of the sentence */
            m->at[scaled(rows[r], row_words, m->rows) * m->columns + scaled(columns[c], column_words, m->columns)] +=
                json_number_value(json_array_get(row, c));
    }
}

/* How much each word of the translation looked at each one of the run. */
static bool weigh(matrix *m, const json_t *alignment) {
    const size_t sources = all_tokens(alignment, "source"), targets = all_tokens(alignment, "target");
    size_t *columns = calloc(sources + 1, sizeof(*columns)), *rows = calloc(targets + 1, sizeof(*rows));
    size_t column_words = 0, row_words = 0, c = 0, r = 0;
    m->at = calloc(m->rows * m->columns + 1, sizeof(*m->at));
    const bool good = columns && rows && m->at;
    for (size_t i = 0; good && i < json_array_size(alignment); i++) {
        const json_t *one = json_array_get(alignment, i), *source = json_object_get(one, "source");
        column_words = words_of_tokens(columns + c, source, column_words);
        row_words = words_of_tokens(rows + r, json_object_get(one, "target"), row_words);
        c += json_array_size(source);
        r += json_array_size(json_object_get(one, "target"));
    }
    for (size_t i = 0, ci = 0, ri = 0; good && m->rows && m->columns && i < json_array_size(alignment); i++) {
        const json_t *one = json_array_get(alignment, i);
        add_weights(m, json_object_get(one, "weights"), rows + ri, row_words, columns + ci, column_words);
        ci += json_array_size(json_object_get(one, "source"));
        ri += json_array_size(json_object_get(one, "target"));
    }
    free(columns);
    free(rows);
    return good;
}

/* The word of the run that each word of the translation belongs to. */
static void choose(size_t *from, const matrix *m) {
    for (size_t r = 0; r < m->rows; r++) {
        size_t best = m->columns * r / m->rows; /* by place, where nothing weighs */
        for (size_t c = 0; m->at && c < m->columns; c++)
            if (m->at[r * m->columns + c] > m->at[r * m->columns + best])
                best = c;
        from[r] = best;
    }
}

/* A mark that no word came to goes to the word that looked at it most, so that no link is lost. */
static void keep_marks(size_t *from, const matrix *m, const markup_run *run) {
    for (size_t c = 0; c < m->columns; c++) {
        bool used = run->words[c].mark == NULL;
        size_t best = 0;
        for (size_t r = 0; r < m->rows; r++) {
            used = used || run->words[from[r]].mark == run->words[c].mark;
            best = m->at[r * m->columns + c] > m->at[best * m->columns + c] ? r : best;
        }
        if (!used)
            from[best] = c;
    }
}

/* The same where words go by place: marks are looked for in the order of the words, each once. */
static void keep_by_place(size_t *from, const matrix *m, const markup_run *run) {
    for (size_t c = 0, r = 0, next; c < m->columns; c = next) {
        bool used = run->words[c].mark == NULL;
        for (next = c + 1; next < m->columns && run->words[next].mark == run->words[c].mark; next++)
            ;
        for (; r < m->rows && m->columns * r / m->rows < next; r++)
            used = true;
        if (!used)
            from[c * m->rows / m->columns] = c;
    }
}

/* ---- New nodes ------------------------------------------------------------------------------------------------- */

enum { DEEPEST = 64 };

/* Where text is added: copies of elements that are open, the outermost first. */
typedef struct writer {
    xmlNode *root; /* holds the new nodes until all are there */
    xmlNode *open[DEEPEST], *copies[DEEPEST];
    size_t depth;
    bool starved;
} writer;

/* The elements from below the run's parent to `mark`. */
static size_t path_of(xmlNode *path[DEEPEST], xmlNode *mark, const xmlNode *parent) {
    size_t depth = 0;
    for (xmlNode *at = mark; at && at != parent; at = at->parent)
        depth++;
    depth = depth < DEEPEST ? depth : DEEPEST;
    size_t i = depth;
    for (xmlNode *at = mark; at && at != parent && i > 0; at = at->parent)
        path[--i] = at;
    return depth;
}

static void close_to(writer *w, xmlNode *const *path, size_t depth) {
    size_t same = 0;
    while (same < w->depth && same < depth && w->open[same] == path[same])
        same++;
    w->depth = same;
}

static void open_to(writer *w, xmlNode *const *path, size_t depth) {
    while (w->depth < depth && !w->starved) {
        xmlNode *copy = xmlCopyNode(path[w->depth], 2); /* with its attributes */
        if (!copy) {
            w->starved = true;
            return;
        }
        xmlUnsetProp(path[w->depth], (const xmlChar *)"id"); /* a second copy has none */
        xmlAddChild(w->depth ? w->copies[w->depth - 1] : w->root, copy);
        w->open[w->depth] = path[w->depth];
        w->copies[w->depth++] = copy;
    }
}

static void put_text(writer *w, const char *text, size_t bytes) {
    xmlNode *node = bytes > 0 ? xmlNewTextLen((const xmlChar *)text, (int)bytes) : NULL;
    if (node)
        xmlAddChild(w->depth ? w->copies[w->depth - 1] : w->root, node); /* joins a text before it */
    w->starved = w->starved || (bytes > 0 && !node);
}

static void put_marked(writer *w, const markup_run *run, xmlNode *mark, const char *text, size_t bytes) {
    xmlNode *path[DEEPEST];
    const size_t depth = path_of(path, mark, run->parent);
    close_to(w, path, depth);
    open_to(w, path, depth);
    put_text(w, text, bytes);
}

/* A word; a stop at its end is marked as the one of the source is. */
static void put_word(writer *w, const markup_run *run, const markup_word *word, const char *text, size_t bytes) {
    size_t body = bytes;
    while (word->end != word->mark && body > 1 && strchr(".,;:!?", text[body - 1]))
        body--;
    put_marked(w, run, word->mark, text, body);
    if (body < bytes)
        put_marked(w, run, word->end, text + body, bytes - body);
}

static void put_blank(writer *w, const markup_run *run, xmlNode *next) {
    xmlNode *path[DEEPEST];
    close_to(w, path, path_of(path, next, run->parent));
    put_text(w, " ", 1);
}

/* What is kept in the middle of the text: after the word that the one before it became. */
static void put_atoms(writer *w, const markup_run *run, bool *put, size_t source, bool all) {
    for (size_t i = 0; i < run->atom_count; i++) {
        if (put[i] || (!all && run->atoms[i].words != source))
            continue;
        put[i] = true;
        w->depth = 0;
        if (run->atoms[i].words > 0 && run->atoms[i].node->type != XML_COMMENT_NODE && run->bytes > 0)
            put_text(w, " ", 1);
        xmlUnlinkNode(run->atoms[i].node);
        xmlAddChild(w->root, run->atoms[i].node);
        if (run->atoms[i].words == 0)
            put_text(w, " ", 1);
    }
}

static void write_words(writer *w, const markup_run *run, const char *translation, const size_t *from, bool *put) {
    size_t word = 0;
    if (run->blank_before)
        put_text(w, " ", 1);
    put_atoms(w, run, put, 0, false);
    for (const char *at = translation; *at && !w->starved;) {
        size_t bytes = 0;
        for (; markup_is_blank(*at); at++)
            ;
        while (at[bytes] && !markup_is_blank(at[bytes]))
            bytes++;
        if (bytes == 0)
            break;
        const markup_word *source = &run->words[from[word]];
        if (word > 0)
            put_blank(w, run, source->mark);
        put_word(w, run, source, at, bytes);
        put_atoms(w, run, put, from[word] + 1, false);
        at += bytes;
        word++;
    }
    put_atoms(w, run, put, 0, true);
    w->depth = 0;
    if (run->blank_after)
        put_text(w, " ", 1);
}

/* The new nodes in the place of the old ones, which are those between `before` and `behind`: of the run's own first and
 * last node nothing is known any more, since atoms have moved to the new ones. */
static void exchange(xmlNode *parent, xmlNode *before, xmlNode *behind, xmlNode *root) {
    for (xmlNode *node = before ? before->next : parent->children, *next; node && node != behind; node = next) {
        next = node->next;
        xmlUnlinkNode(node);
        xmlFreeNode(node);
    }
    for (xmlNode *node = root->children, *next; node; node = next) {
        next = node->next;
        xmlUnlinkNode(node);
        if (behind)
            xmlAddPrevSibling(behind, node);
        else
            xmlAddChild(parent, node);
    }
}

bool markup_put(markup *m, size_t index, const char *translation, const json_t *alignment) {
    const markup_run *run = &m->runs[index];
    xmlNode *before = run->first->prev, *behind = run->last->next;
    matrix weights = {.rows = count_words(translation), .columns = run->word_count};
    size_t *from = calloc(weights.rows + 1, sizeof(*from));
    bool *put = calloc(run->atom_count + 1, sizeof(*put));
    writer w = {.root = xmlNewNode(NULL, (const xmlChar *)"div")};
    const bool weighed = weights.columns > 0 && weights.rows <= MOST_WEIGHTS / weights.columns;
    bool good = from && put && w.root && (!weighed || weigh(&weights, alignment));
    if (good && weights.rows > 0) {
        choose(from, &weights);
        (weighed ? keep_marks : keep_by_place)(from, &weights, run);
    }
    if (good) {
        xmlSetTreeDoc(w.root, m->document);
        write_words(&w, run, translation, from, put);
        exchange(run->parent, before, behind, w.root); /* also of a part: atoms have moved */
    }
    xmlFreeNode(w.root);
    free(weights.at);
    free(from);
    free(put);
    return good && !w.starved;
}
