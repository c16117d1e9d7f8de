/* tfm translate: translates lines or documents. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "commands/translate.h"

/* The words of --format; lines are none. */
static const char *const FORMAT_NAMES[] = {"text", "html", "markdown", "po", "srt", "vtt"};
static const document_kind *const FORMATS[] = {NULL,         &document_html, &document_markdown,
                                               &document_po, &document_srt,  &document_vtt};

static void print_stats(const translate_job *j) {
    const tfm_search_stats *s = &j->done;
    const double seconds = fmax(s->seconds - (j->build_seconds - j->load_build), 1e-9);
    cli_print_stats(json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "sentences", (json_int_t)s->sentences, "source_tokens",
        (json_int_t)s->source_tokens, "target_tokens", (json_int_t)s->target_tokens, "load_seconds",
        cli_rounded_json(j->load_seconds - j->load_build, 3), "build_seconds", cli_rounded_json(j->build_seconds, 3),
        "seconds", cli_rounded_json(seconds, 3), "sentences_per_s", cli_rounded_json((double)s->sentences / seconds, 1),
        "tokens_per_s", cli_rounded_json((double)s->target_tokens / seconds, 1)));
}

/* Checks the whole prefix file before the first line is translated. */
static int read_prefixes(translate_job *j) {
    if (!j->prefix_file)
        return CLI_OK;
    int code = cli_lines_read_all(&j->prefixes, "--prefix-file", j->prefix_file);
    for (size_t i = 0; i < j->prefixes.count && code == CLI_OK; i++)
        if (tfm_text_check(j->prefixes.text[i], j->prefixes.bytes[i]) != TFM_OK)
            code = cli_fail("%s, line %zu: %s", j->prefix_file, i + 1, tfm_error_message());
    return code;
}

/* Reads the terms: SOURCE tab TARGET a line. Sides without blanks at their ends. */
static int read_glossary(translate_job *j) {
    if (!j->glossary_file)
        return CLI_OK;
    const int code = cli_lines_read_all(&j->terms, "--glossary", j->glossary_file);
    if (code != CLI_OK)
        return code;
    j->glossary = calloc(j->terms.count + 1, sizeof(*j->glossary));
    if (!j->glossary)
        return cli_fail("out of memory for the glossary");
    for (size_t i = 0; i < j->terms.count; i++) {
        char *line = (char *)(uintptr_t)j->terms.text[i], *tab = strchr(line, '\t'); /* in its own buffer */
        if (tfm_text_check(line, j->terms.bytes[i]) != TFM_OK)
            return cli_fail("%s, line %zu: %s", j->glossary_file, i + 1, tfm_error_message());
        if (!*line || *line == '#')
            continue;
        if (!tab || tab == line || !tab[1] || strchr(tab + 1, '\t'))
            return cli_fail("%s, line %zu: a term is a source text, a tab and its translation", j->glossary_file,
                            i + 1);
        *tab = 0;
        j->glossary[j->text.glossary_count++] = (tfm_glossary_term){line, tab + 1};
    }
    j->text.glossary = j->glossary;
    return j->text.glossary_count > 0
               ? CLI_OK
               : cli_fail("%s has no term: write SOURCE, a tab and TARGET on each line", j->glossary_file);
}

static int open_model(translate_job *j) {
    double start = cli_seconds();
    cli_progress("loading %s", j->model_dir);
    if (cli_open_fleet(&j->fleet, j->device, j->workers) != TFM_OK ||
        tfm_fleet_open_model(&j->model, j->fleet, j->model_dir, &j->how) != TFM_OK)
        return cli_fail_library();
    cli_progress(NULL);
    j->load_seconds = cli_seconds() - start;
    j->load_build = cli_build_seconds(j->fleet);
    return cli_check_model(tfm_model_get_info(j->model), j->model_dir, true, "tfm generate");
}

/* Checks that the model's own beam is enough for n-best, before loading. */
static int check_n_best(const translate_job *j, const cli_syntax *syntax) {
    tfm_model_info info;
    if (j->search.beam_size || j->search.n_best < 2)
        return CLI_CONTINUE;
    if (tfm_model_read_info(&info, j->model_dir, NULL) != TFM_OK)
        return cli_fail_library();
    if (j->search.n_best <= info.beam_size)
        return CLI_CONTINUE;
    return cli_usage_error(syntax, "--n-best is %d, more than the model's own beam of %d: give --beam-size %d as well",
                           j->search.n_best, info.beam_size, j->search.n_best);
}

