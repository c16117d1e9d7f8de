/* tfm score: how likely a model finds given translations, or texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

/* Pairs, or texts, that are scored and written at a time. */
enum { PAIRS = 4096 };

typedef struct job {
    const char *model_dir, *source_file, *target_file, *text_file, *output, *device;
    int workers;
    bool perplexity; /* is all that is wanted */
    double log_prob; /* of all lines, and their tokens */
    uint64_t tokens;
    tfm_text_options text;
    int precision;
    tfm_model_options how; /* to open the model */
    tfm_fleet *fleet;
    tfm_model *model;
    cli_lines source, target;
    cli_output out;
    size_t first; /* of the pairs at hand */
    bool bad[PAIRS];
    size_t bad_count;
} job;

static bool on_reject(void *user, size_t line, const char *message) {
    job *j = user;
    if (!j->bad[line] && j->text_file)
        cli_fail("line %zu of %s: %s", j->first + line + 1, j->target.name, message);
    else if (!j->bad[line])
        cli_fail("line %zu of %s and %s: %s", j->first + line + 1, j->source.name, j->target.name, message);
    j->bad_count += !j->bad[line];
    j->bad[line] = true;
    return true;
}

static bool on_score(void *user, size_t line, double log_prob, size_t tokens) {
    job *j = user;
    cli_progress(NULL);
    if (!j->bad[line] && tokens > 0) {
        j->log_prob += log_prob;
        j->tokens += tokens;
    }
    if (j->perplexity)
        return true;
    if (j->bad[line] || tokens == 0)
        fputc('\n', j->out.file);
    else
        fprintf(j->out.file, "%.6f\t%zu\t%.6f\n", log_prob, tokens, log_prob / (double)tokens);
    return cli_output_ok(&j->out);
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
    const bool texts = j->text_file != NULL;
    const char **target = j->target.text + j->first;
    if (!texts)
        check_side(j, &j->source, count);
    check_side(j, &j->target, count);
    for (size_t i = 0; i < count; i++)
        if (j->bad[i])
            *(texts ? &target[i] : &j->source.text[j->first + i]) = target[i] = "";
    const tfm_status status =
        texts ? tfm_score_texts(j->model, target, count, &j->text, on_score, j)
              : tfm_score(j->model, j->source.text + j->first, target, count, &j->text, on_score, j);
    if (status == TFM_OK)
        return cli_output_checkpoint(&j->out, j->first + count);
    return status == TFM_ERROR_CANCELLED ? cli_output_flush(&j->out) : cli_fail_library();
}

/* One line of all. */
static int put_perplexity(job *j) {
    if (j->tokens == 0)
        return cli_fail("%s has no token to score", j->target.name);
    const double nll = -j->log_prob / (double)j->tokens;
    fprintf(j->out.file, "ppl = %.4f  nll = %.6f  tokens = %llu\n", exp(nll), nll, (unsigned long long)j->tokens);
    return cli_output_checkpoint(&j->out, 1);
}

static int score_all(job *j) {
    if (!j->text_file && j->source.count != j->target.count)
        return cli_fail("%s has %zu lines, %s %zu: give a target line for each source line", j->source.name,
                        j->source.count, j->target.name, j->target.count);
    if (cli_open_fleet(&j->fleet, j->device, j->workers) != TFM_OK ||
        tfm_fleet_open_model(&j->model, j->fleet, j->model_dir, &j->how) != TFM_OK)
        return cli_fail_library();
    int code = CLI_OK;
    for (size_t n; j->first < j->target.count && code == CLI_OK; j->first += n) {
        n = j->target.count - j->first < PAIRS ? j->target.count - j->first : PAIRS;
        code = score_pairs(j, n);
        cli_progress("%zu of %zu lines", j->first + n, j->target.count);
    }
    cli_progress(NULL);
    return code == CLI_OK && j->perplexity ? put_perplexity(j) : code;
}

static int run(job *j) {
    j->text.reject = on_reject;
    j->text.reject_user = j;
    int code = j->text_file ? CLI_OK : cli_lines_read_all(&j->source, j->source_file);
    if (code == CLI_OK)
        code = cli_lines_read_all(&j->target, j->text_file ? j->text_file : j->target_file);
    if (code == CLI_OK)
        code = cli_output_open(&j->out, j->output);
    if (code == CLI_OK)
        code = score_all(j);
    int closing = cli_output_close(&j->out, code == CLI_OK);
    tfm_model_free(&j->model);
    tfm_fleet_free(&j->fleet);
    cli_lines_close(&j->source);
    cli_lines_close(&j->target);
    code = code == CLI_OK ? closing : code;
    return code == CLI_OK && j->bad_count > 0 ? CLI_FAILED : code;
}

