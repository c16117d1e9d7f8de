/* The lines of tfm translate: read ahead, translated in batches, written in input order. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "commands/translate.h"

/* Batches read ahead, to batch lines of similar length; estimated bytes per token; and lines whose sentences are
 * counted for the hint, each with an ICU iterator. */
enum { BATCHES_AHEAD = 16, DEFAULT_BATCH_TOKENS = 4096, BYTES_PER_TOKEN = 3, MAX_SPLIT_CHECKS = 100 };

static bool on_reject(void *user, size_t line, const char *message) {
    translate_job *j = user;
    j->bad++;
    cli_fail("%s, line %zu: %s", j->in.name, j->in.first + line + 1, message);
    return true;
}

/* ---- One translation ------------------------------------------------------------------------------------------- */

/* One JSON object a line. */
static bool write_json(translate_job *j, const tfm_translation *t) {
    json_t *object =
        cli_hypothesis_json(j->in.first + t->line, t->rank, t->text, t->score, t->log_prob, &t->target, t->log_probs);
    if (object && t->alignment) {
        json_object_set_new(object, "source", cli_tokens_json(&t->source));
        json_object_set_new(object, "alignment", cli_alignment_weights_json(t));
    }
    return cli_write_json(&j->out, object, 9);
}

static void write_text(translate_job *j, const tfm_translation *t) {
    FILE *file = j->out.file;
    if (isnan(t->score)) { /* the line is empty, or was rejected */
        if (j->search.n_best > 0)
            fprintf(file, "%zu |||  ||| ", j->in.first + t->line); /* no score */
        fputc('\n', file);
        return;
    }
    if (j->search.n_best > 0)
        fprintf(file, "%zu ||| ", j->in.first + t->line);
    cli_write_line(file, t->text);
    if (j->search.n_best > 0)
        fprintf(file, " ||| %.6f", t->score);
    else if (j->scores)
        fprintf(file, "\t%.6f", t->score);
    fputc('\n', file);
}

static bool on_translation(void *user, const tfm_translation *t) {
    translate_job *j = user;
    if (t->rank == 0)
        cli_progress(NULL); /* both may go to one terminal */
    j->finished = j->in.first + t->line + (t->rank + 1 >= j->search.n_best || isnan(t->score));
    if (t->rank > 0 && t->score == -INFINITY) /* there are no more hypotheses */
        return true;
    if (j->json)
        return write_json(j, t);
    write_text(j, t);
    return cli_output_ok(&j->out);
}

/* ---- Progress -------------------------------------------------------------------------------------------------- */

/* Fraction of the input done, from 0 to 1; 0 if its size is unknown. */
static double fraction(const translate_job *j, uint64_t done, uint64_t total) {
    const double chunk = total > 0 ? (double)j->in.taken * (double)done / (double)total : 0;
    const double all = j->bytes > 0 ? ((double)j->bytes_before + chunk) / (double)j->bytes : 0;
    return all < 1 ? all : 1;
}

static void show_progress(const translate_job *j, uint64_t done, uint64_t total) {
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

/* After each batch, flushes the finished lines. */
static bool on_progress(void *user, uint64_t done, uint64_t total) {
    translate_job *j = user;
    if (j->start == 0 && j->done.sentences > 0) {
        j->start = cli_seconds();
        j->start_part = fraction(j, done, total);
        j->start_done = j->done.sentences;
    }
    if (cli_output_checkpoint(&j->out, j->finished) != CLI_OK) {
        j->told = true;
        return false;
    }
    if (j->input || !isatty(STDIN_FILENO))
        show_progress(j, done, total);
    return true;
}

/* Remaining bytes of the input, if it is a regular file. */
static uint64_t input_bytes(int fd) {
    struct stat file;
    const off_t at = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) ? lseek(fd, 0, SEEK_CUR) : -1;
    return at >= 0 && file.st_size > at ? (uint64_t)(file.st_size - at) : 0;
}

/* ---- The lines ------------------------------------------------------------------------------------------------- */

/* Text follows a sentence-ending mark: count sentences. */
static bool may_have_several_sentences(const char *line, size_t bytes) {
    const char *end = line + bytes;
    for (const char *at = line; (at = memchr(at, ' ', (size_t)(end - at))); at++)
        if (at > line && strchr(".!?", at[-1]) && at + 1 < end)
            return true;
    return false;
}

/* Printed once: models trained on single sentences merge or drop some of several in a line. */
static void suggest_split(translate_job *j) {
    const char *language = tfm_tokenizer_language(tfm_model_tokenizer(j->model), TFM_SOURCE);
    for (size_t i = 0; i < j->in.count && j->split_checks < MAX_SPLIT_CHECKS && !j->text.split; i++) {
        tfm_sentence *found = NULL;
        size_t count = 0;
        if (!may_have_several_sentences(j->in.text[i], j->in.bytes[i]))
            continue;
        j->split_checks++;
        if (tfm_text_sentences(&found, &count, j->in.text[i], j->in.bytes[i], language) == TFM_OK && count > 1) {
            cli_progress(NULL);
            fprintf(stderr, "tfm: line %zu of %s has %zu sentences and is translated as one: see --split%s\n",
                    j->in.first + i + 1, j->in.name, count, j->search.n_best ? ", which goes without --n-best" : "");
            j->split_checks = MAX_SPLIT_CHECKS;
        }
        tfm_sentences_free(&found);
    }
}

/* The chunk's prefixes, or NULL without --prefix-file. The file has a line for each line of input. */
static int chunk_prefixes(translate_job *j, const char *const **out) {
    *out = NULL;
    if (!j->prefix_file)
        return CLI_OK;
    if (j->prefixes.count < j->in.first + j->in.count)
        return cli_fail("%s has %zu lines and %s more: it needs a prefix, or an empty line, for each", j->prefix_file,
                        j->prefixes.count, j->in.name);
    *out = j->prefixes.text + j->in.first;
    return CLI_OK;
}

static int translate_chunk(translate_job *j) {
    int code = chunk_prefixes(j, &j->text.prefixes);
    if (code != CLI_OK)
        return code;
    suggest_split(j);
    j->text.line_bytes = j->in.bytes;
    tfm_status status = tfm_translate_lines(j->model, j->in.text, j->in.count, &j->text, &j->search, on_translation, j);
    if (j->told)
        return CLI_FAILED;
    if (status != TFM_OK && status != TFM_ERROR_CANCELLED) {
        cli_output_checkpoint(&j->out, j->finished);
        return cli_fail_library();
    }
    return cli_output_checkpoint(&j->out, j->finished);
}

int translate_lines(translate_job *j) {
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

void translate_set_callbacks(translate_job *j) {
    j->text.reject = on_reject;
    j->text.reject_user = j;
    j->text.stats = &j->done;
    j->text.progress = on_progress;
    j->text.progress_user = j;
}