static int run(translate_job *j, const cli_syntax *syntax) {
    const int patterns = cli_keep(&j->placeholders, &j->keep, syntax);
    if (patterns != CLI_OK)
        return patterns;
    j->text.placeholders = j->placeholders;
    j->search.length_norm = (tfm_length_norm)j->penalty;
    translate_set_callbacks(j);
    const document_kind *kind = FORMATS[j->format];
    int code = kind ? document_read(&j->document, kind, j->input) : cli_lines_open(&j->in, "-i", j->input),
        spare = CLI_OK;
    if (code == CLI_OK)
        code = read_prefixes(j);
    if (code == CLI_OK)
        code = read_glossary(j);
    if (code == CLI_OK)
        code = cli_output_open(&j->out, j->output);
    if (code == CLI_OK)
        code = open_model(j);
    if (code == CLI_OK && kind)
        code = document_translate(&j->document, j->model, &j->text, &j->search, &j->bad);
    else if (code == CLI_OK)
        code = translate_lines(j);
    if (code == CLI_OK && kind)
        code = document_write(&j->document, &j->out);
    if (code == CLI_OK && j->prefix_file && j->prefixes.count != j->in.first)
        code = spare = cli_fail("%s has %zu lines, %s %zu: the lines that follow were not used", j->prefix_file,
                                j->prefixes.count, j->in.name, j->in.first);
    int closing = cli_output_close(&j->out, code == CLI_OK || spare != CLI_OK); /* the translations are whole */
    code = code == CLI_OK ? closing : code;
    cli_progress(NULL);
    j->build_seconds = cli_build_seconds(j->fleet);
    tfm_model_free(&j->model);
    tfm_fleet_free(&j->fleet);
    if (code == CLI_OK && j->stats) /* this is the last line, also after the table of a profile */
        print_stats(j);
    if (kind)
        document_free(&j->document);
    cli_lines_close(&j->prefixes);
    cli_lines_close(&j->terms);
    free(j->glossary);
    cli_lines_close(&j->in);
    tfm_placeholders_free(&j->placeholders);
    return code == CLI_OK && j->bad > 0 ? CLI_FAILED : code;
}

/* Rejects conflicting options. */
static int check(const translate_job *j, const cli_syntax *syntax) {
    if (!j->model_dir)
        return cli_usage_error(syntax, "no model is given: give -m MODEL");
    if (j->prefix_file && strcmp(j->prefix_file, "-") == 0 && (!j->input || strcmp(j->input, "-") == 0))
        return cli_usage_error(syntax, "only one of the files can be standard input");
    int code = cli_check_search(syntax, j->search.beam_size, j->search.length_penalty);
    if (code == CLI_CONTINUE)
        code = cli_check_workers(syntax, j->workers);
    if (code != CLI_CONTINUE)
        return code;
    if (j->search.beam_size && j->search.n_best > j->search.beam_size)
        return cli_usage_error(syntax, "--n-best is %d, more than --beam-size %d", j->search.n_best,
                               j->search.beam_size);
    if (j->format && (j->scores || j->json || j->text.alignments || j->search.n_best || j->prefix_file))
        return cli_usage_error(syntax,
                               "a document is translated as a whole: --format %s goes without --scores, --json, "
                               "--alignments, --n-best and --prefix-file",
                               FORMAT_NAMES[j->format]);
    if (j->text.split && j->search.n_best > 1)
        return cli_usage_error(syntax,
                               "--split joins the translations of a line's sentences into one, so there are no N best: "
                               "leave --n-best or --split away");
    if (j->glossary_file && j->search.n_best > 1)
        return cli_usage_error(syntax, "--glossary and --n-best do not go together: leave one away");
    if (j->text.language && !j->text.split && !j->format)
        return cli_usage_error(syntax, "--language is for --split and --format: give both, or neither");
    if ((j->text.alignment_layer || j->text.alignment_head) && !j->text.alignments)
        return cli_usage_error(syntax, "--alignment-layer and --alignment-head are for --alignments");
    if (j->text.alignments && !j->json)
        return cli_usage_error(syntax, "--alignments are written with --json");
    return check_n_best(j, syntax);
}

