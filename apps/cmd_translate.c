/* tfm translate: a line out for each line in. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli.h"
#include "document.h"

/* Batches that are read ahead, so that lines of like length meet; bytes that make about one token; and lines whose
 * sentences are counted for the hint, each of which costs ICU an iterator. */
enum { BATCHES_AHEAD = 16, DEFAULT_BATCH_TOKENS = 4096, BYTES_PER_TOKEN = 3, LOOKS = 100 };

typedef struct job {
    const char *model_dir, *input, *output, *prefix_file, *device;
    int workers;
    int precision;
    tfm_model_options how; /* to open the model */
    bool scores, stats, json, no_keep;
    const cli_texts *keep; /* patterns */
    tfm_placeholders *placeholders;
    int looks; /* lines that were looked at for the hint; LOOKS once it was given */
    tfm_search_options search;
    tfm_text_options text;
    int penalty;
    tfm_fleet *fleet;
    tfm_model *model;
    int format; /* of FORMATS */
    document document;
    cli_lines in, prefixes;
    cli_output out;
    size_t bad;
    size_t finished;                                /* lines that are written */
    double load_seconds, load_build, build_seconds; /* building kernels while the model was loaded, and in all */
    double start;          /* when the first batch was done, in which kernels may be built; 0 before */
    double start_part;     /* how much of the input was done then, from 0 to 1, */
    uint64_t start_done;   /* and how many sentences */
    uint64_t bytes_before; /* the chunk at hand */
    uint64_t bytes;        /* of the whole input; 0 where nobody knows */
    bool told;             /* why it ended has been said */
    tfm_search_stats done;
} job;

/* The words of --format; lines are none. */
static const char *const FORMAT_NAMES[] = {"text", "html", "srt", "vtt"};
static const document_kind *const FORMATS[] = {NULL, &document_html, &document_srt, &document_vtt};

static bool on_reject(void *user, size_t line, const char *message) {
    job *j = user;
    j->bad++;
    cli_fail("%s, line %zu: %s", j->in.name, j->in.first + line + 1, message);
    return true;
}

/* ---- One translation ------------------------------------------------------------------------------------------- */

/* An object a line. */
static bool write_json(job *j, const tfm_translation *t) {
    json_t *object =
        cli_hypothesis_json(j->in.first + t->line, t->best, t->text, t->score, t->log_prob, &t->target, t->log_probs);
    if (object && t->alignment) {
        json_object_set_new(object, "source", cli_tokens_json(&t->source));
        json_object_set_new(object, "alignment", cli_weights_json(t));
    }
    return cli_put_json(&j->out, object, 9);
}

static void write_text(job *j, const tfm_translation *t) {
    FILE *file = j->out.file;
    if (isnan(t->score)) { /* the line is empty, or was rejected */
        if (j->search.n_best > 0)
            fprintf(file, "%zu |||  ||| ", j->in.first + t->line); /* no score */
        fputc('\n', file);
        return;
    }
    if (j->search.n_best > 0)
        fprintf(file, "%zu ||| ", j->in.first + t->line);
    cli_put_line(file, t->text);
    if (j->search.n_best > 0)
        fprintf(file, " ||| %.6f", t->score);
    else if (j->scores)
        fprintf(file, "\t%.6f", t->score);
    fputc('\n', file);
}

static bool on_translation(void *user, const tfm_translation *t) {
    job *j = user;
    if (t->best == 0)
        cli_progress(NULL); /* both may go to one terminal */
    j->finished = j->in.first + t->line + (t->best + 1 >= j->search.n_best || isnan(t->score));
    if (t->best > 0 && t->score == -INFINITY) /* there are no more hypotheses */
        return true;
    if (j->json)
        return write_json(j, t);
    write_text(j, t);
    return cli_output_good(&j->out);
}

/* ---- Progress -------------------------------------------------------------------------------------------------- */

/* How much of the input is done, from 0 to 1; 0 where its size is not known. */
static double fraction(const job *j, uint64_t done, uint64_t total) {
    const double chunk = total > 0 ? (double)j->in.taken * (double)done / (double)total : 0;
    const double all = j->bytes > 0 ? ((double)j->bytes_before + chunk) / (double)j->bytes : 0;
    return all < 1 ? all : 1;
}

