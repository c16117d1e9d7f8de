/* tfm rerank: orders documents by their relevance to a query. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tfm/rerank.h>
#include <unistd.h>
#include "cli/adapters.h"
#include "cli/cli.h"

typedef struct job {
    const char *model_dir, *input, *output, *device, *query;
    int workers, top_n;
    cli_precisions precision;
    cli_adapters adapters;
    bool json, stats;
    tfm_rerank_options options;
    tfm_embed_stats done;
    tfm_fleet *fleet;
    tfm_model *model;       /* a cross-encoder or a language model, or NULL */
    tfm_chat *chat;         /* of a language model */
    tfm_embedder *embedder; /* or NULL */
    cli_lines in;
    cli_output out;
    float *scores; /* [in.count] */
    size_t *order; /* [in.count], documents from the most relevant on */
    bool *bad;     /* [in.count] */
    size_t bad_count;
    double load_seconds, load_build, build_seconds;
} job;

static bool on_reject(void *user, size_t line, const char *message) {
    job *j = user;
    if (!j->bad[line])
        cli_fail("%s, line %zu: %s", j->in.name, line + 1, message);
    j->bad_count += !j->bad[line];
    j->bad[line] = true;
    return true;
}

/* ---- Scores ---------------------------------------------------------------------------------------------------- */

static int open_model(job *j) {
    tfm_rerank_kind kind;
    tfm_model_options how = {0};
    how.adapters = j->adapters.items;
    how.adapter_count = j->adapters.count;
    cli_set_precision(&how, j->precision);
    if (tfm_rerank_read_kind(&kind, j->model_dir) != TFM_OK)
        return cli_fail_library();
    if (kind == TFM_RERANK_NONE)
        return cli_fail("%s does not rerank: use a cross-encoder, which has a classification head of one class, a "
                        "language model or an embedding model",
                        j->model_dir);
    if (j->options.instruction && kind != TFM_RERANK_LANGUAGE_MODEL)
        return cli_fail("--instruction is for language models, and %s is none: leave it out", j->model_dir);
    if (kind == TFM_RERANK_LANGUAGE_MODEL && tfm_chat_open(&j->chat, j->model_dir) != TFM_OK)
        return cli_fail_library();
    j->options.chat = j->chat;
    const double start = cli_seconds();
    cli_progress("loading %s", j->model_dir);
    tfm_status status = cli_open_fleet(&j->fleet, j->device, j->workers);
    if (status == TFM_OK && kind == TFM_RERANK_EMBEDDER)
        status = tfm_fleet_open_embedder(&j->embedder, j->fleet, j->model_dir,
                                         &(tfm_embedder_options){.precision = how.precision,
                                                                 .activation_precision = how.activation_precision,
                                                                 .adapters = how.adapters,
                                                                 .adapter_count = how.adapter_count});
    else if (status == TFM_OK)
        status = tfm_fleet_open_model(&j->model, j->fleet, j->model_dir, &how);
    cli_progress(NULL);
    j->load_seconds = cli_seconds() - start;
    j->load_build = cli_build_seconds(j->fleet);
    return status == TFM_OK ? CLI_OK : cli_fail_library();
}

/* Rejects documents with NUL, which would end there. */
static int read_documents(job *j) {
    const int code = cli_lines_read_all(&j->in, "-i", j->input);
    const size_t count = j->in.count + 1; /* not 0 */
    if (code != CLI_OK)
        return code;
    j->scores = calloc(count, sizeof(*j->scores));
    j->order = calloc(count, sizeof(*j->order));
    j->bad = calloc(count, sizeof(*j->bad));
    if (!j->scores || !j->order || !j->bad)
        return cli_fail("out of memory for the %zu lines of %s", j->in.count, j->in.name);
    for (size_t i = 0; i < j->in.count; i++)
        if (strlen(j->in.text[i]) != j->in.bytes[i])
            on_reject(j, i, "there is a NUL in it");
    return tfm_text_check(j->query, strlen(j->query)) == TFM_OK ? CLI_OK : cli_fail("QUERY: %s", tfm_error_message());
}

static int score(job *j) {
    const tfm_status status =
        j->embedder ? tfm_embedder_rerank(j->embedder, j->scores, j->query, j->in.text, j->in.count, &j->options)
                    : tfm_rerank(j->model, j->scores, j->query, j->in.text, j->in.count, &j->options);
    cli_progress(NULL);
    return status == TFM_OK ? CLI_OK : cli_fail_library();
}

/* ---- Output ---------------------------------------------------------------------------------------------------- */

/* Higher scores first, of equal ones the first document. */
static int compare(const void *a, const void *b, void *user) {
    const float *scores = user;
    const size_t i = *(const size_t *)a, k = *(const size_t *)b;
    return scores[i] != scores[k] ? (scores[i] < scores[k] ? 1 : -1) : (i > k) - (i < k);
}

static bool put_document(job *j, size_t i) {
    const double value = (double)j->scores[i];
    if (j->json)
        return cli_write_json(
            &j->out, json_pack("{s:I, s:f, s:s}", "index", (json_int_t)i, "score", value, "text", j->in.text[i]), 9);
    fprintf(j->out.file, "%.6f\t%zu\t", value, i + 1);
    cli_write_line(j->out.file, j->in.text[i]);
    fputc('\n', j->out.file);
    return cli_output_ok(&j->out);
}

