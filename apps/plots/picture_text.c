/* Chooses fonts by fontconfig, by their characters; cairo alone would show boxes for missing glyphs. */
#include <cairo-ft.h>
#include <fontconfig/fontconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plots/picture_draw.h"

enum { MAX_FONTS = 32 };

typedef struct font {
    bool bold;
    FcPattern *pattern;
    FcCharSet *characters; /* of the pattern */
    cairo_font_face_t *face;
} font;

struct picture_fonts {
    font all[MAX_FONTS]; /* the first is the plain one */
    size_t count;
    char missing[64];
};

/* The next character of *text, which is advanced; 0 at the end. Invalid UTF-8 is read byte by byte. */
static FcChar32 next_character(const char **text) {
    FcChar32 character = 0;
    if (!**text)
        return 0;
    int bytes = FcUtf8ToUcs4((const FcChar8 *)*text, &character, (int)strlen(*text));
    if (bytes <= 0) {
        character = (unsigned char)**text;
        bytes = 1;
    }
    *text += bytes;
    return character;
}

static bool covers(const font *f, const char *text) {
    for (FcChar32 c; (c = next_character(&text)) != 0;)
        if (c > ' ' && !FcCharSetHasChar(f->characters, c))
            return false;
    return true;
}

/* The sans-serif font that has most of the text's characters. */
static bool open_font(font *out, const char *text, bool bold) {
    FcPattern *pattern = FcPatternCreate();
    FcCharSet *characters = FcCharSetCreate();
    FcResult result;
    for (FcChar32 c; characters && (c = next_character(&text)) != 0;)
        if (c > ' ')
            FcCharSetAddChar(characters, c);
    if (pattern && characters) {
        FcPatternAddString(pattern, FC_FAMILY, (const FcChar8 *)"sans-serif");
        FcPatternAddInteger(pattern, FC_WEIGHT, bold ? FC_WEIGHT_BOLD : FC_WEIGHT_REGULAR);
        FcPatternAddBool(pattern, FC_SCALABLE, FcTrue);
        FcPatternAddCharSet(pattern, FC_CHARSET, characters);
        FcConfigSubstitute(NULL, pattern, FcMatchPattern);
        FcDefaultSubstitute(pattern);
        out->pattern = FcFontMatch(NULL, pattern, &result);
    }
    if (characters)
        FcCharSetDestroy(characters);
    if (pattern)
        FcPatternDestroy(pattern);
    FcChar8 *file;
    out->bold = bold;
    if (out->pattern && FcPatternGetString(out->pattern, FC_FILE, 0, &file) == FcResultMatch &&
        FcPatternGetCharSet(out->pattern, FC_CHARSET, 0, &out->characters) == FcResultMatch) {
        out->face = cairo_ft_font_face_create_for_pattern(out->pattern);
        if (cairo_font_face_status(out->face) == CAIRO_STATUS_SUCCESS)
            return true;
        cairo_font_face_destroy(out->face);
    }
    if (out->pattern)
        FcPatternDestroy(out->pattern);
    return false;
}

static void close_font(font *f) {
    cairo_font_face_destroy(f->face);
    FcPatternDestroy(f->pattern);
}

picture_fonts *picture_fonts_open(void) {
    picture_fonts *fonts = calloc(1, sizeof(*fonts));
    if (!fonts || !open_font(&fonts->all[0], "abc", false)) {
        free(fonts);
        cli_fail("there is no font: install fonts-dejavu-core, or any TrueType font");
        return NULL;
    }
    fonts->count = 1;
    return fonts;
}

void picture_fonts_close(picture_fonts *fonts) {
    for (size_t i = 0; fonts && i < fonts->count; i++)
        close_font(&fonts->all[i]);
    free(fonts);
}

