/* Attention pictures: contents, layout, and distinguishable colors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "support/harness.h"
#include "plots/picture_draw.h"
#include "apps/svg.h"

static char folder[] = "/tmp/tfm-test-picture-XXXXXX";

enum { HEADS = 9, ROWS = 4, COLUMNS = 5, MOST = 90 };

static const char *in_folder(const char *name) {
    static char paths[8][96];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

/* Groups of panels of this size; the first row attends to the first column, the second to two, and so on. */
static void draw(const char *path, picture_format format, size_t groups, size_t heads, size_t rows, size_t columns) {
    static const char *const words[] = {"\xe2\x96\x81house", "<&\">", "\xe2\x96\x81\xc3\xbc",
                                        "longer-than-any-label-may-be"};
    static const char *labels[MOST];
    static float weights[MOST * MOST];
    picture_panel panels[64] = {0};
    cli_output out = {0};
    for (size_t i = 0; i < MOST; i++)
        labels[i] = words[i % CLI_COUNT(words)];
    for (size_t i = 0; i < rows * columns; i++)
        weights[i] = i % columns <= i / columns ? 1 / (float)(i / columns + 1) : 0;
    for (size_t i = 0; i < groups * heads; i++) {
        panels[i] = (picture_panel){.heading = i % heads ? NULL : "layer",
                                    .block = (int)(i / heads),
                                    .rows = rows,
                                    .columns = columns,
                                    .row_labels = labels,
                                    .column_labels = labels,
                                    .weights = weights};
        snprintf(panels[i].title, sizeof(panels[i].title), "head %zu", i % heads + 1);
    }
    const char *const notes[] = {"A note."};
    assert_int_equal(cli_output_open(&out, path), CLI_OK);
    assert_int_equal(picture_write(&(picture){.source = "Das ist \t ein <Haus> & mehr.",
                                              .target = "This is a <house> & more.",
                                              .notes = notes,
                                              .note_count = 1,
                                              .panels = panels,
                                              .panel_count = groups * heads},
                                   format, &out),
                     CLI_OK);
    assert_int_equal(cli_output_close(&out, true), CLI_OK);
}

/* All ink is inside, for any size. */
static void test_picture_has_all_ink_inside(void **state) {
    (void)state;
    const size_t sizes[][4] = {{1, 1, 1, 1}, {1, HEADS, ROWS, COLUMNS}, {3, 5, 3, 2}, {2, 2, MOST, 3}, {3, 1, 2, MOST}};
    for (size_t i = 0; i < CLI_COUNT(sizes); i++) {
        const size_t *s = sizes[i];
        draw(in_folder("inside.svg"), PICTURE_SVG, s[0], s[1], s[2], s[3]);
        svg_inside(in_folder("inside.svg"));
        const svg_facts f = svg_read(in_folder("inside.svg"));
        assert_int_equal(f.images, s[0] * s[1] + 1); /* and the legend */
        assert_true(f.texts >= s[0] * s[1] * (1 + s[2] + s[3]) + s[0] + 8);
    }
}

/* Heads are in a grid that is about as wide as high. */
static void test_attention_heads_form_a_square_grid(void **state) {
    (void)state;
    draw(in_folder("grid.svg"), PICTURE_SVG, 1, HEADS, MOST / 2, MOST / 2);
    const svg_facts f = svg_read(in_folder("grid.svg"));
    assert_true(fabs(log(f.view.right / f.view.bottom)) < log(1.3));
}

static void test_picture_text_is_escaped(void **state) {
    (void)state;
    draw(in_folder("text.svg"), PICTURE_SVG, 1, 2, ROWS, COLUMNS);
    char *text = svg_text(in_folder("text.svg"));
    const char *const wanted[] = {">_house</text>",
                                  ">&lt;&amp;\"&gt;</text>",
                                  ">Das ist   ein &lt;Haus&gt; &amp; mehr.</text>",
                                  ">head 2</text>",
                                  ">weight</text>",
                                  "<title>&lt;&amp;\"&gt; looks at \xe2\x96\x81house: 0.500</title>"};
    for (size_t i = 0; i < CLI_COUNT(wanted); i++)
        if (!strstr(text, wanted[i]))
            fail_msg("the SVG has no %s", wanted[i]);
    assert_null(strstr(text, ": 0.000</title>"));
    assert_null(strstr(text, "\t"));
    assert_int_equal(svg_read(in_folder("text.svg")).tips, 2 * (1 + 2 + 3 + 4));
    free(text);
}

