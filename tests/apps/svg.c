/* A small SVG reader: tag by tag, with position attributes. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "apps/svg.h"

enum { MAX_IMAGES = 256 };

/* x' = a x + c y + e, y' = b x + d y + f */
typedef struct transform {
    double a, b, c, d, e, f;
} transform;

typedef struct reader {
    svg_facts facts;
    struct {
        char name[32];
        double width, height;
    } images[MAX_IMAGES];
    size_t image_count;
} reader;

char *svg_text(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long bytes = ftell(file);
    rewind(file);
    char *text = malloc((size_t)bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)bytes, file), bytes);
    fclose(file);
    text[bytes] = 0;
    return text;
}

/* The value of an attribute within the tag that ends at `end`, or NULL. */
static const char *attribute(const char *tag, const char *end, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = tag; at + length + 2 < end; at++)
        if (isspace((unsigned char)at[-1]) && strncmp(at, name, length) == 0 && at[length] == '=' &&
            at[length + 1] == '"')
            return at + length + 2;
    return NULL;
}

static double number(const char *tag, const char *end, const char *name) {
    const char *value = attribute(tag, end, name);
    return value ? strtod(value, NULL) : 0;
}

static transform transform_of(const char *tag, const char *end) {
    const char *value = attribute(tag, end, "transform");
    transform t = {1, 0, 0, 1, 0, 0};
    double angle, x, y;
    if (!value)
        return t;
    if (sscanf(value, "matrix(%lf,%lf,%lf,%lf,%lf,%lf)", &t.a, &t.b, &t.c, &t.d, &t.e, &t.f) == 6)
        return t;
    assert_int_equal(sscanf(value, "rotate(%lf %lf %lf)", &angle, &x, &y), 3);
    const double sine = sin(angle * acos(0) / 90), cosine = cos(angle * acos(0) / 90);
    return (transform){cosine, sine, -sine, cosine, x - cosine * x + sine * y, y - sine * x - cosine * y};
}

static void add_point(reader *r, transform t, double x, double y) {
    const double px = t.a * x + t.c * y + t.e, py = t.b * x + t.d * y + t.f;
    svg_box *ink = &r->facts.ink;
    assert_true(isfinite(px) && isfinite(py));
    *ink = (svg_box){fmin(ink->left, px), fmin(ink->top, py), fmax(ink->right, px), fmax(ink->bottom, py)};
}

static void add_rectangle(reader *r, transform t, double x, double y, double width, double height) {
    add_point(r, t, x, y);
    add_point(r, t, x + width, y);
    add_point(r, t, x, y + height);
    add_point(r, t, x + width, y + height);
}

static void read_path(reader *r, const char *tag, const char *end) {
    const char *at = attribute(tag, end, "d");
    assert_non_null(at);
    while (*at != '"') {
        char *next;
        const double x = strtod(at, &next);
        if (next == at) { /* absolute commands whose numbers are pairs */
            assert_non_null(strchr("MLCZ \n", *at));
            at++;
            continue;
        }
        at = next;
        add_point(r, transform_of(tag, end), x, strtod(at, &next));
        assert_true(next > at);
        at = next;
    }
    r->facts.shapes++;
}

/* A letter extends about 0.93 of its size above the baseline, and 0.24 below. */
static void read_text(reader *r, const char *tag, const char *end) {
    const double size = number(tag, end, "font-size"), width = number(tag, end, "textLength");
    const char *anchor = attribute(tag, end, "text-anchor");
    const double align = !anchor || *anchor == 's' ? 0 : *anchor == 'm' ? 0.5 : 1;
    assert_true(size > 0);
    add_rectangle(r, transform_of(tag, end), number(tag, end, "x") - align * width, number(tag, end, "y") - 0.93 * size,
                  width, 1.17 * size);
    r->facts.texts++;
}

static void name_image(reader *r, const char *tag, const char *end) {
    assert_true(r->image_count < MAX_IMAGES);
    const char *id = attribute(tag, end, "id");
    assert_non_null(id);
    sscanf(id, "%31[^\"]", r->images[r->image_count].name);
    r->images[r->image_count].width = number(tag, end, "width");
    r->images[r->image_count++].height = number(tag, end, "height");
}

static void use_image(reader *r, const char *tag, const char *end) {
    char name[32];
    const char *id = attribute(tag, end, "xlink:href");
    assert_non_null(id);
    assert_int_equal(sscanf(id, "#%31[^\"]", name), 1);
    for (size_t i = 0; i < r->image_count; i++)
        if (strcmp(name, r->images[i].name) == 0) {
            add_rectangle(r, transform_of(tag, end), 0, 0, r->images[i].width, r->images[i].height);
            r->facts.images++;
            return;
        }
    fail_msg("%s is used, but not defined", name);
}

static void read_tag(reader *r, const char *tag, const char *end) {
    char name[16];
    assert_int_equal(sscanf(tag, "%15[a-z?/]", name), 1);
    const char *style = attribute(tag, end, "style");
    const bool ground = style && strncmp(style, "fill:rgb(100%,100%,100%)", 24) == 0;
    if (strcmp(name, "path") == 0) {
        read_path(r, tag, end);
    } else if (strcmp(name, "rect") == 0) {
        if (!ground) /* the white background is no ink */
            add_rectangle(r, transform_of(tag, end), number(tag, end, "x"), number(tag, end, "y"),
                          number(tag, end, "width"), number(tag, end, "height"));
    } else if (strcmp(name, "text") == 0) {
        read_text(r, tag, end);
    } else if (strcmp(name, "title") == 0) {
        r->facts.tips++;
    } else if (strcmp(name, "image") == 0) {
        name_image(r, tag, end);
    } else if (strcmp(name, "use") == 0) {
        use_image(r, tag, end);
    } else if (strcmp(name, "svg") == 0) {
        const char *view = attribute(tag, end, "viewBox");
        assert_non_null(view);
        svg_box *v = &r->facts.view;
        assert_int_equal(sscanf(view, "%lf %lf %lf %lf", &v->left, &v->top, &v->right, &v->bottom), 4);
    } else { /* no transform of its children, and no ink */
        assert_true(name[0] == '/' || name[0] == '?' || strcmp(name, "g") == 0 || strcmp(name, "defs") == 0 ||
                    strncmp(tag, "clipPath", 8) == 0);
        assert_null(attribute(tag, end, "transform"));
    }
}

svg_facts svg_read(const char *path) {
    char *text = svg_text(path);
    reader r = {.facts.ink = {INFINITY, INFINITY, -INFINITY, -INFINITY}};
    for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        read_tag(&r, at + 1, end);
        at = end;
    }
    free(text);
    assert_true(r.facts.view.right > 0 && r.facts.view.bottom > 0);
    return r.facts;
}

void svg_inside(const char *path) {
    const svg_facts f = svg_read(path);
    if (f.ink.left < f.view.left || f.ink.top < f.view.top || f.ink.right > f.view.right ||
        f.ink.bottom > f.view.bottom)
        fail_msg("%s: ink from (%g, %g) to (%g, %g), a view of %g x %g", path, f.ink.left, f.ink.top, f.ink.right,
                 f.ink.bottom, f.view.right, f.view.bottom);
}

int svg_draw(const char *path, const char *png, int scale) {
    char command[512];
    if (system("command -v rsvg-convert >/dev/null 2>&1") != 0) {
        printf("skipped: rsvg-convert is not installed\n");
        return 0;
    }
    snprintf(command, sizeof(command), "rsvg-convert -z %d '%s' -o '%s'", scale, path, png);
    assert_int_equal(system(command), 0);
    return 1;
}
