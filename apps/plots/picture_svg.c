/* Adds text as text, and tooltips, to cairo's SVG. They are collected during rendering, and put on top when it is
 * complete. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plots/picture_draw.h"

struct picture_svg {
    FILE *drawing, *text, *tips; /* grow in memory */
    char *drawing_bytes, *text_bytes, *tips_bytes;
    size_t drawing_count, text_count, tips_count;
};

picture_svg *picture_svg_new(void) {
    picture_svg *svg = calloc(1, sizeof(*svg));
    if (svg) {
        svg->drawing = open_memstream(&svg->drawing_bytes, &svg->drawing_count);
        svg->text = open_memstream(&svg->text_bytes, &svg->text_count);
        svg->tips = open_memstream(&svg->tips_bytes, &svg->tips_count);
    }
    if (svg && svg->drawing && svg->text && svg->tips)
        return svg;
    picture_svg_free(svg);
    return NULL;
}

void picture_svg_free(picture_svg *svg) {
    if (!svg)
        return;
    FILE *files[] = {svg->drawing, svg->text, svg->tips};
    for (size_t i = 0; i < CLI_COUNT(files); i++)
        if (files[i])
            fclose(files[i]);
    free(svg->drawing_bytes);
    free(svg->text_bytes);
    free(svg->tips_bytes);
    free(svg);
}

bool picture_svg_take(picture_svg *svg, const unsigned char *data, size_t bytes) {
    return fwrite(data, 1, bytes, svg->drawing) == bytes;
}

/* Escapes text for XML. Control characters, and two noncharacters, are not allowed even if escaped. */
static void put_escaped(FILE *out, const char *text) {
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '&' || *c == '<' || *c == '>')
            fputs(*c == '&' ? "&amp;" : *c == '<' ? "&lt;" : "&gt;", out);
        else if (c[0] == 0xEF && c[1] == 0xBF && c[2] >= 0xBE)
            fputs("\xef\xbf\xbd", out), c += 2; /* U+FFFD for U+FFFE and U+FFFF */
        else
            fputc(*c < ' ' || *c == 127 ? ' ' : *c, out);
    }
}

/* `textLength` fits the text of any font to the layout's width. */
void picture_svg_text(const drawing *d, double x, double y, double align, const char *text, const char *family,
                      double size, bool bold, double width) {
    static const char *const anchors[] = {"start", "middle", "end"};
    FILE *out = d->svg->text;
    double red = 0, green = 0, blue = 0, alpha = 1;
    cairo_matrix_t at;
    cairo_get_matrix(d->cr, &at);
    cairo_matrix_transform_point(&at, &x, &y);
    cairo_pattern_get_rgba(cairo_get_source(d->cr), &red, &green, &blue, &alpha);
    const double angle = round(atan2(at.yx, at.xx) * 90 / acos(0));
    fprintf(out, "<text x=\"%.6g\" y=\"%.6g\" font-size=\"%.6g\" textLength=\"%.6g\" fill=\"#%02x%02x%02x\"", x, y,
            size, width, (unsigned)lround(255 * red), (unsigned)lround(255 * green), (unsigned)lround(255 * blue));
    if (align > 0)
        fprintf(out, " text-anchor=\"%s\"", anchors[lround(2 * align)]);
    if (angle != 0)
        fprintf(out, " transform=\"rotate(%g %.6g %.6g)\"", angle, x, y);
    if (bold)
        fputs(" font-weight=\"bold\"", out);
    fputs(" font-family=\"", out);
    for (const char *c = family; *c; c++) /* quotes in font names are removed */
        fputc(strchr("\"'&<>\\", *c) ? ' ' : *c, out);
    fputs(", sans-serif\">", out);
    put_escaped(out, text);
    fputs("</text>\n", out);
}

void picture_svg_tip(const drawing *d, double x, double y, double width, double height, const char *text) {
    cairo_matrix_t at;
    cairo_get_matrix(d->cr, &at);
    cairo_matrix_transform_point(&at, &x, &y);
    fprintf(d->svg->tips, "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\"><title>", x, y, width, height);
    put_escaped(d->svg->tips, text);
    fputs("</title></rect>\n", d->svg->tips);
}

bool picture_svg_write(picture_svg *svg, FILE *out) {
    static const char end[] = "</svg>";
    if (fflush(svg->drawing) != 0 || fflush(svg->text) != 0 || fflush(svg->tips) != 0)
        return false;
    size_t body = svg->drawing_count;
    while (body > 0 && strncmp(svg->drawing_bytes + body - 1, end, sizeof(end) - 1) != 0)
        body--;
    if (body == 0)
        return false;
    fwrite(svg->drawing_bytes, 1, body - 1, out);
    fputs("<g xml:space=\"preserve\">\n", out);
    fwrite(svg->text_bytes, 1, svg->text_count, out);
    fputs("</g>\n", out);
    if (svg->tips_count > 0) {
        fputs("<g fill=\"none\" pointer-events=\"all\">\n", out);
        fwrite(svg->tips_bytes, 1, svg->tips_count, out);
        fputs("</g>\n", out);
    }
    fprintf(out, "%s\n", end);
    return true;
}