/* ---- Colors ------------------------------------------------------------------------------------------- */

/* CIE 1976 L*a*b*, from sRGB under D65. */
static void lab_of(color c, double lab[3]) {
    const double rgb[] = {c.red, c.green, c.blue};
    const double to_xyz[3][3] = {{0.4124 / 0.9505, 0.3576 / 0.9505, 0.1805 / 0.9505},
                                 {0.2126, 0.7152, 0.0722},
                                 {0.0193 / 1.089, 0.1192 / 1.089, 0.9505 / 1.089}};
    double f[3];
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int k = 0; k < 3; k++)
            sum += to_xyz[i][k] * (rgb[k] <= 0.04045 ? rgb[k] / 12.92 : pow((rgb[k] + 0.055) / 1.055, 2.4));
        f[i] = sum > 0.008856 ? cbrt(sum) : 7.787 * sum + 16.0 / 116;
    }
    lab[0] = 116 * f[1] - 16;
    lab[1] = 500 * (f[0] - f[1]);
    lab[2] = 200 * (f[1] - f[2]);
}

static double difference(double one, double other) {
    double a[3], b[3];
    lab_of(picture_shade(one), a);
    lab_of(picture_shade(other), b);
    return sqrt(pow(a[0] - b[0], 2) + pow(a[1] - b[1], 2) + pow(a[2] - b[2], 2));
}

/* A difference of 2 is just visible side by side; one of 20 is another color. */
static void test_color_scale_is_monotonic_and_distinct(void **state) {
    (void)state;
    double last = 101, lab[3];
    for (double weight = 0; weight <= 1; weight += 1.0 / 256) {
        lab_of(picture_shade(weight), lab);
        assert_true(lab[0] < last);
        last = lab[0];
    }
    assert_true(difference(0.6, 1) > 40);
    assert_true(difference(0.6, 0.8) > 15 && difference(0.8, 1) > 20 && difference(0.4, 0.6) > 20);
    assert_true(difference(0, 0.05) > 15);
}

/* rsvg-convert renders the square of weight 1 in the PNG's color. */
static void test_svg_and_png_have_the_same_colors(void **state) {
    (void)state;
    draw(in_folder("rendered.svg"), PICTURE_SVG, 2, 5, ROWS, COLUMNS);
    if (!svg_draw(in_folder("rendered.svg"), in_folder("rendered.png"), 1))
        skip();
    cairo_surface_t *image = cairo_image_surface_create_from_png(in_folder("rendered.png"));
    assert_int_equal(cairo_surface_status(image), CAIRO_STATUS_SUCCESS);
    const svg_facts f = svg_read(in_folder("rendered.svg"));
    const int width = cairo_image_surface_get_width(image), height = cairo_image_surface_get_height(image);
    assert_true(width == (int)f.view.right && height == (int)f.view.bottom);
    int dark = 0;
    for (int y = 0; y < height; y++) {
        const uint32_t *row = (const uint32_t *)(const void *)(cairo_image_surface_get_data(image) +
                                                               (ptrdiff_t)y * cairo_image_surface_get_stride(image));
        for (int x = 0; x < width; x++)
            dark += (row[x] & 0xFFFFFF) == 0x0A0824;
    }
    assert_true(dark > 10 * 18 * 18 && dark < 10 * 26 * 26); /* ten panels, one such square in each */
    cairo_surface_destroy(image);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_picture_has_all_ink_inside),
        cmocka_unit_test(test_attention_heads_form_a_square_grid),
        cmocka_unit_test(test_picture_text_is_escaped),
        cmocka_unit_test(test_color_scale_is_monotonic_and_distinct),
        cmocka_unit_test(test_svg_and_png_have_the_same_colors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