static int parse_and_run(int argc, char **argv, cli_strings *patterns) {
    translate_job j = {0};
    const cli_option options[] = {
        {'m', "model", CLI_STRING, &j.model_dir, "MODEL",
         "the model: its directory, or its name on the Hugging Face hub", NULL},
        {'i', "input", CLI_STRING, &j.input, "FILE", "read lines from this file instead of standard input", NULL},
        {'o', "output", CLI_STRING, &j.output, "FILE", "write to this file, which appears when it is complete", NULL},
        {'n', "n-best", CLI_POSITIVE, &j.search.n_best, "N",
         "write the N best translations of each line, as lines `index ||| text ||| score`, the index from 0", NULL},
        {0, "scores", CLI_FLAG, &j.scores, NULL, "append a tab and the score to each translation", NULL},
        {0, "json", CLI_FLAG, &j.json, NULL,
         "write a JSON object for each translation, with the keys index (of the line, from 0), rank, text, score, "
         "log_prob and tokens (each with id, piece and log_prob)",
         NULL},
        {0, "alignments", CLI_FLAG, &j.text.alignments, NULL,
         "with --json, also write alignments: cross-attention weights of the last layer, a mean over heads", NULL},
        {0, "alignment-layer", CLI_POSITIVE, &j.text.alignment_layer, "N",
         "decoder layer of the alignments, counted from 1", NULL},
        {0, "alignment-head", CLI_POSITIVE, &j.text.alignment_head, "N",
         "attention head of the alignments, counted from 1", NULL},
        {0, "format", CLI_CHOICE, &j.format, "text|html|markdown|po|srt|vtt",
         "html, markdown: keep a document's markup; po: fill the empty messages of a gettext catalog; srt, vtt: keep "
         "numbers, times and tags of SubRip or WebVTT "
         "subtitles; "
         "documents are translated sentence by sentence (default text: lines)",
         NULL},
        {0, "split", CLI_FLAG, &j.text.split, NULL, "translate the sentences of a line one by one", NULL},
        {0, "language", CLI_STRING, &j.text.language, "CODE",
         "the source language for sentence splitting, such as de (default: from tokenizer_config.json)", NULL},
        {0, "prefix-file", CLI_STRING, &j.prefix_file, "FILE",
         "a file with the required start of each translation, one line per input line", NULL},
        {0, "glossary", CLI_STRING, &j.glossary_file, "FILE",
         "a file of terms, SOURCE tab TARGET a line: the translation of a text with SOURCE has TARGET", NULL},
        CLI_KEEP(&j.keep),
        CLI_ADAPTERS(&j.adapters),
        CLI_LANGUAGES(j.text),
        {0, "stats", CLI_FLAG, &j.stats, NULL, "end with a line of counts and times on standard error", NULL},
        CLI_SEARCH(j.search, j.text, j.penalty, j.precision),
        CLI_KV_PRECISION(j.precision.kv),
        CLI_DEVICES(&j.device),
        CLI_WORKERS(&j.workers),
    };
    const cli_syntax syntax = {
        .name = "translate",
        .usage = "translate -m MODEL [option...] < lines",
        .about = "Translates lines of UTF-8 text: one line out for each line in, in order. It\n"
                 "reads until its input pauses or 16 batches are full, and writes each\n"
                 "translation as soon as all before it are done.\n"
                 "With -o FILE, an interrupted run leaves its results in FILE.partial.\n"
                 "A line that cannot be translated (invalid UTF-8, a NUL, too long) is reported\n"
                 "on standard error and gives an empty line. The other lines are still\n"
                 "translated, and the exit code is 1. In a document such text stays unchanged.\n",
        .examples = "  echo \"Guten Morgen.\" | tfm translate -m apps/demo\n"
                    "  tfm translate -m apps/demo -i book.de -o book.en --beam-size 1 --stats\n"
                    "  tfm translate -m apps/demo --beam-size 8 --n-best 3 < book.de\n"
                    "  echo \"Guten Morgen. Wo ist Tom?\" | tfm translate -m apps/demo --split --json\n"
                    "  tfm translate -m apps/demo --format srt -i film.de.srt -o film.en.srt\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&syntax, argc, argv);
    *patterns = j.keep.patterns;
    if (code != CLI_CONTINUE)
        return code;
    code = check(&j, &syntax);
    if (code != CLI_CONTINUE)
        return code;
    j.how.adapters = j.adapters.items;
    j.how.adapter_count = j.adapters.count;
    cli_set_precision(&j.how, j.precision);
    j.search.skip_scores = !j.scores && !j.json && !j.search.n_best;
    return run(&j, &syntax);
}

int cmd_translate(int argc, char **argv) {
    cli_strings patterns = {0};
    const int code = parse_and_run(argc, argv, &patterns);
    free(patterns.items);
    return code;
}
