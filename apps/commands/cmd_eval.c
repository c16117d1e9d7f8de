/* tfm eval: BLEU and chrF2 of translations; with a model, also the perplexity of the references. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli/adapters.h"
#include "cli/cli.h"

/* Bytes of text in memory at a time, and pairs translated at a time. */
enum { CHUNK_BYTES = 1 << 20, PAIRS = 8192 };

typedef struct job {
    const char *model_dir, *source_file, *reference_file, *hypothesis_file, *device;
    int workers;
    bool json;
    int tokenizer, penalty;
    cli_precisions precision;
    cli_adapters adapters;
    tfm_model_options how;   /* to open the model */
    cli_word_spacing spaces; /* of the references */
    tfm_metrics_options options;
    tfm_search_options search;
    tfm_text_options text;
    tfm_metrics *metrics;
    tfm_fleet *fleet;
    tfm_model *model;
    cli_lines source, reference, hypothesis;
    size_t lines;   /* done */
    bool *rejected; /* [PAIRS]: of the current pairs */
    size_t rejected_count;
    cli_evaluation measure;
} job;

/* ---- Two text files --------------------------------------------------------------------------------------------
 */

/* Adds a pair, number `line` of the files. */
static int add_pair(job *j, const cli_lines *hypothesis, size_t at, const cli_lines *reference, size_t reference_at,
                    size_t line) {
    if (tfm_text_check(hypothesis->text[at], hypothesis->bytes[at]) != TFM_OK)
        return cli_fail("%s, line %zu: %s", hypothesis->name, line + 1, tfm_error_message());
    if (tfm_text_check(reference->text[reference_at], reference->bytes[reference_at]) != TFM_OK)
        return cli_fail("%s, line %zu: %s", reference->name, line + 1, tfm_error_message());
    cli_word_spacing_add(&j->spaces, reference->text[reference_at], reference->bytes[reference_at]);
    if (tfm_metrics_add(j->metrics, hypothesis->text[at], hypothesis->bytes[at], reference->text[reference_at],
                        reference->bytes[reference_at]) != TFM_OK)
        return cli_fail("line %zu of %s and %s: %s", line + 1, hypothesis->name, reference->name, tfm_error_message());
    return CLI_OK;
}

/* Reads more once all lines in memory are used. */
static int refill(cli_lines *lines, size_t *used) {
    if (*used < lines->count)
        return CLI_OK;
    *used = 0;
    return cli_lines_next(lines, CHUNK_BYTES);
}

/* Number of lines of the file: reads to its end. */
static int count_lines(cli_lines *lines, size_t *total) {
    int code = CLI_OK;
    while (code == CLI_OK && lines->count > 0)
        code = cli_lines_next(lines, CHUNK_BYTES);
    *total = lines->first;
    return code;
}

static int check_counts(size_t hypotheses, const char *name, size_t references, const char *reference_name) {
    if (hypotheses != references)
        return cli_fail("%s has %zu lines, %s %zu: give a reference for each line", name, hypotheses, reference_name,
                        references);
    if (hypotheses == 0)
        return cli_fail("%s and %s have no lines: nothing to evaluate", name, reference_name);
    return CLI_OK;
}

static int evaluate_files(job *j) {
    cli_lines *h = &j->hypothesis, *r = &j->reference;
    size_t h_used = 0, r_used = 0, h_total = 0, r_total = 0;
    int code = cli_lines_open(h, "--hyp", j->hypothesis_file);
    if (code == CLI_OK)
        code = cli_lines_open(r, "--ref", j->reference_file);
    while (code == CLI_OK) {
        code = refill(h, &h_used);
        if (code == CLI_OK)
            code = refill(r, &r_used);
        if (code != CLI_OK || h->count == 0 || r->count == 0)
            break;
        while (code == CLI_OK && h_used < h->count && r_used < r->count)
            code = add_pair(j, h, h_used++, r, r_used++, j->lines++);
        cli_progress("%zu lines", j->lines);
    }
    if (code == CLI_OK)
        code = count_lines(h, &h_total);
    if (code == CLI_OK)
        code = count_lines(r, &r_total);
    return code == CLI_OK ? check_counts(h_total, h->name, r_total, r->name) : code;
}

/* ---- A model ---------------------------------------------------------------------------------------------------
 */

/* Reported once, by the translation or by the score. */
static bool on_reject(void *user, size_t line, const char *message) {
    job *j = user;
    if (!j->rejected[line])
        cli_fail("line %zu of %s and %s: %s", j->lines + line + 1, j->source.name, j->reference.name, message);
    j->rejected_count += !j->rejected[line];
    j->rejected[line] = true;
    return true;
}

