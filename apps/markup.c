/* HTML to runs of text, and back. */
#include <libxml/HTMLtree.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "cli.h"
#include "markup_tree.h"

static const char *const INLINE[] = {
    "a",     "abbr", "acronym", "b", "bdi",   "bdo",  "big",    "cite",   "del", "dfn", "em",   "font", "i", "ins",
    "label", "mark", "q",       "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt",   "u", "var"};
/* What stays as it is in the middle of a text, and what holds no text to translate at all. */
static const char *const ATOMS[] = {"code", "img", "input", "kbd", "math", "samp", "svg", "wbr"};
static const char *const SILENT[] = {"script", "style", "template", "textarea", "noscript", "object", "iframe"};

static bool is_one(const xmlNode *node, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (node->type == XML_ELEMENT_NODE && strcasecmp((const char *)node->name, names[i]) == 0)
            return true;
    return false;
}

static bool is_text(const xmlNode *node) {
    return node->type == XML_TEXT_NODE;
}

/* Whether an element says that it is not to be translated. */
static bool is_kept(const xmlNode *node) {
    if (node->type != XML_ELEMENT_NODE)
        return false;
    xmlChar *value = xmlGetProp(node, (const xmlChar *)"translate");
    const bool kept = value && strcasecmp((const char *)value, "no") == 0;
    xmlFree(value);
    return kept;
}

static bool is_atom(const xmlNode *node) {
    return node->type == XML_COMMENT_NODE || is_one(node, ATOMS, CLI_COUNT(ATOMS)) ||
           (is_one(node, INLINE, CLI_COUNT(INLINE)) && is_kept(node));
}

/* Text, what is kept in the middle of text, and elements of nothing else. */
static bool flows(const xmlNode *node) {
    if (is_text(node) || is_atom(node))
        return true;
    if (!is_one(node, INLINE, CLI_COUNT(INLINE)))
        return false;
    for (const xmlNode *child = node->children; child; child = child->next)
        if (!flows(child))
            return false;
    return true;
}

bool markup_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* ---- The encoding ---------------------------------------------------------------------------------------------- */

static bool set_attribute(xmlNode *node, const char *name, const char *value) {
    return value && xmlSetProp(node, (const xmlChar *)name, (const xmlChar *)value);
}

/* The encoding in "text/html; charset=iso-8859-1" becomes utf-8. */
static bool rename_content(xmlNode *meta, const char *content) {
    static const char key[] = "charset=", name[] = "utf-8";
    const char *at = strcasestr(content, key);
    if (!at)
        return true;
    at += strlen(key);
    const char *rest = at + strcspn(at, "; \t\n");
    if ((size_t)(rest - at) == strlen(name) && strncasecmp(at, name, strlen(name)) == 0)
        return true;
    char *text = malloc(strlen(content) + sizeof(name));
    if (text)
        sprintf(text, "%.*s%s%s", (int)(at - content), content, name, rest);
    const bool good = set_attribute(meta, "content", text);
    free(text);
    return good;
}

/* A document is written in UTF-8: what says another encoding in it says that from now on. */
static bool say_encoding(xmlNode *node) {
    if (!is_one(node, (const char *const[]){"meta"}, 1))
        return true;
    xmlChar *charset = xmlGetProp(node, (const xmlChar *)"charset");
    xmlChar *kind = xmlGetProp(node, (const xmlChar *)"http-equiv");
    xmlChar *content = xmlGetProp(node, (const xmlChar *)"content");
    bool good = true;
    if (charset && strcasecmp((const char *)charset, "utf-8") != 0)
        good = set_attribute(node, "charset", "utf-8");
    if (good && content && kind && strcasecmp((const char *)kind, "content-type") == 0)
        good = rename_content(node, (const char *)content);
    xmlFree(charset);
    xmlFree(kind);
    xmlFree(content);
    return good;
}

/* ---- Runs ------------------------------------------------------------------------------------------------------ */

static bool add_char(markup *m, markup_run *run, char c) {
    if (!cli_grow(&run->text, &run->room, run->bytes + 2, 1)) {
        m->starved = true;
        return false;
    }
    run->text[run->bytes++] = c;
    run->text[run->bytes] = 0;
    return true;
}

static bool is_stop(char c) {
    return strchr(".,;:!?)\"'", c) != NULL;
}

