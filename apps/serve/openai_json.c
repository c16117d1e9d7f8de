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
    if (job->key.task == SERVE_EMBED)
        return json_pack("{s:I, s:I}", "prompt_tokens", (json_int_t)read, "total_tokens", (json_int_t)read);
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)read, "completion_tokens",
                     (json_int_t)written, "total_tokens", (json_int_t)(read + written), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)cached);
}

const char *serve_openai_fingerprint(void) {
    return "tfm-" TFM_VERSION_STRING;
}

json_t *serve_openai_choice(const serve_job *job, size_t segment, int best, int index) {
    const serve_result *result = &job->results[segment];
    const char *text = result->texts && result->texts[best] ? result->texts[best] : "";
    const char *finish = result->finish[best] ? result->finish[best] : "stop";
    json_t *logprobs = serve_logprobs_json(job, segment, best, 0);
    if (job->chat)
        return json_pack("{s:i, s:{s:s, s:s, s:n}, s:o, s:s}", "index", index, "message", "role", "assistant",
                         "content", text, "refusal", "logprobs", logprobs, "finish_reason", finish);
    return json_pack("{s:i, s:s, s:o, s:s}", "index", index, "text", text, "logprobs", logprobs, "finish_reason",
                     finish);
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
