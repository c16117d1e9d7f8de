/* tfm score: how likely a model finds given translations. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"

/* Pairs that are scored and written at a time. */
enum { PAIRS = 4096 };

typedef struct job {
    const char *model_dir, *source_file, *target_file, *output, *device;
    tfm_text_options text;
    tfm_context *ctx;
    tfm_model *model;
    cli_lines source, target;
    cli_output out;
    size_t first; /* of the pairs at hand */
    bool bad[PAIRS];
    size_t bad_count;
} job;

static bool on_reject(void *user, size_t line, const char *message) {
    job *j = user;
    if (!j->bad[line])
        cli_fail("line %zu of %s and %s: %s", j->first + line + 1, j->source.name, j->target.name, message);
    j->bad_count += !j->bad[line];
    j->bad[line] = true;
    return true;
}

static bool on_score(void *user, size_t line, double log_prob, size_t tokens) {
    job *j = user;
    cli_progress(NULL);
    if (j->bad[line] || tokens == 0)
        fputc('\n', j->out.file);
    else
        fprintf(j->out.file, "%.6f\t%zu\t%.6f\n", log_prob, tokens, log_prob / (double)tokens);
    return cli_output_good(&j->out);
}

/* Lines that are no text are told apart here, where their length is known, and scored as empty ones. */
static void check_side(job *j, const cli_lines *lines, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t at = j->first + i;
        if (tfm_text_check(lines->text[at], lines->bytes[at]) == TFM_OK)
            continue;
        cli_fail("%s, line %zu: %s", lines->name, at + 1, tfm_error_message());
        j->bad_count += !j->bad[i];
        j->bad[i] = true;
    }
}

static int score_pairs(job *j, size_t count) {
    for (size_t i = 0; i < count; i++)
        j->bad[i] = false;
    check_side(j, &j->source, count);
    check_side(j, &j->target, count);
    for (size_t i = 0; i < count; i++)
        if (j->bad[i])
            j->source.text[j->first + i] = j->target.text[j->first + i] = "";
    tfm_status status =
        tfm_score(j->model, j->source.text + j->first, j->target.text + j->first, count, &j->text, on_score, j);
    if (status == TFM_OK)
        return cli_output_finished(&j->out, j->first + count);
    return status == TFM_ERROR_CANCELLED ? cli_output_flush(&j->out) : cli_fail_library();
}

static int score_all(job *j) {
    if (j->source.count != j->target.count)
        return cli_fail("%s has %zu lines, %s %zu: give a target line for each source line", j->source.name,
                        j->source.count, j->target.name, j->target.count);
    if (tfm_context_open(&j->ctx, &(tfm_context_options){.device = j->device, .on_build = cli_building}) != TFM_OK ||
        tfm_model_open(&j->model, j->ctx, j->model_dir, NULL) != TFM_OK)
        return cli_fail_library();
    int code = CLI_OK;
    for (size_t n; j->first < j->source.count && code == CLI_OK; j->first += n) {
        n = j->source.count - j->first < PAIRS ? j->source.count - j->first : PAIRS;
        code = score_pairs(j, n);
        cli_progress("%zu of %zu lines", j->first + n, j->source.count);
    }
    cli_progress(NULL);
    return code;
}

static int run(job *j) {
    j->text.reject = on_reject;
    j->text.reject_user = j;
    int code = cli_lines_all(&j->source, j->source_file);
    if (code == CLI_OK)
        code = cli_lines_all(&j->target, j->target_file);
    if (code == CLI_OK)
        code = cli_output_open(&j->out, j->output);
    if (code == CLI_OK)
        code = score_all(j);
    int closing = cli_output_close(&j->out, code == CLI_OK);
    tfm_model_free(&j->model);
    tfm_context_free(&j->ctx);
    cli_lines_close(&j->source);
    cli_lines_close(&j->target);
    code = code == CLI_OK ? closing : code;
    return code == CLI_OK && j->bad_count > 0 ? CLI_FAILED : code;
}

int cmd_score(int argc, char **argv) {
    job *j = calloc(1, sizeof(*j));
    if (!j)
        return cli_fail("out of memory");
    const cli_option options[] = {
        {'m', "model", CLI_TEXT, &j->model_dir, "DIR", "the model's directory", NULL},
        {'s', "src", CLI_TEXT, &j->source_file, "FILE", "the source lines", NULL},
        {'t', "tgt", CLI_TEXT, &j->target_file, "FILE", "a target line for each source line", NULL},
        {'o', "output", CLI_TEXT, &j->output, "FILE", "write here; the file appears when it is complete", NULL},
        CLI_LANGUAGES(j->text),
        {0, "batch-tokens", CLI_INT, &j->text.batch_tokens, "N",
         "the most source tokens in a batch, with padding (default 4096)", NULL},
        {0, "truncate", CLI_FLAG, &j->text.truncate, NULL, "cut lines that are longer than the model's positions",
         NULL},
        CLI_DEVICE(&j->device),
    };
    const cli_syntax syntax = {
        .name = "score",
        .usage = "score -m DIR --src FILE --tgt FILE [option...]",
        .about = "Writes for each pair of lines the sum of log p of the target's tokens given\n"
                 "the source, the number of these tokens (the end counts as one), and the\n"
                 "average, with tabs between. A bad line is named on standard error and gives an\n"
                 "empty line; the exit code is then 1.\n",
        .examples = "  tfm score -m apps/demo --src apps/demo/test.de --tgt apps/demo/greedy.en\n"
                    "  tfm score -m apps/demo --src a.de --tgt a.en | cut -f3 | sort -g | head\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_GO && (!j->model_dir || !j->source_file || !j->target_file))
        code = cli_misuse(&syntax, "-m, --src and --tgt are needed");
    if (code == CLI_GO && strcmp(j->source_file, "-") == 0 && strcmp(j->target_file, "-") == 0)
        code = cli_misuse(&syntax, "only one of the files can be standard input");
    if (code == CLI_GO)
        code = run(j);
    free(j);
    return code;
}
