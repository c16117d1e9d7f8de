/* tfm generate: generates text from prompts. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/adapters.h"
#include "cli/cli.h"
#include "commands/generate_grammar.h"
#include "commands/prompt_ids.h"

/* Bytes of a prompt file read at once, and prompts of one call, which batches those of similar length: it writes few
 * texts before its end. */
enum { BYTES_AHEAD = 1 << 18, PROMPTS_AHEAD = 256 };

typedef struct job {
    const char *model_dir, *input, *output, *device;
    int workers;
    cli_precisions precision;
    cli_adapters adapters;
    int ctx_size;
    bool ids, json, stats;
    cli_sampling sampling;
    cli_strings stops;
    const char *schema, *grammar_file;
    double presence, frequency;
    tfm_grammar *grammar;
    tfm_generate_options options;
    tfm_fleet *fleet;
    tfm_model *model;
    cli_lines in;
    cli_output out;
    size_t first;         /* prompts before the current batch */
    const char *source;   /* origin of the prompts, for messages */
    bool streams, begun;  /* the text of the only prompt is streamed; some is written */
    size_t bad, finished; /* prompts */
    prompt_ids token_ids; /* of the prompts, with --token-ids */
    double load_seconds, load_build, build_seconds;
    tfm_generate_stats done;
} job;

/* ---- Texts ----------------------------------------------------------------------------------------------------- */

/* One JSON object a line. */
static bool write_json(job *j, const tfm_generation *g) {
    static const char *const ends[] = {"end", "stop", "length"};
    json_t *object = cli_hypothesis_json(j->first + g->prompt, g->rank, j->ids ? NULL : g->text, g->score, g->log_prob,
                                         &g->tokens, g->log_probs);
    json_object_set_new(object, "end", json_string(ends[g->finish_reason]));
    json_object_set_new(object, "prompt_tokens", json_integer((json_int_t)g->prompt_tokens));
    return cli_write_json(&j->out, object, 9);
}

static void write_ids(FILE *file, const tfm_generation *g) {
    for (size_t i = 0; i < g->tokens.count; i++)
        fprintf(file, i ? " %d" : "%d", (int)g->tokens.ids[i]);
}

static void write_text(job *j, const tfm_generation *g) {
    FILE *file = j->out.file;
    const bool several = j->options.n_best > 1;
    if (several)
        fprintf(file, "%zu ||| ", j->first + g->prompt);
    if (!j->streams && j->ids)
        write_ids(file, g);
    else if (!j->streams)
        cli_write_line(file, g->text);
    if (several && !isnan(g->score))
        fprintf(file, " ||| %.6f", g->score);
    fputc('\n', file);
}

static bool on_generation(void *user, const tfm_generation *g) {
    job *j = user;
    cli_progress(NULL);
    j->finished = j->first + g->prompt + (g->rank + 1 >= j->options.n_best || isnan(g->score));
    if (g->rank > 0 && g->score == -INFINITY) /* there are no more hypotheses */
        return true;
    if (j->json)
        return write_json(j, g);
    write_text(j, g);
    return cli_output_ok(&j->out);
}

/* Streamed text is flushed at once. */
static bool flush_text(job *j) {
    fflush(j->out.file);
    return cli_output_ok(&j->out);
}

static bool on_text(void *user, size_t prompt, int best, const char *text) {
    job *j = user;
    (void)prompt, (void)best;
    cli_progress(NULL);
    fputs(text, j->out.file);
    return flush_text(j);
}

static bool on_token(void *user, size_t prompt, int best, int32_t id) {
    job *j = user;
    (void)prompt, (void)best;
    cli_progress(NULL);
    fprintf(j->out.file, j->begun ? " %d" : "%d", (int)id);
    j->begun = true;
    return flush_text(j);
}

static bool on_reject(void *user, size_t prompt, const char *message) {
    job *j = user;
    j->bad++;
    cli_fail("%s %zu: %s", j->source, j->first + prompt + 1, message);
    return true;
}

/* ---- Prompts --------------------------------------------------------------------------------------------------- */

/* Generates text from one batch of prompts. */
static int generate_batch(job *j, const char *const *texts, const size_t *bytes, size_t count) {
    tfm_prompt *list = calloc(count, sizeof(*list));
    if (!list)
        return cli_fail("out of memory for %zu prompts", count);
    int code = j->ids ? prompt_ids_read(&j->token_ids, list, texts, count, j->source, j->first) : CLI_OK;
    for (size_t i = 0; !j->ids && i < count; i++) {
        list[i].text = texts[i];
        list[i].bytes = bytes ? bytes[i] : strlen(texts[i]);
    }
    j->options.first_prompt = j->first;
    const tfm_status status =
        code == CLI_OK ? tfm_generate(j->model, list, count, &j->options, on_generation, j) : TFM_OK;
    free(list);
    if (code != CLI_OK)
        return code;
    const int finished = cli_output_checkpoint(&j->out, j->finished);
    if (status != TFM_OK && status != TFM_ERROR_CANCELLED)
        return cli_fail_library();
    return finished;
}

