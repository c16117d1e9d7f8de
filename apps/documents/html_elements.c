/* HTML's elements: those of WHATWG HTML, obsolete ones too. All others are phrasing content without more. */
#include <stdlib.h>
#include <string.h>
#include "documents/html_lexer.h"

enum {
    VOID = HTML_VOID,
    BLOCK = HTML_BLOCK,
    ENDS_P = HTML_ENDS_P,
    SPECIAL = HTML_SPECIAL,
    SCOPE = HTML_SCOPE,
    FORMAT = HTML_FORMAT,
    KEPT = HTML_KEPT,
    ISLAND = HTML_ISLAND,
    BLIND = HTML_BLIND,
    RAW = HTML_RAW,
    PRE = HTML_PRE,
    BREAKOUT = HTML_BREAKOUT,
};

/* By name. */
static const html_element ELEMENTS[] = {
    {"a", FORMAT, HTML_ID_A},
    {"address", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"applet", SPECIAL | SCOPE | KEPT | ISLAND, HTML_OTHER},
    {"area", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"article", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"aside", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"audio", ISLAND, HTML_OTHER},
    {"b", FORMAT | BREAKOUT, HTML_OTHER},
    {"base", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"basefont", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"bgsound", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"big", FORMAT | BREAKOUT, HTML_OTHER},
    {"blockquote", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_OTHER},
    {"body", BLOCK | SPECIAL | BREAKOUT, HTML_ID_BODY},
    {"br", VOID | BLOCK | SPECIAL | BREAKOUT, HTML_OTHER},
    {"button", SPECIAL, HTML_ID_BUTTON},
    {"canvas", ISLAND, HTML_OTHER},
    {"caption", BLOCK | SPECIAL | SCOPE, HTML_ID_SECTION},
    {"center", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_OTHER},
    {"code", FORMAT | KEPT | ISLAND | BREAKOUT, HTML_OTHER},
    {"col", VOID | BLOCK | SPECIAL, HTML_OTHER},
    {"colgroup", BLOCK | SPECIAL, HTML_ID_SECTION},
    {"datalist", ISLAND, HTML_OTHER},
    {"dd", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_DD},
    {"details", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"dialog", BLOCK | ENDS_P, HTML_OTHER},
    {"dir", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"div", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_OTHER},
    {"dl", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_OTHER},
    {"dt", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_DT},
    {"em", FORMAT | BREAKOUT, HTML_OTHER},
    {"embed", VOID | SPECIAL | BREAKOUT, HTML_OTHER},
    {"fieldset", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"figcaption", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"figure", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"font", FORMAT, HTML_ID_FONT},
    {"footer", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"form", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"frame", VOID | BLOCK | SPECIAL, HTML_OTHER},
    {"frameset", BLOCK | SPECIAL, HTML_OTHER},
    {"h1", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_HEADING},
    {"h2", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_HEADING},
    {"h3", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_HEADING},
    {"h4", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_HEADING},
    {"h5", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_HEADING},
    {"h6", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_HEADING},
    {"head", BLOCK | SPECIAL | BREAKOUT, HTML_ID_HEAD},
    {"header", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"hgroup", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"hr", VOID | BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_OTHER},
    {"html", BLOCK | SPECIAL | SCOPE, HTML_OTHER},
    {"i", FORMAT | BREAKOUT, HTML_OTHER},
    {"iframe", SPECIAL | KEPT | ISLAND | RAW, HTML_OTHER},
    {"image", VOID, HTML_OTHER},
    {"img", VOID | SPECIAL | BREAKOUT, HTML_OTHER},
    {"input", VOID | SPECIAL, HTML_OTHER},
    {"kbd", KEPT | ISLAND, HTML_OTHER},
    {"keygen", VOID | SPECIAL, HTML_OTHER},
    {"legend", BLOCK, HTML_OTHER},
    {"li", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_LI},
    {"link", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"listing", BLOCK | ENDS_P | SPECIAL | PRE | BREAKOUT, HTML_OTHER},
    {"main", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"map", ISLAND, HTML_OTHER},
    {"marquee", BLOCK | SPECIAL | SCOPE, HTML_OTHER},
    {"math", KEPT | ISLAND, HTML_ID_MATH},
    {"menu", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_OTHER},
    {"meta", VOID | SPECIAL | BLIND | BREAKOUT, HTML_ID_META},
    {"meter", KEPT | ISLAND, HTML_OTHER},
    {"nav", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"nobr", FORMAT | BREAKOUT, HTML_ID_NOBR},
    {"noembed", SPECIAL | KEPT | ISLAND | BLIND | RAW, HTML_OTHER},
    {"noframes", BLOCK | SPECIAL | KEPT | RAW, HTML_OTHER},
    {"noscript", SPECIAL | KEPT | ISLAND | BLIND | RAW, HTML_OTHER},
    {"object", SPECIAL | SCOPE | KEPT | ISLAND, HTML_OTHER},
    {"ol", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_OTHER},
    {"optgroup", BLOCK, HTML_ID_OPTGROUP},
    {"option", BLOCK, HTML_ID_OPTION},
    {"p", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_ID_P},
    {"param", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"picture", ISLAND, HTML_OTHER},
    {"plaintext", BLOCK | ENDS_P | SPECIAL | KEPT | RAW | PRE, HTML_ID_PLAINTEXT},
    {"pre", BLOCK | ENDS_P | SPECIAL | PRE | BREAKOUT, HTML_OTHER},
    {"progress", KEPT | ISLAND, HTML_OTHER},
    {"rb", 0, HTML_ID_RT},
    {"rp", KEPT | ISLAND, HTML_ID_RT},
    {"rt", KEPT | ISLAND, HTML_ID_RT},
    {"rtc", KEPT | ISLAND, HTML_ID_RT},
    {"ruby", BREAKOUT, HTML_ID_RUBY},
    {"s", FORMAT | BREAKOUT, HTML_OTHER},
    {"samp", KEPT | ISLAND, HTML_OTHER},
    {"script", SPECIAL | KEPT | ISLAND | BLIND | RAW, HTML_ID_SCRIPT},
    {"search", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"section", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"select", SPECIAL | SCOPE | ISLAND, HTML_ID_SELECT},
    {"small", FORMAT | BREAKOUT, HTML_OTHER},
    {"source", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"span", BREAKOUT, HTML_OTHER},
    {"strike", FORMAT | BREAKOUT, HTML_OTHER},
    {"strong", FORMAT | BREAKOUT, HTML_OTHER},
    {"style", SPECIAL | KEPT | ISLAND | BLIND | RAW, HTML_OTHER},
    {"sub", BREAKOUT, HTML_OTHER},
    {"summary", BLOCK | ENDS_P | SPECIAL, HTML_OTHER},
    {"sup", BREAKOUT, HTML_ID_SUP},
    {"svg", KEPT | ISLAND, HTML_ID_SVG},
    {"table", BLOCK | ENDS_P | SPECIAL | SCOPE | BREAKOUT, HTML_ID_TABLE},
    {"tbody", BLOCK | SPECIAL, HTML_ID_SECTION},
    {"td", BLOCK | SPECIAL | SCOPE, HTML_ID_CELL},
    {"template", SPECIAL | SCOPE | KEPT | ISLAND | BLIND, HTML_ID_TEMPLATE},
    {"textarea", SPECIAL | KEPT | ISLAND, HTML_ID_TEXTAREA},
    {"tfoot", BLOCK | SPECIAL, HTML_ID_SECTION},
    {"th", BLOCK | SPECIAL | SCOPE, HTML_ID_CELL},
    {"thead", BLOCK | SPECIAL, HTML_ID_SECTION},
    {"title", BLOCK | SPECIAL, HTML_ID_TITLE},
    {"tr", BLOCK | SPECIAL, HTML_ID_ROW},
    {"track", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"tt", FORMAT | BREAKOUT, HTML_OTHER},
    {"u", FORMAT | BREAKOUT, HTML_OTHER},
    {"ul", BLOCK | ENDS_P | SPECIAL | BREAKOUT, HTML_OTHER},
    {"var", BREAKOUT, HTML_OTHER},
    {"video", ISLAND, HTML_OTHER},
    {"wbr", VOID | SPECIAL | BLIND, HTML_OTHER},
    {"xmp", BLOCK | ENDS_P | SPECIAL | KEPT | RAW | PRE, HTML_OTHER},
};

typedef struct wanted {
    const char *name;
    size_t bytes;
} wanted;

static int by_name(const void *key, const void *item) {
    const wanted *w = key;
    const html_element *e = item;
    for (size_t i = 0; i < w->bytes; i++) {
        const char c = w->name[i], lower = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
        if (lower != e->name[i]) /* also at the end of the latter */
            return (unsigned char)lower - (unsigned char)e->name[i];
    }
    return e->name[w->bytes] ? -1 : 0;
}

const html_element *html_element_of(const char *name, size_t bytes) {
    static const html_element other = {"", 0, HTML_OTHER};
    const wanted w = {name, bytes};
    const html_element *found = bsearch(&w, ELEMENTS, sizeof(ELEMENTS) / sizeof(*ELEMENTS), sizeof(*ELEMENTS), by_name);
    return found ? found : &other;
}
