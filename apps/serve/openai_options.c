/* OpenAI's API: options of completions and chats. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include "serve/openai.h"
#include "serve/server.h"

/* A number from low to high; `fallback` if absent. */
static bool read_real(serve_request *r, const char *name, double low, double high, double fallback, double *out,
                      serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, name);
    *out = fallback;
    if (!value || json_is_null(value))
        return true;
    *out = json_number_value(value);
    if (json_is_number(value) && *out >= low && *out <= high)
        return true;
    *reply = serve_reply_field(r, name, NULL, "Invalid request: %s is not a number from %g to %g", name, low, high);
    return false;
}

static bool read_stops(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, "stop");
    const serve_model *model = job->key.model;
    const size_t count = json_is_array(value) ? json_array_size(value) : json_is_string(value) ? 1 : 0;
    bool good = !value || json_is_null(value) || json_is_string(value) || json_is_array(value);
    job->stops = calloc(count + CLI_COUNT(model->chat.end_texts), sizeof(*job->stops));
    for (size_t i = 0; job->stops && i < count && good; i++) {
        const char *text = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        good = text && *text && count <= 16 && (job->stops[i] = strdup(text));
        job->generate.stop_string_count += good;
    }
    for (int i = 0; good && job->stops && job->chat && i < model->chat.end_text_count; i++)
        if ((job->stops[job->generate.stop_string_count] = strdup(model->chat.end_texts[i])))
            job->generate.stop_string_count++;
    job->generate.stop_strings = (const char *const *)job->stops;
    if (!good || !job->stops)
        *reply = serve_reply_field(r, "stop", NULL,
                                   "Invalid request: stop is not a non-empty string or a list of at most 16");
    return good && job->stops;
}

/* Stop tokens besides the model's own: of the request, and of chat turns. */
static bool read_stop_ids(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, "stop_token_ids");
    const serve_model *model = job->key.model;
    const size_t count = json_array_size(value);
    job->stop_ids = calloc(count + CLI_COUNT(model->chat.ends), sizeof(*job->stop_ids));
    for (size_t i = 0; job->stop_ids && i < count; i++) {
        const json_t *id = json_array_get(value, i);
        if (!serve_is_token_id(id, model)) {
            *reply = serve_reply_field(r, "stop_token_ids", NULL,
                                       "Invalid request: stop_token_ids is not a list of ids from 0 to %d",
                                       model->vocabulary - 1);
            return false;
        }
        job->stop_ids[job->stop_id_count++] = (int32_t)json_number_value(id);
    }
    for (int i = 0; job->stop_ids && job->chat && i < model->chat.end_count; i++)
        job->stop_ids[job->stop_id_count++] = model->chat.ends[i];
    if (!job->stop_ids)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    return job->stop_ids != NULL;
}

/* A 64-bit seed, signed or unsigned; a random one if absent or -1. */
static bool read_seed(serve_request *r, uint64_t *seed, serve_reply *reply) {
    const json_t *value = json_object_get(r->fields, "seed");
    const double real = json_real_value(value);
    if (json_is_integer(value))
        *seed = (uint64_t)json_integer_value(value);
    else if (json_is_real(value) && real >= -0x1p63 && real <= 0x1p64)
        *seed = real >= 0x1p64 ? UINT64_MAX : real < 0 ? (uint64_t)(int64_t)real : (uint64_t)real;
    else if (value && !json_is_null(value)) {
        *reply = serve_reply_field(r, "seed", NULL, "Invalid request: seed is not an integer of 64 bits");
        return false;
    }
    const bool none = !value || json_is_null(value) || json_number_value(value) == -1;
    if (none && getrandom(seed, sizeof(*seed), 0) != sizeof(*seed))
        *seed = (uint64_t)time(NULL);
    return true;
}

/* Options of sampling. `top_k`, `min_p` and `repetition_penalty` default to the model's directory. */
static bool read_sampling(serve_request *r, tfm_generate_options *g, serve_reply *reply) {
    double temperature, top_p, min_p, penalty;
    int top_k;
    if (!read_real(r, "temperature", 0, 2, 1, &temperature, reply) || !read_real(r, "top_p", 0, 1, 1, &top_p, reply) ||
        !read_real(r, "min_p", 0, 1, -1, &min_p, reply) ||
        !read_real(r, "repetition_penalty", 0.01, 100, 0, &penalty, reply) ||
        !serve_request_integer(r, "top_k", -1, INT32_MAX, -2, &top_k, reply) || !read_seed(r, &g->seed, reply))
        return false;
    g->repetition_penalty = (float)penalty;
    g->sample = temperature >= 1e-5; /* below, only the most likely token is left */
    if (!g->sample)
        return true;
    g->temperature = (float)temperature;
    g->top_p = top_p < 1e-6 ? 1e-6F : (float)top_p;              /* 0: the most likely token */
    g->top_k = top_k == -2 ? 0 : top_k <= 0 ? INT32_MAX : top_k; /* -1 and 0: all, as in vLLM and llama.cpp */
    g->min_p = min_p < 0 ? 0 : min_p < (double)FLT_MIN ? FLT_MIN : (float)min_p;
    return true;
}

