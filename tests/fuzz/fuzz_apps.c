/* Files that the program reads: recipes and reports of training runs, documents. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "plots/curves.h"
#include "documents/document.h"
#include "fuzz.h"
#include "train/train.h"

/* Discards the program's error messages. */
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
    const bool good = train_recipe_resume(&r, &changed, &syntax, 1, argv) == CLI_CONTINUE;
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
    const bool good = c.last >= 0; /* damaged lines are skipped, maybe all */
    curves_free(&c);
    return good;
}

/* A text with its words in another order. */
static char *reordered(const char *text) {
    const char *middle = strchr(text + strlen(text) / 2, ' ');
    char *out = malloc(strlen(text) + 2);
    if (out && middle)
        sprintf(out, "%s %.*s", middle + 1, (int)(middle - text), text);
    else if (out)
        sprintf(out, "%s.", text);
    return out;
}

static char *document_put(const document_kind *kind, void *content, bool turn) {
    for (size_t i = 0; i < kind->count(content); i++) {
        char *text = turn ? reordered(kind->text(content, i)) : strdup(kind->text(content, i));
        if (!text || !kind->put(content, i, text, NULL))
            abort();
        free(text);
    }
    char *out = kind->write(content);
    fuzz_touch(out, strlen(out));
    return out;
}

/* A document translated to itself keeps every byte; also with words in another order. */
static bool document_of(const document_kind *kind, const uint8_t *data, size_t size) {
    size_t bytes;
    char *text = fuzz_part(&data, &size, &bytes), message[DOCUMENT_MESSAGE];
    const int old = quiet();
    const bool good = tfm_text_check(text, bytes) == TFM_OK;
    char *before = good ? strdup(text) : NULL;
    void *content = good ? kind->read("file", text, bytes, message) : NULL;
    loud(old);
    if (content) {
        char *same = document_put(kind, content, false);
        if (strcmp(same, before) != 0 && !strcasestr(before, "charset"))
            abort();
        free(same);
        free(document_put(kind, content, true));
        kind->free(content);
    }
    free(before);
    free(text);
    return content != NULL;
}

static bool html(const uint8_t *data, size_t size) {
    return document_of(&document_html, data, size);
}

/* Subtitles translated to themselves keep every byte; other translations can be written. */
static bool subtitles_of(const document_kind *kind, const uint8_t *data, size_t size) {
    size_t bytes;
    char *text = fuzz_part(&data, &size, &bytes), *out = NULL, message[DOCUMENT_MESSAGE];
    const int old = quiet();
    void *content = tfm_text_check(text, bytes) == TFM_OK ? kind->read("file", text, bytes, message) : NULL;
    loud(old);
    for (int other = 0; content && other < 2; other++) {
        for (size_t i = 0; i < kind->count(content); i++) {
            char *own = strdup(kind->text(content, i));
            if (own && other && strchr(own, ' '))
                memset(strchr(own, ' '), 'x', strlen(strchr(own, ' ')) / 2); /* fewer words */
            if (!own || !kind->put(content, i, own, NULL))
                abort();
            free(own);
        }
        out = kind->write(content);
        if (!out || (!other && strcmp(out, text) != 0))
            abort();
        fuzz_touch(out, strlen(out));
        free(out);
    }
    if (content)
        kind->free(content);
    free(text);
    return content != NULL;
}

static bool subtitles(const uint8_t *data, size_t size) {
    return subtitles_of(&document_srt, data, size);
}

static bool webvtt(const uint8_t *data, size_t size) {
    return subtitles_of(&document_vtt, data, size);
}

const fuzz_target fuzz_apps[] = {{"recipe", recipe, NULL},       {"reports", reports, NULL}, {"html", html, NULL},
                                 {"subtitles", subtitles, NULL}, {"webvtt", webvtt, NULL},   {NULL, NULL, NULL}};
