/* log p of generated tokens, as in OpenAI's API: entries are collected while a text is generated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* log p for JSON, which has no infinity. */
static json_t *number(float log_prob) {
    return json_real(isfinite(log_prob) ? (double)log_prob : -9999);
}

/* A token with its text, bytes and log p. Text that is not UTF-8 has U+FFFD. NULL without memory. */
static json_t *token_entry(const serve_model *model, int32_t id, float log_prob) {
    char *bytes = NULL;
    size_t count = 0;
    const tfm_status status = tfm_tokenizer_token_bytes(model->tokenizer, &bytes, &count, id);
    if (status != TFM_OK && status != TFM_ERROR_ARGUMENT) /* an id without a piece has no text */
        return NULL;
    json_t *list = json_array(), *text = json_stringn(bytes ? bytes : "", count);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    tfm_text_free(&bytes);
    return json_pack("{s:o, s:o, s:o}", "token", text ? text : json_string("\xEF\xBF\xBD"), "logprob", number(log_prob),
                     "bytes", list);
}

void serve_logprobs_add(const serve_batch_item *item, int rank, int32_t id, const tfm_token_log_probs *log_probs) {
    serve_job *job = item->job;
    json_t **list = &job->results[item->segment].logprobs[rank];
    json_t *top = json_array(), *entry = token_entry(job->key.model, id, log_probs->log_prob);
    for (size_t i = 0; i < log_probs->count; i++)
        json_array_append_new(top, token_entry(job->key.model, log_probs->ids[i], log_probs->log_probs[i]));
    if (!*list)
        *list = json_array();
    if (json_object_set_new(entry, "top_logprobs", top) != 0 || json_array_append_new(*list, entry) != 0)
        serve_job_fail(job, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for logprobs");
}

static const char *text_of(const json_t *entry) {
    return json_string_value(json_object_get(entry, "token"));
}

/* Characters that begin in these bytes of UTF-8: a character of several tokens counts once. */
static size_t begun_characters(const json_t *bytes) {
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(bytes); i++)
        count += (json_integer_value(json_array_get(bytes, i)) & 0xC0) != 0x80;
    return count;
}

/* Entries from `first` on in the form of /v1/completions. The offset of a token counts characters of the text. */
static json_t *by_column(const json_t *list, size_t first) {
    json_t *tokens = json_array(), *log_probs = json_array(), *tops = json_array(), *offsets = json_array();
    size_t offset = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i), *other;
        const size_t at = offset;
        size_t k;
        offset += begun_characters(json_object_get(entry, "bytes"));
        if (i < first)
            continue;
        json_t *top = json_object();
        json_array_foreach(json_object_get(entry, "top_logprobs"), k,
                           other) if (!json_object_get(top, text_of(other))) /* the best of equal texts */
            json_object_set(top, text_of(other), json_object_get(other, "logprob"));
        if (!json_object_get(top, text_of(entry))) /* the token itself, in addition to the best ones */
            json_object_set(top, text_of(entry), json_object_get(entry, "logprob"));
        json_array_append(tokens, json_object_get(entry, "token"));
        json_array_append(log_probs, json_object_get(entry, "logprob"));
        json_array_append_new(tops, top);
        json_array_append_new(offsets, json_integer((json_int_t)at));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", log_probs, "top_logprobs", tops,
                     "text_offset", offsets);
}

json_t *serve_logprobs_json(const serve_job *job, size_t segment, int rank, size_t first) {
    const json_t *list = job->results[segment].logprobs[rank];
    if (!job->logprobs)
        return json_null();
    if (!job->chat)
        return by_column(list, first);
    json_t *content = json_array();
    for (size_t i = first; i < json_array_size(list); i++)
        json_array_append(content, json_array_get(list, i));
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}
