/* Training reports: log parsing, axis ticks, and pictures. */
#include <cairo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "plots/curves.h"
#include "support/harness.h"
#include "plots/picture.h"
#include "apps/svg.h"

static char folder[] = "/tmp/tfm-test-curves-XXXXXX";

static const char *in_folder(const char *name) {
    static char paths[16][96];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static const char *write_log(const char *name, const char *text) {
    const char *path = in_folder(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* ---- Reading ------------------------------------------------------------------------------------------- */

static void expect(const curve *c, size_t count, const double *pairs) {
    assert_int_equal(c->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(c->points[i].update == pairs[2 * i]);
        assert_true(c->points[i].value == pairs[2 * i + 1]);
    }
}

static void test_durations_are_formatted(void **state) {
    (void)state;
    const struct {
        double seconds;
        const char *text;
    } all[] = {{0, "0 s"},          {99, "99 s"},         {100, "2 min"},      {3540, "59 min"},
               {3599, "1 h 0 min"}, {4361, "1 h 13 min"}, {172799, "2 d 0 h"}, {200000, "2 d 7 h"}};
    for (size_t i = 0; i < CLI_COUNT(all); i++) {
        char text[24];
        axis_duration(text, sizeof(text), all[i].seconds);
        assert_string_equal(text, all[i].text);
    }
    curves c;
    assert_int_equal(curves_read(&c, write_log("times.jsonl", "{\"type\":\"train\",\"update\":1,\"nll\":2}\n")),
                     CLI_OK);
    assert_true(isnan(c.seconds));
    curves_free(&c);
    assert_int_equal(curves_read(&c, write_log("times.jsonl", "{\"type\":\"train\",\"update\":1,\"seconds\":7}\n"
                                                              "{\"type\":\"valid\",\"update\":1,\"seconds\":9}\n")),
                     CLI_OK);
    assert_true(c.seconds == 9);
    curves_free(&c);
}

/* Each resumed start has a marker, except those of a discarded part. */
static void test_resumed_runs_are_marked(void **state) {
    (void)state;
    curves c;
    const char *log = write_log("marks.jsonl",
                                "{\"type\":\"start\",\"update\":0}\n{\"type\":\"train\",\"update\":100,\"nll\":5}\n"
                                "{\"type\":\"start\",\"update\":150}\n{\"type\":\"train\",\"update\":200,\"nll\":4}\n"
                                "{\"type\":\"start\",\"update\":180}\n{\"type\":\"train\",\"update\":200,\"nll\":3}\n"
                                "{\"type\":\"start\",\"update\":160}\n{\"type\":\"train\",\"update\":300,\"nll\":2}\n");
    assert_int_equal(curves_read(&c, log), CLI_OK);
    expect(&c.all[CURVE_RESUMED], 3, (double[]){0, 0, 150, 150, 160, 160});
    expect(&c.all[CURVE_NLL], 2, (double[]){100, 5, 300, 2});
    curves_free(&c);
    assert_int_equal(picture_curves(log, "x", in_folder("marks.svg")), CLI_OK);
    char *svg = svg_text(in_folder("marks.svg")), *first = strstr(svg, ">resumed</text>");
    assert_non_null(first);
    assert_non_null(strstr(svg, "stroke-dasharray"));
    free(svg);
}

static void test_train_log_is_read(void **state) {
    (void)state;
    curves c;
    const char *log = write_log(
        "read.jsonl", "{\"type\":\"start\",\"update\":900}\n"
                      "{\"type\":\"train\",\"update\":100,\"epoch\":0.5,\"loss\":5.5,\"nll\":5,\"learning_rate\":1e-4,"
                      "\"grad_norm\":2}\n"
                      "{\"type\":\"train\",\"update\":200,\"epoch\":1,\"loss\":4.5,\"nll\":null,\"learning_rate\":2e-4,"
                      "\"grad_norm\":\"x\"}\n"
                      "\n"
                      "{\"type\":\"train\",\"update\":300,\"nll\":NaN}\n"
                      "{\"type\":\"train\",\"update\":300,\"nll\":1e99}\n"
                      "{\"type\":\"train\",\"update\":-5,\"nll\":1}\n"
                      "{\"type\":\"valid\",\"update\":200,\"nll\":4.25,\"bleu\":12.5,\"chrf2\":30,\"best\":true}\n"
                      "[1, 2]\n7\n\"train\"\n{\"type\":3}\n{\"type\":\"train\"}\n"
                      "{\"type\":\"train\",\"update\":400,\"nll\":3,\"learning_rate\":4e-4}\n"
                      "{\"type\":\"valid\",\"update\":400,\"nll\":3.5,\"best\":false}\n"
                      "{\"type\":\"train\",\"update\":500,\"nl");
    assert_int_equal(curves_read(&c, log), CLI_OK);
    expect(&c.all[CURVE_NLL], 2, (double[]){100, 5, 400, 3});
    expect(&c.all[CURVE_LOSS], 2, (double[]){100, 5.5, 200, 4.5});
    expect(&c.all[CURVE_RATE], 3, (double[]){100, 1e-4, 200, 2e-4, 400, 4e-4});
    expect(&c.all[CURVE_NORM], 1, (double[]){100, 2});
    expect(&c.all[CURVE_VALID_NLL], 2, (double[]){200, 4.25, 400, 3.5});
    expect(&c.all[CURVE_BLEU], 1, (double[]){200, 12.5});
    expect(&c.all[CURVE_CHRF], 1, (double[]){200, 30});
    expect(&c.all[CURVE_BEST], 1, (double[]){200, 1});
    assert_true(c.first == 100 && c.last == 400);
    curves_free(&c);
    assert_int_equal(curves_read(&c, in_folder("none.jsonl")), CLI_FAILED);
    curves_free(&c);
    assert_int_equal(curves_read(&c, folder), CLI_FAILED);
    curves_free(&c);
}

/* Log entries after the resumed update, including the best validation, are dropped. */
static void test_log_beyond_the_resumed_update_is_dropped(void **state) {
    (void)state;
    curves c;
    const char *log = write_log("resumed.jsonl", "{\"type\":\"train\",\"update\":100,\"nll\":5}\n"
                                                 "{\"type\":\"valid\",\"update\":100,\"nll\":5.5,\"best\":true}\n"
                                                 "{\"type\":\"train\",\"update\":200,\"nll\":4}\n"
                                                 "{\"type\":\"valid\",\"update\":200,\"nll\":4.5,\"best\":true}\n"
                                                 "{\"type\":\"train\",\"update\":300,\"nll\":3}\n"
                                                 "{\"type\":\"valid\",\"update\":300,\"nll\":3.5,\"best\":true}\n"
                                                 "{\"type\":\"train\",\"update\":200,\"nll\":4.125}\n"
                                                 "{\"type\":\"valid\",\"update\":200,\"nll\":4.75,\"best\":false}\n"
                                                 "{\"type\":\"train\",\"update\":250,\"nll\":3.75}\n");
    assert_int_equal(curves_read(&c, log), CLI_OK);
    expect(&c.all[CURVE_NLL], 3, (double[]){100, 5, 200, 4.125, 250, 3.75});
    expect(&c.all[CURVE_VALID_NLL], 2, (double[]){100, 5.5, 200, 4.75});
    expect(&c.all[CURVE_BEST], 1, (double[]){100, 1});
    assert_true(c.last == 250);
    curves_free(&c);
}

/* The average at the end of a run may be the best, until a resumed run has a better one. */
static void test_average_may_be_the_best_model(void **state) {
    (void)state;
    curves c;
    static const char text[] = "{\"type\":\"train\",\"update\":100,\"nll\":5}\n"
                               "{\"type\":\"valid\",\"update\":100,\"nll\":5.5,\"bleu\":7,\"best\":true}\n"
                               "{\"type\":\"average\",\"update\":100,\"nll\":5.25,\"bleu\":8,\"best\":true}\n"
                               "{\"type\":\"end\",\"update\":100}\n";
    char longer[1024];
    assert_int_equal(curves_read(&c, write_log("average.jsonl", text)), CLI_OK);
    expect(&c.all[CURVE_BLEU], 1, (double[]){100, 7});
    expect(&c.all[CURVE_AVERAGE_NLL], 1, (double[]){100, 5.25});
    expect(&c.all[CURVE_AVERAGE_BLEU], 1, (double[]){100, 8});
    expect(&c.all[CURVE_BEST], 1, (double[]){100, BEST_AVERAGE});
    curves_free(&c);
    snprintf(longer, sizeof(longer),
             "%s{\"type\":\"average\",\"update\":100,\"bleu\":6,\"best\":false}\n"
             "{\"type\":\"valid\",\"update\":200,\"bleu\":9,\"best\":true}\n",
             text);
    assert_int_equal(curves_read(&c, write_log("average.jsonl", longer)), CLI_OK);
    expect(&c.all[CURVE_AVERAGE_NLL], 0, NULL);
    expect(&c.all[CURVE_AVERAGE_BLEU], 1, (double[]){100, 6});
    expect(&c.all[CURVE_BEST], 2, (double[]){100, BEST_AVERAGE, 200, BEST_VALIDATION});
    curves_free(&c);
}

static void test_curve_smoothing_keeps_trends(void **state) {
    (void)state;
    enum { N = 4000 };
    static curve_point points[N];
    curve flat = {points, N, N}, out;
    for (int i = 0; i < N; i++)
        points[i] = (curve_point){i, 3 + (i % 2 ? 1 : -1)};
    assert_true(curve_smooth(&out, &flat));
    assert_int_equal(out.count, N);
    for (int i = 100; i < N; i++)
        assert_true(out.points[i].update == i && fabs(out.points[i].value - 3) < 0.1);
    assert_true(out.points[0].value == 2); /* the first is no average */
    free(out.points);
    for (int i = 0; i < N; i++) /* a straight line is unchanged, except its end */
        points[i].value = 2 * i;
    assert_true(curve_smooth(&out, &flat));
    for (int i = 0; i < N - 100; i++)
        assert_true(fabs(out.points[i].value - 2 * i) < 1e-6);
    free(out.points);
}

/* ---- Axes ---------------------------------------------------------------------------------------------- */

static void ticks_are(axis a, int wanted, int count, const double *want) {
    double ticks[AXIS_TICKS];
    assert_int_equal(axis_ticks(&a, wanted, ticks), count);
    for (int i = 0; i < count; i++)
        assert_true(fabs(ticks[i] - want[i]) <= 1e-9 * fabs(want[i]));
}

static void test_axis_ticks_are_round_numbers(void **state) {
    (void)state;
    ticks_are((axis){.low = 0, .high = 24000}, 8, 5, (double[]){0, 5000, 10000, 15000, 20000});
    ticks_are((axis){.low = 0, .high = 1}, 5, 6, (double[]){0, 0.2, 0.4, 0.6, 0.8, 1});
    ticks_are((axis){.low = -3.5, .high = 7e-1}, 5, 4, (double[]){-3, -2, -1, 0});
    ticks_are((axis){.low = 7.1e-5, .high = 7.7e-4}, 4, 3, (double[]){2e-4, 4e-4, 6e-4});
    ticks_are((axis){.low = 0.9, .high = 11, .logarithmic = true}, 6, 4, (double[]){1, 2, 5, 10});
    ticks_are((axis){.low = 0.9, .high = 11, .logarithmic = true}, 3, 3, (double[]){1, 3, 10});
    ticks_are((axis){.low = 0.02, .high = 12, .logarithmic = true}, 3, 3, (double[]){0.1, 1, 10});
    ticks_are((axis){.low = 1e-9, .high = 1.5, .logarithmic = true}, 4, 4, (double[]){1e-9, 1e-6, 1e-3, 1});
    ticks_are((axis){.low = 0, .high = 4.1e-3}, 2, 3, (double[]){0, 2e-3, 4e-3}); /* not 0 alone */
    ticks_are((axis){.low = 0.55, .high = 1.9, .logarithmic = true}, 2, 3, (double[]){0.7, 1, 1.5});
    axis a = {.low = 1, .high = 100, .from = 300, .to = 100, .logarithmic = true};
    assert_true(fabs(axis_place(&a, 10) - 200) < 1e-9);
    a.logarithmic = false;
    assert_true(fabs(axis_place(&a, 50.5) - 200) < 1e-9);
}

static void test_axis_numbers_are_formatted(void **state) {
    (void)state;
    const struct {
        double value;
        int digits;
        const char *text;
    } all[] = {{0, 3, "0"},
               {12000, 3, "12,000"},
               {999, 2, "999"},
               {1234567, 3, "1,234,567"},
               {-1500, 3, "-1,500"},
               {0.25, 3, "0.25"},
               {0.30000000000000004, 4, "0.3"},
               {4e-4, 4, "4·10⁻⁴"},
               {2.214e-4, 2, "2.2·10⁻⁴"},
               {2e-4, 3, "2·10⁻⁴"},
               {1e-12, 3, "10⁻¹²"},
               {3e10, 3, "3·10¹⁰"},
               {0.001, 4, "0.001"}};
    for (size_t i = 0; i < CLI_COUNT(all); i++) {
        char text[32];
        axis_number(text, sizeof(text), all[i].value, all[i].digits);
        assert_string_equal(text, all[i].text);
    }
}

/* ---- Pictures ------------------------------------------------------------------------------------------ */

/* A log of so many reports, with a validation every tenth of the way. */
static const char *long_log(const char *name, int reports, const char *between) {
    const char *path = in_folder(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 1; i <= reports; i++) {
        const double nll = 1 + 8 * exp(-6.0 * i / reports);
        fprintf(file,
                "{\"type\":\"train\",\"update\":%d,\"loss\":%f,\"nll\":%f,\"grad_norm\":%f,\"learning_rate\":%g}\n", i,
                nll + 0.5, nll + 0.1 * sin(i), 1 + 0.5 * sin(3 * i), 1e-3 * i / reports);
        if (i % (reports / 10 + 1) == 0)
            fprintf(file, "{\"type\":\"valid\",\"update\":%d,\"nll\":%f,\"bleu\":%f,\"chrf2\":50,\"best\":true}\n", i,
                    nll + 0.3, 40 - 5 * nll + 5);
        if (i == reports / 2)
            fputs(between, file);
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

static char *bytes_of(const char *path, size_t *count) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    struct stat about;
    assert_int_equal(fstat(fileno(file), &about), 0);
    char *all = malloc((size_t)about.st_size + 1);
    assert_non_null(all);
    *count = fread(all, 1, (size_t)about.st_size, file);
    assert_int_equal(*count, about.st_size);
    fclose(file);
    return all;
}

static bool same_bytes(const char *a, const char *b) {
    size_t first, second;
    char *one = bytes_of(a, &first), *other = bytes_of(b, &second);
    const bool same = first == second && memcmp(one, other, first) == 0;
    free(one);
    free(other);
    return same;
}

/* Pixels near this color. */
static int count_pixels(const char *path, int red, int green, int blue) {
    cairo_surface_t *image = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(image), CAIRO_STATUS_SUCCESS);
    const int width = cairo_image_surface_get_width(image), height = cairo_image_surface_get_height(image);
    assert_int_equal(width, 2 * 960);
    assert_int_equal(height, 2 * 720);
    int count = 0;
    for (int y = 0; y < height; y++) {
        const uint32_t *row = (const uint32_t *)(const void *)(cairo_image_surface_get_data(image) +
                                                               (ptrdiff_t)y * cairo_image_surface_get_stride(image));
        for (int x = 0; x < width; x++)
            count += abs((int)(row[x] >> 16 & 255) - red) < 4 && abs((int)(row[x] >> 8 & 255) - green) < 4 &&
                     abs((int)(row[x] & 255) - blue) < 4;
    }
    cairo_surface_destroy(image);
    return count;
}

static int blue_in(const char *path) {
    return count_pixels(path, 64, 112, 158);
}
static int orange_in(const char *path) {
    return count_pixels(path, 191, 97, 26);
}
static int green_in(const char *path) {
    return count_pixels(path, 15, 87, 51);
}

static void draw(const char *log, const char *path) {
    assert_int_equal(picture_curves(log, "a \"run\"\t& more", path), CLI_OK);
}

static void test_curves_are_rendered_as_png(void **state) {
    (void)state;
    const char *log = long_log("run.jsonl", 400, ""), *png = in_folder("run.png");
    draw(log, png);
    assert_true(blue_in(png) > 2000 && orange_in(png) > 2000 && green_in(png) > 2000);
    draw(log, in_folder("again.PNG"));
    assert_true(same_bytes(png, in_folder("again.PNG")));
    /* the final average is shown if it is the best */
    FILE *file = fopen(log, "a");
    assert_non_null(file);
    fputs("{\"type\":\"average\",\"update\":400,\"nll\":1,\"bleu\":60,\"best\":true}\n", file);
    assert_int_equal(fclose(file), 0);
    draw(log, in_folder("average.png"));
    assert_true(green_in(in_folder("average.png")) > 2000 && !same_bytes(png, in_folder("average.png")));
    /* damaged lines and a resumed run render the valid lines */
    draw(long_log("run.jsonl", 400, "{\"type\":\"train\",\"upd\n\xff\xfe{}\nnull\n"), in_folder("damaged.png"));
    assert_true(same_bytes(png, in_folder("damaged.png")));
    draw(long_log("run.jsonl", 400,
                  "{\"type\":\"train\",\"update\":250,\"nll\":0.001}\n{\"type\":\"valid\",\"update\":300,"
                  "\"bleu\":99}\n"),
         in_folder("resumed.png"));
    assert_true(same_bytes(png, in_folder("resumed.png")));
}

/* All ink, including labels at the curves' ends, is inside the SVG, and rsvg-convert renders the same curves as the
 * PNG. */
static void test_svg_has_all_ink_inside(void **state) {
    (void)state;
    const char *log = long_log("inside.jsonl", 400, "{\"type\":\"start\",\"update\":200}\n"),
               *svg = in_folder("inside.svg");
    static const char name[] =
        "a very long name of a folder, which many who keep their runs apart by all that they chose do "
        "give: width-192-heads-6-ffn-512-rate-0.0015-dropout-0.1";
    assert_int_equal(picture_curves(log, name, svg), CLI_OK);
    svg_inside(svg);
    const svg_facts f = svg_read(svg);
    assert_true(f.view.right == 960 && f.view.bottom == 720); /* and covers it */
    assert_true(f.ink.left < 80 && f.ink.top < 40 && f.ink.right > 900 && f.ink.bottom > 680);
    char *text = svg_text(svg);
    assert_non_null(strstr(text, ">validation "));
    assert_non_null(strstr(text, ">BLEU "));
    assert_non_null(strstr(text, "400 updates"));
    free(text);
    if (!svg_draw(svg, in_folder("rendered.png"), 2))
        skip();
    assert_int_equal(picture_curves(log, name, in_folder("inside.png")), CLI_OK);
    int (*const inks[])(const char *) = {blue_in, orange_in, green_in};
    for (size_t i = 0; i < CLI_COUNT(inks); i++) {
        const int ours = inks[i](in_folder("inside.png")), theirs = inks[i](in_folder("rendered.png"));
        assert_true(ours > 2000 && abs(ours - theirs) < ours / 5);
    }
}

static void test_long_log_gives_a_small_picture(void **state) {
    (void)state;
    size_t few, many;
    draw(long_log("few.jsonl", 2000, ""), in_folder("few.svg"));
    draw(long_log("many.jsonl", harness_slow() ? 20000 : 100000, ""), in_folder("many.svg"));
    char *svg = bytes_of(in_folder("few.svg"), &few), *svg_too = bytes_of(in_folder("many.svg"), &many);
    assert_true(many < 2 * few && many < 1 << 20);
    assert_memory_equal(svg, "<?xml", 5);
    assert_memory_equal(svg_too + many - strlen("</svg>\n"), "</svg>\n", strlen("</svg>\n"));
    free(svg);
    free(svg_too);
}

/* Few points, and unusual numbers. */
static void test_odd_logs_are_rendered(void **state) {
    (void)state;
    static const char *const logs[] = {
        "{\"type\":\"train\",\"update\":100,\"loss\":5,\"nll\":5,\"grad_norm\":1,\"learning_rate\":1e-4,\"epoch\":"
        "1}",
        "{\"type\":\"train\",\"update\":0,\"nll\":0}\n",
        "{\"type\":\"train\",\"update\":7,\"nll\":-3}\n{\"type\":\"train\",\"update\":8,\"nll\":-3}\n",
        "{\"type\":\"train\",\"update\":7,\"nll\":3e38}\n{\"type\":\"train\",\"update\":8,\"nll\":-3e38}\n",
        "{\"type\":\"train\",\"update\":7,\"nll\":3e38}\n{\"type\":\"train\",\"update\":8,\"nll\":1e-40}\n",
        "{\"type\":\"train\",\"update\":7,\"nll\":3e38}\n{\"type\":\"train\",\"update\":1e30,\"nll\":1e-20}"
        "\n",
        "{\"type\":\"train\",\"update\":50000,\"loss\":3}\n{\"type\":\"train\",\"update\":50100,\"loss\":2}"
        "\n"};
    for (size_t i = 0; i < CLI_COUNT(logs); i++) {
        const char *log = write_log("odd.jsonl", logs[i]);
        draw(log, in_folder("odd.svg"));
        svg_inside(in_folder("odd.svg"));
        assert_int_equal(picture_curves(log, NULL, in_folder("odd.png")), CLI_OK);
        assert_true(blue_in(in_folder("odd.png")) > 20);
        assert_int_equal(green_in(in_folder("odd.png")), 0);
    }
    const char *log = write_log("odd.jsonl", "{\"type\":\"valid\",\"update\":10,\"nll\":2,\"best\":true}\n");
    draw(log, in_folder("odd.png"));
    assert_true(orange_in(in_folder("odd.png")) > 100);
    assert_int_equal(blue_in(in_folder("odd.png")), 0);
}

static void test_unusable_log_keeps_the_old_picture(void **state) {
    (void)state;
    assert_int_equal(picture_curves(write_log("empty.jsonl", ""), "x", in_folder("empty.png")), CLI_FAILED);
    assert_int_equal(access(in_folder("empty.png"), F_OK), -1);
    const char *log = write_log("empty.jsonl", "{\"type\":\"start\"}\n{\"type\":\"train\",\"update\":3}\n");
    const char *old = write_log("old.png", "old");
    assert_int_equal(picture_curves(log, "x", old), CLI_FAILED);
    size_t count;
    char *left = bytes_of(old, &count);
    assert_int_equal(count, 3);
    free(left);
    log = long_log("run.jsonl", 30, "");
    assert_int_equal(picture_curves(log, "x", in_folder("run.gif")), CLI_FAILED);
    assert_int_equal(picture_curves(log, "x", in_folder("png")), CLI_FAILED);
    assert_int_equal(picture_curves(log, "x", in_folder("nowhere/run.png")), CLI_FAILED);
    assert_int_equal(picture_curves(in_folder("none.jsonl"), "x", in_folder("run.svg")), CLI_FAILED);
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(symlink("/dev/full", in_folder("full.png")), 0);
        assert_int_equal(picture_curves(log, "x", in_folder("full.png")), CLI_FAILED);
    }
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
        cmocka_unit_test(test_durations_are_formatted),
        cmocka_unit_test(test_resumed_runs_are_marked),
        cmocka_unit_test(test_svg_has_all_ink_inside),
        cmocka_unit_test(test_train_log_is_read),
        cmocka_unit_test(test_log_beyond_the_resumed_update_is_dropped),
        cmocka_unit_test(test_average_may_be_the_best_model),
        cmocka_unit_test(test_curve_smoothing_keeps_trends),
        cmocka_unit_test(test_axis_ticks_are_round_numbers),
        cmocka_unit_test(test_axis_numbers_are_formatted),
        cmocka_unit_test(test_curves_are_rendered_as_png),
        cmocka_unit_test(test_long_log_gives_a_small_picture),
        cmocka_unit_test(test_odd_logs_are_rendered),
        cmocka_unit_test(test_unusable_log_keeps_the_old_picture),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
