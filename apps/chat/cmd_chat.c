/* tfm chat: a conversation in the terminal, or one question. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "chat/chat_session.h"
#include "cli/adapters.h"

/* Tokens that a prompt leaves for its answer without --max-new-tokens, if that is at most a quarter of the context. */
enum { RESERVE = 256 };

typedef struct job {
    const char *model_dir, *device, *system, *variables;
    cli_precisions precision;
    cli_adapters adapters;
    int ctx_size;
    bool has_system;
    cli_sampling sampling;
    cli_strings stops;
    chat_session session;
} job;

/* ---- Opening ------------------------------------------------------------------------------------------- */

static int check_variables(const cli_syntax *syntax, const char *text) {
    char why[CLI_REASON];
    json_t *variables = text ? cli_json_parse(text, strlen(text), why) : NULL;
    int code = CLI_CONTINUE;
    if (text && !variables)
        code = cli_usage_error(syntax, "--chat-template-kwargs is not JSON: %s", why);
    else if (text && !json_is_object(variables))
        code = cli_usage_error(syntax, "--chat-template-kwargs is '%s': give a JSON object", text);
    json_decref(variables);
    return code;
}

/* A model without a template: tfm generate takes it if it is decoder-only. */
static int refuse_model(const char *dir) {
    tfm_model_info info;
    if (tfm_model_read_info(&info, dir, &(tfm_model_options){.no_tokenizer = true}) != TFM_OK)
        return cli_fail_library();
    const int code = cli_check_model(&info, dir, false, "tfm translate");
    return code == CLI_OK ? cli_fail("%s has no chat template: use tfm generate", dir) : code;
}

/* Reads the template first: without one nothing is loaded. */
static int open_templates(job *j) {
    chat_session *s = &j->session;
    int code = cli_find_model(&j->model_dir);
    if (code != CLI_CONTINUE)
        return code;
    code = cli_chat_model_open(&s->templates, j->model_dir);
    if (code == CLI_OK && !cli_chat_model_has_template(&s->templates))
        return refuse_model(j->model_dir);
    return code;
}

static int open_model(job *j) {
    chat_session *s = &j->session;
    tfm_model_options how = {.ctx_size = j->ctx_size};
    how.adapters = j->adapters.items;
    how.adapter_count = j->adapters.count;
    cli_set_precision(&how, j->precision);
    cli_progress("loading %s", j->model_dir);
    if (tfm_context_open(&s->ctx, &(tfm_context_options){.device = j->device, .on_build = cli_on_build}) != TFM_OK ||
        tfm_model_open(&s->model, s->ctx, j->model_dir, &how) != TFM_OK)
        return cli_fail_library();
    cli_progress(NULL);
    int code = cli_check_model(tfm_model_get_info(s->model), j->model_dir, false, "tfm translate");
    if (code == CLI_OK)
        code = cli_chat_model_find_ends(&s->templates, tfm_model_tokenizer(s->model),
                                        tfm_model_get_info(s->model)->eos_id);
    if (code == CLI_OK && tfm_prompt_cache_new(&s->cache, s->model) != TFM_OK)
        return cli_fail_library();
    return code;
}

/* Stop strings: of the options, and of the model's turns. */
static int set_options(job *j) {
    chat_session *s = &j->session;
    const cli_chat_model *templates = &s->templates;
    for (int i = 0; i < templates->end_text_count; i++) {
        if (!cli_grow(&j->stops.items, &j->stops.room, j->stops.count + 1, sizeof(*j->stops.items)))
            return cli_fail("out of memory for stop strings");
        j->stops.items[j->stops.count++] = templates->end_texts[i];
    }
    cli_set_sampling(&s->options, &j->sampling);
    s->options.stop_strings = j->stops.items;
    s->options.stop_string_count = j->stops.count;
    return CLI_OK;
}

static int begin_conversation(job *j) {
    chat_session *s = &j->session;
    chat_conversation *c = &s->conversation;
    c->model = &s->templates;
    c->tokenizer = tfm_model_tokenizer(s->model);
    c->variables = j->variables;
    c->context = (size_t)tfm_model_get_info(s->model)->max_positions;
    const size_t wanted = s->max_new_tokens ? (size_t)s->max_new_tokens : RESERVE,
                 most = c->context / (s->max_new_tokens ? 2 : 4);
    c->reserve = wanted < most ? wanted : most;
    const int code = chat_conversation_begin(c);
    return code == CLI_OK && j->has_system ? chat_conversation_set_system(c, j->system, strlen(j->system)) : code;
}

/* ---- One question -------------------------------------------------------------------------------------- */

/* Appends to a growing text. */
static int append(char **text, size_t *used, size_t *room, const char *more) {
    const size_t bytes = strlen(more);
    if (!cli_grow(text, room, *used + bytes + 1, 1))
        return cli_fail("out of memory for a question");
    memcpy(*text + *used, more, bytes + 1);
    *used += bytes;
    return CLI_OK;
}

