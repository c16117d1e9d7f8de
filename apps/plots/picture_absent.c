/* Replaces picture.c in a build without cairo. */
#include "plots/picture.h"

bool picture_available(void) {
    return false;
}

int picture_require(void) {
    return cli_fail("this tfm was built without cairo, which pictures need: install libcairo2-dev and build "
                    "it again");
}

int picture_write(const picture *p, picture_format format, cli_output *out) {
    (void)p, (void)format, (void)out;
    return picture_require();
}

int picture_curves(const char *log, const char *title, const char *path) {
    (void)log, (void)title, (void)path;
    return picture_require();
}
