#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include "text/char_class.h"

/* The tables of `tokenizers` are of several versions of Unicode: 8 for punctuation and accents, 9 for marks and
 * scripts. Characters that changed class since are listed. */
static bool is_of(int32_t c, int version) {
    UVersionInfo age;
    u_charAge(c, age);
    return age[0] > 0 && age[0] <= version;
}

bool tfm__char_in_unicode(int32_t c, int version) {
    return c < 0x80 || is_of(c, version);
}

bool tfm__char_is_space(int32_t c) {
    return c < 0x80 ? c == ' ' || (c >= 9 && c <= 13) : u_isUWhiteSpace(c);
}

bool tfm__char_is_word(int32_t c) {
    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) ||
           (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) ||
           u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL);
}

bool tfm__char_is_number(int32_t c) {
    return c < 0x80 ? c >= '0' && c <= '9' : (U_GET_GC_MASK(c) & U_GC_N_MASK) != 0;
}

bool tfm__char_is_punctuation(int32_t c) {
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    return ((U_GET_GC_MASK(c) & U_GC_P_MASK) && is_of(c, 8)) || c == 0x166d || c == 0x111c9;
}

bool tfm__char_is_control(int32_t c) {
    if (c < 0x80)
        return (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
    return (U_GET_GC_MASK(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) && is_of(c, 8);
}

bool tfm__char_is_mark(int32_t c) {
    if (c == 0x1cf2 || c == 0x1cf3 || c == 0x111c9)
        return c != 0x111c9;
    return c >= 0x80 && (U_GET_GC_MASK(c) & U_GC_M_MASK) && is_of(c, 9);
}

bool tfm__char_is_accent(int32_t c) {
    if (c == 0x1734 || c == 0x1885 || c == 0x1886 || c == 0xa9bd || c == 0x111c9)
        return c == 0x1734;
    return c >= 0x80 && (U_GET_GC_MASK(c) & U_GC_MN_MASK) && is_of(c, 8);
}

bool tfm__char_is_cjk(int32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

int tfm__char_to_lower(int32_t out[2], int32_t c) {
    if (c < 0x80) {
        out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        return 1;
    }
    if (c == 0x130) { /* the only one that becomes two characters in every language */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = u_tolower(c);
    return 1;
}

int32_t tfm__char_script(int32_t c) {
    if (c == ' ' || !tfm__char_in_unicode(c, 9) || (U_GET_GC_MASK(c) & (U_GC_CO_MASK | U_GC_CN_MASK)))
        return -1;
    if (c == 0x30fc)
        return USCRIPT_HAN;
    UErrorCode error = U_ZERO_ERROR;
    const UScriptCode script = uscript_getScript(c, &error);
    return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

bool tfm__char_extends_grapheme(int32_t before, int32_t c) {
    if (before < 0x80 && c < 0x80)
        return before == '\r' && c == '\n';
    const int32_t left = u_getIntPropertyValue(before, UCHAR_GRAPHEME_CLUSTER_BREAK);
    const int32_t right = u_getIntPropertyValue(c, UCHAR_GRAPHEME_CLUSTER_BREAK);
    if (left == U_GCB_CR || left == U_GCB_LF || left == U_GCB_CONTROL || right == U_GCB_CR || right == U_GCB_LF ||
        right == U_GCB_CONTROL)
        return false;
    return right == U_GCB_EXTEND || right == U_GCB_ZWJ || right == U_GCB_SPACING_MARK || left == U_GCB_PREPEND;
}