static int put_documents(job *j) {
    size_t count = 0;
    for (size_t i = 0; i < j->in.count; i++)
        if (!j->bad[i] && !isnan(j->scores[i]))
            j->order[count++] = i;
    qsort_r(j->order, count, sizeof(*j->order), compare, j->scores);
    if (j->top_n && (size_t)j->top_n < count)
        count = (size_t)j->top_n;
    for (size_t i = 0; i < count; i++)
        if (!put_document(j, j->order[i]))
            return cli_output_flush(&j->out);
    return CLI_OK;
}

static void print_stats(const job *j) {
    const tfm_embed_stats *s = &j->done;
    const double seconds = fmax(s->seconds - (j->build_seconds - j->load_build), 1e-9);
    cli_print_stats(json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "texts", (json_int_t)s->lines, "tokens",
                              (json_int_t)s->tokens, "truncated", (json_int_t)s->truncated, "load_seconds",
                              cli_rounded_json(j->load_seconds - j->load_build, 3), "build_seconds",
                              cli_rounded_json(j->build_seconds, 3), "seconds", cli_rounded_json(seconds, 3),
                              "tokens_per_s", cli_rounded_json((double)s->tokens / seconds, 1)));
}

static int run(job *j) {
    j->options.reject = on_reject;
    j->options.reject_user = j;
    j->options.stats = &j->done;
    int code = read_documents(j);
    if (code == CLI_OK)
        code = cli_output_open(&j->out, j->output);
    if (code == CLI_OK)
        code = open_model(j);
    if (code == CLI_OK && j->in.count > 0)
        code = score(j);
    if (code == CLI_OK)
        code = put_documents(j);
    const int closing = cli_output_close(&j->out, code == CLI_OK);
    code = code == CLI_OK ? closing : code;
    j->build_seconds = cli_build_seconds(j->fleet);
    tfm_model_free(&j->model);
    tfm_embedder_free(&j->embedder);
    tfm_fleet_free(&j->fleet);
    tfm_chat_free(&j->chat);
    if (code == CLI_OK && j->stats)
        print_stats(j);
    cli_lines_close(&j->in);
    free(j->scores);
    free(j->order);
    free(j->bad);
    return code == CLI_OK && j->bad_count > 0 ? CLI_FAILED : code;
}

/* ---- The command ----------------------------------------------------------------------------------------------- */

int cmd_rerank(int argc, char **argv) {
    job j = {0};
    const cli_option options[] = {
        {'m', "model", CLI_STRING, &j.model_dir, "MODEL",
         "the model: its directory, or its name on the Hugging Face hub", NULL},
        {'i', "input", CLI_STRING, &j.input, "FILE",
         "read documents, one a line, from this file instead of standard "
         "input",
         NULL},
        {'o', "output", CLI_STRING, &j.output, "FILE", "write to this file, which appears when it is complete", NULL},
        {0, "top-n", CLI_POSITIVE, &j.top_n, "N", "write the N most relevant documents (default all)", NULL},
        {0, "json", CLI_FLAG, &j.json, NULL, "write an object a line: index from 0, score, text", NULL},
        {0, "instruction", CLI_STRING, &j.options.instruction, "TEXT",
         "the task of a language model, in English (default: web search, or the chat template's own)", NULL},
        {0, "raw-scores", CLI_FLAG, &j.options.raw_scores, NULL,
         "write logits, without the model's activation (a sigmoid by default)", NULL},
        {0, "batch-tokens", CLI_POSITIVE, &j.options.batch_tokens, "N",
         "maximum tokens in a batch, with padding (default 2048 or 4096, by device)", NULL},
        {0, "stats", CLI_FLAG, &j.stats, NULL, "end with a line of counts and times on standard error", NULL},
        CLI_ADAPTERS(&j.adapters),
        CLI_PRECISION(j.precision),
        CLI_DEVICES(&j.device),
        CLI_WORKERS(&j.workers),
    };
    const cli_syntax syntax = {
        .name = "rerank",
        .usage = "rerank -m MODEL QUERY [option...] < documents",
        .about = "Orders documents, one a line, by their relevance to a query, the most relevant\n"
                 "first: score, line number and text, separated by tabs. The model is a\n"
                 "cross-encoder, an encoder with a classification head of one class, which reads\n"
                 "the query and a document together; a language model such as Qwen3-Reranker,\n"
                 "which answers \"yes\" or \"no\"; an embedding model, whose score is the cosine\n"
                 "of both vectors, with its prompts \"query\" and \"document\"; or a model of late\n"
                 "interaction (ColBERT), whose score is the MaxSim of the tokens' vectors.\n"
                 "A bad line (invalid UTF-8, a NUL) is reported on standard error and left out.\n"
                 "The exit code is then 1.\n",
        .examples = "  tfm rerank -m ms-marco-MiniLM-L6-v2 \"old houses\" -i lines.txt --top-n 3\n"
                    "  tfm rerank -m all-MiniLM-L6-v2 \"a cat\" --json < lines.txt\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .operand = "QUERY",
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code != CLI_CONTINUE)
        return code;
    if (!j.model_dir)
        return cli_usage_error(&syntax, "no model is given: give -m MODEL");
    j.query = argv[optind];
    code = cli_check_workers(&syntax, j.workers);
    if (code == CLI_CONTINUE)
        code = cli_find_model(&j.model_dir);
    return code == CLI_CONTINUE ? run(&j) : code;
}