/* Maximum and minimum tokens. -1 is no limit, as in llama.cpp. */
static bool read_lengths(serve_request *r, const serve_job *job, tfm_generate_options *g, serve_reply *reply) {
    const int most = r->server->options->limits.max_new_tokens, usual = most < 256 ? most : 256;
    static const char *const NAMES[] = {"max_tokens", "max_completion_tokens"};
    for (size_t i = 0; i < CLI_COUNT(NAMES); i++) {
        const json_t *asked = json_object_get(r->fields, NAMES[i]);
        if (json_is_number(asked) && json_number_value(asked) == -1)
            json_object_del(r->fields, NAMES[i]);
    }
    int max_new_tokens = usual;
    if (!serve_request_integer(r, "max_tokens", job->chat ? 1 : 0, most, max_new_tokens, &max_new_tokens, reply) ||
        !serve_request_integer(r, "max_completion_tokens", 1, most, max_new_tokens, &max_new_tokens, reply) ||
        !serve_request_integer(r, "min_tokens", 0, max_new_tokens, 0, &g->min_new_tokens, reply))
        return false;
    g->max_new_tokens = max_new_tokens;
    if (max_new_tokens > 0 || !json_is_true(json_object_get(r->fields, "stream")))
        return true;
    *reply = serve_reply_field(r, "max_tokens", NULL,
                               "Invalid request: max_tokens is 0, and a text without tokens is not streamed: leave "
                               "stream out");
    return false;
}

/* Biases: {"id": bias} as OpenAI's, or [[id, bias], ...] as llama.cpp's, where false suppresses the token. */
static bool read_biases(serve_request *r, serve_job *job, serve_reply *reply) {
    json_t *value = json_object_get(r->fields, "logit_bias"), *one;
    const size_t count = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    const char *name;
    size_t i = 0;
    if (count == 0)
        return true;
    job->biases = calloc(count, sizeof(*job->biases));
    json_t *pairs = json_is_object(value) ? json_array() : json_incref(value);
    if (json_is_object(value))
        json_object_foreach(value, name, one) {
            char *end;
            const long id = strtol(name, &end, 10);
            json_array_append_new(pairs, json_pack("[I, O]", *name && !*end ? (json_int_t)id : -1, one));
        }
    bool good = job->biases && json_array_size(pairs) == count;
    for (; good && i < count; i++) {
        const json_t *pair = json_array_get(pairs, i), *id = json_array_get(pair, 0), *bias = json_array_get(pair, 1);
        const double number = json_number_value(bias);
        good = json_array_size(pair) == 2 && serve_is_token_id(id, job->key.model) &&
               (json_is_false(bias) || (json_is_number(bias) && number >= -100 && number <= 100));
        job->biases[i] =
            (tfm_logit_bias){(int32_t)json_number_value(id), json_is_false(bias) ? -INFINITY : (float)number};
    }
    json_decref(pairs);
    job->generate.logit_bias = job->biases;
    job->generate.logit_bias_count = count;
    if (!good)
        *reply =
            serve_reply_field(r, "logit_bias", NULL,
                              "Invalid request: logit_bias does not give numbers from -100 to 100 for ids from 0 to "
                              "%d",
                              job->key.model->vocabulary - 1);
    return good;
}

/* Penalties, biases, and log p of tokens. */
static bool read_penalties(serve_request *r, serve_job *job, serve_reply *reply) {
    tfm_generate_options *g = &job->generate;
    const json_t *logprobs = json_object_get(r->fields, "logprobs");
    const bool counts = json_is_number(logprobs) && !job->chat;
    double presence, frequency;
    int top = 0;
    if (!read_real(r, "presence_penalty", -2, 2, 0, &presence, reply) ||
        !read_real(r, "frequency_penalty", -2, 2, 0, &frequency, reply) || !read_biases(r, job, reply) ||
        ((counts || job->chat) &&
         !serve_request_integer(r, job->chat ? "top_logprobs" : "logprobs", 0, 20, 0, &top, reply)))
        return false;
    g->presence_penalty = (float)presence;
    g->frequency_penalty = (float)frequency;
    g->top_log_probs = top;
    job->logprobs = json_is_true(logprobs) || counts;
    if (job->chat && json_number_value(logprobs) != 0)
        *reply = serve_reply_field(r, "logprobs", NULL, "Invalid request: logprobs is not true or false");
    else if (top > 0 && !job->logprobs)
        *reply = serve_reply_field(r, "top_logprobs", NULL, "Invalid request: top_logprobs needs \"logprobs\": true");
    else
        return true;
    return false;
}

