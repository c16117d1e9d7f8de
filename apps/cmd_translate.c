/* tfm translate: a line out for each line in. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"

/* Batches that are read ahead, so that lines of like length meet, and bytes that make about one token. */
enum { BATCHES_AHEAD = 16, DEFAULT_BATCH_TOKENS = 4096, BYTES_PER_TOKEN = 3 };

typedef struct job {
    const char *model_dir, *input, *output, *prefix_file, *device;
    int precision;
    bool scores, stats;
    tfm_search_options search;
    int penalty;
    tfm_context *ctx;
    tfm_model *model;
    cli_lines in, prefixes;
    cli_output out;
    size_t bad;
    double load_seconds;
    tfm_search_stats done;
} job;

static bool on_reject(void *user, size_t line, const char *message) {
    job *j = user;
    j->bad++;
    cli_fail("%s, line %zu: %s", j->in.name, j->in.first + line + 1, message);
    return true;
}

static bool on_translation(void *user, size_t line, int best, const char *text, double score) {
    job *j = user;
    FILE *file = j->out.file;
    cli_progress(NULL); /* both may go to one terminal */
    if (isnan(score)) { /* the line is empty, or was rejected */
        fputc('\n', file);
        return cli_output_good(&j->out);
    }
    if (best > 0 && score == -INFINITY) /* there are no more hypotheses */
        return true;
    if (j->search.n_best > 0)
        fprintf(file, "%zu ||| ", j->in.first + line);
    cli_put_line(file, text);
    if (j->search.n_best > 0)
        fprintf(file, " ||| %.6f", score);
    else if (j->scores)
        fprintf(file, "\t%.6f", score);
    fputc('\n', file);
    return cli_output_good(&j->out);
}

/* The chunk's prefixes, or NULL where none are wanted. The file has a line for each line of input. */
static int chunk_prefixes(job *j, const char *const **out) {
    *out = NULL;
    if (!j->prefix_file)
        return CLI_OK;
    if (j->prefixes.count < j->in.first + j->in.count)
        return cli_fail("%s has %zu lines and %s more: it needs a prefix, or an empty line, for each",
                        j->prefix_file, j->prefixes.count, j->in.name);
    *out = j->prefixes.text + j->in.first;
    return CLI_OK;
}

static int translate_chunk(job *j) {
    int code = chunk_prefixes(j, &j->search.prefixes);
    if (code != CLI_OK)
        return code;
    j->search.line_bytes = j->in.bytes;
    tfm_status status = tfm_translate(j->model, j->in.text, j->in.count, &j->search, on_translation, j);
    if (status != TFM_OK && status != TFM_ERROR_CANCELLED) {
        cli_output_flush(&j->out);
        return cli_fail_library();
    }
    return cli_output_flush(&j->out);
}

static int translate_all(job *j) {
    int tokens = j->search.batch_tokens ? j->search.batch_tokens : DEFAULT_BATCH_TOKENS;
    size_t ahead = (size_t)tokens * BATCHES_AHEAD * BYTES_PER_TOKEN;
    const bool progress = !isatty(STDIN_FILENO) || j->input;
    double start = cli_seconds();
    for (;;) {
        int code = cli_lines_next(&j->in, ahead);
        if (code != CLI_OK || j->in.count == 0)
            return code;
        double elapsed = cli_seconds() - start;
        if (progress && j->in.first == 0)
            cli_progress("translating %zu lines", j->in.count);
        else if (progress && elapsed > 1)
            cli_progress("%zu lines, %.0f a second", j->in.first, (double)j->in.first / elapsed);
        code = translate_chunk(j);
        if (code != CLI_OK)
            return code;
    }
}

static void print_stats(const job *j) {
    double seconds = j->done.seconds > 0 ? j->done.seconds : 1e-9;
    fprintf(stderr,
            "stats {\"sentences\":%" PRIu64 ",\"source_tokens\":%" PRIu64 ",\"target_tokens\":%" PRIu64
            ",\"load_seconds\":%.3f,\"seconds\":%.3f,\"sentences_per_s\":%.1f,\"tokens_per_s\":%.1f}\n",
            j->done.sentences, j->done.source_tokens, j->done.target_tokens, j->load_seconds, j->done.seconds,
            (double)j->done.sentences / seconds, (double)j->done.target_tokens / seconds);
}

