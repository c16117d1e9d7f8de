/* tfm bench translate: lines per second of a model, in each requested variant. */
#include <stdlib.h>
#include "bench/bench.h"

/* Enough lines for a batch or two, of typical lengths. */
static const char *const LINES[] = {
    "Good morning.",
    "The house is small but it stands near the river.",
    "Yesterday we went to the market and bought bread, cheese and a bottle of milk.",
    "He has been waiting for an answer since last week.",
    "Can you tell me where the station is?",
    "Although it had rained all night, the path through the forest was dry enough to walk on in light shoes.",
    "A child plays with a red ball in the garden.",
    "Two men are working on the roof of a tall building.",
};
enum { COPIES = 8 };

typedef struct job {
    tfm_context *ctx;
    tfm_model *model;
    const char *const *lines;
    size_t count;
    int beam;
} job;

static bool ignore(void *user, const tfm_translation *translation) {
    (void)user, (void)translation;
    return true;
}

static bool ignore_reject(void *user, size_t line, const char *message) {
    (void)user, (void)line, (void)message;
    return true;
}

static int run(void *self, int times) {
    job *j = self;
    const tfm_search_options search = {.beam_size = j->beam, .skip_scores = true};
    const tfm_text_options text = {.reject = ignore_reject};
    for (int i = 0; i < times; i++)
        if (tfm_translate_lines(j->model, j->lines, j->count, &text, &search, ignore, NULL) != TFM_OK)
            return cli_fail_library();
    return CLI_OK;
}

/* Searches with this beam in each requested variant. */
static int compare_variants(const bench_devices *devices, tfm_model *const *models, const bench_options *o,
                            const char *const *lines, size_t count, int beam) {
    bench_group turns = {.precision = "fp32", .unit = "lines/s", .factor = 1, .json = "per_s"};
    job jobs[BENCH_VARIANTS];
    char shape[64];
    snprintf(shape, sizeof(shape), "%zu lines, beam %d", count, beam);
    for (size_t d = 0; d < devices->count; d++) {
        jobs[d] = (job){devices->contexts[d], models[d], lines, count, beam};
        bench_candidate *c = bench_add(&turns, "translate", shape, "%s", tfm_context_variant(jobs[d].ctx));
        if (!c)
            return CLI_FAILED;
        c->work = (double)count;
        c->run = run;
        c->self = &jobs[d];
    }
    return bench_run(&turns, o);
}

static int with_lines(const bench_options *o, const char *const *lines, size_t count) {
    bench_devices devices;
    tfm_model *models[BENCH_VARIANTS] = {NULL};
    int code = bench_devices_open(&devices, o);
    for (size_t d = 0; d < devices.count && code == CLI_OK; d++)
        if (tfm_model_open(&models[d], devices.contexts[d], o->model, NULL) != TFM_OK)
            code = cli_fail_library();
    if (code == CLI_OK)
        code = compare_variants(&devices, models, o, lines, count, 1);
    if (code == CLI_OK)
        code = compare_variants(&devices, models, o, lines, count, 4);
    for (size_t d = 0; d < devices.count; d++)
        tfm_model_free(&models[d]);
    bench_devices_free(&devices);
    return code;
}

int bench_translate(const cli_syntax *syntax, const bench_options *o, int count, char **operands) {
    if (count > 0)
        return cli_usage_error(syntax, "'%s' is too much: translate takes no shapes", operands[0]);
    if (!o->model)
        return cli_usage_error(syntax, "bench translate needs a model: give -m MODEL");
    if (!o->input) {
        const char *lines[CLI_COUNT(LINES) * COPIES];
        for (size_t i = 0; i < CLI_COUNT(lines); i++)
            lines[i] = LINES[i % CLI_COUNT(LINES)];
        return with_lines(o, lines, CLI_COUNT(lines));
    }
    cli_lines in;
    int code = cli_lines_read_all(&in, "-i", o->input);
    if (code == CLI_OK && in.count == 0)
        code = cli_fail("%s has no lines to translate", o->input);
    if (code == CLI_OK)
        code = with_lines(o, in.text, in.count);
    cli_lines_close(&in);
    return code;
}