/* A prompt a line. */
static int generate_lines(job *j) {
    j->source = "line";
    for (;;) {
        int code = cli_lines_next(&j->in, BYTES_AHEAD * tfm_fleet_count(j->fleet));
        if (code != CLI_OK || j->in.count == 0)
            return code;
        const size_t most = PROMPTS_AHEAD * tfm_fleet_count(j->fleet);
        for (size_t i = 0; i < j->in.count; i += most) {
            const size_t left = j->in.count - i;
            j->first = j->in.first + i;
            code = generate_batch(j, j->in.text + i, j->in.bytes + i, left < most ? left : most);
            if (code != CLI_OK)
                return code;
        }
    }
}

/* All of standard input is one prompt, without the end of its last line. */
static int generate_input(job *j) {
    char *text = NULL;
    size_t bytes = 0, room = 0, got = 1;
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) /* else it seems to hang */
        fputs("tfm: reading a prompt from this terminal; end with Ctrl-D\n", stderr);
    while (got > 0) {
        if (!cli_grow(&text, &room, bytes + 4097, 1)) {
            free(text);
            return cli_fail("standard input: out of memory after %zu bytes", bytes);
        }
        got = fread(text + bytes, 1, 4096, stdin);
        bytes += got;
    }
    if (bytes > 0 && text[bytes - 1] == '\n')
        bytes -= 1 + (bytes > 1 && text[bytes - 2] == '\r');
    text[bytes] = 0;
    const char *const one = text;
    const int code = ferror(stdin) ? cli_fail("cannot read standard input") : generate_batch(j, &one, &bytes, 1);
    free(text);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------------------------- */

static void print_stats(const job *j) {
    const tfm_generate_stats *s = &j->done;
    cli_print_stats(
        json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "prompts", (json_int_t)s->prompts,
                  "prompt_tokens", (json_int_t)s->prompt_tokens, "new_tokens", (json_int_t)s->new_tokens,
                  "load_seconds", cli_rounded_json(j->load_seconds - j->load_build, 3), "build_seconds",
                  cli_rounded_json(j->build_seconds, 3), "prefill_seconds", cli_rounded_json(s->prefill_seconds, 3),
                  "decode_seconds", cli_rounded_json(s->decode_seconds, 3), "prompt_tokens_per_s",
                  cli_rounded_json(s->prefill_seconds > 0 ? (double)s->prompt_tokens / s->prefill_seconds : 0, 1),
                  "new_tokens_per_s", cli_rounded_json((double)s->new_tokens / fmax(s->decode_seconds, 1e-9), 1),
                  "seconds", cli_rounded_json(s->prefill_seconds + s->decode_seconds, 3)));
}

/* transformers uses the beam of generation_config.json; a streamed text has no beam. */
static void warn_beam(const job *j) {
    const tfm_model_info *info = tfm_model_get_info(j->model);
    const int own = info->beam_size;
    if (own > 1 && info->encoder_layers == 0 && j->options.beam_size == 0 && !j->options.sample &&
        !j->sampling.has_temperature && j->stops.count == 0)
        fprintf(stderr,
                "tfm: generation_config.json has a beam of %d, and decoding here is greedy: give --beam-size %d for "
                "the text of transformers\n",
                own, own);
}

static int open_model(job *j) {
    tfm_model_options how = {.no_tokenizer = j->ids, .ctx_size = j->ctx_size};
    const double start = cli_seconds();
    how.adapters = j->adapters.items;
    how.adapter_count = j->adapters.count;
    cli_set_precision(&how, j->precision);
    cli_progress("loading %s", j->model_dir);
    if (cli_open_fleet(&j->fleet, j->device, j->workers) != TFM_OK ||
        tfm_fleet_open_model(&j->model, j->fleet, j->model_dir, &how) != TFM_OK)
        return cli_fail_library();
    cli_progress(NULL);
    j->load_seconds = cli_seconds() - start;
    j->load_build = cli_build_seconds(j->fleet);
    return cli_check_model(tfm_model_get_info(j->model), j->model_dir, false, "tfm translate");
}

