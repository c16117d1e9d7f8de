/* HTML's tokens by the rules of HTML 5 (WHATWG HTML, 13.2.5), as byte ranges of the source (html_lexer.c); its elements
 * (html_elements.c) and character references (html_references.c). Subtitles have tokens of the same kinds. */
#ifndef TFM_HTML_LEXER_H
#define TFM_HTML_LEXER_H

#include "documents/markup.h"

typedef enum html_kind {
    HTML_TEXT,
    HTML_START,
    HTML_END,
    HTML_COMMENT,  /* invisible: comments, doctypes, processing instructions, truncated tags */
    HTML_TEMPLATE, /* a template expression such as {% if x %}, which may be visible */
    HTML_CDATA,    /* a CDATA section of svg and math: text */
    HTML_EOF
} html_kind;

typedef struct html_token {
    html_kind kind;
    size_t begin, end;
    size_t name, name_bytes; /* of tags */
    bool self_closing;
} html_token;

/* What the text after a start tag is. */
typedef enum html_state { HTML_DATA, HTML_RCDATA, HTML_RAWTEXT, HTML_SCRIPT, HTML_PLAINTEXT } html_state;

/* The caller sets `state` after the start tags that change it, and `foreign` where the open element is one of svg or
 * math. `raw` is the start tag whose end tag ends RCDATA, RAWTEXT and script data. */
typedef struct html_lexer {
    const char *text;
    size_t bytes, at;
    html_state state;
    bool foreign;
    html_token raw;
} html_lexer;

void html_next(html_token *t, html_lexer *l);
/* The value of the first attribute of this name, in lower case, as a range of the source; begin == end: it is empty.
 * `whole` is the attribute with the blank before it; each may be NULL. */
bool html_attribute(size_t value[2], size_t whole[2], const char *text, const html_token *t, const char *name);
/* Whether a range of the source is this name, which is in lower case. */
bool html_is(const char *text, size_t begin, size_t end, const char *name);
bool html_is_blank(char c);

/* ---- Elements -------------------------------------------------------------------------------------------------- */

enum {
    HTML_VOID = 1 << 0,      /* has no end tag */
    HTML_BLOCK = 1 << 1,     /* ends a sentence; all others are phrasing content */
    HTML_ENDS_P = 1 << 2,    /* its start tag ends a <p> */
    HTML_SPECIAL = 1 << 3,   /* end tags of phrasing content do not reach beyond it */
    HTML_SCOPE = 1 << 4,     /* end tags of block content do not reach beyond it */
    HTML_FORMAT = 1 << 5,    /* its end tag reaches beyond special elements */
    HTML_KEPT = 1 << 6,      /* its text is not translated unless translate="yes" says so */
    HTML_ISLAND = 1 << 7,    /* stands in a sentence, and its text is not of that sentence */
    HTML_BLIND = 1 << 8,     /* invisible: words around it are one word */
    HTML_RAW = 1 << 9,       /* without character references: never translated */
    HTML_PRE = 1 << 10,      /* keeps its lines */
    HTML_BREAKOUT = 1 << 11, /* ends svg and math */
};

typedef enum html_id {
    HTML_OTHER, /* none of the table */
    HTML_ID_A,
    HTML_ID_BODY,
    HTML_ID_BUTTON,
    HTML_ID_DD,
    HTML_ID_DT,
    HTML_ID_FONT,
    HTML_ID_HEAD,
    HTML_ID_HEADING,
    HTML_ID_LI,
    HTML_ID_MATH,
    HTML_ID_META,
    HTML_ID_NOBR,
    HTML_ID_OPTGROUP,
    HTML_ID_OPTION,
    HTML_ID_P,
    HTML_ID_PLAINTEXT,
    HTML_ID_ROW,
    HTML_ID_RT,
    HTML_ID_RUBY,
    HTML_ID_SCRIPT,
    HTML_ID_SECTION,
    HTML_ID_SELECT,
    HTML_ID_SUP,
    HTML_ID_SVG,
    HTML_ID_CELL,
    HTML_ID_TABLE,
    HTML_ID_TEMPLATE,
    HTML_ID_TEXTAREA,
    HTML_ID_TITLE,
} html_id;

typedef struct html_element {
    const char *name;
    unsigned flags;
    html_id id;
} html_element;

/* The element of this name in any case; one without flags where it is unknown. */
const html_element *html_element_of(const char *name, size_t bytes);

/* ---- Characters ------------------------------------------------------------------------------------------------ */

/* The most bytes of UTF-8 that a character reference stands for, with a NUL. */
enum { HTML_CHARACTER = 16 };

/* The bytes of the character, or with `references` of the reference, that text begins with; `out` is what it is. */
size_t html_character(char out[HTML_CHARACTER], const char *text, size_t bytes, bool references);
/* What such a character is: a blank, or one that nobody sees and that is no part of a word. */
bool html_character_is_blank(const char *character);
bool html_character_is_unseen(const char *character);

#endif