void picture_fonts_warn(const picture_fonts *fonts) {
    static bool warned; /* training renders the same text repeatedly */
    if (fonts->missing[0] && !warned)
        fprintf(stderr,
                "tfm: warning: no installed font has all characters of '%s', shown as boxes: install "
                "one for its script, such as fonts-noto-core or fonts-noto-cjk\n",
                fonts->missing);
    warned = warned || fonts->missing[0];
}

/* Copies a text, truncated to whole characters. */
static void copy_start(char *out, size_t room, const char *text) {
    size_t length = strlen(text);
    if (length >= room)
        for (length = room - 1; length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80; length--)
            ;
    memcpy(out, text, length);
    out[length] = 0;
}

/* An open font, else a new one; if no font has the whole text, the best one. */
static const font *font_for(picture_fonts *fonts, const char *text, bool bold) {
    for (size_t i = 0; i < fonts->count; i++)
        if (fonts->all[i].bold == bold && covers(&fonts->all[i], text))
            return &fonts->all[i];
    font fresh = {0};
    if (!open_font(&fresh, text, bold))
        return &fonts->all[0];
    if (!covers(&fresh, text) && !fonts->missing[0])
        copy_start(fonts->missing, sizeof(fonts->missing), text);
    size_t i = 0;
    while (i < fonts->count && !FcPatternEqual(fonts->all[i].pattern, fresh.pattern))
        i++;
    if (i < fonts->count || fonts->count == MAX_FONTS) {
        close_font(&fresh);
        return &fonts->all[i < fonts->count ? i : 0];
    }
    fonts->all[fonts->count] = fresh;
    return &fonts->all[fonts->count++];
}

static const font *set_font(const drawing *d, const char *text, double size, bool bold) {
    const font *f = font_for(d->fonts, text, bold);
    cairo_set_font_face(d->cr, f->face);
    cairo_set_font_size(d->cr, size);
    return f;
}

double picture_text_width(const drawing *d, const char *text, double size, bool bold) {
    cairo_text_extents_t extents;
    set_font(d, text, size, bold);
    cairo_text_extents(d->cr, text, &extents);
    return extents.x_advance;
}

void picture_text_draw(const drawing *d, double x, double y, double align, const char *text, double size, bool bold) {
    if (d->measuring || !text[0])
        return;
    const double width = picture_text_width(d, text, size, bold);
    const font *f = set_font(d, text, size, bold);
    FcChar8 *family;
    if (d->svg) {
        const bool known = FcPatternGetString(f->pattern, FC_FAMILY, 0, &family) == FcResultMatch;
        picture_svg_text(d, x, y, align, text, known ? (const char *)family : "sans-serif", size, bold, width);
        return;
    }
    cairo_move_to(d->cr, x - align * width, y);
    cairo_show_text(d->cr, text);
}

/* The word mark becomes "_", which every font has, as wide as a letter; control characters go. */
static void copy_token(char *out, const char *token) {
    static const char mark[] = "\xe2\x96\x81"; /* U+2581 */
    while (*token) {
        if (strncmp(token, mark, sizeof(mark) - 1) == 0) {
            *out++ = '_';
            token += sizeof(mark) - 1;
        } else {
            *out++ = (unsigned char)*token < ' ' || *token == 127 ? ' ' : *token;
            token++;
        }
    }
    *out = 0;
}

char *picture_text_label(const drawing *d, const char *token, double size, double most) {
    static const char ellipsis[] = "\xe2\x80\xa6";
    char *label = malloc(strlen(token) + sizeof(ellipsis));
    if (!label)
        return NULL;
    copy_token(label, token);
    size_t length = strlen(label), first = length > 0; /* bytes of the first character, which stays */
    while (first < length && ((unsigned char)label[first] & 0xC0) == 0x80)
        first++;
    while (picture_text_width(d, label, size, false) > most && length > first) {
        do
            length--;
        while (length > first && ((unsigned char)label[length] & 0xC0) == 0x80);
        strcpy(label + length, ellipsis);
    }
    return label;
}