static void set_options(job *j, size_t prompts) {
    tfm_generate_options *o = &j->options;
    cli_set_sampling(o, &j->sampling);
    o->presence_penalty = (float)j->presence;
    o->frequency_penalty = (float)j->frequency;
    o->grammar = j->grammar;
    o->stop_strings = j->stops.items;
    o->stop_string_count = j->stops.count;
    o->reject = on_reject;
    o->reject_user = o->on_text_user = o->on_token_user = j;
    o->stats = &j->done;
    o->skip_scores = !j->json && o->n_best < 2;
    j->streams = !j->input && prompts < 2 && !j->json && o->n_best < 2 && o->beam_size < 2;
    o->on_text = j->streams && !j->ids ? on_text : NULL;
    o->on_token = j->streams && j->ids ? on_token : NULL;
}

static int run(job *j, char **prompts, size_t count) {
    int code = generate_grammar(&j->grammar, j->schema, j->grammar_file);
    if (code != CLI_OK)
        return code;
    set_options(j, count);
    j->source = "prompt";
    code = j->input ? cli_lines_open(&j->in, "-i", j->input) : CLI_OK;
    if (code == CLI_OK)
        code = cli_output_open(&j->out, j->output);
    if (code == CLI_OK)
        code = open_model(j);
    if (code == CLI_OK)
        warn_beam(j);
    if (code == CLI_OK)
        code = j->input     ? generate_lines(j)
               : count == 0 ? generate_input(j)
                            : generate_batch(j, (const char *const *)prompts, NULL, count);
    tfm_grammar_free(&j->grammar);
    const int closing = cli_output_close(&j->out, code == CLI_OK);
    code = code == CLI_OK ? closing : code;
    cli_progress(NULL);
    j->build_seconds = cli_build_seconds(j->fleet);
    tfm_model_free(&j->model);
    tfm_fleet_free(&j->fleet);
    if (code == CLI_OK && j->stats) /* this is the last line, also after the table of a profile */
        print_stats(j);
    if (j->input)
        cli_lines_close(&j->in);
    free(j->token_ids.items);
    return code == CLI_OK && j->bad > 0 ? CLI_FAILED : code;
}

/* Rejects options that are wrong for every model, before loading. */
static int check(const job *j, const cli_syntax *syntax, size_t prompts) {
    const tfm_generate_options *o = &j->options;
    const bool samples = cli_samples(&j->sampling);
    if (!j->model_dir)
        return cli_usage_error(syntax, "no model is given: give -m MODEL");
    if (j->input && prompts > 0)
        return cli_usage_error(syntax, "prompts are arguments or lines of a file: give one or the other");
    int code = cli_check_sampling(syntax, &j->sampling);
    if (code != CLI_CONTINUE)
        return code;
    if (o->beam_size > 1 && samples)
        return cli_usage_error(syntax, "--beam-size %d and sampling do not go together: leave one out", o->beam_size);
    if (o->beam_size > 1 && j->stops.count > 0)
        return cli_usage_error(syntax, "--stop does not go with beam search: give --beam-size 1");
    if (j->schema && j->grammar_file)
        return cli_usage_error(syntax, "--json-schema and --grammar do not go together: leave one out");
    if (o->beam_size > 1 &&
        (j->schema || j->grammar_file || j->presence != 0 || j->frequency != 0 || o->prompt_lookup_num_tokens > 0))
        return cli_usage_error(syntax, "grammars, --presence-penalty, --frequency-penalty and "
                                       "--prompt-lookup-num-tokens do not go with beam search");
    if (j->ids && j->stops.count > 0)
        return cli_usage_error(syntax, "--stop is text and does not go with --token-ids: leave one out");
    if (!samples && o->n_best > (o->beam_size ? o->beam_size : 1))
        return cli_usage_error(syntax,
                               "--n-best is %d, more than the beam of %d: give a larger --beam-size, or --sample",
                               o->n_best, o->beam_size ? o->beam_size : 1);
    code = cli_check_search(syntax, o->beam_size, o->length_penalty);
    return code == CLI_CONTINUE ? cli_check_workers(syntax, j->workers) : code;
}