static void show_progress(const job *j, uint64_t done, uint64_t total) {
    const double elapsed = j->start > 0 ? cli_seconds() - j->start : 0, part = fraction(j, done, total);
    const double passed = part - j->start_part, left = passed > 0 ? elapsed * (1 - part) / passed : 0;
    char percent[32] = "translating", lines[48] = "", rate[48] = "", eta[48] = "";
    if (j->bytes > 0)
        snprintf(percent, sizeof(percent), "translating %3.0f %%", 100 * part);
    if (j->done.sentences > 0)
        snprintf(lines, sizeof(lines), "%" PRIu64 " %s%s", j->done.sentences, j->text.split ? "sentence" : "line",
                 j->done.sentences == 1 ? "" : "s");
    else
        snprintf(lines, sizeof(lines), "%zu line%s read", j->in.count, j->in.count == 1 ? "" : "s");
    if (elapsed > 1)
        snprintf(rate, sizeof(rate), "%.0f a second", (double)(j->done.sentences - j->start_done) / elapsed);
    if (passed > 0 && elapsed > 1 && left < 1e6 * 3600)
        snprintf(eta, sizeof(eta), "ETA %d:%02d:%02d", (int)(left / 3600), (int)fmod(left / 60, 60),
                 (int)fmod(left, 60));
    cli_progress_fields((const cli_field[]){{percent, 0}, {lines, 2}, {rate, 3}, {eta, 1}}, 4);
}

/* After each batch: what is done is handed on, whatever happens next. */
static bool on_progress(void *user, uint64_t done, uint64_t total) {
    job *j = user;
    if (j->start == 0 && j->done.sentences > 0) {
        j->start = cli_seconds();
        j->start_part = fraction(j, done, total);
        j->start_done = j->done.sentences;
    }
    if (cli_output_finished(&j->out, j->finished) != CLI_OK) {
        j->told = true;
        return false;
    }
    if (j->input || !isatty(STDIN_FILENO))
        show_progress(j, done, total);
    return true;
}

/* What is left of a file that is read, or of one that standard input is. */
static uint64_t input_bytes(int fd) {
    struct stat file;
    const off_t at = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) ? lseek(fd, 0, SEEK_CUR) : -1;
    return at >= 0 && file.st_size > at ? (uint64_t)(file.st_size - at) : 0;
}

/* ---- The lines ------------------------------------------------------------------------------------------------- */

/* Something follows a mark that ends sentences: worth a closer look. */
static bool may_have_several(const char *line, size_t bytes) {
    const char *end = line + bytes;
    for (const char *at = line; (at = memchr(at, ' ', (size_t)(end - at))); at++)
        if (at > line && strchr(".!?", at[-1]) && at + 1 < end)
            return true;
    return false;
}

/* Told once: where a line has several sentences, models that learned from single ones merge or drop some. */
static void hint_at_split(job *j) {
    const char *language = tfm_tokenizer_language(tfm_model_tokenizer(j->model), TFM_SOURCE);
    for (size_t i = 0; i < j->in.count && j->looks < LOOKS && !j->text.split; i++) {
        tfm_sentence *found = NULL;
        size_t count = 0;
        if (!may_have_several(j->in.text[i], j->in.bytes[i]))
            continue;
        j->looks++;
        if (tfm_text_sentences(&found, &count, j->in.text[i], j->in.bytes[i], language) == TFM_OK && count > 1) {
            cli_progress(NULL);
            fprintf(stderr, "tfm: line %zu of %s has %zu sentences, and is translated as one; see --split%s\n",
                    j->in.first + i + 1, j->in.name, count, j->search.n_best ? ", which goes without --n-best" : "");
            j->looks = LOOKS;
        }
        tfm_sentences_free(&found);
    }
}

/* The chunk's prefixes, or NULL where none are wanted. The file has a line for each line of input. */
static int chunk_prefixes(job *j, const char *const **out) {
    *out = NULL;
    if (!j->prefix_file)
        return CLI_OK;
    if (j->prefixes.count < j->in.first + j->in.count)
        return cli_fail("%s has %zu lines and %s more: it needs a prefix, or an empty line, for each", j->prefix_file,
                        j->prefixes.count, j->in.name);
    *out = j->prefixes.text + j->in.first;
    return CLI_OK;
}

static int translate_chunk(job *j) {
    int code = chunk_prefixes(j, &j->text.prefixes);
    if (code != CLI_OK)
        return code;
    hint_at_split(j);
    j->text.line_bytes = j->in.bytes;
    tfm_status status = tfm_translate_lines(j->model, j->in.text, j->in.count, &j->text, &j->search, on_translation, j);
    if (j->told)
        return CLI_FAILED;
    if (status != TFM_OK && status != TFM_ERROR_CANCELLED) {
        cli_output_finished(&j->out, j->finished);
        return cli_fail_library();
    }
    return cli_output_finished(&j->out, j->finished);
}