/* Options that do not go together. */
static int check(const job *j, const cli_syntax *syntax) {
    if (!j->model_dir || (!j->text_file && (!j->source_file || !j->target_file)))
        return cli_usage_error(syntax, "-m, --src and --tgt are needed, or -m and --text");
    const int code = cli_check_workers(syntax, j->workers);
    if (code != CLI_CONTINUE)
        return code;
    if (j->text_file && (j->source_file || j->target_file))
        return cli_usage_error(syntax, "give --src and --tgt, or --text, not both");
    if (j->text.add_bos && !j->text_file)
        return cli_usage_error(syntax, "--add-bos is for --text: a translation begins as its model says");
    if (j->text.score_eos && !j->text_file)
        return cli_usage_error(syntax, "--score-eos is for --text: the end of a translation always counts");
    if (!j->text_file && strcmp(j->source_file, "-") == 0 && strcmp(j->target_file, "-") == 0)
        return cli_usage_error(syntax, "only one of the files can be standard input");
    return CLI_CONTINUE;
}

int cmd_score(int argc, char **argv) {
    job *j = calloc(1, sizeof(*j));
    if (!j)
        return cli_fail("out of memory");
    const cli_option options[] = {
        {'m', "model", CLI_STRING, &j->model_dir, "DIR", "the model's directory", NULL},
        {'s', "src", CLI_STRING, &j->source_file, "FILE", "the source lines", NULL},
        {'t', "tgt", CLI_STRING, &j->target_file, "FILE", "a target line for each source line", NULL},
        {0, "text", CLI_STRING, &j->text_file, "FILE",
         "in place of both: lines of text, which a language model scores (- is standard input)", NULL},
        {0, "score-eos", CLI_FLAG, &j->text.score_eos, NULL, "with --text: score the end of each line too", NULL},
        {0, "add-bos", CLI_FLAG, &j->text.add_bos, NULL,
         "with --text: put the model's BOS token first also where its tokenizer does not; without this, lines are read "
         "as tfm generate reads prompts",
         NULL},
        {0, "perplexity", CLI_FLAG, &j->perplexity, NULL,
         "write one line about all, `ppl = X  nll = X  tokens = N`, and none for each", NULL},
        {'o', "output", CLI_STRING, &j->output, "FILE", "write here; the file appears when it is complete", NULL},
        CLI_LANGUAGES(j->text),
        {0, "batch-tokens", CLI_POSITIVE, &j->text.batch_tokens, "N",
         "the most source tokens in a batch, with padding (default 4096)", NULL},
        {0, "truncate", CLI_FLAG, &j->text.truncate, NULL, "cut lines that are longer than the model's positions",
         NULL},
        CLI_PRECISION(j->precision),
        CLI_DEVICES(&j->device),
        CLI_WORKERS(&j->workers),
    };
    const cli_syntax syntax = {
        .name = "score",
        .usage = "score -m DIR --src FILE --tgt FILE [option...]\n"
                 "       tfm score -m DIR --text FILE [option...]",
        .about = "Writes for each pair of lines the sum of log p of the target's tokens given\n"
                 "the source, the number of these tokens (the end counts as one), and the\n"
                 "average, with tabs between. With --text it does so for each line of a text by\n"
                 "itself, each token given those before it; its end counts with --score-eos alone. A\n"
                 "line of which nothing counts gives an empty line. So does a bad line, which is\n"
                 "named on standard error; the exit code is then 1.\n",
        .examples = "  tfm score -m apps/demo --src apps/demo/test.de --tgt apps/demo/greedy.en\n"
                    "  tfm score -m apps/demo --src a.de --tgt a.en | cut -f3 | sort -g | head\n"
                    "  tfm score -m gpt2 --text book.txt --perplexity\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_CONTINUE)
        code = check(j, &syntax);
    j->how.precision = cli_precision(j->precision);
    if (code == CLI_CONTINUE)
        code = run(j);
    free(j);
    return code;
}