int cmd_generate(int argc, char **argv) {
    job j = {0};
    tfm_generate_options *o = &j.options;
    const cli_option options[] = {
        {'m', "model", CLI_STRING, &j.model_dir, "MODEL",
         "the model: its directory, or its name on the Hugging Face hub", NULL},
        {'i', "input", CLI_STRING, &j.input, "FILE", "read a prompt from each line of this file; - is standard input",
         NULL},
        {'o', "output", CLI_STRING, &j.output, "FILE", "write to this file, which appears when it is complete", NULL},
        {0, "max-new-tokens", CLI_POSITIVE, &o->max_new_tokens, "N",
         "maximum tokens to generate (default: the model's max_new_tokens, else 256, or what its max_length leaves "
         "if less)",
         NULL},
        {0, "min-new-tokens", CLI_POSITIVE, &o->min_new_tokens, "N", "minimum tokens to generate", NULL},
        {0, "stop", CLI_LIST, &j.stops, "TEXT", "end the text before this string; repeatable", NULL},
        {0, "beam-size", CLI_POSITIVE, &o->beam_size, "K", "use beam search, at most 32 beams (default: greedy)", NULL},
        {0, "length-penalty", CLI_DOUBLE, &o->length_penalty, "A",
         "with --beam-size, score n tokens by sum log p / n^A (default: the model's own, else 1)",
         &o->has_length_penalty},
        {'n', "n-best", CLI_POSITIVE, &o->n_best, "N",
         "write N texts for each prompt, the best of the beam or N samples, as lines `index ||| text ||| score`, the "
         "index from 0",
         NULL},
        CLI_SAMPLING(j.sampling),
        {0, "presence-penalty", CLI_DOUBLE, &j.presence, "X",
         "subtract X from the logits of tokens that the text has (default 0)", NULL},
        {0, "frequency-penalty", CLI_DOUBLE, &j.frequency, "X",
         "subtract X for each occurrence of a token in the text (default 0)", NULL},
        {0, "json-schema", CLI_STRING, &j.schema, "SCHEMA",
         "write JSON that is valid for a schema: its text, or a file", NULL},
        {0, "grammar", CLI_STRING, &j.grammar_file, "FILE", "write a text of a grammar, in GBNF", NULL},
        {0, "prompt-lookup-num-tokens", CLI_POSITIVE, &o->prompt_lookup_num_tokens, "N",
         "verify up to N tokens in a step where the text repeats itself or the prompt: faster for texts that do, and "
         "the same text (default: none; at most 15)",
         NULL},
        {0, "token-ids", CLI_FLAG, &j.ids, NULL, "read and write token ids separated by blanks instead of text", NULL},
        {0, "json", CLI_FLAG, &j.json, NULL,
         "write a JSON object for each text, with the keys index (of the prompt, from 0), rank, text, score, log_prob, "
         "tokens (each with id, piece and log_prob), end (why the text ends: end, stop or length) and prompt_tokens",
         NULL},
        {0, "stats", CLI_FLAG, &j.stats, NULL, "end with a line of counts and times on standard error", NULL},
        {0, "batch-tokens", CLI_POSITIVE, &o->batch_tokens, "N",
         "maximum tokens in a batch, generated ones included (default 16384)", NULL},
        CLI_ADAPTERS(&j.adapters),
        CLI_PRECISION(j.precision),
        CLI_KV_PRECISION(j.precision.kv),
        CLI_CTX_SIZE(j.ctx_size),
        CLI_DEVICES(&j.device),
        CLI_WORKERS(&j.workers),
    };
    const cli_syntax syntax = {
        .name = "generate",
        .usage = "generate -m MODEL [option...] [PROMPT...]",
        .about = "Generates text with a decoder-only model such as GPT-2 or Llama. Each argument\n"
                 "is a prompt, or each line of a file (-i); otherwise all of standard input is\n"
                 "one prompt. The text of a single prompt is streamed; each of several gets one\n"
                 "line, with line ends replaced by blanks (--json keeps them).\n"
                 "Decoding is greedy unless --beam-size or an option of sampling is given, even\n"
                 "if generation_config.json has do_sample. Sampling then takes temperature,\n"
                 "top_k, top_p and min_p from that file. A run with the same seed repeats, and\n"
                 "the text of a prompt does not depend on the other prompts.\n",
        .examples = "  tfm generate -m gpt2 \"Once upon a time\"\n"
                    "  tfm generate -m gpt2 -t 0.8 --top-p 0.95 --seed 7 < letter.txt\n"
                    "  tfm generate -m llama -i prompts.txt -o texts.txt --beam-size 4 --stats\n"
                    "  tfm generate -m llama --token-ids --max-new-tokens 20 \"1 403 407 261\"\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .more = true,
    };
    int code = cli_parse(&syntax, argc, argv);
    const size_t prompts = code == CLI_CONTINUE ? (size_t)(argc - optind) : 0;
    if (code == CLI_CONTINUE)
        code = check(&j, &syntax, prompts);
    if (code == CLI_CONTINUE)
        code = run(&j, argv + optind, prompts);
    free(j.stops.items);
    return code;
}