/* All of standard input, without the line ends at its end; nothing from a terminal. */
static int read_context(char **text, size_t *used, size_t *room) {
    size_t got = 1;
    while (!isatty(STDIN_FILENO) && got > 0) {
        if (!cli_grow(text, room, *used + 4097, 1))
            return cli_fail("standard input: out of memory after %zu bytes", *used);
        got = fread(*text + *used, 1, 4096, stdin);
        *used += got;
    }
    if (ferror(stdin))
        return cli_fail("cannot read standard input");
    while (*used > 0 && ((*text)[*used - 1] == '\n' || (*text)[*used - 1] == '\r'))
        --*used;
    return CLI_OK;
}

/* Answers the words, after the text of standard input if there is any. */
static int answer_once(chat_session *s, char **words, int count) {
    char *text = NULL;
    size_t used = 0, room = 0;
    int code = read_context(&text, &used, &room);
    if (code == CLI_OK && used > 0)
        code = append(&text, &used, &room, "\n\n");
    for (int i = 0; i < count && code == CLI_OK; i++) {
        code = append(&text, &used, &room, words[i]);
        if (code == CLI_OK && i + 1 < count)
            code = append(&text, &used, &room, " ");
    }
    if (code == CLI_OK)
        code = chat_turn(s, text, used);
    free(text);
    return code;
}

/* ---- The command --------------------------------------------------------------------------------------- */

static int run(job *j, char **words, int count) {
    chat_session *s = &j->session;
    s->terminal = isatty(STDOUT_FILENO);
    int code = cli_output_open(&s->out, NULL);
    if (code == CLI_OK)
        code = open_templates(j);
    if (code == CLI_OK)
        code = open_model(j);
    if (code == CLI_OK)
        code = begin_conversation(j);
    if (code == CLI_OK)
        code = set_options(j);
    if (code == CLI_OK)
        code = count > 0 ? answer_once(s, words, count) : chat_session_run(s);
    const int closing = cli_output_close(&s->out, code == CLI_OK);
    cli_progress(NULL);
    chat_conversation_free(&s->conversation);
    tfm_prompt_cache_free(&s->cache);
    tfm_model_free(&s->model);
    tfm_context_free(&s->ctx);
    cli_chat_model_free(&s->templates);
    return code == CLI_OK ? closing : code;
}

int cmd_chat(int argc, char **argv) {
    job j = {0};
    chat_session *s = &j.session;
    const cli_option options[] = {
        {'m', "model", CLI_STRING, &j.model_dir, "MODEL",
         "the model: its directory, or its name on the Hugging Face hub", NULL},
        {0, "system", CLI_STRING, &j.system, "TEXT", "the system message", &j.has_system},
        CLI_CTX_SIZE(j.ctx_size),
        {0, "max-new-tokens", CLI_POSITIVE, &s->max_new_tokens, "N",
         "maximum tokens of an answer (default: what the context leaves)", NULL},
        {0, "min-new-tokens", CLI_POSITIVE, &s->options.min_new_tokens, "N", "minimum tokens of an answer", NULL},
        {0, "stop", CLI_LIST, &j.stops, "TEXT", "end an answer before this string; repeatable", NULL},
        CLI_SAMPLING(j.sampling),
        {0, "chat-template-kwargs", CLI_STRING, &j.variables, "JSON",
         "an object of variables for the chat template, such as {\"enable_thinking\": false}", NULL},
        {0, "stats", CLI_FLAG, &s->stats, NULL, "write a line of counts and times for each answer to standard error",
         NULL},
        CLI_ADAPTERS(&j.adapters),
        CLI_PRECISION(j.precision),
        CLI_KV_PRECISION(j.precision.kv),
        CLI_DEVICE(&j.device),
    };
    const cli_syntax syntax = {
        .name = "chat",
        .usage = "chat -m MODEL [option...] [QUESTION...]",
        .about = "Converses with a decoder-only model that has a chat template. Without a\n"
                 "question, each line of standard input is a message, and its answer is\n"
                 "streamed. A line that ends in a backslash continues on the next one, and\n"
                 "lines between \"\"\" and \"\"\" are one message. /help lists the commands: /system,\n"
                 "/undo, /retry, /clear, /save, /load and /exit. Ctrl-C stops an answer and keeps\n"
                 "its text. With a question, the only message is the text of standard input\n"
                 "(unless it is a terminal) followed by the question.\n"
                 "The KV cache is kept between turns. When the context is full, the oldest turns\n"
                 "after the system message are dropped, with a line that says so.\n"
                 "Decoding is greedy unless an option of sampling is given.\n",
        .examples = "  tfm chat -m smollm2 -t 0.7\n"
                    "  tfm chat -m smollm2 --system \"Answer in one sentence.\" \"What is OpenCL?\"\n"
                    "  git diff | tfm chat -m smollm2 \"Write a commit message.\"\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .more = true,
    };
    int code = cli_parse(&syntax, argc, argv);
    if (code == CLI_CONTINUE && !j.model_dir)
        code = cli_usage_error(&syntax, "no model is given: give -m MODEL");
    if (code == CLI_CONTINUE)
        code = cli_check_sampling(&syntax, &j.sampling);
    if (code == CLI_CONTINUE)
        code = check_variables(&syntax, j.variables);
    if (code == CLI_CONTINUE)
        code = run(&j, argv + optind, argc - optind);
    free(j.stops.items);
    return code;
}
