/* Reranking by a language model: the logit of "yes" minus that of "no" after a prompt with the query and a document. */
#include "model/tasks/rerank_prompts.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "model/tasks/encode_lines.h"
#include "tfm/chat.h"
#include "tfm/ops.h"

typedef struct job {
    tfm__line_encoder line_encoder;
    int32_t yes, no; /* no: -1 if the logit of `yes` is the score */
    bool raw;
    float *scores; /* [count] */
} job;

/* ---- Prompts ---- */

/* The prompt of Qwen3-Reranker, whose directory may have a chat template without the roles. */
static const char PROMPT[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: %s\n"
    "<Query>: %s\n<Document>: %s<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char INSTRUCTION[] = "Given a web search query, retrieve relevant passages that answer the query";

static bool has_roles(const tfm_chat *chat) {
    const char *source = chat ? tfm_chat_source(chat, NULL) : NULL;
    return source && (strstr(source, "'query'") || strstr(source, "\"query\""));
}

/* As sentence-transformers: a message of each role, after the instruction as a system message. */
static tfm_status render(char **out, const tfm_rerank_options *o, const char *query, const char *document) {
    json_t *messages =
        o->instruction ? json_pack("[{s:s, s:s}]", "role", "system", "content", o->instruction) : json_array();
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "query", "content", query));
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "document", "content", document));
    char *text = json_array_size(messages) < 2 ? NULL : json_dumps(messages, JSON_COMPACT);
    json_decref(messages);
    if (!text)
        return TFM_ERROR_MEMORY;
    const tfm_status status = tfm_chat_render(o->chat, out, text, &(tfm_chat_options){.add_generation_prompt = true});
    free(text);
    return status;
}

