/* Answers: generation with the KV cache of the last turn, streamed to standard output. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "chat/chat_session.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

void chat_catch_interrupt(bool reading) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = reading ? 0 : SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

/* ---- Streaming ----------------------------------------------------------------------------------------- */

/* An answer in generation. */
typedef struct answer {
    chat_session *session;
    char *text;     /* the whole text, when it is done */
    bool begun;     /* a token was generated */
    bool open_line; /* the last character printed is no line end */
    size_t prompt_tokens;
    tfm_finish_reason reason;
} answer;

/* Prints text as it is; to a terminal, U+FFFD for control characters (C0, DEL and C1) other than line ends and tabs:
 * they could be escape sequences. */
static void print_text(const chat_session *s, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        const bool c1 = at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
        const bool control = (*at < 0x20 && *at != '\n' && *at != '\t') || *at == 0x7F || c1;
        if (s->terminal && control) {
            fputs("\xEF\xBF\xBD", s->out.file);
            at += c1;
        } else {
            fputc(*at, s->out.file);
        }
    }
}

static bool on_text(void *user, size_t prompt, int rank, const char *text) {
    answer *a = user;
    chat_session *s = a->session;
    (void)prompt, (void)rank;
    if (!*text)
        return !interrupted;
    cli_progress(NULL);
    print_text(s, text);
    fflush(s->out.file);
    a->open_line = text[strlen(text) - 1] != '\n';
    return cli_output_ok(&s->out) && !interrupted;
}

static bool on_token(void *user, size_t prompt, int rank, int32_t id) {
    answer *a = user;
    (void)prompt, (void)rank;
    a->begun = true;
    return !interrupted && !cli_chat_model_is_end(&a->session->templates, id);
}

/* Ends the prefill. Later the callbacks above end the answer, which then keeps its text. */
static bool should_continue(void *user) {
    const answer *a = user;
    return a->begun || !interrupted;
}

static bool on_generation(void *user, const tfm_generation *g) {
    answer *a = user;
    a->text = strdup(g->text);
    a->prompt_tokens = g->prompt_tokens;
    a->reason = g->finish_reason;
    return a->text != NULL;
}

/* ---- One answer ---------------------------------------------------------------------------------------- */

static void print_stats(const tfm_generate_stats *done) {
    cli_print_stats(json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "prompt_tokens", (json_int_t)done->prompt_tokens, "cached_tokens",
        (json_int_t)done->cached_tokens, "new_tokens", (json_int_t)done->new_tokens, "prefill_seconds",
        cli_rounded_json(done->prefill_seconds, 3), "decode_seconds", cli_rounded_json(done->decode_seconds, 3),
        "prompt_tokens_per_s",
        cli_rounded_json((double)(done->prompt_tokens - done->cached_tokens) / fmax(done->prefill_seconds, 1e-9), 1),
        "new_tokens_per_s", cli_rounded_json((double)done->new_tokens / fmax(done->decode_seconds, 1e-9), 1)));
}

/* The reason of an answer that the model has not ended. */
static void print_reason(const answer *a, uint64_t tokens) {
    const chat_session *s = a->session;
    if (interrupted)
        fputs("[stopped]\n", stderr);
    else if (a->reason == TFM_FINISH_LENGTH && s->max_new_tokens > 0 && tokens >= (uint64_t)s->max_new_tokens)
        fprintf(stderr, "[cut after %d tokens: --max-new-tokens]\n", s->max_new_tokens);
    else if (a->reason == TFM_FINISH_LENGTH)
        fprintf(stderr, "[cut: the context of %zu tokens is full]\n", s->conversation.context);
}

/* Prints the line end and the reason of an answer, and appends it to the conversation. */
static int finish(answer *a, tfm_status status, const tfm_generate_stats *done) {
    chat_session *s = a->session;
    cli_progress(NULL);
    if (a->open_line || status == TFM_OK)
        fputc('\n', s->out.file);
    const int flushed = cli_output_flush(&s->out);
    if (flushed != CLI_OK)
        return flushed;
    if (status == TFM_ERROR_CANCELLED && interrupted) {
        fputs("[stopped before the answer: the message is removed]\n", stderr);
        return CLI_FAILED;
    }
    if (status != TFM_OK) {
        tfm_context_clear_error(s->ctx); /* the next answer may succeed */
        return cli_fail_library();
    }
    print_reason(a, done->new_tokens);
    if (s->stats)
        print_stats(done);
    return chat_conversation_add(&s->conversation, "assistant", a->text, strlen(a->text));
}

int chat_answer(chat_session *s) {
    chat_conversation *c = &s->conversation;
    interrupted = 0;
    int code = chat_conversation_prompt(c);
    if (code != CLI_OK)
        return code;
    answer a = {.session = s};
    tfm_generate_stats done = {0};
    tfm_generate_options options = s->options;
    const size_t left = c->context > c->count ? c->context - c->count : 1;
    options.max_new_tokens = s->max_new_tokens > 0 && (size_t)s->max_new_tokens < left ? s->max_new_tokens : (int)left;
    options.first_prompt = s->answers++;
    options.skip_scores = true;
    options.on_token = on_token;
    options.on_text = on_text;
    options.should_continue = should_continue;
    options.on_token_user = options.on_text_user = options.should_continue_user = &a;
    options.stats = &done;
    options.prompt_cache = s->cache;
    const tfm_prompt prompt = {.ids = c->ids, .count = c->count};
    code = finish(&a, tfm_generate(s->model, &prompt, 1, &options, on_generation, &a), &done);
    free(a.text);
    return code;
}

/* Answers, or restores the messages. */
static int answer_or_restore(chat_session *s, json_t *before, int code) {
    if (code == CLI_OK)
        code = chat_answer(s);
    if (code == CLI_OK)
        json_decref(before);
    else
        chat_conversation_restore(&s->conversation, before);
    return code;
}

int chat_turn(chat_session *s, const char *text, size_t bytes) {
    json_t *before = json_copy(s->conversation.messages);
    if (!before)
        return cli_fail("out of memory for a message");
    return answer_or_restore(s, before, chat_conversation_add(&s->conversation, "user", text, bytes));
}

int chat_retry(chat_session *s) {
    json_t *before = json_copy(s->conversation.messages);
    if (!before)
        return cli_fail("out of memory for a message");
    if (!chat_conversation_undo(&s->conversation, true)) {
        json_decref(before);
        return cli_fail("there is no answer to replace");
    }
    if (!s->options.sample)
        fputs("[decoding is greedy, so the answer is the same: -t 0.8 samples]\n", stderr);
    return answer_or_restore(s, before, CLI_OK);
}
