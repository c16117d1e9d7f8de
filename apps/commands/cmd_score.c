/* tfm score: log probabilities of given translations or texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/adapters.h"
#include "cli/cli.h"

/* Pairs or texts scored and written at a time. */
enum { PAIRS = 4096 };

typedef struct job {
    const char *model_dir, *source_file, *target_file, *text_file, *output, *device;
    int workers;
    bool perplexity; /* write the perplexity only */
    double log_prob; /* of all lines, and their tokens */
    uint64_t tokens;
    tfm_text_options text;
    cli_precisions precision;
    cli_adapters adapters;
    tfm_model_options how; /* to open the model */
    tfm_fleet *fleet;
    tfm_model *model;
    cli_lines source, target;
    cli_output out;
    size_t first; /* of the current pairs */
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

/* Lines that are not UTF-8 text are detected here, with their length, and scored as empty ones. */
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
        return cli_output_checkpoint(&j->out, j->perplexity ? 0 : j->first + count);
    return status == TFM_ERROR_CANCELLED ? cli_output_flush(&j->out) : cli_fail_library();
}

/* The line of --perplexity. */
static int put_perplexity(job *j) {
    if (j->tokens == 0)
        return cli_fail("%s has no tokens to score", j->target.name);
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
    int code = cli_check_model(tfm_model_get_info(j->model), j->model_dir, !j->text_file,
                               j->text_file ? "--src and --tgt" : "--text");
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
    int code = j->text_file ? CLI_OK : cli_lines_read_all(&j->source, "--src", j->source_file);
    if (code == CLI_OK)
        code = j->text_file ? cli_lines_read_all(&j->target, "--text", j->text_file)
                            : cli_lines_read_all(&j->target, "--tgt", j->target_file);
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

/* Rejects conflicting options. */
static int check(const job *j, const cli_syntax *syntax) {
    if (!j->text_file && !j->source_file != !j->target_file)
        return cli_usage_error(syntax,
                               j->source_file ? "--src %s has no --tgt: give --tgt FILE"
                                              : "--tgt %s has no --src: give --src FILE",
                               j->source_file ? j->source_file : j->target_file);
    if (!j->text_file && !j->source_file)
        return cli_usage_error(syntax, "there is nothing to score: give --src FILE and --tgt FILE, or --text FILE");
    if (!j->model_dir)
        return cli_usage_error(syntax, "no model is given: give -m MODEL");
    const int code = cli_check_workers(syntax, j->workers);
    if (code != CLI_CONTINUE)
        return code;
    if (j->text_file && (j->source_file || j->target_file))
        return cli_usage_error(syntax, "--text does not go with --src and --tgt: leave one out");
    if (j->how.ctx_size && !j->text_file)
        return cli_usage_error(syntax, "--ctx-size is for --text: leave it out");
    if (j->text.add_bos && !j->text_file)
        return cli_usage_error(syntax, "--add-bos is for --text: leave it out");
    if (j->text.score_eos && !j->text_file)
        return cli_usage_error(syntax,
                               "--score-eos is for --text: the EOS of a translation always counts, leave it out");
    if (!j->text_file && strcmp(j->source_file, "-") == 0 && strcmp(j->target_file, "-") == 0)
        return cli_usage_error(syntax, "only one of the files can be standard input");
    return CLI_CONTINUE;
}

int cmd_score(int argc, char **argv) {
    job *j = calloc(1, sizeof(*j));
    if (!j)
        return cli_fail("out of memory");
    const cli_option options[] = {
        {'m', "model", CLI_STRING, &j->model_dir, "MODEL",
         "the model: its directory, or its name on the Hugging Face hub", NULL},
        {'s', "src", CLI_STRING, &j->source_file, "FILE", "the source lines", NULL},
        {'t', "tgt", CLI_STRING, &j->target_file, "FILE", "a target line for each source line", NULL},
        {0, "text", CLI_STRING, &j->text_file, "FILE",
         "instead of both: lines of text for a decoder-only model (- is standard input)", NULL},
        {0, "score-eos", CLI_FLAG, &j->text.score_eos, NULL, "with --text: also score the EOS of each line", NULL},
        {0, "add-bos", CLI_FLAG, &j->text.add_bos, NULL,
         "with --text: add the BOS token even if the tokenizer does not (default: as tfm generate)", NULL},
        {0, "perplexity", CLI_FLAG, &j->perplexity, NULL, "write only one line for all, `ppl = X  nll = X  tokens = N`",
         NULL},
        {'o', "output", CLI_STRING, &j->output, "FILE", "write to this file, which appears when it is complete", NULL},
        CLI_LANGUAGES(j->text),
        {0, "batch-tokens", CLI_POSITIVE, &j->text.batch_tokens, "N",
         "maximum source tokens in a batch, with padding (default 4096)", NULL},
        {0, "truncate", CLI_FLAG, &j->text.truncate, NULL, "truncate lines longer than the model's positions", NULL},
        {0, "ctx-size", CLI_POSITIVE, &j->how.ctx_size, "N",
         "with --text: maximum tokens of a window; longer texts have several (default: the model's positions)", NULL},
        CLI_ADAPTERS(&j->adapters),
        CLI_PRECISION(j->precision),
        CLI_DEVICES(&j->device),
        CLI_WORKERS(&j->workers),
    };
    const cli_syntax syntax = {
        .name = "score",
        .usage = "score -m MODEL --src FILE --tgt FILE [option...]\n"
                 "       tfm score -m MODEL --text FILE [option...]",
        .about = "Writes for each pair of lines the log probability of the target given the\n"
                 "source, the number of target tokens (EOS included), and the average, separated\n"
                 "by tabs. With --text it scores each line of a text, each token given the tokens\n"
                 "before it; EOS counts only with --score-eos. A line without scored tokens gives\n"
                 "an empty line. So does a bad line, which is reported on standard error; the\n"
                 "exit code is then 1.\n",
        .examples = "  tfm score -m apps/demo --src apps/demo/test.de --tgt apps/demo/greedy.en\n"
                    "  tfm score -m apps/demo --src a.de --tgt a.en | cut -f3 | sort -g | head\n"
                    "  tfm score -m gpt2 --text book.txt --perplexity\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_CONTINUE)
        code = check(j, &syntax);
    j->how.adapters = j->adapters.items;
    j->how.adapter_count = j->adapters.count;
    cli_set_precision(&j->how, j->precision);
    if (code == CLI_CONTINUE)
        code = run(j);
    free(j);
    return code;
}
