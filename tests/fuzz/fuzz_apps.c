/* What the program reads back: recipes of runs, and their reports. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "curves.h"
#include "fuzz.h"
#include "train.h"

/* The program says on standard error what is wrong; nobody reads it here. */
static int quiet(void) {
    fflush(stderr);
    const int old = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    if (old < 0 || nowhere < 0 || dup2(nowhere, STDERR_FILENO) < 0)
        abort();
    close(nowhere);
    return old;
}

static void loud(int old) {
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
}

static bool recipe(const uint8_t *data, size_t size) {
    cli_option options[TRAIN_OPTIONS];
    train_recipe r = train_recipe_unset();
    bool changed;
    char *argv[] = {(char[]){"tfm"}, NULL};
    const cli_syntax syntax = {"train", "", "", "", options, train_recipe_options(&r, options), 0, false};
    fuzz_file("recipe.json", data, size);
    r.resume = fuzz_folder();
    const int old = quiet();
    optind = 1;
    const bool good = train_recipe_resume(&r, &changed, &syntax, 1, argv) == CLI_GO;
    loud(old);
    train_recipe_free(&r);
    return good;
}

static bool reports(const uint8_t *data, size_t size) {
    curves c;
    const int old = quiet();
    if (curves_read(&c, fuzz_file("train.jsonl", data, size)) == CLI_OK)
        for (int i = 0; i < CURVE_COUNT; i++) {
            curve smooth;
            if (curve_smooth(&smooth, &c.all[i]))
                fuzz_touch(smooth.points, smooth.count * sizeof(*smooth.points));
            free(smooth.points);
        }
    loud(old);
    const bool good = c.last >= 0; /* damaged lines are left out, which may be all */
    curves_free(&c);
    return good;
}

const fuzz_target fuzz_apps[] = {{"recipe", recipe, NULL}, {"reports", reports, NULL}, {NULL, NULL, NULL}};