static int evaluate_pairs(job *j, size_t count) {
    memset(j->rejected, 0, PAIRS * sizeof(*j->rejected));
    j->text.line_bytes = j->source.bytes + j->lines;
    j->measure.references = j->reference.text + j->lines;
    j->measure.reference_bytes = j->reference.bytes + j->lines;
    j->measure.first = j->lines;
    const tfm_status status =
        cli_evaluate_pairs(&j->measure, j->model, j->source.text + j->lines, count, &j->text, &j->search);
    return status == TFM_OK ? CLI_OK : status == TFM_ERROR_CANCELLED ? CLI_FAILED : cli_fail_library();
}

/* Checks the references before the first line is translated. */
static int read_pairs(job *j) {
    int code = cli_lines_read_all(&j->source, "--src", j->source_file);
    if (code == CLI_OK)
        code = cli_lines_read_all(&j->reference, "--ref", j->reference_file);
    if (code == CLI_OK)
        code = check_counts(j->source.count, j->source.name, j->reference.count, j->reference.name);
    for (size_t i = 0; i < j->reference.count; i++)
        cli_word_spacing_add(&j->spaces, j->reference.text[i], j->reference.bytes[i]);
    for (size_t i = 0; i < j->reference.count && code == CLI_OK; i++)
        if (tfm_text_check(j->reference.text[i], j->reference.bytes[i]) != TFM_OK)
            code = cli_fail("%s, line %zu: %s", j->reference.name, i + 1, tfm_error_message());
    return code;
}

static int evaluate_model(job *j) {
    j->search.length_norm = (tfm_length_norm)j->penalty;
    j->search.skip_scores = true;
    j->text.reject = on_reject;
    j->text.reject_user = j;
    int code = read_pairs(j);
    if (code != CLI_OK)
        return code;
    j->measure.metrics = j->metrics;
    j->measure.source_name = j->source.name;
    j->measure.reference_name = j->reference.name;
    j->rejected = calloc(PAIRS, sizeof(*j->rejected));
    if (!j->rejected)
        return cli_fail("out of memory");
    if (cli_open_fleet(&j->fleet, j->device, j->workers) != TFM_OK ||
        tfm_fleet_open_model(&j->model, j->fleet, j->model_dir, &j->how) != TFM_OK)
        return cli_fail_library();
    code = cli_check_model(tfm_model_get_info(j->model), j->model_dir, true, "tfm score --text");
    for (size_t n; j->lines < j->source.count && code == CLI_OK; j->lines += n) {
        cli_progress("%zu of %zu lines", j->lines, j->source.count);
        n = j->source.count - j->lines < PAIRS ? j->source.count - j->lines : PAIRS;
        code = evaluate_pairs(j, n);
    }
    return code;
}

/* ---- Results ---------------------------------------------------------------------------------------------------
 */

static void print_text(const job *j) {
    const tfm_bleu b = tfm_metrics_bleu(j->metrics);
    printf("BLEU = %.2f %.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %" PRIu64 " ref_len = %" PRIu64 ")\n",
           b.score, b.precisions[0], b.precisions[1], b.precisions[2], b.precisions[3], b.brevity_penalty, b.ratio,
           b.hypothesis_tokens, b.reference_tokens);
    printf("chrF2 = %.1f\n", tfm_metrics_chrf(j->metrics));
    printf("signature = %s\n", tfm_metrics_signature(j->metrics));
    if (j->model)
        printf("ppl = %.3f\n", cli_evaluation_perplexity(&j->measure));
}

static void print_json(const job *j) {
    const tfm_bleu b = tfm_metrics_bleu(j->metrics);
    json_t *all = json_pack("{s:f, s:[f,f,f,f], s:f, s:f, s:I, s:I, s:f, s:s, s:I}", "bleu", b.score, "precisions",
                            b.precisions[0], b.precisions[1], b.precisions[2], b.precisions[3], "bp", b.brevity_penalty,
                            "ratio", b.ratio, "hyp_len", (json_int_t)b.hypothesis_tokens, "ref_len",
                            (json_int_t)b.reference_tokens, "chrf2", tfm_metrics_chrf(j->metrics), "signature",
                            tfm_metrics_signature(j->metrics), "lines", (json_int_t)j->lines);
    if (j->model)
        json_object_set_new(all, "ppl", cli_number_json(cli_evaluation_perplexity(&j->measure)));
    cli_print_json(all);
}

