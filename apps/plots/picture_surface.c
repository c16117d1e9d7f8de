/* Writes a drawing as PNG or SVG. */
#include <cairo-svg.h>
#include <math.h>
#include "plots/picture_draw.h"

static cairo_status_t keep_bytes(void *user, const unsigned char *data, unsigned int length) {
    return picture_svg_take(user, data, length) ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_NO_MEMORY;
}

static cairo_status_t write_bytes(void *user, const unsigned char *data, unsigned int length) {
    cli_output *out = user;
    fwrite(data, 1, length, out->file);
    return cli_output_ok(out) ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/* A context on this surface; takes ownership. Text metrics are the same on all. */
static cairo_t *begin(cairo_surface_t *surface, double scale) {
    cairo_t *cr = cairo_create(surface);
    cairo_surface_destroy(surface);
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cr, options);
    cairo_font_options_destroy(options);
    cairo_scale(cr, scale, scale);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    return cr;
}

void picture_measure_begin(drawing *d) {
    d->cr = begin(cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1), 1);
    d->measuring = true;
}

void picture_measure_end(drawing *d) {
    d->measuring = false;
    cairo_destroy(d->cr);
    d->cr = NULL;
}

static cairo_surface_t *make_surface(const drawing *d, extent all, double scale) {
    if (!d->vector)
        return cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(all.width * scale),
                                          (int)ceil(all.height * scale));
    cairo_surface_t *surface = cairo_svg_surface_create_for_stream(keep_bytes, d->svg, all.width, all.height);
    cairo_svg_surface_set_document_unit(surface, CAIRO_SVG_UNIT_PX);
    return surface;
}

static int write_surface(drawing *d, extent all, double scale, picture_ink_fn draw, const void *what, cli_output *out) {
    cairo_surface_t *surface = cairo_surface_reference(make_surface(d, all, scale));
    d->cr = begin(surface, scale);
    draw(d, what);
    cairo_status_t status = cairo_status(d->cr);
    cairo_destroy(d->cr);
    d->cr = NULL;
    if (status == CAIRO_STATUS_SUCCESS && !d->vector)
        status = cairo_surface_write_to_png_stream(surface, write_bytes, out);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status == CAIRO_STATUS_SUCCESS && d->vector && !picture_svg_write(d->svg, out->file))
        status = CAIRO_STATUS_NO_MEMORY;
    if (status != CAIRO_STATUS_SUCCESS && status != CAIRO_STATUS_WRITE_ERROR)
        return cli_fail("cannot render the picture: %s", cairo_status_to_string(status));
    return CLI_OK;
}

/* An SVG has no pixels: its lengths are not scaled. */
int picture_surface_write(drawing *d, extent all, double scale, picture_ink_fn draw, const void *what,
                          cli_output *out) {
    if (!d->vector)
        return write_surface(d, all, scale, draw, what, out);
    d->svg = picture_svg_new();
    const int code = d->svg ? write_surface(d, all, 1, draw, what, out) : cli_fail("out of memory for the picture");
    picture_svg_free(d->svg);
    d->svg = NULL;
    return code;
}