/* A prefix file is known whole before the first line is translated, so a bad one costs nothing. */
static int read_prefixes(job *j) {
    if (!j->prefix_file)
        return CLI_OK;
    int code = cli_lines_all(&j->prefixes, j->prefix_file);
    for (size_t i = 0; i < j->prefixes.count && code == CLI_OK; i++)
        if (tfm_text_check(j->prefixes.text[i], j->prefixes.bytes[i]) != TFM_OK)
            code = cli_fail("%s, line %zu: %s", j->prefix_file, i + 1, tfm_error_message());
    return code;
}

static int open_model(job *j) {
    double start = cli_seconds();
    cli_progress("loading %s", j->model_dir);
    if (tfm_context_open(&j->ctx, &(tfm_context_options){.device = j->device}) != TFM_OK ||
        tfm_model_open(&j->model, j->ctx, j->model_dir, NULL) != TFM_OK)
        return cli_fail_library();
    cli_progress(NULL);
    j->load_seconds = cli_seconds() - start;
    return CLI_OK;
}

static int run(job *j) {
    j->search.penalty = (tfm_length_penalty)j->penalty;
    j->search.reject = on_reject;
    j->search.reject_user = j;
    j->search.stats = &j->done;
    int code = cli_lines_open(&j->in, j->input), spare = CLI_OK;
    if (code == CLI_OK)
        code = read_prefixes(j);
    if (code == CLI_OK)
        code = cli_output_open(&j->out, j->output);
    if (code == CLI_OK)
        code = open_model(j);
    if (code == CLI_OK)
        code = translate_all(j);
    if (code == CLI_OK && j->prefix_file && j->prefixes.count != j->in.first)
        code = spare = cli_fail("%s has %zu lines, %s %zu: the lines that follow were not used",
                                j->prefix_file, j->prefixes.count, j->in.name, j->in.first);
    int closing =
        cli_output_close(&j->out, code == CLI_OK || spare != CLI_OK); /* the translations are whole */
    code = code == CLI_OK ? closing : code;
    cli_progress(NULL);
    tfm_model_free(&j->model);
    tfm_context_free(&j->ctx);
    if (code == CLI_OK && j->stats) /* the last word, behind a profile's table too */
        print_stats(j);
    cli_lines_close(&j->prefixes);
    cli_lines_close(&j->in);
    return code == CLI_OK && j->bad > 0 ? CLI_FAILED : code;
}

int cmd_translate(int argc, char **argv) {
    job j = {0};
    const cli_option options[] = {
        {'m', "model", CLI_TEXT, &j.model_dir, "DIR",
         "the model's directory, as Hugging Face lays out Marian models", NULL},
        {'i', "input", CLI_TEXT, &j.input, "FILE", "read lines from here instead of standard input", NULL},
        {'o', "output", CLI_TEXT, &j.output, "FILE", "write here; the file appears when it is complete",
         NULL},
        {'n', "n-best", CLI_INT, &j.search.n_best, "N",
         "N lines `index ||| text ||| score` for each line, from 0", NULL},
        {0, "scores", CLI_FLAG, &j.scores, NULL, "put a tab and the score behind each translation", NULL},
        {0, "prefix-file", CLI_TEXT, &j.prefix_file, "FILE",
         "a line for each line of input: what its translation begins with", NULL},
        {0, "stats", CLI_FLAG, &j.stats, NULL, "end with a line of counts and times on standard error", NULL},
        CLI_SEARCH(j.search, j.penalty, j.precision),
        CLI_DEVICE(&j.device),
    };
    const cli_syntax syntax = {
        .name = "translate",
        .usage = "translate -m DIR [option...] < lines",
        .about = "Translates lines of UTF-8 text, one line out for each line in, in their order. Reads\n"
                 "until the input would block or 16 batches are full, translates, writes, goes on.\n"
                 "A line that cannot be translated (invalid UTF-8, NUL, too long) is named on standard\n"
                 "error and gives an empty line; the rest goes on, and the exit code is 1.\n",
        .examples = "  echo \"Guten Morgen.\" | tfm translate -m apps/demo\n"
                    "  tfm translate -m apps/demo -i book.de -o book.en --beam 1 --stats\n"
                    "  tfm translate -m apps/demo --beam 8 --n-best 3 < book.de\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_GO)
        return code;
    if (!j.model_dir)
        return cli_misuse(&syntax, "which model? give -m DIR");
    if (j.prefix_file && strcmp(j.prefix_file, "-") == 0 && (!j.input || strcmp(j.input, "-") == 0))
        return cli_misuse(&syntax, "only one of the files can be standard input");
    if (j.search.beam && j.search.n_best > j.search.beam)
        return cli_misuse(&syntax, "--n-best is %d, more than --beam %d", j.search.n_best, j.search.beam);
    code = cli_check_precision(j.precision);
    return code == CLI_GO ? run(&j) : code;
}