static int run(job *j) {
    j->options.tokenizer = (tfm_metrics_tokenizer)j->tokenizer;
    if (tfm_metrics_new(&j->metrics, &j->options) != TFM_OK)
        return cli_fail_library();
    int code = j->hypothesis_file ? evaluate_files(j) : evaluate_model(j);
    cli_progress(NULL);
    if (code == CLI_OK && j->json)
        print_json(j);
    else if (code == CLI_OK)
        print_text(j);
    if (code == CLI_OK && j->tokenizer == TFM_TOKENIZE_13A && cli_word_spacing_none(&j->spaces))
        fprintf(stderr, "tfm: the references are written without spaces, so BLEU counts whole clauses as words: "
                        "give --tokenize char to count characters\n");
    cli_lines_close(&j->hypothesis);
    cli_lines_close(&j->reference);
    cli_lines_close(&j->source);
    tfm_model_free(&j->model);
    tfm_fleet_free(&j->fleet);
    tfm_metrics_free(&j->metrics);
    free(j->rejected);
    return code == CLI_OK && j->rejected_count > 0 ? CLI_FAILED : code;
}

/* The options after these are for a model. */
enum { TEXT_OPTIONS = 7 };

/* Rejects conflicting options. */
static int check_options(const cli_syntax *syntax, const job *j) {
    if (j->hypothesis_file && (j->model_dir || j->source_file))
        return cli_usage_error(syntax, "--hyp does not go with -m and --src: give existing translations or a model");
    for (size_t i = TEXT_OPTIONS; j->hypothesis_file && i < syntax->option_count; i++)
        if (*syntax->options[i].given)
            return cli_usage_error(syntax, "--%s needs a model, and --hyp has the translations",
                                   syntax->options[i].name);
    if (!j->hypothesis_file && (!j->model_dir || !j->source_file))
        return cli_usage_error(syntax, "there is nothing to evaluate: give -m and --src, or --hyp");
    if (!j->reference_file)
        return cli_usage_error(syntax, "--ref is needed");
    const char *other = j->hypothesis_file ? j->hypothesis_file : j->source_file;
    if (strcmp(other, "-") == 0 && strcmp(j->reference_file, "-") == 0)
        return cli_usage_error(syntax, "only one of the files can be standard input");
    return CLI_CONTINUE;
}

int cmd_eval(int argc, char **argv) {
    job j = {0};
    cli_option options[] = {
        {0, "hyp", CLI_STRING, &j.hypothesis_file, "FILE", "the translations, one a line", NULL},
        {'r', "ref", CLI_STRING, &j.reference_file, "FILE", "a reference for each line", NULL},
        {'m', "model", CLI_STRING, &j.model_dir, "MODEL", "the model that translates, instead of --hyp", NULL},
        {'s', "src", CLI_STRING, &j.source_file, "FILE", "the source lines for the model", NULL},
        {0, "tokenize", CLI_CHOICE, &j.tokenizer, "13a|none|char", "BLEU's tokenizer (default 13a)", NULL},
        {0, "lowercase", CLI_FLAG, &j.options.lowercase, NULL, "convert to lower case first, for both scores", NULL},
        {0, "json", CLI_FLAG, &j.json, NULL, "write a JSON object with full precision instead of lines", NULL},
        CLI_ADAPTERS(&j.adapters),
        CLI_LANGUAGES(j.text),
        CLI_SEARCH(j.search, j.text, j.penalty, j.precision),
        CLI_DEVICES(&j.device),
        CLI_WORKERS(&j.workers),
    };
    const cli_syntax syntax = {
        .name = "eval",
        .usage = "eval --hyp FILE --ref FILE [option...]\n"
                 "       tfm eval -m MODEL --src FILE --ref FILE [option...]",
        .about = "Evaluates translations: BLEU and chrF2 as in sacreBLEU, with the signature of\n"
                 "the score. With a model it translates the source lines as tfm translate does,\n"
                 "and adds the perplexity of the references.\n"
                 "A source line that cannot be translated is reported and counts as an empty\n"
                 "translation. A reference with too many tokens is reported too. The perplexity\n"
                 "leaves out both, and the exit code is 1. A translation of --hyp or a reference\n"
                 "with invalid UTF-8 or a NUL ends the evaluation.\n",
        .examples = "  tfm eval -m apps/demo --src test.de --ref test.en\n"
                    "  tfm translate -m apps/demo < test.de | tfm eval --hyp - --ref test.en --json\n"
                    "  tfm eval --hyp out.zh --ref test.zh --tokenize char\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    bool given[CLI_COUNT(options)] = {0};
    for (size_t i = 0; i < CLI_COUNT(options); i++)
        options[i].given = options[i].given ? options[i].given : &given[i];
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_CONTINUE)
        code = check_options(&syntax, &j);
    if (code == CLI_CONTINUE)
        code = cli_check_search(&syntax, j.search.beam_size, j.search.length_penalty);
    if (code == CLI_CONTINUE)
        code = cli_check_workers(&syntax, j.workers);
    j.how.adapters = j.adapters.items;
    j.how.adapter_count = j.adapters.count;
    cli_set_precision(&j.how, j.precision);
    return code == CLI_CONTINUE ? run(&j) : code;
}