static void add_text(markup *m, markup_run *run, const char *text, xmlNode *mark) {
    for (; *text && !m->starved; text++) {
        if (markup_is_blank(*text)) {
            run->blank_before = run->blank_before || run->bytes == 0;
            run->blank_after = true;
            continue;
        }
        const bool begins = run->bytes == 0 || run->blank_after;
        if (run->blank_after && run->bytes > 0)
            add_char(m, run, ' ');
        run->blank_after = false;
        if (begins && !cli_grow(&run->words, &run->word_room, run->word_count + 1, sizeof(*run->words)))
            m->starved = true;
        if (m->starved)
            return;
        if (begins)
            run->words[run->word_count++] = (markup_word){mark, mark};
        markup_word *word = &run->words[run->word_count - 1];
        if (!word->mark && !is_stop(*text) && word->mark != mark)
            word->mark = mark; /* a bracket before <b> */
        word->end = mark;
        add_char(m, run, *text);
    }
}

/* Whether there is text in a node that flows; a blank alone counts where `blanks` is set. */
static bool has_text(const xmlNode *node, bool blanks) {
    if (is_text(node)) {
        const char *text = node->content ? (const char *)node->content : "";
        for (; *text && !blanks && markup_is_blank(*text); text++)
            ;
        return *text != 0;
    }
    for (const xmlNode *child = is_atom(node) ? NULL : node->children; child; child = child->next)
        if (has_text(child, blanks))
            return true;
    return false;
}

/* An element without a word, such as an anchor or a link around a picture, is kept whole. */
static void fill_run(markup *m, markup_run *run, xmlNode *node, xmlNode *mark) {
    if (is_text(node)) {
        add_text(m, run, node->content ? (const char *)node->content : "", mark);
    } else if (is_atom(node) || !has_text(node, false)) {
        if (has_text(node, true))
            add_text(m, run, " ", mark); /* it parts the words around it */
        if (!cli_grow(&run->atoms, &run->atom_room, run->atom_count + 1, sizeof(*run->atoms)))
            m->starved = true;
        else
            run->atoms[run->atom_count++] = (markup_atom){node, run->word_count};
    } else {
        for (xmlNode *child = node->children; child && !m->starved; child = child->next)
            fill_run(m, run, child, node);
    }
}

static void free_run(markup_run *run) {
    free(run->text);
    free(run->words);
    free(run->atoms);
}

/* Makes a run of neighbours, unless they have no text. */
static void add_run(markup *m, xmlNode *first, xmlNode *last) {
    markup_run run = {.parent = first->parent, .first = first, .last = last};
    for (xmlNode *node = first; node && !m->starved; node = node == last ? NULL : node->next)
        fill_run(m, &run, node, NULL);
    if (!m->starved && run.bytes > 0 && cli_grow(&m->runs, &m->room, m->count + 1, sizeof(*m->runs))) {
        m->runs[m->count++] = run;
        return;
    }
    m->starved = m->starved || run.bytes > 0;
    free_run(&run);
}

static void find_runs(markup *m, xmlNode *parent) {
    xmlNode *first = NULL;
    for (xmlNode *node = parent->children; node && !m->starved; node = node->next) {
        m->starved = !say_encoding(node);
        if (flows(node)) {
            first = first ? first : node;
            if (!node->next || !flows(node->next)) {
                add_run(m, first, node);
                first = NULL;
            }
        } else if (node->type == XML_ELEMENT_NODE && !is_one(node, SILENT, CLI_COUNT(SILENT)) && !is_kept(node)) {
            find_runs(m, node); /* parse() refuses what nests deeper than 256 */
        }
    }
}

/* ---- In and out ------------------------------------------------------------------------------------------------ */

bool markup_there(void) {
    return true;
}

static bool is_document(const char *html) {
    return strcasestr(html, "<html") || strcasestr(html, "<body") || strcasestr(html, "<!doctype");
}

/* Parses text. libxml2 leaves out what follows the 256th element within each other, and what follows 10 MB of one text,
 * and says so only by its parser, which then makes no nodes any more: NULL. */
static htmlDocPtr parse(const char **why, const char *text, int bytes) {
    const int options =
        HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET | HTML_PARSE_NODEFDTD;
    htmlParserCtxtPtr parser = htmlNewParserCtxt();
    if (!parser)
        return NULL;
    htmlDocPtr document = htmlCtxtReadMemory(parser, text, bytes, NULL, "UTF-8", options);
    if (parser->disableSAX) {
        *why = "its elements lie more than about 250 deep in each other, or one has more than 10 MB of text, beyond "
               "which HTML is not read: cut it into parts";
        xmlFreeDoc(document);
        document = NULL;
    }
    htmlFreeParserCtxt(parser);
    return document;
}