static int translate_all(job *j) {
    int tokens = j->text.batch_tokens ? j->text.batch_tokens : DEFAULT_BATCH_TOKENS;
    size_t ahead = (size_t)tokens * BATCHES_AHEAD * BYTES_PER_TOKEN * tfm_fleet_count(j->fleet);
    j->bytes = input_bytes(j->in.fd);
    for (;;) {
        int code = cli_lines_next(&j->in, ahead);
        if (code != CLI_OK || j->in.count == 0)
            return code;
        code = translate_chunk(j);
        if (code != CLI_OK)
            return code;
        j->bytes_before += j->in.taken;
    }
}

static void print_stats(const job *j) {
    const tfm_search_stats *s = &j->done;
    const double seconds = fmax(s->seconds - (j->build_seconds - j->load_build), 1e-9);
    cli_put_stats(json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "sentences", (json_int_t)s->sentences, "source_tokens",
        (json_int_t)s->source_tokens, "target_tokens", (json_int_t)s->target_tokens, "load_seconds",
        cli_rounded_json(j->load_seconds - j->load_build, 3), "build_seconds", cli_rounded_json(j->build_seconds, 3),
        "seconds", cli_rounded_json(seconds, 3), "sentences_per_s", cli_rounded_json((double)s->sentences / seconds, 1),
        "tokens_per_s", cli_rounded_json((double)s->target_tokens / seconds, 1)));
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
    if (cli_open_fleet(&j->fleet, j->device, j->workers) != TFM_OK ||
        tfm_fleet_open_model(&j->model, j->fleet, j->model_dir, &j->how) != TFM_OK)
        return cli_fail_library();
    cli_progress(NULL);
    j->load_seconds = cli_seconds() - start;
    j->load_build = cli_build_seconds(j->fleet);
    return CLI_OK;
}

/* Whether the model's own beam is enough for n-best, before anything is loaded. */
static int check_n_best(const job *j, const cli_syntax *syntax) {
    tfm_model_info info;
    if (j->search.beam || j->search.n_best < 2)
        return CLI_GO;
    if (tfm_model_read_info(&info, j->model_dir, NULL) != TFM_OK)
        return cli_fail_library();
    if (j->search.n_best <= info.beam)
        return CLI_GO;
    return cli_misuse(syntax, "--n-best is %d, more than the model's own beam of %d: give --beam %d as well",
                      j->search.n_best, info.beam, j->search.n_best);
}

static int run(job *j) {
    if (!j->no_keep && tfm_placeholders_new(&j->placeholders, j->keep->items, j->keep->count) != TFM_OK)
        return cli_fail_library();
    j->text.placeholders = j->placeholders;
    j->search.penalty = (tfm_length_penalty)j->penalty;
    j->text.reject = on_reject;
    j->text.reject_user = j;
    j->text.stats = &j->done;
    j->text.progress = on_progress;
    j->text.progress_user = j;
    const document_kind *kind = FORMATS[j->format];
    int code = kind ? document_read(&j->document, kind, j->input) : cli_lines_open(&j->in, j->input), spare = CLI_OK;
    if (code == CLI_OK)
        code = read_prefixes(j);
    if (code == CLI_OK)
        code = cli_output_open(&j->out, j->output);
    if (code == CLI_OK)
        code = open_model(j);
    if (code == CLI_OK && kind)
        code = document_translate(&j->document, j->model, &j->text, &j->search, &j->bad);
    else if (code == CLI_OK)
        code = translate_all(j);
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
    cli_lines_close(&j->in);
    tfm_placeholders_free(&j->placeholders);
    return code == CLI_OK && j->bad > 0 ? CLI_FAILED : code;
}

