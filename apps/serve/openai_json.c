/* Objects of OpenAI's API, shared by replies and events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"

json_t *serve_openai_usage(const serve_job *job) {
    uint64_t read = 0, written = 0, cached = 0;
    for (size_t i = 0; i < job->count; i++) {
        read += job->results[i].source_tokens;
        written += job->results[i].target_tokens;
        cached += job->results[i].cached_tokens;
    }
    if (job->key.task == SERVE_EMBED || job->key.task == SERVE_RERANK)
        return json_pack("{s:I, s:I}", "prompt_tokens", (json_int_t)read, "total_tokens", (json_int_t)read);
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)read, "completion_tokens",
                     (json_int_t)written, "total_tokens", (json_int_t)(read + written), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)cached);
}

const char *serve_openai_fingerprint(void) {
    return "tfm-" TFM_VERSION_STRING;
}

void serve_openai_name_calls(const serve_job *job, int index, json_t *calls) {
    json_t *call;
    size_t i;
    json_array_foreach(calls, i, call) {
        char id[16]; /* nine letters and digits, which Mistral's templates require */
        uint64_t number = strtoull(strchr(job->id, '-') + 1, NULL, 16);
        number = (number ^ ((uint64_t)index << 8) ^ i) * 0x9E3779B97F4A7C15;
        snprintf(id, sizeof(id), "%09llx", (unsigned long long)(number >> 28));
        json_object_set_new(call, "id", json_string(id));
    }
}

/* The message of a chat: content, reasoning and calls of tools. */
static json_t *message_of(const serve_job *job, int index, const char *text, const char **finish) {
    json_t *calls;
    const answer_parts p = answer_split(text, strlen(text), &job->format, false, &calls);
    const bool only_calls = calls && p.content == p.content_end;
    json_t *message =
        json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                  only_calls ? json_null() : json_stringn(text + p.content, p.content_end - p.content), "refusal");
    if (p.reasoning < p.reasoning_end)
        json_object_set_new(message, "reasoning_content",
                            json_stringn(text + p.reasoning, p.reasoning_end - p.reasoning));
    if (calls) {
        serve_openai_name_calls(job, index, calls);
        json_object_set_new(message, "tool_calls", calls);
        *finish = "tool_calls";
    }
    return message;
}

json_t *serve_openai_choice(const serve_job *job, size_t segment, int best, int index) {
    const serve_result *result = &job->results[segment];
    const char *text = result->texts && result->texts[best] ? result->texts[best] : "";
    const char *finish = result->finish[best] ? result->finish[best] : "stop";
    json_t *logprobs = serve_logprobs_json(job, segment, best, 0);
    json_t *message = job->chat ? message_of(job, index, text, &finish) : NULL;
    if (message)
        return json_pack("{s:i, s:o, s:o, s:s}", "index", index, "message", message, "logprobs", logprobs,
                         "finish_reason", finish);
    return json_pack("{s:i, s:s+, s:o, s:s}", "index", index, "text", job->echo ? job->segments[segment].text : "",
                     text, "logprobs", logprobs, "finish_reason", finish);
}

/* Base64 of little-endian floats, the default of OpenAI's client. */
static json_t *base64_json(const float *numbers, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t bytes = 4 * count;
    unsigned char *raw = malloc(bytes + 3);
    char *text = malloc(4 * ((bytes + 2) / 3) + 1), *at = text;
    for (size_t i = 0; raw && i < count; i++) {
        uint32_t word;
        memcpy(&word, &numbers[i], 4);
        for (size_t k = 0; k < 4; k++)
            raw[4 * i + k] = (unsigned char)(word >> (8 * k));
    }
    for (size_t i = 0; raw && text && i < bytes; i += 3) {
        const size_t left = bytes - i;
        const uint32_t three =
            (uint32_t)raw[i] << 16 | (uint32_t)(left > 1 ? raw[i + 1] : 0) << 8 | (uint32_t)(left > 2 ? raw[i + 2] : 0);
        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[three & 63] : '=';
    }
    json_t *value = raw && text ? json_stringn(text, (size_t)(at - text)) : NULL;
    free(raw);
    free(text);
    return value;
}

static json_t *numbers_json(const float *numbers, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, isfinite(numbers[i]) ? json_real((double)numbers[i]) : json_null());
    return list;
}

json_t *serve_openai_vector(const float *numbers, size_t count, bool base64) {
    return base64 ? base64_json(numbers, count) : numbers_json(numbers, count);
}