markup *markup_read(const char **why, const char *html, size_t bytes) {
    static const char before[] = "<html><body><div>", after[] = "</div></body></html>";
    const bool whole = is_document(html);
    markup *m = calloc(1, sizeof(*m));
    char *text = malloc(bytes + sizeof(before) + sizeof(after));
    *why = "it has no element, or memory is short for it";
    if (m && text) {
        const int length = sprintf(text, "%s%s%s", whole ? "" : before, html, whole ? "" : after);
        m->document = parse(why, text, length);
    }
    free(text);
    xmlNode *root = m && m->document ? xmlDocGetRootElement(m->document) : NULL;
    if (root && !whole && root->children)
        m->fragment = root->children; /* the body: what closes the div early goes on after it */
    if (root)
        find_runs(m, root);
    if (m && root && !m->starved)
        return m;
    markup_free(m);
    return NULL;
}

size_t markup_runs(const markup *m) {
    return m->count;
}

const char *markup_text(const markup *m, size_t run) {
    return m->runs[run].text;
}

bool markup_marked(const markup *m, size_t run) {
    const markup_run *r = &m->runs[run];
    bool marked = r->atom_count > 0;
    for (size_t i = 0; i < r->word_count && !marked; i++)
        marked = r->words[i].mark || r->words[i].end;
    return marked;
}

long markup_line(const markup *m, size_t run) {
    return xmlGetLineNo(m->runs[run].first);
}

static void write_fragment(xmlOutputBufferPtr out, const markup *m) {
    for (xmlNode *node = m->fragment->children; node; node = node->next) {
        if (node != m->fragment->children) { /* after the div, which is the first child */
            htmlNodeDumpFormatOutput(out, m->document, node, "UTF-8", 0);
            continue;
        }
        for (xmlNode *child = node->children; child; child = child->next)
            htmlNodeDumpFormatOutput(out, m->document, child, "UTF-8", 0);
    }
}

char *markup_write(const markup *m) {
    xmlOutputBufferPtr out = xmlAllocOutputBuffer(NULL);
    if (!out)
        return NULL;
    if (m->fragment)
        write_fragment(out, m);
    else
        htmlDocContentDumpFormatOutput(out, m->document, "UTF-8", 0);
    xmlOutputBufferFlush(out);
    char *text = strdup((const char *)xmlOutputBufferGetContent(out));
    xmlOutputBufferClose(out);
    return text;
}

/* In the quotes that its value does not have; where it has both, the one kind as &quot;. */
static void write_attribute(FILE *out, const char *name, const char *value) {
    const char quote = strchr(value, '"') && !strchr(value, '\'') ? '\'' : '"';
    fprintf(out, " %s=%c", name, quote);
    for (; *value; value++)
        if (*value == quote)
            fputs("&quot;", out);
        else
            fputc(*value, out);
    fputc(quote, out);
}

/* No deeper than libxml2 nests, which is 256. */
static void write_plain(FILE *out, const xmlNode *node) {
    if ((is_text(node) || node->type == XML_COMMENT_NODE) && node->content)
        fputs((const char *)node->content, out);
    if (node->type != XML_ELEMENT_NODE)
        return;
    if (strcmp((const char *)node->name, "br") == 0) {
        fputc('\n', out);
        return;
    }
    fprintf(out, "<%s", (const char *)node->name);
    for (const xmlAttr *at = node->properties; at; at = at->next) {
        xmlChar *value = xmlNodeListGetString(node->doc, at->children, 1);
        if (value)
            write_attribute(out, (const char *)at->name, (const char *)value);
        else
            fprintf(out, " %s", (const char *)at->name);
        xmlFree(value);
    }
    fputc('>', out);
    for (const xmlNode *child = node->children; child; child = child->next)
        write_plain(out, child);
    fprintf(out, "</%s>", (const char *)node->name);
}

char *markup_write_plain(const markup *m) {
    char *text = NULL;
    size_t bytes = 0;
    const xmlNode *div = m->fragment ? m->fragment->children : NULL;
    FILE *out = open_memstream(&text, &bytes);
    for (const xmlNode *node = div && out ? div->children : NULL; node; node = node->next)
        write_plain(out, node);
    if (out && fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void markup_free(markup *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        free_run(&m->runs[i]);
    free(m->runs);
    xmlFreeDoc(m->document);
    free(m);
}