static int parse_and_run(int argc, char **argv, cli_texts *keep) {
    job j = {.keep = keep};
    const cli_option options[] = {
        {'m', "model", CLI_TEXT, &j.model_dir, "DIR", "the model's directory", NULL},
        {'i', "input", CLI_TEXT, &j.input, "FILE", "read lines from here instead of standard input", NULL},
        {'o', "output", CLI_TEXT, &j.output, "FILE", "write here; the file appears when it is complete", NULL},
        {'n', "n-best", CLI_INT, &j.search.n_best, "N",
         "write the N best translations of each line, as lines `index ||| text ||| score`, the index from 0", NULL},
        {0, "scores", CLI_FLAG, &j.scores, NULL, "put a tab and the score after each translation", NULL},
        {0, "json", CLI_FLAG, &j.json, NULL,
         "write an object for each translation: the index of its line, from 0, rank, text, score, log_prob, and tokens "
         "with their log probabilities",
         NULL},
        {0, "alignments", CLI_FLAG, &j.text.alignments, NULL,
         "with --json, also write how much each token of the translation looked at each one of the source: the weights "
         "of "
         "the last layer's cross-attention, a mean over heads",
         NULL},
        {0, "alignment-layer", CLI_INT, &j.text.alignment_layer, "N",
         "take the alignments from this decoder layer, from 1", NULL},
        {0, "alignment-head", CLI_INT, &j.text.alignment_head, "N", "take the alignments from this head alone, from 1",
         NULL},
        {0, "format", CLI_CHOICE, &j.format, "text|html|srt|vtt",
         "html: keep the markup of a document around its words; srt, vtt: keep the numbers, times and tags of SubRip "
         "or "
         "WebVTT subtitles; documents are read whole and translated sentence by sentence (default text: lines)",
         NULL},
        {0, "split", CLI_FLAG, &j.text.split, NULL, "translate the sentences of a line one by one", NULL},
        {0, "language", CLI_TEXT, &j.text.language, "CODE",
         "the language of the source, such as de, by whose rules sentences are found (default: what "
         "tokenizer_config.json "
         "says)",
         NULL},
        {0, "prefix-file", CLI_TEXT, &j.prefix_file, "FILE",
         "a file with a line for each line of input: the text that its translation must begin with", NULL},
        CLI_KEEP(keep, &j.no_keep),
        CLI_LANGUAGES(j.text),
        {0, "stats", CLI_FLAG, &j.stats, NULL, "end with a line of counts and times on standard error", NULL},
        CLI_SEARCH(j.search, j.text, j.penalty, j.precision),
        CLI_DEVICES(&j.device),
        CLI_WORKERS(&j.workers),
    };
    const cli_syntax syntax = {
        .name = "translate",
        .usage = "translate -m DIR [option...] < lines",
        .about = "Translates lines of UTF-8 text: one line out for each line in, in order. It\n"
                 "reads until its input pauses or 16 batches are full, writes each translation\n"
                 "as soon as all before it are done, and goes on.\n"
                 "With -o FILE, a run that is interrupted leaves what it has written in\n"
                 "FILE.partial.\n"
                 "A line that cannot be translated (invalid UTF-8, a NUL, too long) is named on\n"
                 "standard error and gives an empty line. The other lines are still translated,\n"
                 "and the exit code is 1. What cannot be translated in a document stays there.\n",
        .examples = "  echo \"Guten Morgen.\" | tfm translate -m apps/demo\n"
                    "  tfm translate -m apps/demo -i book.de -o book.en --beam 1 --stats\n"
                    "  tfm translate -m apps/demo --beam 8 --n-best 3 < book.de\n"
                    "  echo \"Guten Morgen. Wo ist Tom?\" | tfm translate -m apps/demo --split --json\n"
                    "  tfm translate -m apps/demo --format srt -i film.de.srt -o film.en.srt\n",
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
    code = cli_check_beam(&syntax, j.search.beam);
    if (code == CLI_GO)
        code = cli_check_workers(&syntax, j.workers);
    if (code != CLI_GO)
        return code;
    if (j.search.beam && j.search.n_best > j.search.beam)
        return cli_misuse(&syntax, "--n-best is %d, more than --beam %d", j.search.n_best, j.search.beam);
    if (j.format && (j.scores || j.json || j.text.alignments || j.search.n_best || j.prefix_file))
        return cli_misuse(&syntax,
                          "a document is translated as a whole: --format %s goes without --scores, --json, "
                          "--alignments, --n-best and --prefix-file",
                          FORMAT_NAMES[j.format]);
    if (j.text.split && j.search.n_best > 1)
        return cli_misuse(&syntax,
                          "--split gives one translation for a line, put together from those of its sentences: "
                          "leave --n-best or --split away");
    if (j.text.language && !j.text.split && !j.format)
        return cli_misuse(&syntax, "--language is for --split and --format: give both, or neither");
    if ((j.text.alignment_layer || j.text.alignment_head) && !j.text.alignments)
        return cli_misuse(&syntax, "--alignment-layer and --alignment-head are for --alignments");
    if (j.text.alignments && !j.json)
        return cli_misuse(&syntax, "--alignments are written with --json");
    j.how.precision = cli_precision(j.precision);
    j.search.unscored = !j.scores && !j.json && !j.search.n_best;
    code = check_n_best(&j, &syntax);
    return code == CLI_GO ? run(&j) : code;
}

int cmd_translate(int argc, char **argv) {
    cli_texts keep = {0};
    const int code = parse_and_run(argc, argv, &keep);
    free(keep.items);
    return code;
}