/* New, for tfm_text_free. */
static tfm_status prompt_of(char **out, const tfm_rerank_options *o, const char *query, const char *document) {
    const char *instruction = o->instruction ? o->instruction : INSTRUCTION;
    tfm_status status = tfm_text_check(query, strlen(query));
    if (status == TFM_OK)
        status = tfm_text_check(document, strlen(document));
    if (status != TFM_OK || has_roles(o->chat))
        return status == TFM_OK ? render(out, o, query, document) : status;
    const size_t bytes = sizeof(PROMPT) + strlen(instruction) + strlen(query) + strlen(document);
    *out = tfm__alloc(bytes, 1);
    if (*out)
        snprintf(*out, bytes, PROMPT, instruction, query, document);
    return *out ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status encode(const job *j, tfm__line *line, const tfm_rerank_options *o, const char *query,
                         const char *document) {
    char *prompt = NULL;
    tfm_status status = prompt_of(&prompt, o, query, document);
    if (status == TFM_OK)
        status = tfm_tokenizer_encode_with(j->line_encoder.model->tokenizer, &line->ids, &line->count, TFM_TARGET,
                                           prompt, strlen(prompt), &(tfm_encode_options){.no_special_tokens = true});
    tfm_text_free(&prompt);
    if (status == TFM_OK && (line->count == 0 || line->count > j->line_encoder.max_tokens))
        status = tfm__fail(TFM_ERROR_INPUT, "its prompt has %zu tokens, and the model takes 1 to %zu", line->count,
                           j->line_encoder.max_tokens);
    if (status != TFM_OK)
        tfm_ids_free(&line->ids);
    line->cost = line->count;
    return status;
}

/* ---- Scores ---- */

/* *out (B, 1): one column of logits. */
static void pick(tfm_context *ctx, float *out, tfm_tensor logits, int32_t id) {
    tfm_tensor column = {0};
    tfm_slice(ctx, &column, logits, (tfm_range[]){TFM_WHOLE, {id, id + 1, 1}});
    tfm_tensor_read(ctx, out, column);
}

static tfm_status run_batch(void *user, tfm_model *model, tfm__line *const *batch, size_t n) {
    const job *j = user;
    tfm_context *ctx = model->ctx;
    tfm__encoded_batch in = {{0}, {0}, {0}};
    tfm_tensor hidden = {0}, last = {0}, logits = {0};
    float *host = tfm__alloc(2 * n, sizeof(*host));
    if (!host)
        return TFM_ERROR_MEMORY;
    tfm_scope_open(ctx);
    tfm__line_encoder_upload(&j->line_encoder, ctx, &in, batch, n);
    tfm__model_decode_hidden(model, &hidden, in.ids, (tfm_tensor){0}, (tfm_tensor){0}, NULL);
    tfm_pool(ctx, &last, hidden, in.lengths, TFM_POOL_LAST, 0);
    tfm__model_logits(model, &logits, last, model->logits_bias);
    if (tfm_context_status(ctx) == TFM_OK) {
        pick(ctx, host, logits, j->yes);
        if (j->no >= 0)
            pick(ctx, host + n, logits, j->no);
    }
    const tfm_status status = tfm_scope_close(ctx, 0, NULL);
    for (size_t i = 0; i < n && status == TFM_OK; i++) {
        const double odds = (double)host[i] - (double)host[n + i];
        j->scores[batch[i]->index] = (float)(j->raw ? odds : 1 / (1 + exp(-odds)));
    }
    free(host);
    return status;
}

/* ---- Call ---- */

/* The ids of the directory's LogitScore module, else of the pieces. */
static tfm_status find_tokens(job *j, const tfm_model *model, const tfm_rerank_options *o) {
    const tfm_tokenizer *tokenizer = model->tokenizer;
    if (!tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "rerank: the model was opened without its tokenizer: it takes ids, not "
                                             "text");
    const bool given = model->classes.has_tokens;
    j->yes = given ? model->classes.true_id : tfm_tokenizer_piece_id(tokenizer, TFM_TARGET, "yes");
    j->no = given ? model->classes.false_id : tfm_tokenizer_piece_id(tokenizer, TFM_TARGET, "no");
    const int vocabulary = model->arch.decoder.vocabulary;
    if (j->yes < 0 || (j->no < 0 && !given) || j->yes >= vocabulary || j->no >= vocabulary)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "rerank: the language model has no tokens \"yes\" and \"no\": use a model trained to rerank");
    if (!has_roles(o->chat) && tfm_tokenizer_piece_id(tokenizer, TFM_TARGET, "<|im_start|>") < 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "rerank: the language model needs a prompt: give a chat template with the roles \"query\" and "
                         "\"document\"");
    return TFM_OK;
}

tfm_status tfm__rerank_prompts(tfm_model *model, float *scores, const char *const *queries,
                               const char *const *documents, size_t count, const tfm_rerank_options *o,
                               const tfm_embed_options *run) {
    const size_t positions = (size_t)model->arch.decoder.max_positions, limit = (size_t)model->classes.max_tokens;
    const double start = tfm__seconds();
    job j = {
        .scores = scores,
        .raw = o->raw_scores || model->classes.rerank == TFM__RAW_SCORES,
        .line_encoder = {.model = model, .options = run, .max_tokens = limit && limit < positions ? limit : positions}};
    const tfm_text_options reject = {.reject = o->reject, .reject_user = o->reject_user};
    char saved_message[TFM__MESSAGE_MAX];
    tfm_status status = find_tokens(&j, model, o);
    tfm__line *lines = status == TFM_OK ? tfm__alloc(count, sizeof(*lines)) : NULL;
    tfm__error_save(saved_message);
    if (status == TFM_OK && !lines)
        status = TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        lines[i].index = lines[i].line = i;
        status = encode(&j, &lines[i], o, queries[i], documents[i]);
        if (status == TFM_ERROR_INPUT)
            status = tfm__line_reject(&lines[i], "", &reject, status, saved_message);
    }
    if (status == TFM_OK)
        status = tfm__line_encoder_run(&j.line_encoder, lines, count, run_batch, &j);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        scores[i] = lines[i].ids ? scores[i] : NAN;
    if (status == TFM_OK)
        tfm__line_encoder_count(&j.line_encoder, start);
    tfm__lines_free(&lines, lines ? count : 0);
    return status;
}