static bool read_stream_options(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *options = json_object_get(r->fields, "stream_options");
    const json_t *tells = json_object_get(options, "include_usage");
    const json_t *always = json_object_get(options, "continuous_usage_stats");
    job->tells_usage = json_is_true(tells);
    if (tells && !json_is_null(tells) && !json_is_boolean(tells))
        *reply = serve_reply_field(r, "stream_options.include_usage", NULL,
                                   "Invalid request: stream_options.include_usage is not true or false");
    else if (always && !json_is_null(always) && !json_is_false(always))
        *reply = serve_reply_field(r, "stream_options.continuous_usage_stats", "unsupported_parameter",
                                   "Invalid request: stream_options.continuous_usage_stats is not supported: leave it "
                                   "out");
    else
        return true;
    return false;
}

/* Whether texts begin with their prompts. log p of prompt tokens is not computed. */
static bool read_echo(serve_request *r, serve_job *job, serve_reply *reply) {
    const json_t *logprobs = json_object_get(r->fields, "logprobs");
    job->echo = !job->chat && json_is_true(json_object_get(r->fields, "echo"));
    if (!job->echo || !(json_is_number(logprobs) || json_is_true(logprobs)))
        return true;
    *reply = serve_reply_field(r, "echo", "unsupported_parameter",
                               "Invalid request: echo is not supported with logprobs: leave one out");
    return false;
}

const char *serve_engine_field(const serve_job *job) {
    const tfm_generate_options *g = &job->generate;
    return job->logprobs               ? "logprobs"
           : g->logit_bias_count > 0   ? "logit_bias"
           : g->presence_penalty != 0  ? "presence_penalty"
           : g->frequency_penalty != 0 ? "frequency_penalty"
           : job->grammar              ? job->grammar_field
                                       : NULL;
}

static bool check_engine(const serve_request *r, const serve_job *job, serve_reply *reply) {
    const bool several = r->server->devices > 1, rules = atomic_load(&job->key.model->no_engine);
    const char *field = several || rules ? serve_engine_field(job) : NULL;
    if (!field)
        return true;
    *reply =
        serve_reply_field(r, field, "unsupported_parameter", "Invalid request: %s is not supported %s: leave it out",
                          field, several ? "by a server with several devices" : SERVE_NO_ENGINE);
    return false;
}

/* Options of generation. Requests with sampling or stop strings are separate batches, for their own random numbers. */
bool serve_openai_options(serve_request *r, serve_job *job, serve_reply *reply) {
    tfm_generate_options *g = &job->generate;
    int n = 1, best_of = 1;
    if (!serve_fields_check(r, job->chat ? SERVE_CHAT_FIELDS : SERVE_TEXT_FIELDS, reply) || !read_echo(r, job, reply) ||
        !read_lengths(r, job, g, reply) || !serve_request_integer(r, "n", 1, SERVE_TEXTS, 1, &n, reply) ||
        (!job->chat && !serve_request_integer(r, "best_of", n, SERVE_TEXTS, n, &best_of, reply)) ||
        !read_sampling(r, g, reply) || !read_penalties(r, job, reply) || !read_stops(r, job, reply) ||
        !read_stop_ids(r, job, reply) ||
        !serve_request_integer(r, "prompt_lookup_num_tokens", 0, SERVE_DRAFTS, r->server->options->drafts,
                               &g->prompt_lookup_num_tokens, reply) ||
        !read_stream_options(r, job, reply) || !serve_openai_grammar(r, job, reply) || !check_engine(r, job, reply))
        return false;
    const bool ignores = json_is_true(json_object_get(r->fields, "ignore_eos"));
    const char *minimum = ignores ? "ignore_eos" : "min_tokens";
    if (ignores)
        g->min_new_tokens = g->max_new_tokens;
    if (g->min_new_tokens > 0 && (g->stop_string_count > 0 || job->stop_id_count > 0)) {
        *reply = serve_reply_field(r, minimum, "unsupported_parameter",
                                   "Invalid request: %s is not supported with stop, stop_token_ids or a chat "
                                   "whose turns end otherwise than the model's texts: leave it out",
                                   minimum);
        return false;
    }
    job->key.max_new_tokens = g->max_new_tokens;
    g->n_best = job->key.n_best = job->chat ? n : best_of;
    job->choices = n;
    const bool streams = json_is_true(json_object_get(r->fields, "stream"));
    if (g->n_best > n && streams) {
        *reply = serve_reply_field(
            r, "best_of", NULL,
            "Invalid request: best_of is %d, and a stream cannot wait for the best text: leave it out", g->n_best);
        return false;
    }
    if (!g->sample && g->n_best > 1) { /* equal texts: samples of the most probable token */
        g->sample = true;
        g->temperature = g->top_p = 1;
        g->top_k = 1;
    }
    static uint64_t numbers; /* of this thread only */
    const bool alone = g->sample || g->stop_string_count > 0 || g->min_new_tokens > 0 || g->repetition_penalty > 0 ||
                       g->presence_penalty != 0 || g->frequency_penalty != 0 || g->logit_bias_count > 0 ||
                       job->grammar || job->logprobs;
    job->key.alone = alone ? ++numbers : 0;
    job->created = (int64_t)time(NULL);
    uint64_t id = 0;
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        id = ++numbers;
    snprintf(job->id, sizeof(job->id), "%s-%016" PRIx64, job->chat ? "chatcmpl" : "cmpl", id);
    return true;
}
